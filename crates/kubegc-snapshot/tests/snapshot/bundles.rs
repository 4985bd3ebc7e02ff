//! Layouts whose paths contain the kinds of their files: Velero backups, support bundles, Insights archives.

use crate::{
    common::{findings, path, read, reader, render},
    packed::{gzip, tar},
};
use kubegc_snapshot::{Problem, Snapshot};

/// The same members as an archive and as a directory; both must give the same.
pub(crate) fn both(members: &[(&str, &str)]) -> Snapshot {
    let packed: Vec<(&str, &[u8])> = members
        .iter()
        .map(|(path, text)| (*path, text.as_bytes()))
        .collect();
    let of_archive =
        read("dump.tar.gz", &gzip(&tar(&packed))).unwrap_or_else(|error| panic!("{}", error.full_text()));
    let directory = tempfile::tempdir().expect("a directory");
    for (path, text) in members {
        let path = directory.path().join(path);
        std::fs::create_dir_all(path.parent().expect("in the directory")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    }
    let mut of_directory = reader();
    of_directory
        .read_path(directory.path())
        .unwrap_or_else(|error| panic!("{}", error.full_text()));
    let of_directory = of_directory.finish().expect("read");
    assert_eq!(render(&of_archive), render(&of_directory));
    assert_eq!(of_archive.finding_counts, of_directory.finding_counts);
    of_archive
}

#[test]
fn a_velero_backup_is_the_cluster_at_its_time() {
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","uid":"1"},"status":{"phase":"Running"}}"#;
    let volume = r#"{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"disk","uid":"2"},"spec":{},"status":{"phase":"Bound"}}"#;
    let backup = r#"{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":"nightly","namespace":"velero","uid":"3"}}"#;
    let snapshot = both(&[
        ("metadata/version", "1.1.0\n"),
        ("resources/pods/namespaces/shop/web.json", pod),
        ("resources/pods/v1-preferredversion/namespaces/shop/web.json", pod),
        ("resources/persistentvolumes/cluster/disk.json", volume),
        (
            "resources/persistentvolumes/v1-preferredversion/cluster/disk.json",
            volume,
        ),
        ("velero-backup.json", backup),
        ("nightly-resource-list.json.gz", "not read"),
        ("nightly-logs.gz", "not read"),
    ]);
    assert_eq!(
        render(&snapshot),
        "PersistentVolume/disk uid=2 rv=\nshop/Pod/web uid=1 rv= details=?/Running/?\nvelero/Backup/nightly uid=3 rv=\n"
    );
    assert_eq!(snapshot.finding_counts[&Problem::SkippedFile], 5);
    let skipped: Vec<String> = findings(&snapshot)
        .into_iter()
        .filter(|finding| finding.starts_with("SkippedFile"))
        .collect();
    assert_eq!(
        skipped,
        [
            "SkippedFile: dump.tar.gz: 1 file skipped: reports of a Velero backup",
            "SkippedFile: dump.tar.gz: 2 files skipped: not JSON or YAML",
            "SkippedFile: dump.tar.gz: 2 files skipped: other versions of the objects of a Velero backup",
        ]
    );
    assert!(
        snapshot
            .completeness
            .iter()
            .all(|(_, coverage)| !coverage.is_complete())
    );
}

fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> String {
    let namespace = if namespace.is_empty() {
        String::new()
    } else {
        format!(r#""namespace":"{namespace}","#)
    };
    format!(
        r#"{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{{{namespace}"name":"{name}","uid":"{kind}-{name}"}},"status":{{"phase":"Running"}}}}"#
    )
}

/// Objects without apiVersion and kind, as the typed client of Go encodes them.
fn untyped(text: &str) -> String {
    let start = text.find(r#""metadata""#).expect("an object");
    format!("{{{}", &text[start..])
}

#[test]
fn a_support_bundle_is_read() {
    let pods = format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},"items":[{}]}}"#,
        object("v1", "Pod", "shop", "web").replace("Running", "***HIDDEN***")
    );
    let nodes = format!("[{}]", untyped(&object("v1", "Node", "", "n")));
    // Up to 2022 the list of the Go client, which has no kind.
    let definitions = r#"{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"gadgets.example.com","uid":"d1"},
        "spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"gadgets","kind":"Gadget"},
            "versions":[{"name":"v1","served":true,"storage":true}]},
        "status":{"conditions":[{"type":"Established","status":"True"}]}}]}"#;
    let resources = r#"[{"kind":"APIResourceList","groupVersion":"example.com/v1","resources":[
        {"name":"widgets","singularName":"","namespaced":true,"kind":"Widget","verbs":["delete","get","list","watch"]},
        {"name":"widgets/status","singularName":"","namespaced":true,"kind":"Widget","verbs":["get"]}]},
        {"groupVersion":"example.com/v1beta1","resources":[{"name":"widgets","namespaced":true,"kind":"Widget","verbs":["list"]}]}]"#;
    let widgets = "- apiVersion: example.com/v1\n  kind: Widget\n  metadata:\n    name: blue\n    namespace: shop\n    uid: w1\n\
                   - apiVersion: example.com/v1\n  kind: Widget\n  metadata:\n    name: red\n    namespace: shop\n    uid: w2\n";
    let snapshot = both(&[
        ("version.txt", "1.2\n"),
        ("analysis.json", r#"[{"name": "x", "severity": "debug"}]"#),
        ("cluster-resources/nodes.json", &nodes),
        ("cluster-resources/custom-resource-definitions.json", definitions),
        ("cluster-resources/pods/shop.json", &pods),
        ("cluster-resources/pods-errors.json", "null"),
        ("cluster-resources/pods/logs/shop/web/app.log", "{"),
        (
            "cluster-resources/clusterroles",
            &object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "view"),
        ),
        (
            "cluster-resources/custom-resources/widgets.example.com/shop.yaml",
            widgets,
        ),
        (
            "cluster-resources/auth-cani-list/shop.json",
            r#"[{"verbs": ["get"]}]"#,
        ),
        (
            "cluster-resources/image-pull-secrets/shop/a.json",
            r#"{"example.com": "x"}"#,
        ),
        ("cluster-resources/groups.json", "[]"),
        ("cluster-resources/resources.json", resources),
        ("cluster-resources/services/shop.json", ""),
    ]);
    assert_eq!(
        render(&snapshot),
        "Node/n uid=Node-n rv=\nshop/Pod/web uid=Pod-web rv= details=?/***HIDDEN***/?\n\
         CustomResourceDefinition/gadgets.example.com uid=d1 rv= details=Gadget/v1/\nshop/Widget/blue uid=w1 rv=\nshop/Widget/red uid=w2 rv=\nClusterRole/view uid=ClusterRole-view rv=\n"
    );
    let root = "dump.tar.gz";
    assert_eq!(
        findings(&snapshot),
        [
            format!("Unread: {root}:cluster-resources/services/shop.json: holds no document"),
            format!("NotAnObject: {root}:analysis.json, document 1: it has neither apiVersion nor kind"),
            format!("SkippedFile: {root}: 2 files skipped: not JSON or YAML"),
            format!("SkippedFile: {root}: 4 files skipped: reports of the collector of a support bundle"),
        ]
    );
    let preferred = snapshot
        .catalog
        .mapping("example.com/v1", "Widget")
        .expect("listed");
    let other = snapshot
        .catalog
        .mapping("example.com/v1beta1", "Widget")
        .expect("listed");
    assert!(snapshot.catalog[preferred].preferred && !snapshot.catalog[other].preferred);
}

