//! Finds the objects in a stream of YAML by its lines, and hides the YAML parser.
//!
//! A stream is cut at `---` and `...`; a document whose top level has `items:` over a block sequence is cut
//! at its entries, as `kubectl get -o yaml` writes them, and so is a document that is a block sequence
//! itself. Lines at the left edge cannot belong to a nested text, so the cuts are safe; where a document
//! bends that, its parts fail to parse, and that is an error. Anchors do not reach from one entry to another.

use std::io::Read;

use kubegc_core::printable;
use serde::Deserialize;

use crate::{
    notices,
    window::{Window, WindowError},
};

/// The next piece of a document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// An entry of `items`: the first `length` bytes of the window, a sequence of one.
    Item { length: usize },
    /// A document without `items` over a block sequence: the first `length` bytes.
    Whole { length: usize },
    /// The end of a list; the lines outside of `items` are in [`Splitter::rest`].
    ListEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Items { indent: Option<usize> },
    Tail,
    End,
}

#[derive(Debug)]
pub(crate) struct Splitter {
    state: State,
    is_array: bool,
    rest: Vec<u8>,
    rest_line: u64,
    limit_bytes: usize,
}

/// Skips everything that may be between documents; returns whether a document follows.
pub(crate) fn next_document<R: Read>(window: &mut Window<R>) -> Result<bool, WindowError> {
    // Every iteration consumes a line, so the loop ends with the input.
    loop {
        let length = window.line_end(0)?;
        let line = &window.bytes()[..length];
        if line.is_empty() {
            return Ok(false);
        }
        if is_blank(line) || line.starts_with(b"%") {
            window.consume(length);
        } else if is_mark(line, b"---") || is_mark(line, b"...") {
            let rest_is_blank = is_blank(&line[3..]);
            window.consume(if rest_is_blank { length } else { 3 });
            if !rest_is_blank {
                return Ok(true);
            }
        } else {
            return Ok(true);
        }
    }
}

/// The end of the document that begins with the first line of the window.
pub(crate) fn document_end<R: Read>(window: &mut Window<R>) -> Result<usize, WindowError> {
    let mut at = window.line_end(0)?;
    loop {
        let end = window.line_end(at)?;
        let line = &window.bytes()[at..end];
        if line.is_empty() || is_boundary(line) {
            return Ok(at);
        }
        at = end;
    }
}

impl Splitter {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self {
            state: State::Head,
            is_array: false,
            rest: Vec::new(),
            rest_line: 1,
            limit_bytes,
        }
    }

    /// Whether the document is a sequence itself.
    pub(crate) fn is_array(&self) -> bool {
        self.is_array
    }

    /// The lines outside of `items`.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.rest
    }

    /// Line in the file of the first line of the rest: exact for the lines before the items.
    pub(crate) fn rest_line(&self) -> u64 {
        self.rest_line
    }

    /// The next piece. The caller consumes the bytes of an item or a whole document before the next call.
    pub(crate) fn next<R: Read>(&mut self, window: &mut Window<R>) -> Result<Option<Piece>, WindowError> {
        // Every iteration consumes bytes or changes the state forward, so the loop ends with the input.
        loop {
            match self.state {
                State::Head => {
                    if let Some(length) = self.head(window)? {
                        self.state = State::End;
                        return Ok((length > 0).then_some(Piece::Whole { length }));
                    }
                }
                State::Items { indent } => {
                    if let Some(length) = self.entry(window, indent)? {
                        return Ok(Some(Piece::Item { length }));
                    }
                }
                State::Tail => {
                    self.tail(window)?;
                    self.state = State::End;
                    return Ok(Some(Piece::ListEnd));
                }
                State::End => return Ok(None),
            }
        }
    }

    /// Searches for `items:`; the length of the document if there is none.
    fn head<R: Read>(&mut self, window: &mut Window<R>) -> Result<Option<usize>, WindowError> {
        let mut at = 0;
        let mut is_first = true;
        loop {
            let end = window.line_end(at)?;
            let line = &window.bytes()[at..end];
            if line.is_empty() || is_boundary(line) {
                return Ok(Some(at));
            }
            if is_first && is_dash(line, 0) {
                self.is_array = true;
                self.state = State::Items { indent: None };
                return Ok(None);
            }
            if line.strip_prefix(b"items:").is_some_and(is_blank) {
                self.rest_line = window.line();
                self.rest.extend_from_slice(&window.bytes()[..at]);
                window.consume(end);
                self.state = State::Items { indent: None };
                return Ok(None);
            }
            is_first &= is_blank(line);
            at = end;
        }
    }

    /// The length of the next entry; `None` if the sequence ends.
    fn entry<R: Read>(
        &mut self,
        window: &mut Window<R>,
        indent: Option<usize>,
    ) -> Result<Option<usize>, WindowError> {
        let mut at = 0;
        let mut end = window.line_end(at)?;
        while at < end && is_blank(&window.bytes()[at..end]) {
            at = end;
            end = window.line_end(at)?;
        }
        let first = &window.bytes()[at..end];
        let found = leading_spaces(first);
        if first.is_empty() || !is_dash(first, found) || indent.is_some_and(|indent| indent != found) {
            if indent.is_none() && !first.is_empty() && (found > 0 || is_dash(first, found)) {
                // `items` is not a sequence: the document is judged as a whole.
                self.rest.extend_from_slice(b"items:\n");
            }
            self.state = State::Tail;
            return Ok(None);
        }
        loop {
            at = end;
            end = window.line_end(at)?;
            let line = &window.bytes()[at..end];
            if line.is_empty() || is_boundary(line) || (!is_blank(line) && leading_spaces(line) <= found) {
                self.state = State::Items { indent: Some(found) };
                return Ok(Some(at));
            }
        }
    }

    fn tail<R: Read>(&mut self, window: &mut Window<R>) -> Result<(), WindowError> {
        loop {
            let end = window.line_end(0)?;
            let line = &window.bytes()[..end];
            if line.is_empty() || is_boundary(line) {
                return Ok(());
            }
            if self.rest.len() + line.len() > self.limit_bytes {
                return Err(window.full());
            }
            self.rest.extend_from_slice(line);
            window.consume(end);
        }
    }
}

