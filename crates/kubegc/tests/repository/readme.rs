//! The READMEs and the guide contain the output of the example and the supported versions.

use std::{fs, path::Path};

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_readme_shows_the_output_of_the_example() {
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
        "README.md runs the example with other arguments"
    );
}

#[test]
fn readmes_and_guide_name_the_versions_of_the_manifest() {
    let manifest = read("Cargo.toml");
    let version = |key: &str| {
        let line = manifest
            .lines()
            .find_map(|line| line.strip_prefix(key)?.split('"').nth(1));
        line.unwrap_or_else(|| panic!("the manifest has no {key}"))
    };
    let rust = format!("Rust {} or newer", version("rust-version = "));
    let kube = version("kube = ").trim_end_matches(".0");

    let guide = read("crates/kubegc/guide/support.md");
    assert!(guide.contains(&rust), "the guide has another version of Rust");
    assert!(
        guide.contains(&format!("with the feature `kube` | kube {kube} |")),
        "the guide has another version of kube"
    );
    assert!(
        read("README.md").contains(&rust),
        "README.md has another version of Rust"
    );
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for package in fs::read_dir(crates).expect("the directory of this crate is in it") {
        let directory = package.expect("it can be read").path();
        let manifest = fs::read_to_string(directory.join("Cargo.toml")).expect("each directory is a package");
        if !manifest.contains("publish = false") {
            let readme = fs::read_to_string(directory.join("README.md")).expect("each package has a README");
            assert!(
                readme.replace('\n', " ").contains(&rust),
                "{}: another version of Rust",
                directory.display()
            );
        }
    }
}
