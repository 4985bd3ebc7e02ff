//! Comments, documentation and printed texts use the words of Kubernetes, in plain sentences.

use crate::files::{files, is_in, read, report, root};

/// First words of module documentation that does not state what the module is or does.
const TEMPLATES: &[&str] = &[
    "Decides", "Lets", "Says", "What", "When", "Where", "Whether", "Which", "Who",
];

/// Phrases that are not allowed, with the words of Kubernetes to use instead.
const PHRASES: &[(&str, &str)] = &[
    ("brothers", "the other dependents"),
    ("for ever", "until ..., or: is never removed"),
    ("goes first", "is removed first"),
    ("is gone", "is removed, no longer exists"),
    ("are gone", "are removed, no longer exist"),
    ("hang on", "depend on"),
    ("hangs on", "depends on"),
    ("held up by", "waits for"),
    ("in hand", "in the queue, in progress"),
    ("in vain", "without a response, without effect"),
    ("lets stand", "keeps"),
    ("obody", "no controller, no client, no user"),
    ("omebody", "a client, a user, another controller"),
    ("passed over", "skipped, ignored"),
    ("passes over", "skips, ignores"),
    ("read away", "removed from the dump"),
    ("rests on", "depends on, is decided on"),
    ("stands beside", "is next to, runs with"),
    ("told apart", "distinguished"),
    ("is told", "is passed, receives, reports"),
    ("are told", "are passed, receive, report"),
    ("was told", "received, was reported"),
    ("untold", "unknown"),
    ("what goes", "the removed objects"),
    ("hoever", "the caller, the client, anyone who"),
];

/// Maximum width of a comment, as in `rustfmt.toml`.
const COLUMNS: usize = 110;

#[test]
fn module_documentation_is_plain() {
    let mut problems = Vec::new();
    let files = files(&["crates", "examples", "benches", "fuzz/fuzz_targets"], "rs");
    assert!(files.len() > 500, "{} source files", files.len());
    for path in files {
        let text = read(&path);
        if let Err(problem) = check_module_documentation(&text) {
            problems.push(format!("{}: {problem}", path.display()));
        }
    }
    report(&problems);
}

#[test]
fn comments_keep_to_the_width_and_texts_to_the_words() {
    let mut problems = Vec::new();
    let mut sources = files(&["crates", "examples", "benches"], "rs");
    sources.retain(|path| !is_in(path, "tests"));
    let texts = files(&["crates", "examples/expected"], "md").into_iter();
    let texts = texts.chain(files(&["examples/expected"], "txt"));
    for path in sources.into_iter().chain(texts).chain([root().join("README.md")]) {
        let is_source = path.extension().is_some_and(|extension| extension == "rs");
        let mut is_code = false;
        for (at, line) in read(&path).lines().enumerate() {
            let mut problem = |text: String| problems.push(format!("{}:{}: {text}", path.display(), at + 1));
            let is_comment = line.trim_start().starts_with("//");
            is_code = is_comment && (is_code ^ line.contains("```"));
            let may_be_long = is_code || line.contains("://") || line.contains('|');
            if is_source && is_comment && !may_be_long && line.chars().count() > COLUMNS {
                problem(format!("a comment of more than {COLUMNS} columns"));
            }
            for (phrase, plain) in PHRASES.iter().filter(|(phrase, _)| has_phrase(line, phrase)) {
                problem(format!("`{phrase}`; say: {plain}"));
            }
        }
    }
    report(&problems);
}

/// Whether a line contains a phrase that ends at the end of a word.
fn has_phrase(line: &str, phrase: &str) -> bool {
    let ends_word = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric());
    line.match_indices(phrase)
        .any(|(at, _)| ends_word(&line[at + phrase.len()..]))
}

/// Checks that a file begins with a module documentation whose first paragraph is a plain statement, or a
/// question that the file answers.
fn check_module_documentation(text: &str) -> Result<(), &'static str> {
    let paragraph = text.lines().map_while(|line| line.strip_prefix("//! "));
    let paragraph = paragraph.collect::<Vec<_>>().join(" ");
    let Some(first) = paragraph.split_whitespace().next() else {
        return Err("the first line must be `//! ` and a sentence about the module");
    };
    if paragraph.contains('?') {
        return Ok(());
    }
    if !paragraph.ends_with(['.', ':']) {
        return Err("the first paragraph of the module documentation is not a sentence");
    }
    if TEMPLATES.contains(&first) {
        return Err("the module documentation must state what the module is or does");
    }
    Ok(())
}
