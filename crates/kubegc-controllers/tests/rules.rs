//! Rule numbers in the source and the rules of `RULES.md` agree. Documentation comments link to the rules.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

const NOT_COVERED: &str = "Not covered";

#[test]
fn each_rule_in_the_source_is_documented_and_each_documented_rule_is_used_or_not_covered() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let rules = fs::read_to_string(root.join("RULES.md")).expect("RULES.md is in the crate");
    let sections = rules.split("\n### ").skip(1).map(|section| {
        let rule = section.split_whitespace().next().unwrap_or_default();
        (rule.to_owned(), section.contains(NOT_COVERED))
    });
    let sections: Vec<(String, bool)> = sections.collect();
    let documented: BTreeSet<&str> = sections.iter().map(|(rule, _)| rule.as_str()).collect();
    assert_eq!(documented.len(), sections.len(), "a rule has one section");

    let mut problems = Vec::new();
    let mut used = BTreeSet::new();
    let mut folders: Vec<PathBuf> = vec![root.join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the source can be read") {
            let path = entry.expect("the source can be read").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).expect("the source is text");
            for (at, line) in text.lines().enumerate() {
                let place = || format!("{}:{}", path.display(), at + 1);
                let comment = line.trim_start();
                let is_doc = comment.starts_with("///") || comment.starts_with("//!");
                for rule in numbers(line) {
                    if !documented.contains(rule) {
                        problems.push(format!("{}: RULES.md has no {rule}", place()));
                    }
                    let link = format!("[{rule}](crate::rules#{})", rule.to_lowercase().replace('.', "-"));
                    if is_doc && !line.contains(&link) {
                        problems.push(format!("{}: {rule} is no link", place()));
                    }
                    used.insert(rule.to_owned());
                }
            }
        }
    }
    for (rule, not_covered) in &sections {
        if used.contains(rule) == *not_covered {
            problems.push(format!(
                "{rule}: either the source names it or RULES.md says \"{NOT_COVERED}\""
            ));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The rule numbers in a line of source, such as `A-8`, `L1.12` and `CP-20`.
fn numbers(line: &str) -> impl Iterator<Item = &str> {
    line.split(|char: char| !(char.is_ascii_alphanumeric() || matches!(char, '-' | '.' | '_')))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| {
            let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
            word.split_once(['-', '.']).is_some_and(|(chapter, number)| {
                chapter.starts_with(|first: char| first.is_ascii_uppercase())
                    && (chapter == "CP" || is_number(&chapter[1..]))
                    && !number.is_empty()
                    && is_number(number)
            })
        })
}