/// Cluster-scoped custom resources in a support bundle of a cluster with apiextensions.k8s.io/v1beta1.
#[test]
fn custom_resources_in_a_wrapper_are_read() {
    let widget = |name: &str| {
        format!(
            "- object:\n    apiVersion: example.com/v1\n    kind: Widget\n    metadata:\n      name: {name}\n      uid: {name}-1\n"
        )
    };
    let path = "cluster-resources/custom-resources/widgets.example.com.yaml";
    let json = format!(
        r#"[{{"object":{}}},{{"object":{}}}]"#,
        object("example.com/v1", "Widget", "", "blue"),
        object("example.com/v1", "Widget", "", "red")
    );
    let yaml = widget("blue") + &widget("red");
    for (path, text) in [(path, yaml), (&*path.replace("yaml", "json"), json)] {
        let snapshot = both(&[(path, &text)]);
        let names: Vec<String> = snapshot.objects().map(|object| self::path(&object)).collect();
        assert_eq!(names, ["Widget/blue", "Widget/red"], "{text}");
        assert_eq!(snapshot.finding_counts.len(), 1, "only its kind is inferred");
    }
    // These are not wrappers: something else is next to it, in it, or around it.
    for (entry, expected) in [
        ("- object: {}\n", "NotAnObject: "),
        ("- object:\n    object:\n      kind: Widget\n", "NotAnObject: "),
        ("- object: 7\n", "NotAnObject: "),
        (
            "- object:\n    apiVersion: example.com/v1\n    kind: Widget\n    metadata: {}\n",
            "Unreadable: ",
        ),
        (
            "- object:\n    apiVersion: example.com/v1\n    kind: Widget\n  other: 1\n",
            "NotAnObject: ",
        ),
    ] {
        let snapshot = both(&[(path, &(widget("blue") + entry))]);
        assert_eq!(snapshot.len(), 1, "{entry}");
        let found = findings(&snapshot);
        assert!(
            found.iter().any(|finding| finding.starts_with(expected)),
            "{entry}: {found:?}"
        );
    }
}

