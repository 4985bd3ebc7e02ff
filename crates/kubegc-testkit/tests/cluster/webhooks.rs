//! Admission webhooks simulated by closures.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::{authentication::v1::UserInfo, core::v1::ConfigMap};
use kube::{
    api::DeleteParams,
    core::{GroupVersionKind, GroupVersionResource},
};
use kubegc_testkit::{Admission, Cluster, RefusedBy};
use serde::Deserialize;

use crate::support::{self, config_map, config_maps, create, delete, dry_run};

const CONFIGURATION: &str = "
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: check}
webhooks:
- name: check.x.dev
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig: {service: {name: hook, namespace: default}}
  rules: [{apiGroups: [''], apiVersions: [v1], resources: [configmaps], operations: ['*']}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: first, namespace: default}
";

/// `AdmissionRequest` as kube-rs declares it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    kind: GroupVersionKind,
    resource: GroupVersionResource,
    sub_resource: Option<String>,
    request_kind: Option<GroupVersionKind>,
    name: String,
    namespace: Option<String>,
    operation: String,
    user_info: UserInfo,
    object: Option<ConfigMap>,
    old_object: Option<ConfigMap>,
    dry_run: bool,
    options: Option<serde_json::Value>,
}

#[tokio::test]
async fn a_request_is_read_by_the_handlers_of_a_real_webhook() {
    let cluster = Cluster::builder().yaml(CONFIGURATION).build().unwrap();
    let seen: Arc<Mutex<Vec<Request>>> = Arc::default();
    let record = Arc::clone(&seen);
    cluster.on_admission("check.x.dev", move |request| {
        let request = serde_json::from_value(request.clone()).unwrap();
        record.lock().unwrap().push(request);
        Admission::Allow
    });
    let api = config_maps(&cluster);
    api.create(&dry_run(), &config_map("a", &[], &[])).await.unwrap();
    api.delete("first", &DeleteParams::default()).await.unwrap();
    let seen = seen.lock().unwrap();
    let [created, deleted] = seen.as_slice() else {
        panic!("{seen:?}")
    };
    assert_eq!((&*created.operation, created.dry_run), ("CREATE", true));
    assert_eq!(created.kind, GroupVersionKind::gvk("", "v1", "ConfigMap"));
    assert_eq!(created.request_kind.as_ref(), Some(&created.kind));
    assert_eq!(created.resource.resource, "configmaps");
    assert_eq!((&created.sub_resource, created.options.is_some()), (&None, true));
    assert_eq!(created.user_info.username.as_deref(), Some("client"));
    let object = created.object.as_ref().unwrap();
    assert_eq!(object.metadata.name.as_deref(), Some("a"));
    assert_eq!((&*deleted.operation, deleted.dry_run), ("DELETE", false));
    assert!(deleted.object.is_none() && deleted.old_object.is_some());
    assert_eq!(deleted.name, "first");
    assert_eq!(deleted.namespace.as_deref(), Some("default"));
    assert_ne!(created.uid, deleted.uid);
}

/// The collector may not delete a dependent.
#[tokio::test(start_paused = true)]
async fn refused_requests_of_the_control_plane_are_reported() {
    let configuration = CONFIGURATION.replace("['*']", "[DELETE]");
    let cluster = Cluster::builder().yaml(&configuration).build().unwrap();
    cluster.on_admission("check.x.dev", |request| match request["name"].as_str() {
        Some("b") => Admission::Deny {
            code: 403,
            message: "b is kept".to_owned(),
        },
        _ => Admission::Allow,
    });
    let api = config_maps(&cluster);
    let owner = create(&api, &config_map("a", &[], &[])).await;
    let kept = create(&api, &config_map("b", &[support::owner(&owner)], &[])).await;
    delete(&api, "a", &DeleteParams::default()).await;
    cluster.settle().await.unwrap();
    let fate = cluster.fate(&kept);
    let [step] = fate.refused.as_slice() else {
        panic!("{fate}")
    };
    let refusal = step.failure.as_ref().unwrap();
    assert_eq!(refusal.by, Some(RefusedBy::Webhook("check.x.dev".into())));
    assert_eq!(step.actor.to_string(), "garbage collector");
    let text = fate.to_string();
    for part in [
        "refused requests of the control plane:\n    the garbage collector deletes configmap/b -n default",
        ", but the API server refuses: admission webhook \"check.x.dev\" denied the request: b is kept",
        "the API server no longer refuses these requests",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(cluster.fate(&owner).refused.is_empty());
}
