//! A real `kube::runtime::Controller` runs unchanged against the testkit, from start to stop.

mod deletion;
mod faults;
mod life;
mod website;

use std::time::Duration;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use kubegc_testkit::{Cluster, Name, Settled};
use tokio::task::JoinHandle;

use website::{NAMES, NAMES_NAMESPACE, OPERATOR, Website, WebsiteSpec};

/// A cluster with the operator in it.
struct Stage {
    cluster: Cluster,
    operator: JoinHandle<()>,
}

impl Stage {
    fn new() -> Self {
        let cluster = Cluster::builder()
            .custom_resource::<Website>()
            .namespace(NAMES_NAMESPACE)
            .namespace("shop")
            .yaml("{apiVersion: v1, kind: ConfigMap, metadata: {name: names, namespace: dns}}")
            .build()
            .unwrap();
        let operator = start(&cluster);
        Self { cluster, operator }
    }

    /// Websites as a user creates and deletes them.
    fn sites(&self) -> Api<Website> {
        Api::namespaced(self.cluster.client_as("user"), "shop")
    }

    async fn create(&self, name: &str) -> Website {
        let spec = WebsiteSpec {
            html: "<p>hello".to_owned(),
        };
        let site = Website::new(name, spec);
        self.sites().create(&PostParams::default(), &site).await.unwrap()
    }

    async fn settle(&self) -> Settled {
        self.cluster.settle().await.unwrap()
    }

    async fn settle_within(&self, seconds: u64) -> Settled {
        let time = Duration::from_secs(seconds);
        self.cluster.settle_within(time).await.unwrap()
    }

    async fn delete(&self, name: &str, how: &DeleteParams) {
        self.sites().delete(name, how).await.unwrap();
    }

    fn assert_all(&self, objects: &[Name], assertion: fn(&Cluster, &Name)) {
        for object in objects {
            assertion(&self.cluster, object);
        }
    }

    async fn stop_operator(&mut self) {
        self.operator.abort();
        assert!((&mut self.operator).await.unwrap_err().is_cancelled());
    }

    fn start_operator(&mut self) {
        self.operator = start(&self.cluster);
    }

    fn content(&self, name: &str) -> Option<ConfigMap> {
        self.cluster.find("shop", name)
    }

    /// The names on the list.
    fn names(&self) -> Vec<String> {
        let list: ConfigMap = self.cluster.find(NAMES_NAMESPACE, NAMES).unwrap();
        list.data.unwrap_or_default().into_keys().collect()
    }

    /// The objects of a website, with their current uids.
    fn owned(&self, name: &str) -> [Name; 2] {
        [
            self.cluster.object::<ConfigMap>("shop", name),
            self.cluster.object::<Deployment>("shop", name),
        ]
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.operator.abort();
    }
}

fn start(cluster: &Cluster) -> JoinHandle<()> {
    tokio::spawn(website::run(cluster.client_as(OPERATOR)))
}