#[test]
fn bad_parts_of_a_support_bundle_are_refused() {
    for (path, text, expected) in [
        (
            "cluster-resources/resources.json",
            "{",
            "dump.tar:cluster-resources/resources.json: not an API object: expected API resources: ",
        ),
        (
            "cluster-resources/resources.json",
            r#"[{"groupVersion":"v1","resources":[{"name":"pods","kind":"Pod"}]}]"#,
            "dump.tar:cluster-resources/resources.json: not an API object: resource \"pods\" has no version, or does not say whether it is namespaced",
        ),
        (
            "cluster-resources/pods/shop.json",
            "[{\"metadata\":",
            "dump.tar:cluster-resources/pods/shop.json, document 1, items[0]: the input ends in the middle of the document, at line 1",
        ),
    ] {
        let archive = tar(&[(path, text.as_bytes())]);
        let error = read("dump.tar", &archive).expect_err(path).full_text();
        assert!(error.starts_with(expected), "{error}");
        let mut lenient = reader().lenient(true);
        lenient.read("dump.tar", &*archive).expect("a finding instead");
        assert_eq!(
            lenient.finish().expect("read").finding_counts[&Problem::Unread],
            1
        );
    }
    let hidden = object("v1", "Pod", "shop", "a")
        .replace("Pod-a", "***HIDDEN***")
        .replace(
            r#""uid""#,
            r#""ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"***HIDDEN***"}],"uid""#,
        );
    let text = format!("{hidden}\n{}", hidden.replace(r#""name":"a""#, r#""name":"b""#));
    let snapshot = read("f", text.as_bytes()).expect("redacted");
    let of = |document: u8, name: &str| {
        [
            format!("NoUid: f, document {document}: Pod shop/{name}: metadata.uid: hidden by a redactor"),
            format!(
                "IncompleteOwner: f, document {document}: Pod shop/{name}: metadata.ownerReferences[0].uid: hidden by a redactor"
            ),
        ]
    };
    let mut expected = [of(1, "a"), of(2, "b")].concat();
    expected.sort_by_key(|finding| !finding.starts_with("NoUid"));
    assert_eq!(findings(&snapshot), expected);
}

/// The layout of Sonobuoy, and logs that begin as JSON does.
#[test]
fn documents_without_objects_do_not_refuse_a_directory() {
    let pod = object("v1", "Pod", "shop", "web");
    let files = [
        ("resources/ns/shop/core_v1_pods.json", format!("[{pod}]")),
        ("resources/ns/shop/core_v1_secrets.json", "[]".to_owned()),
        ("resources/ns/shop/core_v1_services.json", "null".to_owned()),
        (
            "servergroups.json",
            r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[]}"#.to_owned(),
        ),
        (
            "serverversion.json",
            r#"{"major":"1","minor":"30","gitVersion":"v1.30.2"}"#.to_owned(),
        ),
        (
            "audit.json",
            r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"get"}"#.to_owned(),
        ),
        ("podlogs/shop/web/logs/a.txt", "{ not json }".to_owned()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, &**text)).collect();
    let snapshot = both(&files);
    assert_eq!(
        render(&snapshot),
        "shop/Pod/web uid=Pod-web rv= details=?/Running/?\n"
    );
    assert_eq!(
        snapshot.finding_counts.into_iter().collect::<Vec<_>>(),
        [(Problem::NotAnObject, 4)]
    );
    // A text that is cut off may have held objects.
    let cut = tar(&[("pods.txt", b"{\"kind\": \"Pod\"")]);
    assert!(read("dump.tar", &cut).is_err());
}

