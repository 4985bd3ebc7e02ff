//! Audit logs.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use kubegc_testkit::{Cluster, Fault, Rule, http::Verb};

use crate::support::{config_map, create, delete, dry_run};

/// A ConfigMap whose name the server generates.
fn generated() -> ConfigMap {
    let mut generated = config_map("", &[], &[]);
    generated.metadata.name = None;
    generated.metadata.generate_name = Some("gen-".to_owned());
    generated
}

#[tokio::test(start_paused = true)]
async fn every_request_is_a_line() {
    let cluster = Cluster::new();
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.client_as("one/v1"));
    create(&api, &config_map("a", &[], &[])).await;
    let generated = create(&api, &generated()).await.metadata.name.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    api.list(&ListParams::default()).await.unwrap();
    let everywhere: Api<ConfigMap> = Api::all(cluster.client_as("two"));
    everywhere.list(&ListParams::default()).await.unwrap();
    let label = Patch::Merge(serde_json::json!({"metadata": {"labels": {"a": "b"}}}));
    api.patch("a", &PatchParams::default(), &label).await.unwrap();
    api.create(&dry_run(), &config_map("dry", &[], &[]))
        .await
        .unwrap();
    api.get("missing").await.unwrap_err();
    delete(&api, "a", &DeleteParams::default()).await;
    cluster.client_as("two").apiserver_version().await.unwrap();

    let audit = cluster.audit();
    assert_eq!(
        audit.to_string(),
        format!(
            "\
+0s one/v1 create configmaps default/a -> 201
+0s one/v1 create configmaps default/{generated} -> 201
+1.5s one/v1 list configmaps default/ -> 200
+1.5s two list configmaps -> 200
+1.5s one/v1 patch configmaps default/a -> 200
+1.5s one/v1 create configmaps default/dry (dry run) -> 201
+1.5s one/v1 get configmaps default/missing -> 404
+1.5s one/v1 delete configmaps default/a -> 200
+1.5s two request /version -> 200
"
        )
    );
    assert_eq!((audit.len(), audit.last_number()), (9, 9));
    assert_eq!(audit.writes().len(), 4);
    assert_eq!(audit.by("one").len(), 7, "by the name before the slash");
    assert_eq!(audit.by("on").len(), 0);
    assert_eq!(audit.verb(Verb::List).by("two").len(), 1);
    let of_a = audit.resource("configmaps").namespace("default").name("a");
    assert_eq!(of_a.len(), 3);
    assert_eq!(audit.after(7).len(), 2);
    let patched = audit.verb(Verb::Patch);
    let patched = patched.entries().next().unwrap();
    assert!(patched.is_about("", "configmaps", "default", "a") && patched.is_success());
    assert_eq!(patched.body_bytes, r#"{"metadata":{"labels":{"a":"b"}}}"#.len());
    assert!(patched.revision > 0 && !patched.uid.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_creation_that_fails_has_the_name_in_its_body() {
    let cluster = Cluster::new();
    let api: Api<ConfigMap> = Api::default_namespaced(cluster.client_as("one"));
    create(&api, &config_map("a", &[], &[])).await;
    let fails = |fault| cluster.faults().add(Rule::new(fault).on(Verb::Create));
    for (name, fault) in [
        ("a", None),
        ("b", Some(Fault::status(500))),
        ("c", Some(Fault::Disconnect)),
        ("d", Some(Fault::LoseResponse)),
    ] {
        fault.into_iter().for_each(fails);
        let named = config_map(name, &[], &[]);
        api.create(&PostParams::default(), &named).await.unwrap_err();
    }
    fails(Fault::status(500));
    let generated = api.create(&PostParams::default(), &generated()).await;
    generated.unwrap_err();
    let audit = cluster.audit();
    let of: Vec<(&str, Option<u16>)> = audit.entries().map(|entry| (&*entry.name, entry.code)).collect();
    assert_eq!(
        of,
        [
            ("a", Some(201)),
            ("a", Some(409)),
            ("b", Some(500)),
            ("c", None),
            ("d", None),
            ("", Some(500)),
        ]
    );
}
