//! Reads one object from every form of dump, and asserts that all give the same.

use kubegc_controllers::Documents;
use kubegc_core::{
    KubernetesVersion, Timestamp,
    record::{Body, Record, Resource},
};
use kubegc_snapshot::{Details, JsonDocuments, Problem, Reader, Snapshot};
use serde_json::{Map, Value, json};

/// A number of seconds after noon of the first of March 2026.
pub(crate) fn at(seconds: i64) -> Timestamp {
    let noon = Timestamp::parse("2026-03-01T12:00:00Z").expect("a date");
    Timestamp::from_secs(noon.as_secs() + seconds)
}

/// An object of a resource with this body; `metadata` of the body is added to the object's.
pub(crate) fn object(resource: Resource, body: Value) -> Value {
    let api_version = match resource.group() {
        "" => "v1".to_owned(),
        group => format!("{group}/v1"),
    };
    let mut object = json!({
        "apiVersion": api_version, "kind": resource.kind(),
        "metadata": { "name": "a", "uid": "u-a", "resourceVersion": "7" },
    });
    if !is_cluster_scoped(resource) {
        object["metadata"]["namespace"] = "shop".into();
    }
    let (Value::Object(fields), Value::Object(body)) = (&mut object, body) else {
        panic!("an object has a body that is a map");
    };
    for (key, value) in body {
        match (key.as_str(), value) {
            ("metadata", Value::Object(more)) => {
                let meta = fields["metadata"].as_object_mut().expect("a map");
                meta.extend(more);
            }
            (_, value) => {
                fields.insert(key, value);
            }
        }
    }
    object
}

fn is_cluster_scoped(resource: Resource) -> bool {
    matches!(
        resource,
        Resource::CertificateSigningRequests
            | Resource::Namespaces
            | Resource::Nodes
            | Resource::PersistentVolumes
            | Resource::ServiceCidrs
            | Resource::VolumeAttachments
    )
}

/// Reads an object with this body as an API server serves it.
pub(crate) fn live(resource: Resource, body: Value) -> Body {
    let documents = JsonDocuments::default();
    let record = documents.read(resource, object(resource, body).to_string().as_bytes());
    Body::clone(&record.expect("good metadata").body)
}

/// The record body of an object in a dump, and its flaws, each as `field: problem`.
pub(crate) fn read(resource: Resource, body: Value) -> (Body, Vec<String>) {
    let object = object(resource, body.clone());
    let text = object.to_string();
    let expected = of_snapshot(&text);
    let (fields, flaws) = &expected;
    for (way, text) in [
        ("kind last", backwards(&object)),
        (
            "in a list",
            format!(r#"{{"kind":"List","apiVersion":"v1","items":[{text}]}}"#),
        ),
        (
            "in a list in an array",
            format!(r#"[{{"apiVersion":"v1","items":[{text}],"kind":"List"}}]"#),
        ),
        ("in a list of its kind", in_list(&object, true)),
        ("in a list whose kind comes last", in_list(&object, false)),
        ("YAML", yaml(&object).concat()),
        (
            "YAML with the kind last",
            yaml(&object).into_iter().rev().collect(),
        ),
        (
            "a list in YAML",
            format!(
                "apiVersion: v1\nitems:\n- {}kind: List\n",
                yaml(&object).join("  ")
            ),
        ),
    ] {
        assert_eq!(of_snapshot(&text), expected, "{way}: {text}");
    }
    // With bad metadata the object is read on the slow path, with the same details.
    let mut loose = object.clone();
    loose["metadata"]["generation"] = 1.5.into();
    let (loosely, mut more) = of_snapshot(&loose.to_string());
    let generation = "metadata.generation: expected a whole number, found a number";
    more.retain(|flaw| flaw != generation);
    assert_eq!((&loosely, &more), (fields, flaws), "loosely");
    let (in_yaml, mut more) = of_snapshot(&yaml(&loose).concat());
    more.retain(|flaw| flaw != generation);
    assert_eq!((&in_yaml, &more), (fields, flaws), "loosely in YAML");
    // Where nothing was stripped or assumed, a live read gives the same.
    let is_assumed = flaws.iter().any(|flaw| flaw.ends_with("is assumed"));
    if !is_assumed && !format!("{fields:?}").contains("Unread") {
        assert_eq!(live(resource, body), *fields, "live");
    }
    expected
}

fn in_list(object: &Value, kind_first: bool) -> String {
    let mut item = object.clone();
    let fields = item.as_object_mut().expect("a map");
    let kind = fields.remove("kind").expect("a kind");
    let api_version = fields.remove("apiVersion").expect("a version");
    let kind = kind.as_str().expect("a text");
    let head = format!(r#""apiVersion":{api_version},"kind":"{kind}List""#);
    if kind_first {
        format!(r#"{{{head},"items":[{item}]}}"#)
    } else {
        format!(r#"{{"items":[{item}],{head}}}"#)
    }
}

fn fields_of(object: &Value) -> &Map<String, Value> {
    object.as_object().expect("a map")
}

/// With the fields in reverse, so that the kind comes after most of them.
fn backwards(object: &Value) -> String {
    let fields = fields_of(object).iter().rev();
    let fields: Vec<String> = fields.map(|(key, value)| format!("{key:?}:{value}")).collect();
    format!("{{{}}}", fields.join(","))
}

/// Each field in a line.
fn yaml(object: &Value) -> Vec<String> {
    let lines = fields_of(object).iter();
    lines.map(|(key, value)| format!("{key}: {value}\n")).collect()
}

/// Reads a dump.
pub(crate) fn snapshot(text: &str) -> Snapshot {
    let mut reader = Reader::new(KubernetesVersion::LATEST);
    reader.read("f", text.as_bytes()).expect("a dump");
    reader.finish().expect("a snapshot")
}

/// The body and the flaws of the only object of a dump.
pub(crate) fn of_snapshot(text: &str) -> (Body, Vec<String>) {
    let snapshot = snapshot(text);
    assert_eq!(snapshot.len(), 1, "{text}");
    let object = snapshot.object(0).expect("one object");
    let record = object.record();
    let body = object.details().map(Details::body);
    let mut body = body.map_or(Body::Unread, |body| Body::clone(&body));
    if let (Body::Pod(pod), Some(_)) = (&mut body, object.ready_at()) {
        pod.ready_at = object.ready_at().into();
    }
    let expected = if object.has_flawed_meta() {
        Record::unreadable(object.meta())
    } else {
        Record::new(object.meta(), body.clone())
    };
    assert_eq!(record, expected, "{text}");
    let found = snapshot.findings.iter();
    let mut flaws: Vec<String> = found
        .map(|finding| format!("{}: {}", finding.field, finding.detail))
        .collect();
    flaws.sort();
    let is_flaw = |problem: &Problem| matches!(problem, Problem::BadField | Problem::MissingField);
    let mut problems = snapshot.finding_counts.keys();
    assert!(
        problems
            .clone()
            .all(|problem| is_flaw(problem) || *problem == Problem::Assumed),
        "{flaws:?}"
    );
    assert_eq!(object.is_flawed(), problems.any(is_flaw), "{flaws:?}");
    (body, flaws)
}
