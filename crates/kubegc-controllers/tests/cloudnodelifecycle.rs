//! Queries of the cloud provider.

use std::{sync::Arc, time::Duration};

use crate::common::{at, object, record};
use kubegc_controllers::{Cloud, CloudNodeLifecycle, CloudResponse, Input, Manager, Output, Wire};
use kubegc_core::{KubernetesVersion, record::Resource};

#[test]
fn each_sync_queries_the_cloud_about_a_node_that_is_not_ready() {
    let seconds = |seconds: u64| at("12:00").saturating_add(Duration::from_secs(seconds));
    let controller = CloudNodeLifecycle::new(KubernetesVersion::LATEST);
    let mut manager = Manager::new(vec![Arc::new(controller)], Wire::Strict, seconds(0));
    let node = |ready: &str| {
        let ready = format!(r#"[{{"type":"Ready","status":"{ready}"}}]"#);
        record(object(&format!(
            "v1 Node n spec.providerID=fake://n spec.taints=[] status.conditions={ready}"
        )))
        .1
    };
    let resource = Resource::Nodes;
    let records = Ok(vec![node("False")]);
    manager.handle(seconds(0), Input::Listed { resource, records });
    for sync in 0..3 {
        let now = seconds(5 * sync);
        let Output::QueryCloud(query) = manager.poll_output(now) else {
            panic!("sync {sync}")
        };
        let response = CloudResponse {
            node_uid: "node-n".into(),
            exists: Cloud::Yes,
            is_shut_down: Cloud::No,
        };
        let node = query.node;
        manager.handle(now, Input::Cloud { node, response });
        let Output::Wait { until } = manager.poll_output(now) else {
            panic!("it is running")
        };
        assert_eq!(until, Some(seconds(5 * (sync + 1))));
    }
    let record = Box::new(node("True"));
    manager.handle(seconds(11), Input::Applied { resource, record });
    assert!(matches!(
        manager.poll_output(seconds(15)),
        Output::Wait { until: None }
    ));
}
