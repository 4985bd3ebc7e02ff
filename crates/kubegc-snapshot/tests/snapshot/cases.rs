//! Transcripts of dumps: the files in this directory have documents, and the objects and findings in them.
//!
//! Each line of an input is an option of the reader, or a document after `>`. All kinds are declared
//! complete; an output names those of a few that are incomplete nevertheless.

use kubegc_fixtures::check_transcript;
use kubegc_snapshot::Problem;

use crate::{
    common::{findings, reader, render},
    escapes::unescaped,
};

/// The objects, the detected version, the incomplete kinds and the findings.
fn output(input: &str) -> String {
    let (mut reader, mut detecting) = (reader().complete("all"), reader().detect_version(true));
    for line in input.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "lenient" => (reader, detecting) = (reader.lenient(true), detecting.lenient(true)),
            ">" => {
                let text = unescaped(rest);
                let read = reader.read("f", &*text);
                assert_eq!(detecting.read("f", &*text).is_ok(), read.is_ok());
                if let Err(error) = read {
                    return error.full_text().replace('\n', "\\n");
                }
            }
            word => panic!("{word}: no option and no document"),
        }
    }
    let snapshot = reader.finish().expect("nothing was refused");
    let mut lines: Vec<String> = render(&snapshot).lines().map(str::to_owned).collect();
    let detected = snapshot.detected_version();
    let used = detecting.finish().expect("nothing was refused").version();
    match detected {
        None => assert_eq!(used, snapshot.version(), "the version of the reader"),
        Some(detected) => {
            let (major, minor, patch) = (1, used.minor(), used.patch());
            lines.push(format!(
                "{:?} {}: {major}.{minor}.{patch}",
                detected.source, detected.text
            ));
            assert_eq!(used, detected.version);
        }
    }
    let is_incomplete = |kind: &&&str| !snapshot.completeness.of("", kind).is_complete();
    let incomplete: Vec<&str> = ["Pod", "ConfigMap", "Node"]
        .iter()
        .filter(is_incomplete)
        .copied()
        .collect();
    if !incomplete.is_empty() {
        lines.push(format!("incomplete: {}", incomplete.join(", ")));
    }
    lines.extend(findings(&snapshot));
    if lines.is_empty() {
        lines.push("nothing".to_owned());
    }
    lines.join("\n")
}

#[test]
fn objects_and_findings() {
    check_transcript("tests/snapshot/findings.txt", output);
}

/// A lenient reader makes every kind incomplete, unless the document is certainly not an object.
#[test]
fn documents_that_cannot_be_read_are_refused() {
    check_transcript("tests/snapshot/refused.txt", |input| {
        let text = unescaped(input.trim_start_matches('>').trim_start_matches(' '));
        let mut lenient = reader().lenient(true).complete("all");
        lenient.read("f", &*text).expect("a finding instead");
        let snapshot = lenient.finish().expect(input);
        assert!(snapshot.is_empty(), "{input}");
        if !snapshot.finding_counts.contains_key(&Problem::NotAnObject) {
            assert_eq!(snapshot.finding_counts[&Problem::Unread], 1, "{input}");
            let mut coverages = snapshot.completeness.iter();
            assert!(coverages.all(|(_, coverage)| !coverage.is_complete()), "{input}");
        }
        output(input)
    });
}

#[test]
fn tables_and_lists_of_api_resources_that_cannot_be_read_are_refused() {
    check_transcript("tests/snapshot/api_resources.txt", |input| {
        let text = unescaped(input.trim_start_matches('>').trim_start_matches(' '));
        let text = String::from_utf8(text).expect("text");
        let listed = reader().api_resources(&text).map(|_| ());
        listed.expect_err(input).to_string()
    });
}
