//! Known kinds, and kinds that can be declared complete.

use kubegc_core::{Catalog, Scope};
use kubegc_snapshot::{Coverage, Proof, Reader, Snapshot, SnapshotError, Why};

use crate::common::{bytes, findings, reader};

const WIDGETS: &[u8] = br#"{"apiVersion":"v1","kind":"List","items":[
    {"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a","namespace":"shop","uid":"1"}},
    {"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"b","namespace":"shop","uid":"2"}}
]}"#;

fn finish(mut reader: Reader) -> Result<Snapshot, SnapshotError> {
    reader.read("f", WIDGETS)?;
    reader.finish()
}

fn listing(name: &str) -> String {
    String::from_utf8(bytes(name)).expect("a text")
}

fn resource(catalog: &Catalog, api_version: &str, kind: &str) -> Option<(String, Scope, bool, bool)> {
    let id = catalog.mapping(api_version, kind)?;
    let found = &catalog[id];
    Some((
        found.resource.to_string(),
        found.scope,
        found.verbs.delete,
        found.preferred,
    ))
}

#[test]
fn listings_determine_the_scope_of_kinds() {
    let widgets = |preferred, delete| Some(("widgets".to_owned(), Scope::Namespaced, delete, preferred));
    for (name, v1, v2, beta) in [
        ("api-resources-wide.txt", widgets(true, true), None, None),
        (
            "api-resources-old.txt",
            widgets(true, true),
            widgets(true, true),
            None,
        ),
        ("discovery.json", widgets(true, true), None, widgets(false, false)),
    ] {
        let reader = reader().api_resources(&listing(name)).expect(name);
        let catalog = finish(reader).expect(name).catalog;
        assert_eq!(resource(&catalog, "example.com/v1", "Widget"), v1, "{name}");
        assert_eq!(resource(&catalog, "example.com/v2", "Widget"), v2, "{name}");
        assert_eq!(
            resource(&catalog, "example.com/v1beta1", "Widget"),
            beta,
            "{name}"
        );
    }
    let gadgets = reader()
        .api_resources(&listing("api-resources-wide.txt"))
        .expect("a table");
    let catalog = finish(gadgets).expect("read").catalog;
    assert_eq!(
        resource(&catalog, "example.com/v1", "Gadget"),
        Some(("gadgets".to_owned(), Scope::Cluster, false, true))
    );
    let list = r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.com/v2","resources":[
        {"name":"widgets","singularName":"widget","namespaced":true,"kind":"Widget","verbs":["delete","get","list","watch"]},
        {"name":"widgets/status","namespaced":true,"kind":"Widget","verbs":["get"]}]}"#;
    let catalog = finish(reader().api_resources(list).expect("JSON"))
        .expect("read")
        .catalog;
    assert_eq!(
        resource(&catalog, "example.com/v2", "Widget"),
        widgets(true, true)
    );
}

#[test]
fn a_listing_that_contradicts_a_definition_is_reported() {
    let table = "NAME      SHORTNAMES   APIVERSION       NAMESPACED   KIND\nwidgets                example.com/v1   false        Widget\n";
    let mut reader = reader().api_resources(table).expect("a table");
    reader
        .read("list.json", bytes("list.json").as_slice())
        .expect("a list");
    let snapshot = reader.finish().expect("read");
    assert_eq!(
        findings(&snapshot)[1],
        "ConflictingDefinition: Widget: widgets.example.com has it as namespaced Widget (widgets), already known is cluster-scoped Widget (widgets)"
    );
}

#[test]
fn a_definition_that_is_not_established_serves_nothing() {
    let text = String::from_utf8(bytes("list.json")).expect("text");
    let at = text.find("\"Established\"").expect("a condition");
    let (head, tail) = text.split_at(at);
    let text = format!("{head}{}", tail.replacen("\"True\"", "\"False\"", 1));
    let snapshot = crate::common::read("f", text.as_bytes()).expect("a list");
    assert_eq!(snapshot.catalog.mapping("example.com/v1", "Widget"), None);
    let found = findings(&snapshot);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(
        found[1],
        "NotEstablished: Widget: widgets.example.com is not established, so Widget is not served"
    );
}

