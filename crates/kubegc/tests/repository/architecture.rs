//! Dependencies between the crates, forbidden dependencies of pure crates, lints, and lengths of files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// The crates that each crate may depend on, except in tests. Every crate must be listed.
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("kubegc-core", &[]),
    ("kubegc-objects", &["kubegc-core"]),
    ("kubegc-node", &["kubegc-core"]),
    ("kubegc-controllers", &["kubegc-core"]),
    ("kubegc-sim", &["kubegc-core"]),
    ("kubegc-documents", &["kubegc-core", "kubegc-controllers"]),
    (
        "kubegc-snapshot",
        &["kubegc-core", "kubegc-node", "kubegc-documents"],
    ),
    (
        "kubegc-control-plane",
        &[
            "kubegc-core",
            "kubegc-objects",
            "kubegc-controllers",
            "kubegc-sim",
            "kubegc-documents",
        ],
    ),
    (
        "kubegc-predict",
        &[
            "kubegc-core",
            "kubegc-objects",
            "kubegc-node",
            "kubegc-controllers",
            "kubegc-snapshot",
            "kubegc-sim",
            "kubegc-control-plane",
        ],
    ),
    (
        "kubegc-kube",
        &[
            "kubegc-core",
            "kubegc-objects",
            "kubegc-controllers",
            "kubegc-snapshot",
            "kubegc-tokio",
        ],
    ),
    ("kubegc-cri", &["kubegc-core", "kubegc-node", "kubegc-tokio"]),
    ("kubegc-tokio", &["kubegc-core"]),
    ("kubegc-fixtures", &[]),
    (
        "kubegc-testkit",
        &[
            "kubegc-core",
            "kubegc-objects",
            "kubegc-sim",
            "kubegc-control-plane",
        ],
    ),
    (
        "kubegc",
        &[
            "kubegc-core",
            "kubegc-objects",
            "kubegc-node",
            "kubegc-controllers",
            "kubegc-snapshot",
            "kubegc-sim",
            "kubegc-control-plane",
            "kubegc-predict",
        ],
    ),
    (
        "kubegc-conformance",
        &[
            "kubegc-core",
            "kubegc-objects",
            "kubegc-node",
            "kubegc-controllers",
            "kubegc-snapshot",
            "kubegc-control-plane",
            "kubegc-sim",
            "kubegc-predict",
            "kubegc-kube",
            "kubegc-cri",
            "kubegc-testkit",
        ],
    ),
];

/// Packages that no other package depends on: they may depend on everything.
const OUTERMOST: &[&str] = &["kubegc-benches", "kubegc-c-abi", "kubegc-examples"];

/// Packages with lints of their own: a C ABI needs unsafe code, which those of the workspace forbid.
const OWN_LINTS: &[&str] = &["kubegc-c-abi"];

/// Crates without I/O: no runtime, no network, no document formats.
const PURE: &[&str] = &[
    "kubegc-core",
    "kubegc-objects",
    "kubegc-node",
    "kubegc-controllers",
];

/// Packages that pure crates must not depend on. A name includes all packages that begin with it and a dash.
const NOT_PURE: &[&str] = &[
    "async-std",
    "axum",
    "chrono",
    "clap",
    "hyper",
    "k8s-openapi",
    "kube",
    "prost",
    "rand",
    "rand_core",
    "reqwest",
    "serde-saphyr",
    "serde_json",
    "serde_yaml",
    "smol",
    "time",
    "tokio",
    "tonic",
    "tower",
    "tracing",
    "yaml",
];

/// The maximum length of a source file in lines.
const LINES_MAX: usize = 800;

struct Package {
    name: String,
    directory: PathBuf,
    /// Names in normal and build dependencies.
    dependencies: BTreeSet<String>,
    /// Those that no feature has to enable.
    required: BTreeSet<String>,
}

#[test]
fn crates_depend_on_lower_crates_only() {
    let table: BTreeMap<&str, &[&str]> = MAY_DEPEND_ON.iter().copied().collect();
    let packages = packages();
    let members: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let mut problems = Vec::new();
    for package in packages
        .iter()
        .filter(|package| !OUTERMOST.contains(&package.name.as_str()))
    {
        let Some(may_depend_on) = table.get(package.name.as_str()) else {
            problems.push(format!("{} is not in the table of dependencies", package.name));
            continue;
        };
        let workspace_dependencies = package
            .dependencies
            .iter()
            .map(String::as_str)
            .filter(|name| members.contains(name));
        for name in workspace_dependencies.filter(|name| !may_depend_on.contains(name)) {
            problems.push(format!("{} must not depend on {name}", package.name));
        }
    }
    report("layers", &problems);
}

#[test]
fn pure_crates_have_no_runtime_network_or_document_formats() {
    let mut problems = Vec::new();
    for package in packages()
        .iter()
        .filter(|package| PURE.contains(&package.name.as_str()))
    {
        for name in &package.required {
            let is_in_family = |family: &&str| {
                let rest = name.strip_prefix(family);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            };
            if NOT_PURE.iter().any(is_in_family) {
                problems.push(format!("{} is pure and must not depend on {name}", package.name));
            }
        }
    }
    report("pure crates", &problems);
}

#[test]
fn every_package_has_the_lints_of_the_workspace() {
    let mut problems = Vec::new();
    let has_own = |package: &Package| OWN_LINTS.contains(&package.name.as_str());
    for package in packages().into_iter().filter(|package| !has_own(package)) {
        let manifest = read(&package.directory.join("Cargo.toml"));
        let mut lines = manifest
            .lines()
            .map(str::trim)
            .skip_while(|line| *line != "[lints]")
            .skip(1);
        if !lines
            .by_ref()
            .take_while(|line| !line.starts_with('['))
            .any(|line| line == "workspace = true")
        {
            problems.push(format!(
                "{}: its Cargo.toml lacks `[lints]` with `workspace = true`",
                package.name
            ));
        }
    }
    report("lints", &problems);
}

#[test]
fn no_source_file_is_too_long() {
    let mut problems = Vec::new();
    let mut directories: Vec<PathBuf> = entries(&root().join("crates"))
        .into_iter()
        .map(|path| path.join("src"))
        .collect();
    let mut files_seen = 0;
    while let Some(directory) = directories.pop() {
        for path in entries(&directory) {
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files_seen += 1;
                let text = read(&path);
                let lines = text.lines().count();
                if lines > LINES_MAX {
                    problems.push(format!(
                        "{}: {lines} lines, at most {LINES_MAX} are allowed",
                        path.display()
                    ));
                }
            }
        }
    }
    assert!(
        files_seen > 20,
        "only {files_seen} source files were found below crates/*/src"
    );
    report("source files", &problems);
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
        name: text(package, "name").to_owned(),
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

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The entries of a directory, sorted; none if it does not exist.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    paths.sort();
    paths
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn report(subject: &str, problems: &[String]) {
    assert!(problems.is_empty(), "{subject}:\n  {}", problems.join("\n  "));
}
