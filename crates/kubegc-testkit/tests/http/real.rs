//! The tables of the page that says what is real in a simulated cluster have the rows of the tables that the
//! code uses.

use std::{collections::BTreeMap, env, fs, path::Path};

use kubegc_control_plane::finalizers::FINALIZERS;
use kubegc_controllers::default_controllers;
use kubegc_core::{Catalog, KubernetesVersion};
use kubegc_sim::has_type;

const VERSION: KubernetesVersion = KubernetesVersion::LATEST;

/// The kinds of each group and version, those with a type and the others.
fn kinds() -> String {
    let catalog = Catalog::builtin(VERSION);
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
    let row = |(api_version, mut kinds): (String, [Vec<&str>; 2])| {
        kinds.iter_mut().for_each(|kinds| kinds.sort_unstable());
        let [typed, others] = kinds.map(|kinds| kinds.join(", "));
        format!("| `{api_version}` | {typed} | {others} |\n")
    };
    rows.into_iter().map(row).collect()
}

fn controllers() -> String {
    let controllers = default_controllers(VERSION);
    let row = controllers.iter().map(|controller| {
        let info = controller.info();
        let (name, summary, upstream) = (info.name, info.summary, info.upstream);
        let file = upstream.rsplit('/').next().unwrap_or_default();
        format!("| `{name}` | {summary} | [`{file}`]({upstream}) |\n")
    });
    row.collect()
}

fn finalizers() -> String {
    let of_kubernetes = FINALIZERS.iter().filter(|finalizer| finalizer.since_minor > 0);
    let row = of_kubernetes.map(|finalizer| {
        let (name, kinds, owner) = (finalizer.name, finalizer.kinds, finalizer.owner);
        let (removed, since) = (finalizer.removed, finalizer.since_minor);
        format!("| `{name}` | {kinds} | {owner} | {removed} | 1.{since} |\n")
    });
    row.collect()
}

#[test]
fn the_page_agrees_with_the_tables() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/real.md");
    let written = fs::read_to_string(&path).expect("the page is in the repository");
    let mut tables = [kinds(), controllers(), finalizers()].into_iter();
    let (mut page, mut was_row) = (String::new(), false);
    for line in written.split_inclusive('\n') {
        let is_row = line.starts_with("| `");
        if is_row && !was_row {
            page.push_str(&tables.next().expect("the page has three tables"));
        } else if !is_row {
            page.push_str(line);
        }
        was_row = is_row;
    }
    if env::var_os("KUBEGC_BLESS").is_some() {
        fs::write(&path, &page).expect("the page can be written");
    }
    assert!(
        written == page && tables.next().is_none(),
        "KUBEGC_BLESS=1 writes src/real.md again:\n{page}"
    );
    assert!(page.contains(&format!("Kubernetes {VERSION}.")));
}
