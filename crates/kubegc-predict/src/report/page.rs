//! A forecast as a DOT graph, and as an HTML page: the counts, the owner graph as SVG coloured by fate, what
//! is terminating, notes and assumptions.
//!
//! The page loads nothing and runs no script. All names in it are escaped.

use std::{borrow::Cow, collections::BTreeMap};

use kubegc_core::{Uid, printable};

use super::rows::{DEPTH_MAX, Relation, Row, assumptions, counts, fate_rows, notes, rows};
use crate::{
    Fate, Forecast,
    judge::detail,
    words::{Lines, line_text, moment, names_of_kind, number},
};

/// Maximum number of rows of the graph; the objects of the others are counted.
const ROWS_MAX: usize = 1_000;
/// Maximum number of names in a row; the others are counted.
const NAMES_MAX: usize = 3;
/// Maximum number of names in the title of a row, which only a row that is cut has.
const TITLE_NAMES_MAX: usize = 100;
/// Maximum length of the text of a row, in characters.
const ROW_TEXT_MAX: usize = 160;

const ROW_HEIGHT: usize = 26;
/// Length of the side of a row's box.
const BOX: usize = 18;
const INDENT: usize = 28;
const WIDTH: usize = 1_600;

const STYLE: &str = "\
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 100em; padding: 0 1em; color-scheme: light dark; }
h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin-top: 1.6em; }
.counts span { display: inline-block; padding: .1em .7em; margin-right: .5em; border-radius: 1em; }
.deleted { background: #f4b6b6; fill: #f4b6b6; } .terminating { background: #f7dca0; fill: #f7dca0; }
.undetermined { background: #dddddd; fill: #dddddd; } .released { background: #cfe0f4; fill: #cfe0f4; }
.kept { background: #cfe8cf; fill: #cfe8cf; } .counts span { color: #222; }
svg { width: 100%; height: auto; min-width: 60em; } .graph { overflow-x: auto; }
svg text { font: 13px system-ui, sans-serif; fill: CanvasText; } svg .detail { fill: GrayText; }
svg path { fill: none; stroke: GrayText; } svg .reference { stroke-dasharray: 5 3; } svg .namespace { stroke-dasharray: 1 3; }
";

impl Forecast {
    /// Writes the forecast as one HTML page, with a graph of the affected objects: dependents are below their
    /// owners, the content of a namespace is below it, and equal siblings share a row.
    ///
    /// The page needs no other file, no network and no script. Names are escaped. The graph has 1,000 rows at
    /// most.
    ///
    /// # Complexity
    /// O(n log n) for n fates.
    pub fn to_html(&self) -> String {
        let title = self.title();
        let (began, until) = (moment(self.began), moment(self.until()));
        let policy = "default-src 'none'; style-src 'unsafe-inline'";
        let mut out = Lines::default();
        out.plain(format_args!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <h1>{title}</h1>\n<p>{began} UTC to {until} UTC</p>\n<p class=\"counts\">"
        ));
        let mut rows = fate_rows(self);
        rows.retain(|row| !row.is_anyway);
        for (word, count) in counts(&rows) {
            out.plain(format_args!("<span class=\"{word}\">{count} {word}</span>"));
        }
        out.plain("</p>");
        self.write_graph(&mut out);
        // Terminating objects with what they wait for, and undetermined ones with what is missing.
        for (title, word) in [("Terminating", "terminating"), ("Undetermined", "undetermined")] {
            let shown = rows.iter().filter(|row| row.word == word && !row.text.is_empty());
            let texts = shown.map(|row| format!("{}: {}", row.name.full(), row.text));
            list(&mut out, title, &texts.take(ROWS_MAX).collect::<Vec<_>>());
        }
        list(&mut out, "Notes", &notes(self, TITLE_NAMES_MAX));
        list(&mut out, "Assumed", &assumptions(self));
        out.plain("</body>\n</html>");
        out.0
    }

    fn title(&self) -> String {
        let title = match &*self.targets {
            [] => "What happens without a request".to_owned(),
            [one] => format!("Deletion of {}", one.short()),
            [first, others @ ..] => {
                let count = others.len() + 1;
                format!("Deletion of {count} objects, {} first", first.short())
            }
        };
        escaped(&title)
    }

    fn write_graph(&self, out: &mut Lines) {
        let (rows, hidden) = rows(self, ROWS_MAX, true);
        if rows.is_empty() {
            return out.plain("<p>Nothing changes.</p>");
        }
        let height = rows.len() * ROW_HEIGHT + ROW_HEIGHT / 2;
        out.plain(format_args!(
            "<div class=\"graph\">\n\
             <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Owners and dependents\">"
        ));
        // Start of the line to the next row below each row.
        let mut line_starts: Vec<usize> = (0..rows.len()).collect();
        for (at, row) in rows.iter().enumerate() {
            if let Some((above, relation)) = row.parent {
                let from = std::mem::replace(&mut line_starts[above], at);
                write_line(out, &rows, (above, relation), from, at);
            }
            write_row(out, at, row);
        }
        out.plain("</svg>\n</div>");
        if hidden > 0 {
            out.plain(format_args!(
                "<p>{} not shown.</p>",
                number(hidden, "more object")
            ));
        }
        out.plain(
            "<p>Lines: owner references with blockOwnerDeletion solid, others dashed; content of a namespace dotted.</p>",
        );
    }
}

/// Writes the line from a row to one below it. It begins at the line of the row before that, at `from`.
fn write_line(
    out: &mut Lines,
    rows: &[Row<'_>],
    (above, relation): (usize, Relation),
    from: usize,
    to: usize,
) {
    let (above_x, above_y) = corner(above, &rows[above]);
    let (x, y) = corner(to, &rows[to]);
    let line_x = above_x + BOX / 2;
    let from_y = match from == above {
        true => above_y + BOX,
        false => corner(from, &rows[from]).1 + BOX / 2,
    };
    let class = match relation {
        Relation::BlockingReference => "blocking",
        Relation::Reference => "reference",
        Relation::Namespace => "namespace",
    };
    let (to_y, to_x) = (y + BOX / 2, x.max(line_x));
    out.plain(format_args!(
        "<path class=\"{class}\" d=\"M{line_x} {from_y} V{to_y} H{to_x}\"/>"
    ));
}

fn write_row(out: &mut Lines, at: usize, row: &Row<'_>) {
    let Some(first) = row.objects.first() else {
        return;
    };
    let (x, y) = corner(at, row);
    let names = row.names();
    let word = first.fate.word();
    let detail = detail(&first.fate, &first.object);
    let detail = match &first.fate {
        Fate::Released { .. } => detail,
        _ if detail.is_empty() => word.to_owned(),
        _ => format!("{word}, {detail}"),
    };
    out.plain("<g>");
    let shown_names = names_of_kind(&names, NAMES_MAX);
    let (shown_names, shown_detail) = (cut(&shown_names), cut(&detail));
    let is_cut = |text: &Cow<'_, str>| matches!(text, Cow::Owned(_));
    if names.len() > NAMES_MAX || is_cut(&shown_names) || is_cut(&shown_detail) {
        let title = format!("{}: {detail}", names_of_kind(&names, TITLE_NAMES_MAX));
        out.plain(format_args!("<title>{}</title>", escaped(&title)));
    }
    out.plain(format_args!(
        "<rect class=\"{word}\" x=\"{x}\" y=\"{y}\" width=\"{BOX}\" height=\"{BOX}\" rx=\"4\"/>"
    ));
    let (x, y) = (x + 26, y + 14);
    let (names, detail) = (escaped(&shown_names), escaped(&shown_detail));
    out.plain(format_args!(
        "<text x=\"{x}\" y=\"{y}\">{names} <tspan class=\"detail\">{detail}</tspan></text>\n</g>"
    ));
}

/// The upper left corner of a row's box.
fn corner(at: usize, row: &Row<'_>) -> (usize, usize) {
    let x = 4 + row.depth.min(DEPTH_MAX) * INDENT;
    (x, at * ROW_HEIGHT + ROW_HEIGHT / 4)
}

fn list(out: &mut Lines, title: &str, texts: &[String]) {
    if !texts.is_empty() {
        let items = texts.iter().map(|text| format!("<li>{}</li>\n", escaped(text)));
        out.plain(format_args!(
            "<h2>{title}</h2>\n<ul>\n{}</ul>",
            items.collect::<String>()
        ));
    }
}

fn cut(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(ROW_TEXT_MAX) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
    }
}

/// A text for HTML, with control characters as escapes.
fn escaped(text: &str) -> String {
    let escapes = [
        ("&", "&amp;"),
        ("<", "&lt;"),
        (">", "&gt;"),
        ("\"", "&quot;"),
        ("'", "&#39;"),
    ];
    let text = printable(text).into_owned();
    escapes
        .iter()
        .fold(text, |text, (character, escape)| text.replace(character, escape))
}

impl Forecast {
    /// The affected objects and their references, coloured by fate.
    ///
    /// # Complexity
    /// O(o log o + r) for o objects with r references.
    pub fn to_dot(&self) -> String {
        let mut out = String::from("digraph forecast {\n  rankdir=BT;\n  node [shape=box, style=filled];\n");
        let uids = self.fates.iter().map(|fate| &fate.object.uid);
        let numbers: BTreeMap<&Uid, usize> = uids.zip(0..).collect();
        for (at, fate) in self.fates.iter().enumerate() {
            let label = format!("{}\\n{}", label(&fate.object.short()), fate.fate.word());
            let colour = colour(&fate.fate);
            out.push_str(&format!("  n{at} [label=\"{label}\", fillcolor=\"{colour}\"];\n"));
        }
        for (at, fate) in self.fates.iter().enumerate() {
            for reference in fate.before().owner_references() {
                let Some(owner) = numbers.get(&reference.uid) else {
                    continue;
                };
                let style = match reference.is_blocking() {
                    true => "solid",
                    false => "dashed",
                };
                out.push_str(&format!("  n{at} -> n{owner} [style={style}];\n"));
            }
        }
        out.push_str("}\n");
        out
    }
}

const fn colour(fate: &Fate) -> &'static str {
    match fate {
        Fate::Deleted { .. } => "#f4b6b6",
        Fate::Kept => "#cfe8cf",
        Fate::Released { .. } => "#cfe0f4",
        Fate::Terminating { .. } => "#f7dca0",
        Fate::Undetermined { .. } => "#dddddd",
    }
}

fn label(text: &str) -> String {
    line_text(text).replace('\\', "\\\\").replace('"', "\\\"")
}
