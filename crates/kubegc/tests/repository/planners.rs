//! The planners from outside the workspace: `examples/planners` is built as an embedder's package, prints what
//! `expected.txt` shows, and each program is as short as promised.

use std::{collections::BTreeSet, fmt::Write as _, path::PathBuf, process::Command};

use crate::files::{read, root};

/// Each program with its maximum numbers of lines and of names.
const PROGRAMS: [(&str, usize, usize); 7] = [
    ("owner_graph", 15, 5),
    ("classify", 15, 5),
    ("orphan", 15, 5),
    ("delete", 15, 5),
    ("evict_units", 15, 5),
    ("free_space", 15, 5),
    ("collector", 60, 12),
];

fn directory() -> PathBuf {
    root().join("examples/planners")
}

/// The lines that are neither empty nor comments, and the names that it takes from kubegc.
fn measure(source: &str) -> (usize, BTreeSet<String>) {
    let lines = source.lines().map(str::trim);
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    let uses = source
        .split(';')
        .filter_map(|item| item.split_once("use kubegc_"));
    let words = uses.flat_map(|(_, path)| path.split(|c: char| !c.is_alphanumeric() && c != '_'));
    let is_module = |word: &str| {
        matches!(
            word,
            "core" | "objects" | "node" | "node_facts" | "container" | "image"
        )
    };
    let names = words.filter(|word| !word.is_empty() && !is_module(word));
    (code.count(), names.map(str::to_owned).collect())
}

#[test]
#[expect(clippy::print_stdout, reason = "the table is for people")]
fn a_planner_is_used_in_a_few_lines() {
    let mut table = String::new();
    for (program, lines_max, names_max) in PROGRAMS {
        let path = directory().join(format!("src/bin/{program}.rs"));
        let (lines, names) = measure(&read(path));
        let list: Vec<&str> = names.iter().map(String::as_str).collect();
        writeln!(
            table,
            "{program}: {lines} lines, {} names: {}",
            names.len(),
            list.join(", ")
        )
        .expect("a string takes all");
        assert!(lines <= lines_max && names.len() <= names_max, "{table}");
    }
    println!("{table}");
}

#[test]
fn the_planners_work_outside_of_the_workspace() {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("planners");
    let cargo = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO"))
            .args(arguments)
            .args(["--quiet", "--locked", "--manifest-path"])
            .arg(directory().join("Cargo.toml"))
            .env("CARGO_TARGET_DIR", &target)
            .output()
            .expect("cargo runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text")
    };
    cargo(&["build", "--bins"]);
    let mut printed = String::new();
    for (program, ..) in PROGRAMS {
        let output = cargo(&["run", "--bin", program]);
        write!(printed, "$ {program}\n{output}\n").expect("a string takes all");
    }
    expect_test::expect_file![directory().join("expected.txt")].assert_eq(&printed);
}
