//! The READMEs and the guide contain the output of the example and the supported versions.

use crate::files::{crates, root};

fn read(path: &str) -> String {
    crate::files::read(root().join(path))
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
    for directory in crates() {
        let manifest = crate::files::read(directory.join("Cargo.toml"));
        if !manifest.contains("publish = false") {
            let readme = crate::files::read(directory.join("README.md"));
            assert!(
                readme.replace('\n', " ").contains(&rust),
                "{}: another version of Rust",
                directory.display()
            );
        }
    }
}
