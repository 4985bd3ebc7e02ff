//! Dependencies between the crates, forbidden dependencies of pure crates, lints, and lengths of files.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::files::{files, is_in, read, report, root};

/// The crates that each crate may depend on, except in tests, without their prefix. Every crate must be listed.
const MAY_DEPEND_ON: &str = "
core:
objects: core
node: core
controllers: core
sim: core
documents: core controllers
snapshot: core node documents
control-plane: core objects controllers sim documents
predict: core objects node controllers snapshot sim control-plane
kube: core objects controllers snapshot tokio
cri: core node tokio
tokio: core
fixtures:
testkit: core objects sim control-plane
kubegc: core objects node controllers snapshot sim control-plane predict
conformance: core objects node controllers snapshot control-plane sim predict kube cri testkit
";

/// Packages that no other package depends on: they may depend on everything.
const OUTERMOST: &[&str] = &["benches", "c-abi", "examples"];

/// Packages with lints of their own: a C ABI needs unsafe code, which those of the workspace forbid.
const OWN_LINTS: &[&str] = &["c-abi"];

/// Crates without I/O: no runtime, no network, no document formats.
const PURE: [&str; 4] = ["core", "objects", "node", "controllers"];

/// Packages that pure crates must not depend on. A name includes all packages that begin with it and a dash.
const NOT_PURE: &str = "async-std axum chrono clap hyper k8s-openapi kube prost rand rand_core reqwest serde-saphyr \
    serde_json serde_yaml smol time tokio tonic tower tracing yaml";

/// The maximum length of a source file in lines.
const LINES_MAX: usize = 800;

struct Package {
    /// Without the prefix of the workspace's crates.
    name: String,
    directory: PathBuf,
    /// Names in normal and build dependencies.
    dependencies: BTreeSet<String>,
    /// Those that no feature has to enable.
    required: BTreeSet<String>,
}

#[test]
fn crates_depend_on_lower_crates_only() {
    let lines = MAY_DEPEND_ON.lines().filter_map(|line| line.split_once(':'));
    let table: BTreeMap<&str, BTreeSet<&str>> = lines
        .map(|(name, lower)| (name, lower.split_whitespace().collect()))
        .collect();
    let mut problems = Vec::new();
    let is_inner = |package: &Package| !OUTERMOST.contains(&package.name.as_str());
    for package in packages().into_iter().filter(is_inner) {
        let Some(may_depend_on) = table.get(package.name.as_str()) else {
            problems.push(format!("{} is not in the table of dependencies", package.name));
            continue;
        };
        let dependencies = package
            .dependencies
            .iter()
            .filter(|name| name.starts_with("kubegc"));
        let dependencies = dependencies.map(|name| short(name));
        for name in dependencies.filter(|name| !may_depend_on.contains(name)) {
            problems.push(format!("{} must not depend on {name}", package.name));
        }
    }
    report(&problems);
}

#[test]
fn pure_crates_have_no_runtime_network_or_document_formats() {
    let mut problems = Vec::new();
    let is_pure = |package: &Package| PURE.contains(&package.name.as_str());
    for package in packages().into_iter().filter(is_pure) {
        for name in &package.required {
            let is_in_family = |family: &str| {
                let rest = name.strip_prefix(family);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            };
            if NOT_PURE.split_whitespace().any(is_in_family) {
                problems.push(format!("{} is pure and must not depend on {name}", package.name));
            }
        }
    }
    report(&problems);
}

#[test]
fn every_package_has_the_lints_of_the_workspace() {
    let has_own = |package: &Package| OWN_LINTS.contains(&package.name.as_str());
    for package in packages().into_iter().filter(|package| !has_own(package)) {
        let manifest = read(package.directory.join("Cargo.toml"));
        assert!(
            manifest.contains("\n[lints]\nworkspace = true\n"),
            "{}: its Cargo.toml lacks `[lints]` with `workspace = true`",
            package.name
        );
    }
}

#[test]
fn no_source_file_is_too_long() {
    let mut problems = Vec::new();
    let mut sources = files(&["crates"], "rs");
    sources.retain(|path| is_in(path, "src"));
    assert!(sources.len() > 20, "only {} source files", sources.len());
    for path in sources {
        let lines = read(&path).lines().count();
        if lines > LINES_MAX {
            problems.push(format!(
                "{}: {lines} lines, at most {LINES_MAX} are allowed",
                path.display()
            ));
        }
    }
    report(&problems);
}

fn short(name: &str) -> &str {
    name.strip_prefix("kubegc-").unwrap_or(name)
}

fn packages() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root())
        .output()
        .expect("cargo built this test, so it can be run");
    assert!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let packages: Vec<Package> = list(&metadata, "packages").iter().map(package).collect();
    assert!(
        packages.len() > 5,
        "only {} packages in the workspace",
        packages.len()
    );
    packages
}

fn package(package: &Value) -> Package {
    let manifest = Path::new(text(package, "manifest_path"));
    let dependencies = list(package, "dependencies").iter();
    // The kind of a normal dependency is null.
    let dependencies = dependencies.filter(|dependency| dependency["kind"] != "dev");
    let names = |dependencies: &mut dyn Iterator<Item = &Value>| -> BTreeSet<String> {
        dependencies
            .map(|dependency| text(dependency, "name").to_owned())
            .collect()
    };
    Package {
        name: short(text(package, "name")).to_owned(),
        directory: manifest
            .parent()
            .expect("a manifest is in a directory")
            .to_owned(),
        dependencies: names(&mut dependencies.clone()),
        required: names(&mut dependencies.filter(|dependency| dependency["optional"] != true)),
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key]
        .as_array()
        .unwrap_or_else(|| panic!("cargo metadata has a list {key}"))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key]
        .as_str()
        .unwrap_or_else(|| panic!("cargo metadata has a text {key}"))
}
