//! Errors and findings about bad dumps, with their texts.

use crate::common::{findings, read, reader, render};
use kubegc_snapshot::{Problem, Snapshot};

#[test]
fn documents_that_cannot_be_read_are_refused() {
    let cases: &[(&str, &[u8], &str)] = &[
        ("empty", b"", "f: holds no document"),
        ("blank", b" \n\n", "f: holds no document"),
        ("comments", b"# nothing\n---\n...\n", "f: holds no document"),
        (
            "cut off",
            b"{\"kind\": \"List\",\n \"items\": [{}, {\"a\":",
            "f, document 1, items[1]: the input ends in the middle of the document, at line 2",
        ),
        (
            "cut off behind the items",
            b"{\"items\": []",
            "f, document 1, items[0]: the input ends in the middle of the document, at line 1",
        ),
        (
            "cut off object",
            b"{\"kind\": \"Pod\"",
            "f, document 1: the input ends in the middle of the document, at line 1",
        ),
        (
            "garbage in an item",
            b"{\"items\": [\n  {\"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"}, \"x\": nope}]}",
            "f, document 1, items[0]: line 2, column 52: not valid JSON (in Pod a): expected ident",
        ),
        (
            "garbage between items",
            b"{\"items\": [{} {}]}",
            "f, document 1, items[1]: line 1, column 15: not valid JSON: expected `,` or `]`",
        ),
        (
            "garbage behind",
            b"{\"kind\":\"List\",\"items\":[]} x",
            "f, document 2: line 1, column 28: not valid JSON: expected `{` or the end of the input",
        ),
        (
            "a control character",
            b"{\"kind\": \"Pod\x01\"}",
            "f, document 1: line 1, column 14: not valid JSON: control character (\\u0000-\\u001F) found while parsing a string",
        ),
        (
            "a NUL byte",
            b"{\"kind\":\n \"Pod\0\"}",
            "f: line 2: not text: a NUL byte",
        ),
        (
            "not UTF-8",
            b"{\"kind\":\n \"Pod\xff\"}",
            "f, document 1: line 2: not text: not UTF-8",
        ),
        (
            "not UTF-8 in YAML",
            b"kind: Pod\nmetadata:\n  name: \xff\n",
            "f, document 1: line 3: not text: not UTF-8",
        ),
        (
            "no kind",
            b"{\"metadata\":{\"name\":\"a\"}}",
            "f, document 1: not an API object: it has neither apiVersion nor kind",
        ),
        (
            "no apiVersion",
            b"kind: Pod\n",
            "f, document 1: not an API object: it has no apiVersion",
        ),
        (
            "a scalar",
            b"just words\n",
            "f, document 1: not an API object: it is a string",
        ),
        (
            "a YAML list",
            b"- a\n- b\n",
            "f, document 1: not an API object: it is a list",
        ),
        (
            "a list without kind",
            b"apiVersion: v1\nitems:\n- kind: Pod\n",
            "f, document 1: not an API object: it has items and no kind, so it is cut off or no list of objects",
        ),
        (
            "no kind of list",
            b"{\"kind\":\"Pods\",\"apiVersion\":\"v1\",\"items\":[]}",
            "f, document 1: not an API object: it has items, but Pods is not a kind of list",
        ),
        (
            "items of another type",
            b"{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"items\":{}}",
            "f, document 1: not an API object: items: expected a list, found a map",
        ),
        (
            "an error",
            b"{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\"}",
            "f, document 1: not an API object: it is a Status, the API server's response to a failed request",
        ),
        (
            "a table",
            b"{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"rows\":[]}",
            "f, document 1: not an API object: it is a Table, made for printing; list again with -o json",
        ),
        (
            "discovery",
            b"{\"kind\":\"APIResourceList\",\"apiVersion\":\"v1\",\"resources\":[]}",
            "f, document 1: not an API object: it is a discovery listing; give it to api_resources",
        ),
        (
            "metadata without a kind",
            b"{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\",\"items\":[]}",
            "f, document 1: not an API object: PartialObjectMetadataList does not say the kind of its objects; give it with read_as",
        ),
        (
            "gzip",
            b"\x1f\x8b\x08rest",
            "f: cannot be read: unexpected end of file",
        ),
        (
            "zip",
            b"PK\x03\x04rest",
            "f: cannot be read: invalid Zip archive: Could not find EOCD",
        ),
        (
            "bzip2",
            b"BZh9rest",
            "f: looks like bzip2, which is not read; unpack it and give the folder",
        ),
        (
            "protobuf",
            b"k8s\0\n\x0f",
            "f: looks like an object in protobuf, which is not read; export it as YAML with auger, or dump it with kubectl get -o json",
        ),
        (
            "UTF-16",
            b"\xff\xfek\0i\0n",
            "f: cannot be read: UTF-16 text that ends within a character",
        ),
        (
            "printed",
            b"NAME    READY   STATUS\nweb-0   1/1     Running\n",
            "f: looks like a table of kubectl get, which is not read; list again with -o json",
        ),
        (
            "printed events",
            b"LAST SEEN   TYPE     REASON   OBJECT      MESSAGE\n5m   Normal   Killing   pod/web-0   Stopping\n",
            "f: looks like a table of kubectl get, which is not read; list again with -o json",
        ),
        (
            "api-resources",
            b"NAME   SHORTNAMES   APIVERSION   NAMESPACED   KIND\n",
            "f: looks like the output of kubectl api-resources, which is not read; give it to api_resources",
        ),
        (
            "described",
            b"Name:         web-0\nNamespace:    shop\n",
            "f: looks like the output of kubectl describe, which is not read; use kubectl get -o json",
        ),
        (
            "helm",
            b"---\nkind: Pod\nmetadata:\n  name: {{ .Release.Name }}-a\n",
            "f: looks like a Helm template, which is not read; render it with helm template, or dump the objects from the cluster with kubectl get -o json",
        ),
        (
            "aliases",
            b"a: &a [x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b]\n\
d: &d [*c, *c, *c, *c, *c, *c, *c, *c]\nkind: Pod\n",
            "f, document 1: line 4, column 8: not valid YAML: too many aliases, anchors or nested collections for one object",
        ),
        (
            "an alias of another item",
            b"kind: List\napiVersion: v1\nitems:\n- kind: ConfigMap\n  metadata:\n    labels: &l {a: b}\n    name: one\n\
- kind: ConfigMap\n  metadata:\n    labels: *l\n    name: two\n",
            "f, document 1, items[1]: line 10, column 13: not valid YAML (in ConfigMap two): `labels: *l` names an anchor \
             outside of this object; expand aliases before, for example with yq 'explode(.)'",
        ),
        (
            "a watch event",
            b"{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"namespace\":\"shop\",\"name\":\"a\"}}}",
            "f, document 1: not an API object: it is a watch event (ADDED of Pod shop/a); list the objects with kubectl get -o json, without --watch",
        ),
        (
            "a watch event in YAML",
            b"object:\n  kind: Pod\n  metadata: {name: a}\ntype: DELETED\n",
            "f, document 1: not an API object: it is a watch event (DELETED of Pod a); list the objects with kubectl get -o json, without --watch",
        ),
        (
            "a bookmark without an object of a name",
            b"{\"type\":\"BOOKMARK\",\"object\":{}}",
            "f, document 1: not an API object: it is a watch event (BOOKMARK); list the objects with kubectl get -o json, without --watch",
        ),
        (
            "lists by kind",
            b"{\"none\":[],\"pods\":{\"items\":[{\"metadata\":{\"name\":\"a\"}}]}}",
            "f, document 1: not an API object: it is a map with objects under `pods`; give each of its values as a document, for example with jq '.[]'",
        ),
        (
            "objects by kind in YAML",
            b"Pod:\n- metadata: {name: a}\n",
            "f, document 1: not an API object: it is a map with objects under `Pod`; give each of its values as a document, for example with jq '.[]'",
        ),
        (
            "an audit log",
            b"{\"kind\":\"Event\",\"apiVersion\":\"audit.k8s.io/v1\",\"auditID\":\"1\",\"verb\":\"list\"}",
            "f, document 1: not an API object: it is an audit event, which shows a request and no state; dump the objects with kubectl get -o json",
        ),
        (
            "helm get all",
            b"NAME: web\nLAST DEPLOYED: Mon Mar  2 08:30:00 2026\nNAMESPACE: shop\nMANIFEST:\n---\nkind: Pod\n",
            "f: looks like the output of helm get all, status or install, which is not read; save the manifests alone with helm get manifest, or dump the objects with kubectl get -o json",
        ),
        (
            "items without a kind",
            b"{\"items\":[{\"metadata\":{\"name\":\"a\"}}]}",
            "f, document 1: not an API object: neither the list nor its items have a kind; give it with read_as",
        ),
    ];
    for (name, text, expected) in cases {
        let error = read("f", text).expect_err(name);
        assert_eq!(error.full_text(), *expected, "{name}");
        let mut lenient = reader().lenient(true);
        lenient.read("f", *text).expect("a finding instead");
        let snapshot = lenient.complete("all").finish().expect(name);
        assert!(snapshot.is_empty(), "{name}");
        if !snapshot.finding_counts.contains_key(&Problem::NotAnObject) {
            assert_eq!(snapshot.finding_counts[&Problem::Unread], 1, "{name}");
            assert!(
                snapshot
                    .completeness
                    .iter()
                    .all(|(_, coverage)| !coverage.is_complete()),
                "{name}"
            );
        }
    }
}

