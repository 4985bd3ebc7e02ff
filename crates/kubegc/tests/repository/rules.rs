//! The rule numbers in the source of a crate and the rules of its `RULES.md` agree. Documentation comments
//! link to the rules.

use std::collections::BTreeSet;

use crate::files::{files, read, report, root};

const NOT_COVERED: &str = "Not covered";

#[test]
fn the_source_and_rules_md_name_the_same_rules() {
    for package in ["kubegc-controllers", "kubegc-node", "kubegc-objects"] {
        check(package);
    }
}

fn check(package: &str) {
    let rules = read(root().join(format!("crates/{package}/RULES.md")));
    let sections = rules.split("\n### ").skip(1).map(|section| {
        let rule = section.split_whitespace().next().unwrap_or_default();
        (rule.to_owned(), section.contains(NOT_COVERED))
    });
    let sections: Vec<(String, bool)> = sections.collect();
    let documented: BTreeSet<&str> = sections.iter().map(|(rule, _)| rule.as_str()).collect();
    assert!(!sections.is_empty(), "{package}: no rules");
    assert_eq!(documented.len(), sections.len(), "a rule has one section");
    let covered = sections.iter().filter(|(_, not_covered)| !not_covered);
    let covered: BTreeSet<&str> = covered.map(|(rule, _)| rule.as_str()).collect();

    let mut problems = Vec::new();
    let mut used = BTreeSet::new();
    let source = format!("crates/{package}/src");
    for path in files(&[&source], "rs").into_iter().chain(files(&[&source], "md")) {
        let text = read(&path);
        for (at, line) in text.lines().enumerate() {
            let comment = line.trim_start();
            let is_doc = comment.starts_with("///") || comment.starts_with("//!");
            for rule in numbers(line) {
                let link = format!("[{rule}](crate::rules#{})", rule.to_lowercase().replace('.', "-"));
                if is_doc && !line.contains(&link) {
                    problems.push(format!("{}:{}: {rule} is not a link", path.display(), at + 1));
                }
            }
        }
        for rule in named(&text, &covered) {
            if !documented.contains(rule) {
                problems.push(format!("{}: RULES.md has no {rule}", path.display()));
            }
            used.insert(rule.to_owned());
        }
    }
    for (rule, not_covered) in &sections {
        if used.contains(rule) == *not_covered {
            problems.push(format!(
                "{rule}: either the source names it or RULES.md says \"{NOT_COVERED}\""
            ));
        }
    }
    report(&problems);
}

/// The rules that a text names, with the covered ones of ranges such as `A-8 to A-10`.
fn named<'a>(text: &'a str, covered: &BTreeSet<&'a str>) -> Vec<&'a str> {
    let mut named = Vec::new();
    let (mut last, mut is_range) = (None, false);
    for word in text
        .split_whitespace()
        .filter(|word| !matches!(*word, "//" | "///" | "//!"))
    {
        let Some(rule) = numbers(word).next() else {
            is_range = word == "to" && last.is_some();
            last = last.filter(|_| is_range);
            continue;
        };
        if let (Some(first), true) = (last, is_range) {
            let (chapter, range) = (parts(first).0, parts(first).1..parts(rule).1);
            named.extend(covered.iter().filter(|other| {
                let (of, number) = parts(other);
                of == chapter && range.contains(&number)
            }));
        }
        named.push(rule);
        (last, is_range) = (Some(rule), false);
    }
    named
}

/// The chapter and the number of a rule.
fn parts(rule: &str) -> (&str, u32) {
    let (chapter, number) = rule.split_once(['-', '.']).unwrap_or((rule, ""));
    (chapter, number.parse().unwrap_or(0))
}

/// The rule numbers in a text, such as `A-8`, `L1.12` and `CP-20`.
fn numbers(text: &str) -> impl Iterator<Item = &str> {
    text.split(|char: char| !(char.is_ascii_alphanumeric() || matches!(char, '-' | '.' | '_')))
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
