//! How do I test my operator with real deletion and garbage collection? Run it, unchanged, against a cluster in memory.
//!
//! `cargo run -p kubegc-examples --features kube --example test_your_operator`
//!
//! The operator is a small but real one: a `kube::runtime::Controller` with a finalizer, owned objects and a status. It is shared with the test suite of
//! `kubegc-testkit`, which runs it through bad weather as well. Prints `expected/test_your_operator.txt`.
#![expect(clippy::print_stdout, reason = "an example")]

#[path = "../crates/kubegc-testkit/tests/operator/website.rs"]
mod website;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use kubegc_testkit::Cluster;
use serde_json::json;
use website::{FINALIZER, NAMES, NAMES_NAMESPACE, OPERATOR, Website, WebsiteSpec};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    // In a test: #[tokio::test(start_paused = true)], and requeues happen in no time.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().build()?.block_on(life_of_a_website())
}

async fn life_of_a_website() -> Outcome {
    let mut names = ConfigMap::default();
    names.metadata.name = Some(NAMES.to_owned());
    names.metadata.namespace = Some(NAMES_NAMESPACE.to_owned());
    let cluster = Cluster::builder()
        .custom_resource::<Website>()
        .namespace(NAMES_NAMESPACE)
        .object(&names)
        .build()?;
    let operator = tokio::spawn(website::run(cluster.client_as(OPERATOR)));

    println!("# A user creates a website. Somebody else holds it by a finalizer.");
    let sites: Api<Website> = Api::default_namespaced(cluster.client_as("user"));
    let html = "<p>hello".to_owned();
    let mut site = Website::new("blog", WebsiteSpec { html });
    site.metadata.finalizers = Some(vec!["example.com/backup".to_owned()]);
    let site = sites.create(&PostParams::default(), &site).await?;
    println!("{}", cluster.settle().await?);
    let content = cluster.object::<ConfigMap>("default", "blog");
    cluster.assert_survives(&content);

    println!("# Somebody deletes the website's content: it comes back, and is another object.");
    let contents: Api<ConfigMap> = Api::default_namespaced(cluster.client_as("vandal"));
    contents.delete("blog", &DeleteParams::default()).await?;
    println!("{}", cluster.settle().await?);
    cluster.assert_collected(&content);
    let content = cluster.object::<ConfigMap>("default", "blog");

    println!("# The user deletes the website, in the foreground.");
    sites.delete("blog", &DeleteParams::foreground()).await?;
    println!("{}", cluster.settle().await?);
    cluster.assert_collected(&content);
    cluster.assert_stuck(&site);
    println!("# Why is it still there?");
    println!("{}\n", cluster.fate(&site));

    println!("# The backup is done.");
    let held = sites.get("blog").await?.metadata.finalizers.unwrap_or_default();
    assert!(
        !held.iter().any(|one| one == FINALIZER),
        "the operator has done its part"
    );
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    sites.patch("blog", &PatchParams::default(), &free).await?;
    println!("{}", cluster.settle().await?);
    cluster.assert_collected(&site);
    operator.abort();
    Ok(())
}