#[test]
fn yaml_errors_name_document_and_line() {
    for (text, expected) in [
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n---\nkind: [\n",
            "f, document 2: line ",
        ),
        (
            "kind: List\napiVersion: v1\nitems:\n- kind: Pod\n- kind: *gone\n",
            "f, document 1, items[1]: line 5, column ",
        ),
        (
            "kind: Pod\nkind: Node\n",
            "f, document 1: line 2, column 1: not valid YAML: ",
        ),
        (
            "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n",
            "f, document 1: line ",
        ),
    ] {
        let error = read("f", text.as_bytes()).expect_err(text).full_text();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn after_an_error_there_is_no_snapshot() {
    let mut reader = reader();
    reader
        .read(
            "good",
            br#"{"kind":"List","apiVersion":"v1","items":[]}"#.as_slice(),
        )
        .expect("good");
    reader.read("bad", b"{".as_slice()).expect_err("cut off");
    let error = reader.finish().expect_err("short");
    assert_eq!(
        error.to_string(),
        "bad, document 1: was not read to its end, so there is no snapshot"
    );
}

fn pod(meta: &str) -> String {
    format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{{meta}}},"status":{{"phase":"Running"}}}}"#)
}

fn snapshot(objects: &[String]) -> Snapshot {
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#,
        objects.join(",")
    );
    let mut reader = reader().complete("all");
    reader
        .read("f", text.as_bytes())
        .expect("objects, not documents, are bad");
    reader.finish().expect("read")
}

