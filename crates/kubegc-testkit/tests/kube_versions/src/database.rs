//! An operator with kube 3: a StatefulSet whose immutable fields change is deleted without its pods and
//! created again.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt;
use kube_3::{
    Api, Client, Error, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::{Controller, controller::Action, watcher},
};
use kubegc_testkit::{Cluster, Name, Workloads};
use serde_json::{Value, json};

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: databases.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Database, plural: databases}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              replicas: {type: integer, default: 2}
              storage: {type: string, pattern: '^[0-9]+(Mi|Gi)$'}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
";

fn databases() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Database"))
}

fn stateful_sets() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", "StatefulSet"))
}

fn stateful_set(database: &DynamicObject) -> Value {
    let labels = json!({"database": database.name_any()});
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": database.name_any(),
            "ownerReferences": [database.controller_owner_ref(&databases())],
        },
        "spec": {
            "replicas": database.data["spec"]["replicas"],
            "serviceName": database.name_any(),
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "db", "image": "db:1"}]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": database.data["spec"]["storage"]}},
                },
            }],
        },
    })
}

async fn reconcile(database: Arc<DynamicObject>, client: Arc<Client>) -> Result<Action, Error> {
    if database.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let (name, namespace) = (database.name_any(), database.namespace().unwrap_or_default());
    let client = Client::clone(&client);
    let sets = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &stateful_sets());
    let applied = sets
        .patch(
            &name,
            &PatchParams::apply("database-operator").force(),
            &Patch::Apply(stateful_set(&database)),
        )
        .await;
    let set = match applied {
        Ok(set) => set,
        // Claim templates are immutable. The pods go on without their set, and a new one adopts them.
        Err(Error::Api(status)) if status.code == 422 => {
            sets.delete(&name, &DeleteParams::orphan()).await?;
            return Ok(Action::requeue(Duration::from_secs(1)));
        }
        Err(error) => return Err(error),
    };
    let ready = &set.data["status"]["readyReplicas"];
    if database.data["status"]["ready"] != *ready {
        let api = Api::<DynamicObject>::namespaced_with(client, &namespace, &databases());
        let status = json!({"status": {"ready": ready}});
        api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
            .await?;
    }
    Ok(Action::await_change())
}

async fn run(client: Client) {
    let config = watcher::Config::default;
    let owned = Api::<DynamicObject>::all_with(client.clone(), &stateful_sets());
    Controller::new_with(Api::all_with(client.clone(), &databases()), config(), databases())
        .owns_with(owned, stateful_sets(), config())
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_secs(5)),
            Arc::new(client),
        )
        .for_each(|_| async {})
        .await;
}

fn set(cluster: &Cluster) -> Name {
    cluster.named(Name::new("apps/v1", "StatefulSet", "default", "db"))
}

fn pods(cluster: &Cluster) -> [Name; 2] {
    ["db-0", "db-1"].map(|name| cluster.named(Name::new("v1", "Pod", "default", name)))
}

#[tokio::test(start_paused = true)]
async fn a_larger_claim_template_replaces_the_set_and_keeps_its_pods() {
    let cluster = Cluster::builder()
        .yaml(DEFINITION)
        .workloads(Workloads::new())
        .build()
        .unwrap();
    let operator = tokio::spawn(run(Client::new(cluster.service("database-operator"), "default")));
    let user = Client::new(cluster.service("user"), "default");
    let api: Api<DynamicObject> = Api::default_namespaced_with(user, &databases());
    let database = DynamicObject::new("db", &databases()).data(json!({"spec": {"storage": "1Gi"}}));
    api.create(&PostParams::default(), &database).await.unwrap();
    cluster.settle().await.unwrap();
    let ready = |cluster: &Cluster| {
        let database = cluster
            .get("example.com/v1", "Database", "default", "db")
            .unwrap();
        database["status"]["ready"].clone()
    };
    assert_eq!(ready(&cluster), 2);
    let (old_set, old_pods) = (set(&cluster), pods(&cluster));

    let larger = Patch::Merge(json!({"spec": {"storage": "2048Mi"}}));
    api.patch("db", &PatchParams::default(), &larger).await.unwrap();
    cluster.settle_within(Duration::from_secs(60)).await.unwrap();
    cluster.assert_collected(old_set);
    for pod in &old_pods {
        cluster.assert_survives(pod.clone());
    }
    let new_set = cluster.get("apps/v1", "StatefulSet", "default", "db").unwrap();
    let storage = new_set.pointer("/spec/volumeClaimTemplates/0/spec/resources/requests/storage");
    assert_eq!(storage, Some(&json!("2Gi")));
    for pod in ["db-0", "db-1"] {
        let pod = cluster.get("v1", "Pod", "default", pod).unwrap();
        assert_eq!(
            pod["metadata"]["ownerReferences"][0]["uid"],
            new_set["metadata"]["uid"]
        );
    }
    assert_eq!(ready(&cluster), 2);

    // The API server stores 2Gi where the operator applies 2048Mi: that changes nothing, and causes no loop.
    let writes = cluster.audit().by("database-operator").writes().len();
    cluster.settle_within(Duration::from_secs(600)).await.unwrap();
    assert_eq!(cluster.audit().by("database-operator").writes().len(), writes);

    api.delete("db", &DeleteParams::foreground()).await.unwrap();
    cluster.settle_within(Duration::from_secs(60)).await.unwrap();
    for pod in old_pods {
        cluster.assert_collected(pod);
    }
    assert!(
        cluster
            .get("v1", "PersistentVolumeClaim", "default", "data-db-0")
            .is_some()
    );
    operator.abort();
}