#[test]
fn an_insights_archive_is_read() {
    let pod = object("v1", "Pod", "shop", "web");
    let snapshot = both(&[
        ("config/pod/shop/web.json", &untyped(&pod)),
        ("config/pod/shop/logs/web/errors.log", "x"),
        ("config/node/n.json", &untyped(&object("v1", "Node", "", "n"))),
        (
            "config/crd/widgets.example.com.json",
            &untyped(&object("", "", "", "widgets.example.com")),
        ),
        (
            "config/clusteroperator/dns.json",
            &object("config.openshift.io/v1", "ClusterOperator", "", "dns"),
        ),
        (
            "config/clusteroperator/operator.openshift.io/dns/default.json",
            &object("operator.openshift.io/v1", "DNS", "", "default"),
        ),
        (
            "config/configmaps/shop/settings/app.yaml",
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: no-object\n",
        ),
        ("config/id", "0b5f9a3e"),
        ("config/metrics", "up 1\n"),
        (
            "conditional/namespaces/shop/pods/api/api.json",
            &untyped(&object("v1", "Pod", "shop", "api")),
        ),
        (
            "config/clusteroperator/imageregistry.operator.openshift.io/config/cluster.json",
            &untyped(&object("", "", "", "cluster")),
        ),
        ("config/version.json", &untyped(&object("", "", "", "version"))),
        (
            "config/clusterrolebinding/a.json",
            &untyped(&object("", "", "", "a")),
        ),
        (
            "cluster-scoped-resources/rbac.authorization.k8s.io/clusterroles/b.json",
            &untyped(&object("", "", "", "b")),
        ),
        (
            "events/shop.json",
            r#"{"items":[{"namespace":"shop","reason":"x"}]}"#,
        ),
        ("insights-operator/gathers.json", r#"{"status_reports":[]}"#),
    ]);
    let names: Vec<String> = snapshot
        .objects()
        .map(|object| format!("{} {}", object.api_version, path(&object)))
        .collect();
    assert_eq!(
        names,
        [
            "v1 Node/n",
            "v1 shop/Pod/api",
            "v1 shop/Pod/web",
            "apiextensions.k8s.io/v1 CustomResourceDefinition/widgets.example.com",
            "config.openshift.io/v1 ClusterOperator/dns",
            "config.openshift.io/v1 ClusterVersion/version",
            "imageregistry.operator.openshift.io/v1 Config/cluster",
            "operator.openshift.io/v1 DNS/default",
            "rbac.authorization.k8s.io/v1 ClusterRole/b",
            "rbac.authorization.k8s.io/v1 ClusterRoleBinding/a",
        ]
    );
    assert_eq!(snapshot.finding_counts[&Problem::NotAnObject], 2);
    assert!(!snapshot.finding_counts.contains_key(&Problem::Unreadable));
    let inferred: Vec<String> = findings(&snapshot)
        .into_iter()
        .filter(|finding| finding.starts_with("InferredKind"))
        .collect();
    assert_eq!(
        inferred,
        [
            "InferredKind: ClusterOperator: 1 object of config.openshift.io/v1/ClusterOperator, which is neither built in nor defined: \
             taken as clusteroperators.config.openshift.io: cluster-scoped, because none of them has a namespace",
            "InferredKind: ClusterVersion: 1 object of config.openshift.io/v1/ClusterVersion, which is neither built in nor defined: \
             taken as clusterversions.config.openshift.io: cluster-scoped, because none of them has a namespace",
            "InferredKind: Config: 1 object of imageregistry.operator.openshift.io/v1/Config, which is neither built in nor defined: \
             taken as configs.imageregistry.operator.openshift.io: cluster-scoped, because none of them has a namespace",
            "InferredKind: DNS: 1 object of operator.openshift.io/v1/DNS, which is neither built in nor defined: \
             taken as dnses.operator.openshift.io: cluster-scoped, because none of them has a namespace",
        ]
    );
}

#[test]
fn a_list_without_kinds_among_other_files_makes_every_kind_incomplete() {
    let list = format!(
        r#"{{"metadata":{{"resourceVersion":"9"}},"items":[{}]}}"#,
        untyped(&object("v1", "Pod", "shop", "web"))
    );
    let snapshot = both(&[("run-a/a-events.json", &list)]);
    assert_eq!(render(&snapshot), "shop/Event/web uid=Pod-web rv=\n");
    let mut reader = reader().complete("all");
    let archive = tar(&[("elsewhere/a.json", list.as_bytes())]);
    reader.read("dump.tar", &*archive).expect("one list of many");
    let snapshot = reader.finish().expect("read");
    assert!(snapshot.is_empty() && !snapshot.completeness.of("", "Node").is_complete());
    assert_eq!(snapshot.finding_counts[&Problem::Unreadable], 1);
}

#[test]
fn a_member_with_metadata_and_no_kind_makes_every_kind_incomplete() {
    let mut reader = reader().complete("all");
    let text = untyped(&object("v1", "Pod", "shop", "web"));
    let archive = tar(&[("elsewhere/web.json", text.as_bytes())]);
    reader.read("dump.tar", &*archive).expect("one object of many");
    let snapshot = reader.finish().expect("read");
    assert!(snapshot.is_empty());
    assert_eq!(
        findings(&snapshot),
        [
            "Unreadable: dump.tar:elsewhere/web.json, document 1: ? shop/web: kind: neither the object nor its list has a kind"
        ]
    );
    assert!(!snapshot.completeness.of("", "Node").is_complete());
}

#[test]
fn kinds_that_nothing_defines_are_inferred() {
    let policy = |namespace: &str, name: &str| object("example.com/v1", "Policy", namespace, name);
    let infer = |text: &str| {
        let mut reader = reader().complete("all");
        reader.read("f", text.as_bytes()).expect("objects");
        reader.finish().expect("read")
    };
    for (text, resource, is_namespaced) in [
        (policy("shop", "a"), "policies", true),
        (policy("", "a"), "policies", false),
        (object("example.com/v1", "Bus", "shop", "a"), "buses", true),
        (object("example.com/v1", "Widget", "shop", "a"), "widgets", true),
    ] {
        let snapshot = infer(&text);
        let object = snapshot.object(0).expect("read");
        let kind = object.kind_id.expect("inferred");
        assert_eq!(&*snapshot.catalog[kind].resource, resource);
        assert_eq!(snapshot.catalog[kind].is_namespaced(), is_namespaced);
        assert_eq!(snapshot.finding_counts[&Problem::InferredKind], 1);
        assert!(
            !snapshot
                .completeness
                .of("example.com", &object.kind)
                .is_complete(),
            "a declaration of all kinds does not include it"
        );
        assert!(snapshot.completeness.of("", "Pod").is_complete());
    }
    let mut declared = reader().complete("policies.example.com");
    declared
        .read("f", policy("shop", "a").as_bytes())
        .expect("an object");
    assert!(
        declared
            .finish()
            .expect("read")
            .completeness
            .of("example.com", "Policy")
            .is_complete()
    );
    // A list without kind is not an object of the API only if no item is one.
    let cut = tar(&[("a.yaml", b"apiVersion: v1\nitems:\n")]);
    let error = read("f", &cut).expect_err("cut off").to_string();
    assert!(
        error.ends_with("it has items and no kind, so it is cut off or no list of objects"),
        "{error}"
    );
    // Nothing is inferred where the objects disagree, or were written by hand.
    for text in [
        format!("{}\n{}", policy("shop", "a"), policy("", "b")),
        policy("", "a").replace(r#""uid""#, r#""generateName""#),
    ] {
        let snapshot = infer(&text);
        assert_eq!(snapshot.finding_counts[&Problem::Unresolvable], 1, "{text}");
        assert!(snapshot.objects().all(|object| object.kind_id.is_none()));
    }
    // Another version of a known kind keeps its resource, for any objects.
    let snapshot = infer(&object("policy/v1beta1", "PodDisruptionBudget", "", "a"));
    let kind = snapshot
        .object(0)
        .and_then(|object| object.kind_id)
        .expect("known");
    assert_eq!(
        snapshot.catalog[kind].to_string(),
        "policy/v1beta1/poddisruptionbudgets"
    );
    assert!(snapshot.catalog[kind].is_namespaced() && !snapshot.catalog[kind].preferred);
    // The path has the name of the resource, where the layout is known.
    for (path, resource) in [
        ("cluster-scoped-resources/example.com/policys/a.json", "policys"),
        ("resources/policys.example.com/cluster/a.json", "policys"),
        (
            "cluster-resources/custom-resources/policys.example.com.json",
            "policys",
        ),
        ("example.com/policy/a.json", "policies"),
        ("example.com/other/a.json", "policies"),
    ] {
        let snapshot = both(&[(path, &policy("", "a"))]);
        let kind = snapshot
            .object(0)
            .and_then(|object| object.kind_id)
            .expect("inferred");
        assert_eq!(&*snapshot.catalog[kind].resource, resource, "{path}");
    }
}
