//! Does the outcome depend on timing?
//!
//! A user deletes an owner in the foreground, and then again without its dependents. Whether the dependents
//! survive depends on the progress of the collector. Every order of the steps is tried.
//!
//! ```sh
//! cargo run --release -p kubegc-examples --example explore_race
//! ```
#![expect(clippy::print_stdout, reason = "an example")]

use kubegc::{
    core::{DeleteOptions, KubernetesVersion, PropagationPolicy},
    predict::{Assumptions, Cluster, Intent, explore::Bounds},
    snapshot::Reader,
};

const CLUSTER: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: owner, namespace: shop, uid: 6f1d6c2e-0000-4000-8000-000000000001}
---
apiVersion: v1
kind: Secret
metadata:
  name: first
  namespace: shop
  uid: 6f1d6c2e-0000-4000-8000-000000000002
  ownerReferences:
  - {apiVersion: v1, kind: ConfigMap, name: owner, uid: 6f1d6c2e-0000-4000-8000-000000000001, blockOwnerDeletion: true}
---
apiVersion: v1
kind: Secret
metadata:
  name: second
  namespace: shop
  uid: 6f1d6c2e-0000-4000-8000-000000000003
  finalizers: [example.com/hold]
  ownerReferences:
  - {apiVersion: v1, kind: ConfigMap, name: owner, uid: 6f1d6c2e-0000-4000-8000-000000000001, blockOwnerDeletion: true}
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let version: KubernetesVersion = "1.36".parse()?;
    let mut reader = Reader::new(version).complete("all");
    reader.read("cluster.yaml", CLUSTER.as_bytes())?;
    let cluster = Cluster::new(version, reader.finish()?, Assumptions::default());

    let delete = |policy| {
        Ok::<_, Box<dyn std::error::Error>>(Intent::delete(
            "shop/ConfigMap/owner".parse()?,
            DeleteOptions::policy(policy),
        ))
    };
    let intents = [
        delete(PropagationPolicy::Foreground)?,
        delete(PropagationPolicy::Orphan)?,
    ];
    let exploration = cluster.explore(&intents, Bounds::default())?;
    print!("{exploration}");
    Ok(())
}