const GOOD: &str = r#""name":"a","namespace":"shop","uid":"1""#;

#[test]
fn bad_fields_become_findings_and_the_object_stays() {
    let at = "f, document 1, items[0]: Pod shop/a: ";
    let cases: &[(&str, &str)] = &[
        (
            r#""name":"a","namespace":"shop","resourceVersion":"7""#,
            "NoUid: {}metadata.uid: missing",
        ),
        (
            r#""name":"a","namespace":"shop","uid":"","resourceVersion":"7""#,
            "NoUid: {}metadata.uid: missing",
        ),
        (
            r#""name":"a","namespace":"shop","uid":"1","ownerReferences":{}"#,
            "BadField: {}metadata.ownerReferences: expected a list, found a map",
        ),
        (
            r#""name":"a","namespace":"shop","uid":"1","ownerReferences":[7]"#,
            "BadField: {}metadata.ownerReferences[0]: expected a map, found a number",
        ),
        (
            r#""name":"a","namespace":"shop","uid":"1","ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n"}]"#,
            "IncompleteOwner: {}metadata.ownerReferences[0].uid: missing",
        ),
        (
            r#""name":"a","namespace":"shop","uid":"1","ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"2","controller":"yes"}]"#,
            "BadField: {}metadata.ownerReferences[0].controller: expected true or false, found a string",
        ),
        (
            r#""name":"a","namespace":"shop","uid":"1","deletionTimestamp":"soon""#,
            "BadField: {}metadata.deletionTimestamp: \"soon\" is not a date",
        ),
        (
            r#""name":"a","namespace":"shop","uid":"1","deletionTimestamp":17"#,
            "BadField: {}metadata.deletionTimestamp: expected a string, found a number",
        ),
        (
            r#""name":"a","namespace":"shop","uid":"1","finalizers":["x",1]"#,
            "BadField: {}metadata.finalizers[1]: expected a string, found a number",
        ),
        (
            r#""name":"a","namespace":"shop","uid":"1","labels":{"x":true}"#,
            "BadField: {}metadata.labels[x]: expected a string, found a boolean",
        ),
        (
            r#""name":"a","namespace":"shop","uid":"1","generation":1.5"#,
            "BadField: {}metadata.generation: expected a whole number, found a number",
        ),
    ];
    for (meta, expected) in cases {
        let snapshot = snapshot(&[pod(meta)]);
        assert_eq!(findings(&snapshot), [expected.replace("{}", at)], "{meta}");
        let object = snapshot.object(0).expect("kept");
        assert!(object.flawed, "{meta}");
        let is_complete = snapshot.completeness.of("", "Pod").is_complete();
        assert_eq!(is_complete, !expected.starts_with("NoUid"), "{meta}");
        assert!(snapshot.completeness.of("", "Node").is_complete(), "{meta}");
    }
    assert_eq!(findings(&snapshot(&[pod(GOOD)])), [""; 0]);
    let nulls = r#""name":"a","namespace":"shop","uid":"1","ownerReferences":null,"labels":null,"finalizers":null,"creationTimestamp":null"#;
    assert_eq!(findings(&snapshot(&[pod(nulls)])), [""; 0], "null is absent");
}

