//! The page that says what is real in a simulated cluster agrees with the tables that it comes from.

use std::{collections::BTreeMap, env, fmt::Write as _, fs, path::Path};

use kubegc_control_plane::finalizers::FINALIZERS;
use kubegc_controllers::default_controllers;
use kubegc_core::{Catalog, KubernetesVersion};
use kubegc_sim::has_type;

const INTRODUCTION: &str = "\
What of a simulated cluster is a model of upstream's behaviour, and what is not. The tables are made from those that the code uses;
the differences in detail are in the documentation of [the crate](crate) and of [`http`](crate::http).
";

/// The kinds of each group and version, those with a type and the others.
fn kinds(page: &mut String, version: KubernetesVersion) {
    let catalog = Catalog::builtin(version);
    let mut rows: BTreeMap<String, [Vec<&str>; 2]> = BTreeMap::new();
    for (_, resource) in catalog.iter() {
        // Reviews get a response and are never stored.
        if resource.group.starts_with("auth") {
            continue;
        }
        let is_typed = has_type(resource) || *resource.kind == *"CustomResourceDefinition";
        let row = rows.entry(resource.api_version()).or_default();
        row[usize::from(!is_typed)].push(&resource.kind);
    }
    for (api_version, row) in &mut rows {
        for kinds in row.each_mut() {
            kinds.sort_unstable();
        }
        let [typed, others] = row.each_ref().map(|kinds| kinds.join(", "));
        writeln!(page, "| `{api_version}` | {typed} | {others} |").expect("a string");
    }
}

fn page() -> String {
    let version = KubernetesVersion::LATEST;
    let mut page = INTRODUCTION.to_owned();
    write!(
        page,
        "
# Kinds

Kubernetes {version}. Objects of kinds with a type are decoded, completed with the defaults of the API, admitted, validated and converted between
versions, as [`Builder::types`](crate::Builder::types) says; custom resources likewise by the schemas of their definitions. Objects of the other kinds
are stored as they are sent. Access reviews and token reviews are answered by the rules of the test. Deletion, finalizers, owner references, labels, watches, patches and dry runs work for all kinds.

| API | with a type | as they are sent |
|---|---|---|
"
    )
    .expect("a string");
    kinds(&mut page, version);
    page.push_str(
        "
# Rules and admission

CEL rules of definitions and match conditions of webhooks are evaluated. Types are checked and costs are estimated as upstream does; the costs of evaluations
are not limited. A definition with a rule that adds lists of the types `set` and `map` is refused. A match condition that uses `authorizer` fails when it is evaluated: the failure policy of the webhook decides.
Expressions of ValidatingAdmissionPolicies are evaluated in the same way. MutatingAdmissionPolicies are stored and have no effect.

These admission plugins change or refuse objects: DefaultIngressClass, DefaultStorageClass, DefaultTolerationSeconds, LimitRanger,
MutatingAdmissionWebhook, NamespaceLifecycle, PersistentVolumeClaimResize, Priority, RuntimeClass, ServiceAccount, StorageObjectInUseProtection,
TaintNodesByCondition, ValidatingAdmissionPolicy, ValidatingAdmissionWebhook. ResourceQuotas are stored and limit nothing, and PodSecurity is not enforced.
",
    );
    page.push_str(
        "
# Controllers

These always run, beside the garbage collector. Each deletes objects or removes finalizers as upstream's does, judged by recordings of upstream where there are
any. [`Builder::workloads`](crate::Builder::workloads) adds those that create pods; that part is a model for tests, not judged by recordings: no Events are
recorded, and the strategy of a rollout has no effect. Controllers that are not listed do not run; nothing writes the status of disruption budgets.

| controller | what it does | upstream |
|---|---|---|
",
    );
    for controller in default_controllers(version) {
        let info = controller.info();
        let file = info.upstream.rsplit('/').next().unwrap_or_default();
        let upstream = info.upstream;
        writeln!(
            page,
            "| `{}` | {} | [`{file}`]({upstream}) |",
            info.name, info.summary
        )
        .expect("a string");
    }
    page.push_str(
        "
# Finalizers

Others belong to operators, and nothing here removes them.

| finalizer | on | removed by | when | since |
|---|---|---|---|---|
",
    );
    for finalizer in FINALIZERS.iter().filter(|finalizer| finalizer.since_minor > 0) {
        writeln!(
            page,
            "| `{}` | {} | {} | {} | 1.{} |",
            finalizer.name, finalizer.kinds, finalizer.owner, finalizer.removed, finalizer.since_minor
        )
        .expect("a string");
    }
    page
}

#[test]
fn the_page_agrees_with_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/real.md");
    let page = page();
    if env::var_os("KUBEGC_BLESS").is_some() {
        fs::write(&path, &page).expect("the page can be written");
    }
    let written = fs::read_to_string(&path).expect("the page is in the repository");
    assert!(
        written == page,
        "KUBEGC_BLESS=1 writes src/real.md again:\n{page}"
    );
}
