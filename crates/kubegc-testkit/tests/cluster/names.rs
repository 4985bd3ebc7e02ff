//! The ways of naming an object.

use kube::core::DynamicObject;
use kubegc_core::ObjectRef;
use kubegc_testkit::Name;

#[test]
fn every_way_of_naming_means_the_same_object() {
    let object: DynamicObject = serde_json::from_value(serde_json::json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "uid": "u-1"},
    }))
    .unwrap();
    let typed: k8s_openapi::api::apps::v1::Deployment =
        serde_json::from_value(serde_json::to_value(&object).unwrap()).unwrap();
    let name = Name::of_object(&object);
    assert_eq!(name, Name::from(&typed));
    assert_eq!(
        name,
        Name::from(ObjectRef::new("apps/v1", "Deployment", "shop", "web", "u-1"))
    );
    assert_eq!(name, Name::from(&name));
    let by_name = Name::of::<k8s_openapi::api::apps::v1::Deployment>("shop", "web");
    assert_eq!(by_name, Name { uid: None, ..name });
    let no_uid = Name::from(ObjectRef::new("v1", "Namespace", "", "shop", ""));
    assert_eq!(
        (no_uid.to_string(), no_uid.uid),
        ("namespace/shop".to_owned(), None)
    );
}
