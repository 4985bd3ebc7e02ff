//! CEL rules of definitions, through a client.

use kube::{
    Api, Error,
    api::{Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use kubegc_testkit::Cluster;
use serde_json::json;

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.x.dev}
spec:
  group: x.dev
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations:
            - {rule: 'self.replicas >= oldSelf.replicas', message: replicas cannot be lowered}
            properties:
              replicas: {type: integer, x-kubernetes-validations: [{rule: self < 10}]}
";

#[tokio::test]
async fn a_client_gets_the_refusals_of_rules() {
    let cluster = Cluster::builder().yaml(DEFINITION).build().unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("x.dev", "v1", "Widget"));
    let widgets: Api<DynamicObject> = Api::default_namespaced_with(cluster.client(), &resource);
    let widget =
        |replicas: i64| DynamicObject::new("a", &resource).data(json!({"spec": {"replicas": replicas}}));
    let message = |error: Error| match error {
        Error::Api(status) => (status.code, status.message),
        other => panic!("{other}"),
    };
    let refused = widgets
        .create(&PostParams::default(), &widget(10))
        .await
        .unwrap_err();
    assert_eq!(
        message(refused),
        (
            422,
            "Widget.x.dev \"a\" is invalid: spec.replicas: Invalid value: \"integer\": failed rule: self < 10".to_owned()
        )
    );
    widgets.create(&PostParams::default(), &widget(3)).await.unwrap();
    let params = PatchParams::apply("me").force();
    let refused = widgets
        .patch("a", &params, &Patch::Apply(&widget(2)))
        .await
        .unwrap_err();
    assert_eq!(
        message(refused),
        (
            422,
            "Widget.x.dev \"a\" is invalid: spec: Invalid value: \"object\": replicas cannot be lowered"
                .to_owned()
        )
    );
    widgets
        .patch("a", &params, &Patch::Apply(&widget(4)))
        .await
        .unwrap();
}