#[test]
fn objects_without_identity_are_counted_and_their_kind_is_incomplete() {
    for (object, expected, only_pods) in [
        (
            pod(r#""namespace":"shop","uid":"1""#),
            "Unreadable: f, document 1, items[0]: Pod shop/?: metadata.name: missing, so the object cannot be named",
            true,
        ),
        (
            pod(r#""name":7,"namespace":"shop","uid":"1""#),
            "BadField: f, document 1, items[0]: Pod shop/?: metadata.name: expected a string, found a number",
            true,
        ),
        (
            r#"{"apiVersion":"v1","metadata":{"name":"a","uid":"1"}}"#.to_owned(),
            "Unreadable: f, document 1, items[0]: ? a: kind: neither the object nor its list has a kind",
            false,
        ),
        (
            "7".to_owned(),
            "Unreadable: f, document 1, items[0]: ?: expected a map, found a number",
            false,
        ),
    ] {
        let snapshot = snapshot(&[object.clone(), pod(r#""name":"b","namespace":"shop","uid":"2""#)]);
        assert!(
            findings(&snapshot).contains(&expected.to_owned()),
            "{:?}",
            findings(&snapshot)
        );
        assert_eq!(snapshot.len(), 1, "{object}");
        assert!(!snapshot.completeness.of("", "Pod").is_complete(), "{object}");
        assert_eq!(
            snapshot.completeness.of("", "ConfigMap").is_complete(),
            only_pods,
            "{object}"
        );
    }
}

#[test]
fn the_same_object_twice_is_merged_by_version() {
    let with = |more: &str| pod(&format!("{GOOD},{more}"));
    let text = |snapshot: &Snapshot| (render(snapshot), findings(snapshot));
    let cases = [
        (
            with(r#""resourceVersion":"7""#),
            with(r#""resourceVersion":"7""#),
            "rv=7",
            "Repeated: f, document 1, items[1]: Pod shop/a",
        ),
        (
            with(r#""resourceVersion":"9","generation":1"#),
            with(r#""resourceVersion":"10","generation":2"#),
            "rv=10 gen=2",
            "Superseded: f, document 1, items[0]: Pod shop/a: resourceVersion 10 replaces 9",
        ),
        (
            with(r#""resourceVersion":"7","generation":1"#),
            with(r#""resourceVersion":"7","generation":2"#),
            "rv=7 gen=1",
            "Contradiction: f, document 1, items[1]: Pod shop/a: differs from f, document 1, items[0], and no resourceVersion says which is newer",
        ),
    ];
    for (one, two, version, finding) in cases {
        let (objects, found) = text(&snapshot(&[one.clone(), two.clone()]));
        assert_eq!(objects.matches('\n').count(), 1);
        assert!(objects.contains(version), "{objects}");
        assert_eq!(found, [finding]);
        assert_eq!(
            render(&snapshot(&[two, one])),
            objects,
            "the order of reading changes nothing"
        );
    }
    let recreated = snapshot(&[
        with(r#""resourceVersion":"7""#),
        pod(r#""name":"a","namespace":"shop","uid":"2","resourceVersion":"8""#),
    ]);
    assert_eq!(
        findings(&recreated),
        [
            "Superseded: f, document 1, items[0]: Pod shop/a: resourceVersion 8 replaces 7, with another uid: deleted and created again"
        ]
    );
    let shared = snapshot(&[pod(GOOD), pod(r#""name":"b","namespace":"shop","uid":"1""#)]);
    assert_eq!(shared.len(), 2);
    assert_eq!(
        findings(&shared),
        ["SharedUid: f, document 1, items[1]: Pod shop/b: metadata.uid: 1 is also the uid of v1 Pod shop/a"]
    );
}

#[test]
fn scopes_kinds_and_missing_status_are_reported() {
    let no_namespace = snapshot(&[pod(r#""name":"a","uid":"1""#)]);
    assert_eq!(
        findings(&no_namespace),
        [
            "WrongScope: f, document 1, items[0]: Pod a: metadata.namespace: missing, and the kind is namespaced"
        ]
    );
    let unknown = snapshot(&[
        r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","uid":"1"}}"#.to_owned(),
    ]);
    assert_eq!(
        findings(&unknown),
        [
            "InferredKind: Widget: 1 object of example.com/v1/Widget, which is neither built in nor defined: \
             taken as widgets.example.com: cluster-scoped, because none of them has a namespace"
        ]
    );
    assert!(!unknown.completeness.of("example.com", "Widget").is_complete());
    let no_status = snapshot(&[
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"shop","uid":"1"}}"#.to_owned(),
    ]);
    assert_eq!(
        findings(&no_status),
        ["MissingField: f, document 1, items[0]: Pod shop/a: status.phase: missing"]
    );
}

#[test]
fn findings_are_listed_up_to_a_bound_and_all_counted() {
    let objects: Vec<String> = (0..1_500)
        .map(|number| {
            pod(&format!(
                r#""name":"p{number}","namespace":"shop","resourceVersion":"7""#
            ))
        })
        .collect();
    let snapshot = snapshot(&objects);
    assert_eq!(snapshot.len(), 1_500);
    assert_eq!(
        (snapshot.findings.len(), snapshot.finding_counts[&Problem::NoUid]),
        (1_000, 1_500)
    );
}

#[test]
fn a_yaml_list_that_ends_inside_a_line_may_be_cut_off() {
    let item = "- {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop, uid: '1'}, status: {phase: Running}}";
    for (text, is_cut) in [
        (format!("kind: List\napiVersion: v1\nitems:\n{item}\n"), false),
        (format!("kind: List\napiVersion: v1\nitems:\n{item}"), true),
        (format!("apiVersion: v1\nitems:\n{item}\nkind: List\n"), false),
        (format!("apiVersion: v1\nitems:\n{item}\nkind: List"), true),
    ] {
        let snapshot = read("f", text.as_bytes()).expect("it is YAML");
        let found = snapshot.findings.iter();
        let cut = found.filter(|finding| finding.problem == Problem::NoFinalLineBreak);
        assert_eq!(cut.count() == 1, is_cut, "{text}");
    }
}

#[test]
fn the_items_of_a_list_that_fails_inside_of_another_are_reported() {
    let list = r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"metadata": {"namespace": "shop", "name": "outer", "uid": "o"}},
        {"apiVersion": "v1", "kind": "PodList", "items": [
            {"metadata": {"namespace": "shop", "name": "inner", "uid": "i"}},
            {"apiVersion": "v1", "kind": "Status"}]}]}"#;
    let yaml = "apiVersion: v1\nkind: List\nitems:\n- metadata: {namespace: shop, name: outer, uid: o}\n\
        - {apiVersion: v1, kind: PodList, items: [{metadata: {namespace: shop, name: inner, uid: i}}, \
           {apiVersion: v1, kind: Status}]}\n";
    for text in [list, yaml] {
        let mut reader = reader().lenient(true);
        reader.read("list", text.as_bytes()).expect("lenient");
        let snapshot = reader.finish().expect("a snapshot");
        assert_eq!(snapshot.len(), 0, "{text}");
        let count = |problem| snapshot.finding_counts.get(&problem).copied();
        assert_eq!(count(Problem::Unread), Some(1), "{:?}", findings(&snapshot));
        assert_eq!(count(Problem::Unreadable), Some(2), "{:?}", findings(&snapshot));
    }
}
