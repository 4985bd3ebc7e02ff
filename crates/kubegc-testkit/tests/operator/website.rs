//! A small operator: a `Website` has its content in a ConfigMap and its servers in a Deployment, both owned,
//! and its name in a shared list of names.
//!
//! The list lives in another namespace, where nothing can be owned by a website: a finalizer takes the name
//! off it.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api, Client, CustomResource, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    runtime::{
        Controller,
        controller::Action,
        finalizer::{Error as FinalizerError, Event, finalizer},
        watcher,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The specification of a website.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Website",
    namespaced,
    status = "WebsiteStatus"
)]
pub(crate) struct WebsiteSpec {
    /// Its only page.
    pub(crate) html: String,
}

/// The status of a website.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub(crate) struct WebsiteStatus {
    /// Where it is served.
    pub(crate) url: String,
}

/// The operator's name: as a client, and as the manager of fields.
pub(crate) const OPERATOR: &str = "website-operator";
/// The finalizer of every website until its name is off the list.
pub(crate) const FINALIZER: &str = "example.com/names";
/// The namespace of the list of names.
pub(crate) const NAMES_NAMESPACE: &str = "dns";
/// The list of names.
pub(crate) const NAMES: &str = "names";

/// Runs the operator until it is dropped.
pub(crate) async fn run(client: Client) {
    let everything = watcher::Config::default;
    Controller::new(Api::<Website>::all(client.clone()), everything())
        .owns(Api::<ConfigMap>::all(client.clone()), everything())
        .owns(Api::<Deployment>::all(client.clone()), everything())
        .run(reconcile, try_again, Arc::new(client))
        .for_each(|_| std::future::ready(()))
        .await;
}

async fn reconcile(site: Arc<Website>, client: Arc<Client>) -> Result<Action, FinalizerError<kube::Error>> {
    let namespace = site.namespace().unwrap_or_default();
    let sites: Api<Website> = Api::namespaced(Client::clone(&client), &namespace);
    finalizer(&sites, FINALIZER, site, |event| async move {
        match event {
            Event::Apply(site) => serve(&site, &client, &namespace).await,
            Event::Cleanup(site) => {
                list_name(&client, &site.name_any(), None).await?;
                Ok(Action::await_change())
            }
        }
    })
    .await
}

fn try_again(_: Arc<Website>, _: &FinalizerError<kube::Error>, _: Arc<Client>) -> Action {
    Action::requeue(Duration::from_secs(5))
}

/// Reconciles the objects of a website.
async fn serve(site: &Website, client: &Client, namespace: &str) -> Result<Action, kube::Error> {
    let name = site.name_any();
    let owner = site.controller_owner_ref(&());
    let content = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "data": {"index.html": site.spec.html},
    });
    let labels = json!({"website": name});
    let servers = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "httpd", "image": "httpd"}]},
            },
        },
    });
    let ours = PatchParams::apply(OPERATOR).force();
    let contents: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    contents.patch(&name, &ours, &Patch::Apply(&content)).await?;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    deployments.patch(&name, &ours, &Patch::Apply(&servers)).await?;
    list_name(client, &name, Some(namespace)).await?;
    let url = format!("https://{name}.example.com");
    if site.status.as_ref().is_none_or(|status| status.url != url) {
        let sites: Api<Website> = Api::namespaced(client.clone(), namespace);
        let status = Patch::Merge(json!({"status": WebsiteStatus { url }}));
        sites
            .patch_status(&name, &PatchParams::default(), &status)
            .await?;
    }
    Ok(Action::await_change())
}

/// Puts a name on the list, or takes it off. The write expects the version that was read: a conflict is
/// retried.
async fn list_name(client: &Client, name: &str, namespace: Option<&str>) -> Result<(), kube::Error> {
    let lists: Api<ConfigMap> = Api::namespaced(client.clone(), NAMES_NAMESPACE);
    let mut list = lists.get(NAMES).await?;
    let names = list.data.get_or_insert_default();
    let before = match namespace {
        Some(namespace) => names.insert(name.to_owned(), namespace.to_owned()),
        None => names.remove(name),
    };
    if before.as_deref() != namespace {
        lists.replace(NAMES, &PostParams::default(), &list).await?;
    }
    Ok(())
}
