//! Conversions of custom resources, through a client.

use futures_util::TryStreamExt;
use kube::{
    Api, Error,
    api::{Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::{WatchStreamExt, watcher},
};
use kubegc_testkit::Cluster;
use serde_json::{Value, json};

const CONVERTED: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.x.dev}
spec:
  group: x.dev
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets}
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {service: {name: hook, namespace: default, path: /convert}}
  versions:
  - name: v1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {host: {type: string}, port: {type: integer}}}}}}
  - name: v2
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {address: {type: string}}}}}}
";

fn gadgets(cluster: &Cluster, version: &str) -> (Api<DynamicObject>, ApiResource) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("x.dev", version, "Gadget"));
    (
        Api::default_namespaced_with(cluster.client(), &resource),
        resource,
    )
}

/// `host` and `port` of v1 are the `address` of v2.
fn convert(mut object: Value, wanted: &str) -> Result<Value, String> {
    if wanted == "x.dev/v2" {
        let (host, port) = (&object["spec"]["host"], &object["spec"]["port"]);
        let host = host.as_str().ok_or("a host is needed")?;
        object["spec"] = json!({"address": format!("{host}:{port}")});
    } else {
        let address = object["spec"]["address"].as_str().unwrap_or_default();
        let (host, port) = address.split_once(':').ok_or("the address has no port")?;
        let port: u16 = port.parse().map_err(|_| "the port is not a number")?;
        object["spec"] = json!({"host": host, "port": port});
    }
    object["apiVersion"] = wanted.into();
    object["metadata"]["annotations"]["converted"] = wanted.into();
    // Fields that a webhook may not change are restored.
    object["metadata"]["finalizers"] = json!(["x.dev/other"]);
    Ok(object)
}

fn refusal(error: Error) -> String {
    match error {
        Error::Api(status) => format!("{} {}", status.code, status.message),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_closure_converts_between_versions() {
    let cluster = Cluster::builder().yaml(CONVERTED).build().unwrap();
    cluster.on_conversion("gadgets.x.dev", convert);
    let ((v1, kind1), (v2, kind2)) = (gadgets(&cluster, "v1"), gadgets(&cluster, "v2"));
    let first = DynamicObject::new("a", &kind1).data(json!({"spec": {"host": "h", "port": 80}}));
    let created = v1.create(&PostParams::default(), &first).await.unwrap();
    assert_eq!(created.data["spec"], json!({"host": "h", "port": 80}));
    assert_eq!(created.metadata.finalizers, None);
    let stored = cluster.get("x.dev/v2", "Gadget", "default", "a").unwrap();
    assert_eq!(stored["spec"], json!({"address": "h:80"}));
    let seen = v2.get("a").await.unwrap();
    assert_eq!(seen.data["spec"], json!({"address": "h:80"}));
    assert_eq!(seen.metadata.uid, created.metadata.uid);

    let merge = Patch::Merge(json!({"spec": {"port": 81}}));
    v1.patch("a", &PatchParams::default(), &merge).await.unwrap();
    let seen = v2.get("a").await.unwrap();
    assert_eq!(seen.data["spec"], json!({"address": "h:81"}));
    let changes = watcher(v1.clone(), watcher::Config::default()).applied_objects();
    let changed = std::pin::pin!(changes).try_next().await.unwrap().unwrap();
    assert_eq!(changed.data["spec"], json!({"host": "h", "port": 81}));

    let odd = DynamicObject::new("b", &kind2).data(json!({"spec": {"address": "nowhere"}}));
    v2.create(&PostParams::default(), &odd).await.unwrap();
    assert_eq!(
        refusal(v1.get("b").await.unwrap_err()),
        "500 conversion webhook for x.dev/v2, Kind=Gadget failed: the address has no port"
    );
    cluster.on_conversion("gadgets.x.dev", |mut object, wanted| {
        object["apiVersion"] = wanted.into();
        object["metadata"]["name"] = "other".into();
        Ok(object)
    });
    let message = refusal(v1.get("a").await.unwrap_err());
    let renamed = "index 0: must have the same name: a != other";
    assert!(message.ends_with(renamed), "{message}");
}

#[tokio::test]
async fn without_a_closure_a_conversion_webhook_cannot_be_reached() {
    let cluster = Cluster::builder().yaml(CONVERTED).build().unwrap();
    let ((v1, _), (v2, kind2)) = (gadgets(&cluster, "v1"), gadgets(&cluster, "v2"));
    let object = DynamicObject::new("a", &kind2).data(json!({"spec": {"address": "h:80"}}));
    v2.create(&PostParams::default(), &object).await.unwrap();
    let message = refusal(v1.get("a").await.unwrap_err());
    let unreachable = "500 conversion webhook for x.dev/v2, Kind=Gadget failed: Post \"https://hook.default.svc:443/convert?timeout=30s\": ";
    assert!(message.starts_with(unreachable), "{message}");
}
