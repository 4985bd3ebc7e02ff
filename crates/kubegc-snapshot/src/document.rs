//! Reads one stream: distinguishes JSON from YAML, splits it into documents, and forwards their objects.

mod objects;

use std::{io::Read, mem, str};

use kubegc_core::json::{DUPLICATE, duplicate_fields};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    Finding, Problem, SnapshotError, block,
    completeness::Why,
    ingest::{Ingest, Source},
    internal,
    item::Item,
    json,
    notices::{self, Notice},
    sniff, tree,
    window::{Window, WindowError},
    yaml,
};

/// The options for reading a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) lenient: bool,
    pub(crate) object_bytes_max: usize,
}

/// Reads a stream into the ingest. `source.place` ends at the document that was read last.
pub(crate) fn read<R: Read>(
    input: R,
    source: &mut Source,
    settings: Settings,
    ingest: &mut Ingest,
) -> Result<(), SnapshotError> {
    let mut window = Window::new(input, settings.object_bytes_max);
    let mut reading = Reading {
        settings,
        ingest,
        source,
        in_array: false,
        objects: 0,
    };
    let beginning = window
        .at_least(sniff::BYTES)
        .map_err(|error| reading.window_error(error))?;
    sniff::refuse(beginning, &reading.source.place)?;
    if beginning.starts_with(b"\xef\xbb\xbf") {
        window.consume(3);
    }
    let mut documents = 0;
    let mut last_was_json = false;
    let mut has_notices = false;
    // Every iteration consumes at least one byte, so the loop ends with the input.
    loop {
        reading.source.place = reading.source.place.document(documents + 1);
        let at = json::skip_space(&mut window, 0).map_err(|error| reading.window_error(error))?;
        let mut first = window.byte(at).map_err(|error| reading.window_error(error))?;
        let skipped = match first {
            Some(b'{' | b'[') => at,
            // YAML needs the spaces before the first word of a line.
            _ => window.bytes()[..at]
                .iter()
                .rposition(|&byte| byte == b'\n')
                .map_or(0, |last| last + 1),
        };
        window.consume(skipped);
        if !matches!(first, Some(b'{' | b'[')) {
            if let Some(notice) = notices::next(&mut window).map_err(|error| reading.window_error(error))? {
                has_notices = true;
                reading.notice(notice, documents, window.line())?;
                continue;
            }
            if last_was_json && first.is_some_and(|byte| byte != b'-') {
                let (place, position) = (reading.source.place.clone(), window.position(at - skipped));
                let words = "expected `{` or the end of the input";
                return Err(SnapshotError::syntax(place, None, position, "JSON", words));
            }
            if !yaml::next_document(&mut window).map_err(|error| reading.window_error(error))? {
                break;
            }
            let at = json::skip_space(&mut window, 0).map_err(|error| reading.window_error(error))?;
            first = window.byte(at).map_err(|error| reading.window_error(error))?;
            if matches!(first, Some(b'{' | b'[')) {
                window.consume(at);
            }
        }
        documents += 1;
        last_was_json = matches!(first, Some(b'{' | b'['));
        if last_was_json {
            reading.json(&mut window, 0)?;
        } else {
            reading.yaml(&mut window)?;
        }
    }
    source.place = source.place.document(0);
    let problem = match (documents, has_notices) {
        (0, true) => "holds no document, only logs or messages of kubectl",
        (0, false) => "holds no document",
        _ => return Ok(()),
    };
    Err(SnapshotError::nothing(&source.place.file, problem))
}

struct Reading<'i> {
    settings: Settings,
    ingest: &'i mut Ingest,
    source: &'i mut Source,
    /// Whether the items being read are those of a bare array.
    in_array: bool,
    /// Maps so far that have something of an object.
    objects: u64,
}

/// A document in the making, common to both formats.
#[derive(Default)]
struct Shape {
    /// Records before it.
    mark: usize,
    /// Objects before it.
    objects: u64,
    items: u32,
    is_array: bool,
    /// Whether its text cannot end early without an error: that of JSON.
    is_whole: bool,
    /// The kind of the items of an internal list.
    internal: Option<(&'static str, &'static str)>,
}

