//! An operator with kube 1 and with kube 3: server-side apply of what it owns, a status, Events, and a
//! finalizer for objects that it cannot own.

use kubegc_testkit::{Cluster, Name};
use serde_json::Value;

const FINALIZER: &str = "sites.example.com/record";

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sites.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Site, plural: sites}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [image]
            properties:
              image: {type: string, minLength: 1}
              replicas: {type: integer, minimum: 1, default: 2}
          status:
            type: object
            properties:
              ready: {type: boolean}
";

/// The API version and the namespace of the objects of a site.
fn api_version_and_namespace(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "Site" => ("example.com/v1", "shop"),
        "Deployment" => ("apps/v1", "shop"),
        _ => ("v1", "dns"),
    }
}

fn name(kind: &str, name: &str) -> Name {
    let (api_version, namespace) = api_version_and_namespace(kind);
    Name::new(api_version, kind, namespace, name)
}

fn get(cluster: &Cluster, kind: &str, name: &str) -> Option<Value> {
    let (api_version, namespace) = api_version_and_namespace(kind);
    cluster.get(api_version, kind, namespace, name)
}

/// The operator with a version of kube, and its test.
macro_rules! works_with {
    ($($kube:ident),* $(,)?) => {$(
        mod $kube {
            use std::{sync::Arc, time::Duration};

            use $kube::{
                Api, Client, Resource, ResourceExt,
                api::{DeleteParams, Patch, PatchParams, PostParams},
                core::{ApiResource, DynamicObject, GroupVersionKind},
                runtime::{
                    Controller,
                    controller::Action,
                    events::{Event, EventType, Recorder, Reporter},
                    finalizer::{self, finalizer},
                    watcher,
                },
            };
            use futures_util::StreamExt;
            use kubegc_testkit::{Cluster, Workloads};
            use serde_json::json;

            use super::{DEFINITION, FINALIZER, get, name};

            #[derive(Debug, thiserror::Error)]
            enum Error {
                #[error(transparent)]
                Kube(#[from] $kube::Error),
                #[error(transparent)]
                Finalizer(#[from] Box<finalizer::Error<Error>>),
            }

            fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
                ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
            }

            fn sites() -> ApiResource {
                resource("example.com", "v1", "Site")
            }

            fn deployments() -> ApiResource {
                resource("apps", "v1", "Deployment")
            }

            struct Operator {
                client: Client,
                recorder: Recorder,
            }

            impl Operator {
                /// The names of sites, in a namespace of their own: no owner reference can reach them.
                fn records(&self) -> Api<DynamicObject> {
                    Api::namespaced_with(self.client.clone(), "dns", &resource("", "v1", "ConfigMap"))
                }

                async fn reconcile(site: Arc<DynamicObject>, operator: Arc<Self>) -> Result<Action, Error> {
                    let namespace = site.namespace().unwrap_or_default();
                    let api = Api::namespaced_with(operator.client.clone(), &namespace, &sites());
                    let handle = |event| async {
                        match event {
                            finalizer::Event::Apply(site) => operator.apply(&site, &namespace).await,
                            finalizer::Event::Cleanup(site) => operator.clean_up(&site).await,
                        }
                    };
                    let outcome = finalizer(&api, FINALIZER, site, handle).await;
                    outcome.map_err(|error| Error::Finalizer(Box::new(error)))
                }

                async fn apply(&self, site: &DynamicObject, namespace: &str) -> Result<Action, Error> {
                    let name = site.name_any();
                    let manager = PatchParams::apply("site-operator").force();
                    let record = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"of": namespace}});
                    self.records()
                        .patch(&name, &manager, &Patch::Apply(&record))
                        .await?;

                    let labels = json!({"site": name});
                    let deployment = json!({
                        "apiVersion": "apps/v1",
                        "kind": "Deployment",
                        "metadata": {"name": name, "ownerReferences": [site.controller_owner_ref(&sites())]},
                        "spec": {
                            "replicas": site.data["spec"]["replicas"],
                            "selector": {"matchLabels": labels},
                            "template": {
                                "metadata": {"labels": labels},
                                "spec": {"containers": [{"name": "web", "image": site.data["spec"]["image"]}]},
                            },
                        },
                    });
                    let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &deployments());
                    let deployment = api.patch(&name, &manager, &Patch::Apply(&deployment)).await?;

                    let is_ready = deployment.data["status"]["availableReplicas"] == site.data["spec"]["replicas"];
                    if site.data["status"]["ready"] != is_ready {
                        let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &sites());
                        let status = json!({"status": {"ready": is_ready}});
                        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
                            .await?;
                        let event = Event {
                            type_: EventType::Normal,
                            reason: if is_ready { "Ready" } else { "Progressing" }.to_owned(),
                            note: None,
                            action: "Reconcile".to_owned(),
                            secondary: None,
                        };
                        self.recorder.publish(&event, &site.object_ref(&sites())).await?;
                    }
                    Ok(Action::await_change())
                }

                async fn clean_up(&self, site: &DynamicObject) -> Result<Action, Error> {
                    match self
                        .records()
                        .delete(&site.name_any(), &DeleteParams::default())
                        .await
                    {
                        Err($kube::Error::Api(status)) if status.code == 404 => {}
                        outcome => drop(outcome?),
                    }
                    Ok(Action::await_change())
                }
            }

            async fn run(client: Client) {
                let recorder = Recorder::new(client.clone(), Reporter::from("site-operator"));
                let operator = Arc::new(Operator {
                    client: client.clone(),
                    recorder,
                });
                let config = watcher::Config::default;
                let owned = Api::<DynamicObject>::all_with(client.clone(), &deployments());
                Controller::new_with(Api::all_with(client, &sites()), config(), sites())
                    .owns_with(owned, deployments(), config())
                    .run(
                        Operator::reconcile,
                        |_, _, _| Action::requeue(Duration::from_secs(5)),
                        operator,
                    )
                    .for_each(|_| async {})
                    .await;
            }


            #[tokio::test(start_paused = true)]
            async fn a_site_is_created_and_deleted() {
                let cluster = Cluster::builder()
                    .namespace("shop")
                    .namespace("dns")
                    .yaml(DEFINITION)
                    .workloads(Workloads::new())
                    .build()
                    .unwrap();
                let user = Client::new(cluster.service("user"), "shop");
                let api: Api<DynamicObject> = Api::default_namespaced_with(user, &sites());
                let operator = tokio::spawn(run(Client::new(cluster.service("site-operator"), "default")));
                let blog = DynamicObject::new("blog", &sites()).data(json!({"spec": {"image": "web:1"}}));
                api.create(&PostParams::default(), &blog).await.unwrap();
                cluster.settle().await.unwrap();

                let deployment = get(&cluster, "Deployment", "blog").unwrap();
                assert_eq!(deployment["status"]["availableReplicas"], 2, "{deployment}");
                assert_eq!(get(&cluster, "Site", "blog").unwrap()["status"]["ready"], true);
                assert!(get(&cluster, "ConfigMap", "blog").is_some());
                // One Event when it is not ready yet, another when it is.
                let events = cluster.audit().by("site-operator").resource("events").writes();
                assert_eq!(events.len(), 2, "{events}");
                assert!(events.entries().all(|entry| entry.is_success()), "{events}");

                let [site, deployment, record] =
                    ["Site", "Deployment", "ConfigMap"].map(|kind| cluster.named(name(kind, "blog")));
                api.delete("blog", &DeleteParams::foreground()).await.unwrap();
                cluster.settle_within(Duration::from_secs(60)).await.unwrap();
                for owned in [&site, &deployment, &record] {
                    cluster.assert_collected(owned.clone());
                }
                operator.abort();
            }
        }
    )*};
}

works_with! { kube_1, kube_3 }
