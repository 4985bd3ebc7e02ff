//! Cases in text files: an input, `----`, and the output. `UPDATE_EXPECT=1` rewrites the outputs.
//!
//! Empty lines separate cases. Lines that begin with `#` are comments.

use std::{env, fs};

/// Compares the output for each input with that in the file. The path is relative to the directory of the
/// package.
///
/// # Panics
/// An output differs, or the file cannot be read.
pub fn check_transcript(path: &str, output: impl Fn(&str) -> String) {
    let expected = fs::read_to_string(path).expect("the file is in the repository");
    let found: Vec<String> = cases(&expected)
        .map(|(comments, input)| format!("{comments}{input}\n----\n{}\n", output(input)))
        .collect();
    let found = found.join("\n");
    if env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(path, found).expect("the file can be written");
        return;
    }
    for (found, expected) in found.split("\n\n").zip(expected.split("\n\n")) {
        assert_eq!(found, expected, "in {path}");
    }
    assert_eq!(found.len(), expected.len(), "{path}");
}

/// The comments and the input of each case.
fn cases(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split("\n\n").map(|case| {
        let (input, _) = case.split_once("\n----\n").expect("a case has an output");
        let comments = input
            .split_inclusive('\n')
            .take_while(|line| line.starts_with('#'));
        input.split_at(comments.map(str::len).sum())
    })
}
