//! Field selectors: the fields of each kind, their values, and selection by lists and deletions.

use kubegc_core::{DeleteOptions, deletion::DeleteOptionsSpec};
use kubegc_sim::{FieldSelector, Filter, Manifest};
use serde_json::json;

use crate::world::{message, served, world, world_of};

fn fields(text: &str) -> Filter {
    text.parse::<FieldSelector>().unwrap().into()
}

#[test]
fn selectors_are_read_as_the_server_reads_them() {
    let value = |field: &str| match field {
        "a" => "1".to_owned(),
        "b" => "x,y=z\\".to_owned(),
        _ => String::new(),
    };
    for (text, expected) in [
        ("", Some(true)),
        (",", Some(true)),
        ("a=1", Some(true)),
        ("a==1", Some(true)),
        ("a!=1", Some(false)),
        ("a!=2,missing=", Some(true)),
        ("a=1,a=2", Some(false)),
        (r"b=x\,y\=z\\", Some(true)),
        ("a", None),
        ("a!1", None),
        ("a=1=2", None),
        (r"a=\n", None),
        (r"a=1\", None),
    ] {
        let read = text.parse::<FieldSelector>();
        assert_eq!(
            read.ok().map(|selector| selector.matches_by(value)),
            expected,
            "{text}"
        );
    }
}

/// Selectors of which the first matches the object and the second does not.
const SELECTED: &str = r#"
metadata.name=a not metadata.name=b of ConfigMap {"metadata":{"name":"a"}}
metadata.namespace=ns not metadata.namespace= of ConfigMap {"metadata":{"name":"a","namespace":"ns"}}
spec.nodeName=n not spec.nodeName= of Pod {"spec":{"nodeName":"n"}}
spec.restartPolicy=Always not spec.restartPolicy= of Pod {"spec":{"restartPolicy":"Always"}}
spec.schedulerName=s not spec.schedulerName=t of Pod {"spec":{"schedulerName":"s"}}
spec.serviceAccountName=sa not spec.serviceAccountName= of Pod {"spec":{"serviceAccountName":"sa"}}
spec.hostNetwork=false not spec.hostNetwork=true of Pod {}
status.phase=Running not status.phase!=Running of Pod {"status":{"phase":"Running"}}
status.podIP=10.0.0.1 not status.podIP= of Pod {"status":{"podIP":"10.0.0.1"}}
status.nominatedNodeName=m not status.nominatedNodeName= of Pod {"status":{"nominatedNodeName":"m"}}
involvedObject.kind=Pod not involvedObject.kind=x of Event {"involvedObject":{"kind":"Pod"}}
involvedObject.uid=u not involvedObject.uid=x of Event {"involvedObject":{"uid":"u"}}
involvedObject.name=p not involvedObject.name=q of Event {"involvedObject":{"name":"p"}}
reason=R not reason=S of Event {"reason":"R"}
type=Warning not type=Normal of Event {"type":"Warning"}
reportingComponent=r not reportingComponent=s of Event {"reportingComponent":"r"}
source=c not source=d of Event {"source":{"component":"c"},"reportingComponent":"r"}
type=Opaque not type!=Opaque of Secret {"type":"Opaque"}
status.phase=Active not status.phase=x of Namespace {"status":{"phase":"Active"}}
spec.unschedulable=false not spec.unschedulable=true of Node {}
spec.unschedulable=true not spec.unschedulable!=true of Node {"spec":{"unschedulable":true}}
status.replicas=2 not status.replicas=0 of ReplicationController {"status":{"replicas":2}}
status.successful=0 not status.successful=1 of Job {}
spec.signerName=s not spec.signerName=t of CertificateSigningRequest {"spec":{"signerName":"s"}}
"#;

#[test]
fn objects_are_selected_by_the_fields_that_their_kind_has() {
    for row in SELECTED.lines().filter(|row| !row.is_empty()) {
        let (selectors, object) = row.split_once(" of ").unwrap();
        let (matching, other) = selectors.split_once(" not ").unwrap();
        let (kind, object) = object.split_once(' ').unwrap();
        let world = world();
        let kind = world.kind(kind);
        let object = Manifest::read(serde_json::from_str(object).unwrap()).unwrap();
        for (selector, expected) in [(matching, true), (other, false)] {
            assert!(
                world.server.check_filter(kind, &fields(selector)).is_ok(),
                "{row}"
            );
            let matches = world.server.matches(kind, &fields(selector), &object.object);
            assert_eq!(matches, expected, "{selector} of {row}");
        }
    }
}

#[test]
fn a_field_that_a_kind_does_not_have_is_refused() {
    for (kind, label, expected) in [
        ("Pod", "spec.color", "field label not supported: spec.color"),
        (
            "Job",
            "status.phase",
            "field label \"status.phase\" not supported for Job",
        ),
        ("Child", "spec.color", "field label not supported: spec.color"),
        (
            "Boss",
            "metadata.namespace",
            "field label not supported: metadata.namespace",
        ),
        (
            "ConfigMap",
            "data.k",
            "\"data.k\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
        ),
    ] {
        let mut world = world();
        let kind = world.kind(kind);
        let filter = fields(&format!("{label}=x"));
        let responses = [
            world.server.list(kind, None, filter.clone()),
            (world.server).delete_collection_with(kind, None, &filter, &DeleteOptions::default()),
            *world.server.check_filter(kind, &filter).unwrap_err(),
        ];
        for response in responses {
            assert_eq!((response.code, message(&response)), (400, expected));
        }
    }
}

#[test]
fn a_definition_names_the_fields_of_its_kind() {
    let mut world = world_of("1.31.0");
    let definition = json!({
        "metadata": {"name": "things.test.dev"},
        "spec": {"group": "test.dev", "scope": "Namespaced", "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": true, "selectableFields": [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.on"}]}]},
    });
    world.put_json("CustomResourceDefinition", definition);
    let kind = served(&world, "test.dev/v1", "Thing");
    for (name, spec) in [
        ("a", json!({"color": "red", "on": true})),
        ("b", json!({"color": "blue"})),
    ] {
        let object = json!({"metadata": {"name": name}, "spec": spec});
        assert_eq!(world.server.create_json(kind, "ns", object).code, 201);
    }
    for (text, expected) in [
        ("spec.color=red", vec!["a"]),
        ("spec.on=true", vec!["a"]),
        ("spec.on=", vec!["b"]),
        ("spec.color!=red", vec!["b"]),
        ("spec.color!=green,metadata.namespace=ns", vec!["a", "b"]),
    ] {
        let response = world.server.list(kind, None, fields(text));
        let names: Vec<&str> = response.items().iter().map(|item| &*item.meta.name).collect();
        assert_eq!(names, expected, "{text}");
    }
    assert_eq!(world.server.list(kind, None, fields("spec.size=1")).code, 400);
}

#[test]
fn watch_events_compare_with_the_old_object() {
    let mut world = world();
    let start = world.server.revision();
    world.put_json(
        "Secret",
        json!({"metadata": {"name": "a", "finalizers": ["x.dev/a"]}, "type": "Opaque"}),
    );
    world.delete("Secret", "a", &DeleteOptionsSpec::default());
    world.patch(
        "Secret",
        "a",
        crate::world::MERGE,
        &json!({"metadata": {"finalizers": null}}),
    );
    let kind = world.kind("Secret");
    let mut last = None;
    let mut seen = Vec::new();
    for event in world.server.events_since(kind, start).unwrap() {
        assert_eq!(event.previous, last, "{:?}", event.event_type);
        seen.push(format!("{:?}", event.event_type));
        last = Some(event.object.clone());
    }
    assert_eq!(seen, ["Added", "Modified", "Deleted"]);
    let loaded = json!({"metadata": {"name": "b", "namespace": "ns", "uid": "u"}});
    let loaded = Manifest::read(loaded).unwrap().object;
    world.server.insert(kind, loaded).unwrap();
    let start = world.server.revision();
    world.patch("Secret", "b", crate::world::MERGE, &json!({"type": "x"}));
    let events = world.server.events_since(kind, start).unwrap();
    let before = events.map(|event| event.previous.as_ref().unwrap().meta.uid.to_string());
    assert_eq!(Vec::from_iter(before), ["u"], "what was loaded is known too");
}