impl Reading<'_> {
    /// Output of kubectl after this document. An error of kubectl means that the dump is incomplete.
    fn notice(&mut self, notice: Notice, document: u32, line: u64) -> Result<(), SnapshotError> {
        let place = self.source.place.document(document);
        match notice {
            Notice::Logs => {}
            Notice::CutLogs => {
                let place = self.source.place.clone();
                return Err(SnapshotError::Truncated { place, line });
            }
            Notice::Message { text, is_error: true } => {
                let why = Why::KubectlError(place.clone());
                self.ingest
                    .revoke_all(why, Problem::KubectlError, &place, "", &text);
            }
            Notice::Message { text, .. } => {
                let problem = Problem::KubectlMessage;
                let finding = || Finding::new(problem, Some(place), &text);
                self.ingest.findings.add(problem, finding);
            }
        }
        Ok(())
    }

    fn shape(&self) -> Shape {
        Shape {
            mark: self.ingest.store.records.len(),
            objects: self.objects,
            ..Shape::default()
        }
    }

    fn json<R: Read>(&mut self, window: &mut Window<R>, depth: u8) -> Result<(), SnapshotError> {
        let mut splitter = json::Splitter::new(self.settings.object_bytes_max);
        let mut shape = self.shape();
        shape.is_array = window.bytes().first() == Some(&b'[');
        shape.is_whole = true;
        self.in_array = shape.is_array;
        self.source.list = None;
        let mut last_length = 0;
        loop {
            let piece = splitter.next(window);
            self.source.place.item = splitter.is_list().then_some(shape.items);
            match piece.map_err(|error| self.split_error(error, window))? {
                Some(json::Piece::Item) => {
                    if shape.items == 0 && !shape.is_array {
                        self.source.list = objects::head_of(splitter.rest());
                        if splitter.is_internal() {
                            shape.internal = internal::kind_of(splitter.rest(), &self.source.place.file);
                        }
                    }
                    // An item that is not all there is read twice: likely if the last one was much longer.
                    let read = match shape.internal {
                        None if window.bytes().len() >= last_length / 2 => self.first_object(window)?,
                        _ => None,
                    };
                    let length = match read {
                        Some(length) => length,
                        None => {
                            json::value_end(window, 0).map_err(|error| self.split_error(error, window))?
                        }
                    };
                    if let Some((api_version, kind)) = shape.internal {
                        let type_id = self.ingest.store.type_id(api_version, kind);
                        let text = self.text(window, length)?;
                        internal::object(self.ingest, text, type_id, self.source)?;
                    } else if read.is_none() {
                        self.json_object(window, length, depth)?;
                    }
                    window.consume(length);
                    last_length = length;
                    shape.items += 1;
                }
                Some(json::Piece::Whole { length }) => {
                    self.json_object(window, length, depth)?;
                    window.consume(length);
                }
                Some(json::Piece::ListEnd) => {
                    let rest = if shape.is_array { b"{}" } else { splitter.rest() };
                    let text = str::from_utf8(rest).map_err(|_| self.source.not_utf8(window.line()))?;
                    let value: Value = serde_json::from_str(text).map_err(|error| {
                        let words = format!("outside `items`: {}", json_words(&error));
                        let (place, position) = (self.source.place.clone(), window.position(0));
                        SnapshotError::syntax(place, None, position, "JSON", words)
                    })?;
                    if shape.items == 0 && splitter.is_internal() {
                        shape.internal = internal::kind_of(rest, &self.source.place.file);
                    }
                    self.duplicates(text, None);
                    self.list_end(&value, &shape)?;
                }
                None => return Ok(()),
            }
        }
    }

    /// Reports the keys that an object of JSON has twice.
    fn duplicates(&mut self, text: &str, object: Option<&Item<'_>>) {
        let name = object.and_then(Item::name);
        for field in duplicate_fields(&mut serde_json::Deserializer::from_str(text)) {
            let problem = Problem::DuplicateKey;
            let detail = "occurs several times; the last one is kept";
            self.ingest.findings.add(problem, || Finding {
                object: name.clone(),
                field: field.into(),
                ..Finding::new(problem, Some(self.source.place.clone()), detail)
            });
        }
    }

    /// The kind that an object without one has: that of the source, or that of the list.
    fn hint(&self) -> Option<(&str, &str)> {
        let taken = self.source.hint.map(|hint| self.ingest.store.type_texts(hint));
        let of_list = self.source.list.as_ref();
        let taken = taken.or(of_list.map(|(api_version, kind)| (api_version, kind)));
        taken.map(|(api_version, kind)| (&**api_version, &**kind))
    }

    /// One object of a list, at the beginning of the window: most are read without a search for their end.
    /// Returns its length; `None` if nothing was read.
    fn first_object<R: Read>(&mut self, window: &Window<R>) -> Result<Option<usize>, SnapshotError> {
        match json::first_object(window.bytes(), self.hint()) {
            Some((object, text)) if !object.is_list_kind() => {
                self.object(&object, text)?;
                Ok(Some(text.len()))
            }
            _ => Ok(None),
        }
    }

    /// One object of a JSON text, alone or in a list.
    fn json_object<R: Read>(
        &mut self,
        window: &Window<R>,
        length: usize,
        depth: u8,
    ) -> Result<(), SnapshotError> {
        let text = self.text(window, length)?;
        let (object, parsed) = json::whole_object(text, self.hint());
        if parsed.is_ok() && !object.is_list_kind() {
            return self.object(&object, text);
        }
        let value: Value = serde_json::from_str(text).map_err(|error| {
            let (line, column) = (error.line() as u64, error.column() as u64);
            let (first_line, first_column) = window.position(0);
            let column = match line {
                0 | 1 => first_column + column.saturating_sub(1),
                _ => column,
            };
            let position = (first_line + line.saturating_sub(1), column);
            let (place, name) = (self.source.place.clone(), object.short_name());
            SnapshotError::syntax(place, name, position, "JSON", json_words(&error))
        })?;
        if parsed.is_err_and(|error| error.to_string().starts_with(DUPLICATE)) {
            self.duplicates(text, tree::item(&value).as_ref());
        }
        if self.source.place.item.is_some() && object.is_list_kind() && depth == 0 {
            // A list in a list is streamed like a document of its own.
            let mut inner = Window::new(text.as_bytes(), self.settings.object_bytes_max);
            return self.nested(|reading| reading.json(&mut inner, depth + 1));
        }
        self.value(&value, text)
    }

    /// Reads a list within a list.
    fn nested(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<(), SnapshotError>,
    ) -> Result<(), SnapshotError> {
        let (outer, in_array) = (self.source.clone(), self.in_array);
        let pending = mem::take(&mut self.ingest.pending);
        let read = read(self);
        (*self.source, self.in_array) = (outer, in_array);
        // Items of a list that failed wait with the others: the end of the text reports them.
        let failed = mem::replace(&mut self.ingest.pending, pending);
        self.ingest.pending.extend(failed);
        read
    }

    fn yaml<R: Read>(&mut self, window: &mut Window<R>) -> Result<(), SnapshotError> {
        let mut splitter = yaml::Splitter::new(self.settings.object_bytes_max);
        let mut shape = self.shape();
        // Entries that may be objects.
        let mut maps = 0_u32;
        self.in_array = false;
        self.source.list = None;
        let mut json_text = String::new();
        // The fields before the items of a list do not show how the text ends.
        let mut item_is_cut = false;
        loop {
            self.source.place.item = Some(shape.items);
            let piece = splitter.next(window);
            match piece.map_err(|error| self.window_error(error))? {
                Some(yaml::Piece::Item { length }) => {
                    self.in_array = splitter.is_array();
                    let text = self.text(window, length)?;
                    match parse_object::<[Item<'_>; 1]>(text, &mut json_text) {
                        Ok([item]) if !item.is_list_kind() => {
                            maps += 1;
                            self.object(&item, text)?;
                        }
                        _ => {
                            let value: Vec<Value> = yaml::parse(text)
                                .map_err(|error| self.yaml_error(error, text, window.line()))?;
                            let only = value.first().unwrap_or(&Value::Null);
                            maps += u32::from(only.is_object());
                            self.value(only, text)?;
                        }
                    }
                    item_is_cut = !text.ends_with('\n');
                    window.consume(length);
                    shape.items += 1;
                }
                Some(yaml::Piece::Whole { length }) => {
                    self.source.place.item = None;
                    let text = self.text(window, length)?;
                    match parse_object::<Item<'_>>(text, &mut json_text) {
                        Ok(item) if !item.is_list_kind() => self.object(&item, text)?,
                        _ => {
                            let value: Value = yaml::parse(text).or_else(|error| {
                                if text.contains("{{") {
                                    sniff::refuse_template(&self.source.place)?;
                                }
                                Err(self.yaml_error(error, text, window.line()))
                            })?;
                            sniff::refuse_text(text, &self.source.place)?;
                            self.value(&value, text)?;
                        }
                    }
                    // Go writes an empty list as null.
                    if !text.ends_with('\n') && text.trim_ascii() != "null" {
                        self.cut_off();
                    }
                    window.consume(length);
                }
                Some(yaml::Piece::ListEnd) => {
                    self.source.place.item = None;
                    shape.is_array = splitter.is_array();
                    if shape.is_array && maps == 0 && !self.source.is_member {
                        self.ingest.discard_since(shape.mark);
                        return Err(self.source.not_an_object("it is a list"));
                    }
                    let line = splitter.rest_line();
                    let text = str::from_utf8(splitter.rest()).map_err(|_| self.source.not_utf8(line))?;
                    let value: Value =
                        yaml::parse(text).map_err(|error| self.yaml_error(error, text, line))?;
                    self.list_end(&value, &shape)?;
                    if item_is_cut || !(text.is_empty() || text.ends_with('\n')) {
                        self.cut_off();
                    }
                }
                None => return Ok(()),
            }
        }
    }

    /// A YAML text that ends inside a line may have been cut there, before objects of any kind, and nothing
    /// else would show it.
    fn cut_off(&mut self) {
        let (place, problem) = (&self.source.place, Problem::NoFinalLineBreak);
        let why = Why::NoFinalLineBreak(place.clone());
        self.ingest.revoke_all(why, problem, place, "", "may be cut off");
    }

    fn split_error<R: Read>(&self, error: json::SplitError, window: &Window<R>) -> SnapshotError {
        let place = self.source.place.clone();
        match error {
            json::SplitError::Window(error) => self.window_error(error),
            json::SplitError::Truncated => {
                let (line, _) = window.position(window.bytes().len());
                SnapshotError::Truncated { place, line }
            }
            json::SplitError::Unexpected { at, expected } => {
                let words = format!("expected {expected}");
                SnapshotError::syntax(place, None, window.position(at), "JSON", words)
            }
        }
    }

    fn window_error(&self, error: WindowError) -> SnapshotError {
        match error {
            WindowError::Io(error) => SnapshotError::io(&self.source.place.file, error),
            WindowError::Full { line } => SnapshotError::TooLarge {
                place: self.source.place.clone(),
                line,
                limit_bytes: self.settings.object_bytes_max,
            },
        }
    }

    /// `first_line`: the line of the file in which the text begins.
    fn yaml_error(&self, error: yaml::YamlError, text: &str, first_line: u64) -> SnapshotError {
        let position = (first_line + error.line.saturating_sub(1), error.column);
        let (place, name) = (self.source.place.clone(), yaml::name_in(text));
        SnapshotError::syntax(place, name, position, "YAML", error.said)
    }

    /// The first bytes of the window, as a text.
    fn text<'w, R: Read>(&self, window: &'w Window<R>, length: usize) -> Result<&'w str, SnapshotError> {
        str::from_utf8(&window.bytes()[..length])
            .map_err(|error| self.source.not_utf8(window.position(error.valid_up_to()).0))
    }
}

/// The JSON parser's message, without its position in the part that it was given.
pub(crate) fn json_words(error: &serde_json::Error) -> String {
    let mut words = error.to_string();
    if let Some(cut) = words.rfind(" at line ") {
        words.truncate(cut);
    }
    words
}

/// Parses a YAML object. `json` is room for its JSON form.
fn parse_object<'a, T: Deserialize<'a>>(text: &'a str, json: &'a mut String) -> Result<T, yaml::YamlError> {
    if block::to_json(text, json)
        && let Ok(object) = serde_json::from_str(json)
    {
        return Ok(object);
    }
    yaml::parse(text)
}
