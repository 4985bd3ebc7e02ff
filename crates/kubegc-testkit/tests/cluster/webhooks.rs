//! Admission webhooks played by closures.

use kube::{Error, api::PostParams};
use kubegc_testkit::{Admission, Cluster};

use crate::support::{config_map, config_maps};

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

#[tokio::test]
async fn a_closure_answers_for_a_webhook_and_without_one_its_policy_decides() {
    let cluster = Cluster::builder().yaml(CONFIGURATION).build().unwrap();
    let api = config_maps(&cluster);
    let message = |error: Error| match error {
        Error::Api(status) => (status.code, status.message),
        other => panic!("{other}"),
    };
    let params = PostParams::default();
    let unreachable = api.create(&params, &config_map("a", &[], &[])).await.unwrap_err();
    let (code, text) = message(unreachable);
    assert_eq!(code, 500);
    assert!(
        text.starts_with("Internal error occurred: failed calling webhook \"check.x.dev\": "),
        "{text}"
    );
    cluster.on_admission("check.x.dev", |request| match request["name"].as_str() {
        Some("a") => Admission::Allow,
        _ => Admission::Deny {
            code: 403,
            message: "only a".to_owned(),
        },
    });
    api.create(&params, &config_map("a", &[], &[])).await.unwrap();
    let refused = api.create(&params, &config_map("b", &[], &[])).await.unwrap_err();
    assert_eq!(
        message(refused),
        (
            403,
            "admission webhook \"check.x.dev\" denied the request: only a".to_owned()
        )
    );
}