#[test]
fn declarations_name_kinds_as_kubectl_does() {
    for (declaration, complete, incomplete) in [
        ("pods", "/Pod", "/ConfigMap"),
        ("pod", "/Pod", "/ConfigMap"),
        ("Pod", "/Pod", "/ConfigMap"),
        ("po", "/Pod", "/ConfigMap"),
        ("pods.v1", "/Pod", "/ConfigMap"),
        ("deployments.apps", "apps/Deployment", "/Pod"),
        ("deploy", "apps/Deployment", "/Pod"),
        ("deployments.v1.apps", "apps/Deployment", "/Pod"),
        ("Widget.example.com", "example.com/Widget", "/Pod"),
        ("wd", "example.com/Widget", "/Pod"),
        ("all", "example.com/Widget", "elsewhere.io/Thing"),
    ] {
        let reader = reader()
            .api_resources(&listing("discovery.json"))
            .expect("discovery")
            .complete(declaration);
        let completeness = finish(reader).expect(declaration).completeness;
        let of = |name: &str| {
            let (group, kind) = name.split_once('/').expect("group/kind");
            completeness.of(group, kind)
        };
        assert_eq!(of(complete), Coverage::Complete(Proof::Declared), "{declaration}");
        assert!(!of(incomplete).is_complete(), "{declaration}");
    }
}

#[test]
fn declarations_of_unknown_kinds_are_refused() {
    let unknown = "no kind of the catalog has this name; a custom kind needs its CustomResourceDefinition or api-resources";
    for (declaration, problem) in [
        ("gadgets", unknown),
        ("deployments.batch", unknown),
        ("", unknown),
        ("pods@", "there is no namespace after the @"),
        ("nodes@shop", "Node is in no namespace"),
    ] {
        let error = finish(reader().complete(declaration))
            .map(|_| ())
            .expect_err(declaration);
        assert_eq!(
            error.to_string(),
            format!("cannot declare {declaration:?} complete: {problem}")
        );
    }
}

#[test]
fn completeness_in_one_namespace_does_not_extend_to_others() {
    let completeness = finish(reader().complete("pods@shop").complete("all@blog"))
        .expect("read")
        .completeness;
    let only = Coverage::Incomplete(Why::OnlyNamespaces(vec!["blog".into(), "shop".into()]));
    assert_eq!(completeness.of("", "Pod"), only);
    assert_eq!(completeness.in_namespace("", "Pod", "other"), only);
    assert_eq!(
        completeness.in_namespace("", "Pod", "shop"),
        Coverage::Complete(Proof::Declared)
    );
    assert!(completeness.in_namespace("", "ConfigMap", "blog").is_complete());
    assert!(!completeness.in_namespace("", "ConfigMap", "shop").is_complete());
    assert_eq!(
        completeness.of("", "Node"),
        Coverage::Incomplete(Why::NotDeclared)
    );
}

fn page(version: &str, meta: &str, names: &[&str]) -> String {
    let items: Vec<String> = names
        .iter()
        .map(|name| format!(r#"{{"metadata":{{"name":"{name}","namespace":"shop","uid":"{name}"}}}}"#))
        .collect();
    format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"{meta}}},"items":[{}]}}"#,
        items.join(",")
    )
}

#[test]
fn a_list_with_a_continue_token_is_incomplete_even_if_declared_complete() {
    let first = page("7", r#","continue":"abc","remainingItemCount":2"#, &["a", "b"]);
    let middle = page("7", r#","continue":"def""#, &["c"]);
    let last = page("7", "", &["d"]);
    let other = page("8", "", &["d"]);
    for (pages, complete) in [
        (vec![&first, &middle, &last], true),
        (vec![&last, &first, &middle], true),
        (vec![&first, &middle], false),
        (vec![&first, &last], false),
        (vec![&first, &middle, &other], false),
        (vec![&other], true),
    ] {
        let mut reader = reader().complete("configmaps").complete("pods");
        for page in &pages {
            reader.read("f", page.as_bytes()).expect("a page");
        }
        let snapshot = reader.finish().expect("read");
        assert_eq!(
            snapshot.completeness.of("", "ConfigMap").is_complete(),
            complete,
            "{pages:?}"
        );
        assert_eq!(findings(&snapshot).len(), usize::from(!complete), "{pages:?}");
        assert!(snapshot.completeness.of("", "Pod").is_complete());
    }
}