/// Whether a line holds nothing, or a comment.
fn is_blank(line: &[u8]) -> bool {
    matches!(line.trim_ascii_start().first(), None | Some(b'#'))
}

fn is_mark(line: &[u8], mark: &[u8]) -> bool {
    line.strip_prefix(mark)
        .is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
}

/// Whether a line ends the document before it.
fn is_boundary(line: &[u8]) -> bool {
    is_mark(line, b"---") || is_mark(line, b"...") || notices::message(line).is_some()
}

fn leading_spaces(line: &[u8]) -> usize {
    line.iter().take_while(|&&byte| byte == b' ').count()
}

fn is_dash(line: &[u8], indent: usize) -> bool {
    line.get(indent) == Some(&b'-') && line.get(indent + 1).is_none_or(u8::is_ascii_whitespace)
}

/// The error of the parser, in lines and columns of the text that it was given.
#[derive(Debug)]
pub(crate) struct YamlError {
    pub(crate) line: u64,
    pub(crate) column: u64,
    pub(crate) said: String,
}

/// `Kind name` of the object in a text that cannot be parsed, by its lines.
pub(crate) fn name_in(text: &str) -> Option<Box<str>> {
    // An entry of a list begins with its dash.
    let text = text.replacen("- ", "  ", usize::from(text.trim_start().starts_with("- ")));
    let mut lines = text.lines().filter(|line| !is_blank(line.as_bytes())).peekable();
    let left = leading_spaces(lines.peek()?.as_bytes());
    let (mut kind, mut name, mut of_metadata) = (None, None, None);
    for line in lines {
        let indent = leading_spaces(line.as_bytes());
        let (key, value) = line.trim().split_once(':').unwrap_or_default();
        let value = value.trim().trim_matches(['"', '\'']);
        match key {
            _ if indent < left => return None,
            "metadata" if indent == left => of_metadata = Some(0),
            _ if indent == left => {
                of_metadata = None;
                kind = kind.or(Some(value).filter(|_| key == "kind"));
            }
            _ => {
                // The first field below `metadata` has the indentation of all.
                let fields = of_metadata.get_or_insert(usize::MAX);
                if *fields == 0 {
                    *fields = indent;
                }
                name = name.or(Some(value).filter(|_| key == "name" && *fields == indent));
            }
        }
    }
    let shown: String = format!("{} {}", kind?, name?)
        .chars()
        .take(LINE_CHARS_MAX)
        .collect();
    Some(printable(&shown).into())
}

/// Parses one document or entry.
///
/// The caller bounds its size. The budget bounds the expanded document: aliases, anchors, merge keys, depth.
pub(crate) fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, YamlError> {
    // Each event and node takes at least a byte of the text, but for those that aliases repeat, which have
    // their own limits.
    let events = text.len().saturating_mul(2).saturating_add(1_000);
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: events,
            max_nodes: events,
            max_total_scalar_bytes: text.len().saturating_mul(2).saturating_add(1 << 20),
            max_documents: 1,
            max_depth: DEPTH_MAX,
            max_aliases: ALIASES_MAX,
            max_anchors: ALIASES_MAX,
            max_recorded_anchor_events: 100_000,
            max_recorded_anchor_bytes: 1 << 20,
            max_merge_keys: 100,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
            max_replay_stack_depth: 8,
            max_alias_expansions_per_anchor: ALIASES_MAX,
        },
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let error = error.without_snippet();
        let (line, column) = error
            .location()
            .map_or((1, 1), |location| (location.line(), location.column()));
        let mut said = error.to_string();
        // The parser names an option of its own.
        if let Some(cut) = said.find(", set DuplicateKeyPolicy") {
            said.truncate(cut);
        }
        // So is the state of its budget.
        if said.contains("budget breached") {
            said = "too many aliases, anchors or nested collections for one object".to_owned();
        }
        // The splitter gives the parser one object at a time.
        if said.contains("unknown anchor") {
            let at = usize::try_from(line).unwrap_or_default().saturating_sub(1);
            let line = text.lines().nth(at).unwrap_or_default().trim();
            let shown: String = line.chars().take(LINE_CHARS_MAX).collect();
            said = format!(
                "`{}` names an anchor outside of this object; expand aliases before, for example with \
                 yq 'explode(.)'",
                printable(&shown)
            );
        }
        if let Some(cut) = said.rfind(" at line ") {
            said.truncate(cut);
        }
        YamlError { line, column, said }
    })
}

/// Characters of a line that an error shows.
const LINE_CHARS_MAX: usize = 100;
/// Collections within collections; schemas in definitions nest deepest.
const DEPTH_MAX: usize = 256;
/// Aliases and anchors in one object; `kubectl` writes none.
const ALIASES_MAX: usize = 1_000;
