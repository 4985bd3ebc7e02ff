//! Extensions whose Service has no ready endpoints, and a controller that the dump shows not to act.

use kubegc_predict::{Assumptions, Fate};

use crate::common;

const EXTENSIONS: &str = r#"
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: policy, uid: w1}
webhooks:
- name: check.example.org
  failurePolicy: Fail
  clientConfig: {service: {namespace: tools, name: server}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [DELETE], resources: [configmaps]}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.example.org, uid: a1}
spec: {group: example.org, version: v1, service: {name: server, namespace: tools}}
---
apiVersion: v1
kind: Service
metadata: {name: server, namespace: tools, uid: s1}
spec: {selector: {app: server}}
"#;
const SLICE: &str = r#"
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: server-1, namespace: tools, uid: e1, labels: {kubernetes.io/service-name: server}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.1], conditions: {ready: READY}}]
"#;
const ENDPOINTS: &str = r#"
apiVersion: v1
kind: Endpoints
metadata: {name: server, namespace: tools, uid: e2}
subsets: [{READY: [{ip: 10.0.0.1}]}]
"#;
const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: server-0, namespace: tools, uid: p1, labels: {app: server}}
spec: {nodeName: n1, containers: [{name: c}]}
status: {phase: Running, conditions: [{type: Ready, status: "READY"}]}
"#;
const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: server, namespace: tools, uid: d1}
spec: {replicas: 0, selector: {matchLabels: {app: server}}}
"#;

/// Why webhook and API cannot be reached.
fn failures(complete: &[&str], objects: &[String]) -> Vec<String> {
    let dump = format!("{EXTENSIONS}---{}\n", objects.join("---"));
    let cluster = common::of_dump("1.36", &dump, complete, Assumptions::default());
    let broken = cluster.broken_extensions().iter();
    broken.map(|one| one.failure.to_string()).collect()
}

#[test]
fn a_service_is_ready_unless_the_dump_shows_that_it_is_not() {
    let slice = |ready: &str| SLICE.replace("READY", ready);
    let endpoints = |key: &str| ENDPOINTS.replace("READY", key);
    let pod = |ready: &str| POD.replace("READY", ready);
    let deployment = DEPLOYMENT.to_owned();
    let rows: [(&[&str], Vec<String>, Option<&str>); 12] = [
        (&["endpointslices"], vec![slice("true")], None),
        (
            &["endpointslices"],
            vec![slice("false")],
            Some("no endpoint in its endpointslices is ready"),
        ),
        (&[], vec![slice("false")], None),
        // What the endpoints say counts, not what the pods say.
        (&["all"], vec![slice("true"), pod("False")], None),
        (&[], vec![endpoints("addresses")], None),
        (
            &[],
            vec![endpoints("notReadyAddresses")],
            Some("endpoints/server has no addresses"),
        ),
        (&["pods"], vec![pod("True")], None),
        (&["pods"], vec![pod("False")], Some("pod/server-0 is not ready")),
        (&[], vec![pod("False")], None),
        (
            &["pods"],
            vec![pod("False").replace("app: server", "app: other")],
            Some("no pod matches its selector app=server"),
        ),
        (
            &["pods"],
            vec![deployment.clone()],
            Some("deployment/server -n tools is scaled to 0"),
        ),
        (&[], vec![deployment], None),
    ];
    for (complete, objects, why) in rows {
        let failure = why.map(|why| format!("service tools/server has no ready endpoints: {why}"));
        let expected: Vec<String> = failure
            .iter()
            .flat_map(|failure| vec![failure.clone(); 2])
            .collect();
        assert_eq!(failures(complete, &objects), expected, "{complete:?} {objects:?}");
    }
}

/// A name that no extension has is an error, unless the dump may lack the extensions.
#[test]
fn assumed_failures_name_extensions_of_the_dump() {
    for (dump, webhook, api, is_known) in [
        (EXTENSIONS, "check.example.org", "v1.example.org", true),
        (EXTENSIONS, "check.example.org", "example.org/v1", true),
        (EXTENSIONS, "check.example.com", "v1.example.org", false),
        (EXTENSIONS, "check.example.org", "v1.example.com", false),
        (DEPLOYMENT, "check.example.com", "v1.example.com", true),
    ] {
        let assumptions = Assumptions {
            unreachable_webhooks: vec![webhook.into()],
            unavailable_apis: vec![api.into()],
            ..Assumptions::default()
        };
        let cluster = common::of_dump("1.36", dump, &[], assumptions);
        let checked = cluster.check_assumptions();
        assert_eq!(checked.is_ok(), is_known, "{webhook}, {api}: {checked:?}");
    }
}

const DUMP: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: clock, namespace: shop, uid: c0, creationTimestamp: "2026-01-02T12:00:00Z"}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop, uid: v1, resourceVersion: "7", deletionTimestamp: "2026-01-02T09:00:00Z", finalizers: [kubernetes.io/pvc-protection]}
"#;

#[test]
fn a_controller_that_is_assumed_to_act_acts() {
    let outcome = |name: &str, acts: bool| {
        let assumptions = Assumptions {
            acting: [(name.into(), acts)].into(),
            ..Assumptions::default()
        };
        let cluster = common::of_dump("1.36", DUMP, &["all"], assumptions);
        cluster.check_assumptions().expect("the name is known");
        match &cluster.pending().fates[0].fate {
            Fate::Terminating { waits_for } => waits_for[0].to_string(),
            other => other.word().to_owned(),
        }
    };
    let controller = "persistentvolumeclaim-protection-controller";
    assert_eq!(outcome(controller, true), "deleted");
    assert_eq!(outcome("kube-controller-manager", true), "deleted");
    let waits = format!(
        "finalizer kubernetes.io/pvc-protection, which {controller} removes when no pod uses the claim: "
    );
    assert_eq!(
        outcome("cloud-controller-manager", true),
        format!("{waits}it has not for 3h, and normally does within 15s")
    );
    assert_eq!(
        outcome(controller, false),
        format!("{waits}it is assumed not to act")
    );
}
