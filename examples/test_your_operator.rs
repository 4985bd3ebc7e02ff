//! How do I test my operator with real deletion and garbage collection?
//!
//! Run it, unchanged, against a cluster in memory. The operator here has a finalizer and an owned ConfigMap.
//! Prints `expected/test_your_operator.txt`.
//!
//! ```sh
//! cargo run -p kubegc-examples --features kube --example test_your_operator
//! ```
#![expect(clippy::print_stdout, reason = "an example")]

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, CustomResource, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::{
        Controller,
        controller::Action,
        finalizer::{Error, Event, finalizer},
        watcher,
    },
};
use kubegc_testkit::Cluster;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The desired state of a website.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced)]
struct WebsiteSpec {
    html: String,
}

async fn operator(client: Client) {
    let sites = Api::<Website>::all(client.clone());
    let content = Api::<ConfigMap>::all(client.clone());
    Controller::new(sites, watcher::Config::default())
        .owns(content, watcher::Config::default())
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_secs(5)),
            Arc::new(client),
        )
        .for_each(|_| std::future::ready(()))
        .await;
}

async fn reconcile(site: Arc<Website>, client: Arc<Client>) -> Result<Action, Error<kube::Error>> {
    let namespace = site.namespace().unwrap_or_default();
    let sites: Api<Website> = Api::namespaced(Client::clone(&client), &namespace);
    let contents: Api<ConfigMap> = Api::namespaced(Client::clone(&client), &namespace);
    finalizer(&sites, "example.com/dns", site, |event| async move {
        if let Event::Apply(site) = event {
            let content = json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": { "ownerReferences": [site.controller_owner_ref(&())] },
                "data": { "index.html": site.spec.html },
            });
            let params = PatchParams::apply("website-operator").force();
            contents
                .patch(&site.name_any(), &params, &Patch::Apply(content))
                .await?;
        }
        Ok(Action::await_change())
    })
    .await
}

/// In a test: `#[tokio::test(start_paused = true)]`, and a requeue after hours costs no time.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cluster = Cluster::builder().custom_resource::<Website>().build()?;
    let operator = tokio::spawn(operator(cluster.client_as("website-operator")));

    println!("# A user creates a website. A backup tool has a finalizer on it.");
    let sites: Api<Website> = Api::default_namespaced(cluster.client_as("user"));
    let html = "<p>hello".to_owned();
    let mut site = Website::new("blog", WebsiteSpec { html });
    site.finalizers_mut().push("example.com/backup".to_owned());
    let site = sites.create(&PostParams::default(), &site).await?;
    println!("{}", cluster.settle().await?);
    let content = cluster.object::<ConfigMap>("default", "blog");
    cluster.assert_survives(&content);

    println!("# Another client deletes the ConfigMap. The operator creates a new one.");
    let contents: Api<ConfigMap> = Api::default_namespaced(cluster.client_as("another-client"));
    contents.delete("blog", &DeleteParams::default()).await?;
    println!("{}", cluster.settle().await?);
    cluster.assert_collected(&content);
    let content = cluster.object::<ConfigMap>("default", "blog");

    println!("# The user deletes the website, in the foreground.");
    sites.delete("blog", &DeleteParams::foreground()).await?;
    println!("{}", cluster.settle().await?);
    cluster.assert_collected(&content);
    cluster.assert_stuck(&site);
    println!("# Why does it still exist?");
    println!("{}\n", cluster.fate(&site));

    println!("# The backup tool removes its finalizer.");
    let without_finalizers = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    sites
        .patch("blog", &PatchParams::default(), &without_finalizers)
        .await?;
    println!("{}", cluster.settle().await?);
    cluster.assert_collected(&site);
    operator.abort();
    Ok(())
}
