//! Keeps the README true: what it shows is what the example prints.

use std::{fs, path::Path};

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_readme_shows_what_the_example_prints() {
    let expected = read("examples/expected/predict.txt");
    let (arguments, output) = expected.split_once('\n').expect("a first line with arguments");
    let readme = read("README.md");
    assert!(
        readme.contains(&format!("```text\n{output}```")),
        "README.md does not show examples/expected/predict.txt"
    );
    let arguments = arguments.trim_start_matches("# args:").trim();
    assert!(
        readme.contains(&format!("--example predict -- {arguments}\n")),
        "README.md runs other arguments"
    );
}

#[test]
fn the_readme_names_the_versions_that_the_manifest_has() {
    let manifest = read("Cargo.toml");
    let rust = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \""))
        .expect("a rust-version");
    let rust = rust.trim_end_matches('"');
    assert!(read("README.md").contains(&format!("Rust {rust} or newer")));
}
