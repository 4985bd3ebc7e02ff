//! Reads one stream: distinguishes JSON from YAML, splits it into documents, and forwards their objects.

use std::{io::Read, str};

use kubegc_core::json::{DUPLICATE, duplicate_fields};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    Finding, Place, Problem, SnapshotError, VersionSource, block,
    completeness::Why,
    error::{Cause, ParserMessage},
    foreign,
    ingest::{Ingest, Source, TypeName, refuse_non_objects, without_objects},
    internal,
    item::{Item, ListHead, OnlyItem},
    json, kindless,
    notices::{self, Notice},
    sniff,
    store::TypeId,
    tree, version,
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
        in_array: false,
        objects: 0,
    };
    let beginning = window
        .at_least(sniff::BYTES)
        .map_err(|error| window_error(error, source, None, 1, settings))?;
    sniff::refuse(beginning, &source.place)?;
    if beginning.starts_with(b"\xef\xbb\xbf") {
        window.consume(3);
    }
    let mut documents = 0;
    let mut last_was_json = false;
    let mut has_notices = false;
    // Every iteration consumes at least one byte, so the loop ends with the input.
    loop {
        source.place = source.place.document(documents + 1);
        let fault = |error, window: &Window<R>| window_error(error, source, None, window.line(), settings);
        let at = json::skip_space(&mut window, 0).map_err(|error| fault(error, &window))?;
        let mut first = window.byte(at).map_err(|error| fault(error, &window))?;
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
            if let Some(notice) = notices::next(&mut window).map_err(|error| fault(error, &window))? {
                has_notices = true;
                reading.notice(notice, &source.place.document(documents), &window)?;
                continue;
            }
            let after_json = last_was_json && first.is_some_and(|byte| byte != b'-');
            if after_json {
                let (line, column) = window.position(at - skipped);
                return Err(SnapshotError::Syntax {
                    place: source.place.clone(),
                    object: None,
                    line,
                    column,
                    format: "JSON",
                    source: said("expected `{` or the end of the input"),
                });
            }
            if !yaml::next_document(&mut window).map_err(|error| fault(error, &window))? {
                break;
            }
            let at = json::skip_space(&mut window, 0).map_err(|error| fault(error, &window))?;
            first = window.byte(at).map_err(|error| fault(error, &window))?;
            if matches!(first, Some(b'{' | b'[')) {
                window.consume(at);
            }
        }
        documents += 1;
        last_was_json = matches!(first, Some(b'{' | b'['));
        if last_was_json {
            reading.json(&mut window, source, 0)?;
        } else {
            reading.yaml(&mut window, source)?;
        }
    }
    source.place = source.place.document(0);
    if documents == 0 {
        return Err(SnapshotError::Nothing {
            file: source.place.file.clone(),
            problem: if has_notices {
                "holds no document, only logs or messages of kubectl"
            } else {
                "holds no document"
            },
        });
    }
    Ok(())
}

struct Reading<'i> {
    settings: Settings,
    ingest: &'i mut Ingest,
    /// Whether the items being read are those of a bare array.
    in_array: bool,
    /// Maps so far that have something of an object.
    objects: u64,
}

/// A document in the making, common to both formats.
struct Shape {
    /// Records before it.
    mark: usize,
    /// Objects before it.
    objects: u64,
    items: u32,
    is_array: bool,
    /// Whether its text cannot end early without an error: that of JSON.
    is_whole: bool,
    /// The kind of the items according to the fields before them, if these contain it.
    head: Option<TypeName>,
    /// The kind of the items of an internal list.
    internal: Option<(&'static str, &'static str)>,
}

impl Reading<'_> {
    /// Output of kubectl between the objects. An error of kubectl means that the dump is incomplete.
    fn notice<R: Read>(
        &mut self,
        notice: Notice,
        place: &Place,
        window: &Window<R>,
    ) -> Result<(), SnapshotError> {
        let (text, is_error) = match notice {
            Notice::Logs => return Ok(()),
            Notice::CutLogs => {
                return Err(SnapshotError::Truncated {
                    place: place.document(place.document + 1),
                    line: window.line(),
                });
            }
            Notice::Message { text, is_error } => (text, is_error),
        };
        if is_error {
            let why = Why::KubectlError(place.clone());
            self.ingest
                .revoke_all(why, Problem::KubectlError, place, "", &text);
        } else {
            let problem = Problem::KubectlMessage;
            let finding = || Finding::new(problem, Some(place.clone()), &text);
            self.ingest.findings.add(problem, finding);
        }
        Ok(())
    }

    fn shape(&self) -> Shape {
        Shape {
            mark: self.ingest.mark(),
            objects: self.objects,
            items: 0,
            is_array: false,
            is_whole: false,
            head: None,
            internal: None,
        }
    }

    fn json<R: Read>(
        &mut self,
        window: &mut Window<R>,
        source: &Source,
        depth: u8,
    ) -> Result<(), SnapshotError> {
        let mut splitter = json::Splitter::new(self.settings.object_bytes_max);
        let mut shape = self.shape();
        shape.is_array = window.bytes().first() == Some(&b'[');
        shape.is_whole = true;
        self.in_array = shape.is_array;
        let mut last_length = 0;
        loop {
            let piece = splitter.next(window).map_err(|error| {
                let item = splitter.is_list().then_some(shape.items);
                self.split_error(error, window, source, item)
            })?;
            match piece {
                Some(json::Piece::Item) => {
                    if shape.items == 0 && !shape.is_array {
                        shape.head = head_of(splitter.rest());
                        if splitter.is_internal() {
                            shape.internal = internal::kind_of(splitter.rest(), &source.place.file);
                        }
                    }
                    let head = shape.head.as_ref();
                    let item = Some(shape.items);
                    // An item that is not all there is read twice: likely if the last one was much longer.
                    let read = match shape.internal {
                        None if window.bytes().len() >= last_length / 2 => {
                            self.first_object(window, source, item, head)?
                        }
                        _ => None,
                    };
                    let length = match read {
                        Some(length) => length,
                        None => json::item_end(window)
                            .map_err(|error| self.split_error(error, window, source, item))?,
                    };
                    if let Some((api_version, kind)) = shape.internal {
                        let type_id = self.ingest.store.type_id(api_version, kind);
                        let text = as_text(&window.bytes()[..length], window, source, item)?;
                        internal::object(self.ingest, text, type_id, source, shape.items)?;
                    } else if read.is_none() {
                        self.json_object(window, length, source, item, head, depth)?;
                    }
                    window.consume(length);
                    last_length = length;
                    shape.items += 1;
                }
                Some(json::Piece::Whole { length }) => {
                    self.json_object(window, length, source, None, None, depth)?;
                    window.consume(length);
                }
                Some(json::Piece::ListEnd) => {
                    let rest = if shape.is_array { b"{}" } else { splitter.rest() };
                    let text = str::from_utf8(rest).map_err(|_| source.not_utf8(None, window.line()))?;
                    let value: Value = serde_json::from_str(text).map_err(|error| SnapshotError::Syntax {
                        place: source.place.clone(),
                        object: None,
                        line: window.position(0).0,
                        column: window.position(0).1,
                        format: "JSON",
                        source: said(&format!("outside `items`: {}", json_words(&error))),
                    })?;
                    if shape.items == 0 && splitter.is_internal() {
                        shape.internal = internal::kind_of(rest, &source.place.file);
                    }
                    self.duplicates(text, None, source, None);
                    self.list_end(&value, &shape, source)?;
                }
                None => return Ok(()),
            }
        }
    }

    /// Reports the keys that an object of JSON has twice.
    fn duplicates(&mut self, text: &str, object: Option<&Item<'_>>, source: &Source, item: Option<u32>) {
        let name = object.and_then(Item::name);
        for field in duplicate_fields(&mut serde_json::Deserializer::from_str(text)) {
            let problem = Problem::DuplicateKey;
            let detail = "occurs several times; the last one is kept";
            self.ingest.findings.add(problem, || Finding {
                object: name.clone(),
                field: field.into(),
                ..Finding::new(problem, Some(source.at(item)), detail)
            });
        }
    }

    /// The kind that an object without one has: that of the source, or that of the list.
    fn hint<'h>(&'h self, source: &Source, head: Option<&'h TypeName>) -> Option<(&'h str, &'h str)> {
        let taken = source.hint.map(|hint| self.ingest.store.type_texts(hint));
        let taken = taken.or(head.map(|(api_version, kind)| (api_version, kind)));
        taken.map(|(api_version, kind)| (&**api_version, &**kind))
    }

    /// One object of a list, at the beginning of the window: most are read without a search for their end.
    /// Returns its length; `None` if nothing was read.
    fn first_object<R: Read>(
        &mut self,
        window: &Window<R>,
        source: &Source,
        item: Option<u32>,
        head: Option<&TypeName>,
    ) -> Result<Option<usize>, SnapshotError> {
        match json::first_object(window.bytes(), self.hint(source, head)) {
            Some((object, text)) if !object.is_list_kind() => {
                self.object(&object, text, source, item, head)?;
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
        source: &Source,
        item: Option<u32>,
        head: Option<&TypeName>,
        depth: u8,
    ) -> Result<(), SnapshotError> {
        let text = as_text(&window.bytes()[..length], window, source, item)?;
        let (object, parsed) = json::whole_object(text, self.hint(source, head));
        if parsed.is_ok() && !object.is_list_kind() {
            return self.object(&object, text, source, item, head);
        }
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => {
                let (line, column) = (error.line() as u64, error.column() as u64);
                let (first_line, first_column) = window.position(0);
                return Err(SnapshotError::Syntax {
                    place: source.at(item),
                    object: object.short_name(),
                    line: first_line + line.saturating_sub(1),
                    column: if line <= 1 {
                        first_column + column.saturating_sub(1)
                    } else {
                        column
                    },
                    format: "JSON",
                    source: said(&json_words(&error)),
                });
            }
        };
        if parsed.is_err_and(|error| error.to_string().starts_with(DUPLICATE)) {
            self.duplicates(text, tree::item(&value).as_ref(), source, item);
        }
        if item.is_some() && object.is_list_kind() && depth == 0 {
            // A list in a list is streamed like a document of its own.
            let aside = self.ingest.suspend();
            let mut inner = Window::new(text.as_bytes(), self.settings.object_bytes_max);
            let in_array = self.in_array;
            let read = self.json(&mut inner, source, depth + 1);
            self.in_array = in_array;
            self.ingest.resume(aside);
            return read;
        }
        self.value(&value, text, source, item)
    }

    fn yaml<R: Read>(&mut self, window: &mut Window<R>, source: &Source) -> Result<(), SnapshotError> {
        let mut splitter = yaml::Splitter::new(self.settings.object_bytes_max);
        let mut shape = self.shape();
        // Entries that may be objects.
        let mut maps = 0_u32;
        self.in_array = false;
        let settings = self.settings;
        let mut json_text = String::new();
        // The fields before the items of a list do not show how the text ends.
        let mut item_is_cut = false;
        loop {
            let piece = splitter.next(window);
            let fault = |error, window: &Window<R>| {
                window_error(error, source, Some(shape.items), window.line(), settings)
            };
            match piece.map_err(|error| fault(error, window))? {
                Some(yaml::Piece::Item { length }) => {
                    self.in_array = splitter.is_array();
                    let text = as_text(&window.bytes()[..length], window, source, Some(shape.items))?;
                    match parse_object::<OnlyItem<'_>>(text, &mut json_text) {
                        Ok(OnlyItem(item)) if !item.is_list_kind() => {
                            maps += 1;
                            self.object(&item, text, source, Some(shape.items), None)?;
                        }
                        _ => {
                            let value: Vec<Value> = yaml::parse(text).map_err(|error| {
                                yaml_error(error, text, source, Some(shape.items), window.line())
                            })?;
                            let only = value.first().unwrap_or(&Value::Null);
                            maps += u32::from(only.is_object());
                            self.value(only, text, source, Some(shape.items))?;
                        }
                    }
                    item_is_cut = window.bytes()[..length].last() != Some(&b'\n');
                    window.consume(length);
                    shape.items += 1;
                }
                Some(yaml::Piece::Whole { length }) => {
                    let text = as_text(&window.bytes()[..length], window, source, None)?;
                    match parse_object::<Item<'_>>(text, &mut json_text) {
                        Ok(item) if !item.is_list_kind() => {
                            self.object(&item, text, source, None, None)?;
                        }
                        _ => {
                            let value: Value = yaml::parse(text).or_else(|error| {
                                if text.contains("{{") {
                                    sniff::refuse_template(&source.place)?;
                                }
                                Err(yaml_error(error, text, source, None, window.line()))
                            })?;
                            sniff::refuse_text(text, &source.place)?;
                            self.value(&value, text, source, None)?;
                        }
                    }
                    // Go writes an empty list as null.
                    let text = &window.bytes()[..length];
                    if text.last() != Some(&b'\n') && text.trim_ascii() != b"null" {
                        self.cut_off(source);
                    }
                    window.consume(length);
                }
                Some(yaml::Piece::ListEnd) => {
                    shape.is_array = splitter.is_array();
                    if shape.is_array && maps == 0 && !source.is_member {
                        self.ingest.discard_since(shape.mark);
                        return Err(source.not_an_object("it is a list".to_owned()));
                    }
                    let text = str::from_utf8(splitter.rest())
                        .map_err(|_| source.not_utf8(None, splitter.rest_line()))?;
                    let value: Value = yaml::parse(text)
                        .map_err(|error| yaml_error(error, text, source, None, splitter.rest_line()))?;
                    self.list_end(&value, &shape, source)?;
                    let rest_is_cut = !splitter.rest().is_empty() && !splitter.rest().ends_with(b"\n");
                    if item_is_cut || rest_is_cut {
                        self.cut_off(source);
                    }
                }
                None => return Ok(()),
            }
        }
    }

    /// A YAML text that ends inside a line may have been cut there, before objects of any kind, and nothing
    /// else would show it.
    fn cut_off(&mut self, source: &Source) {
        let (place, problem) = (&source.place, Problem::NoFinalLineBreak);
        let why = Why::NoFinalLineBreak(place.clone());
        self.ingest.revoke_all(why, problem, place, "", "may be cut off");
    }

    /// One object that was read strictly.
    fn object(
        &mut self,
        object: &Item<'_>,
        text: &str,
        source: &Source,
        item: Option<u32>,
        head: Option<&TypeName>,
    ) -> Result<(), SnapshotError> {
        if self.in_array
            && object.is_without_identity()
            && let Some(wrapped) = foreign::wrapped(text)
        {
            return self.value(&wrapped, text, source, item);
        }
        self.objects += u64::from(!object.is_without_identity());
        let is_hinted = source.hint.is_some() && !(source.is_member && object.is_without_identity());
        if item.is_none() && !object.is_of_the_api() && !is_hinted {
            return self.no_object(object, text, source);
        }
        if self.in_array && source.is_member && source.hint.is_none() && object.is_without_identity() {
            self.ingest.no_object(source.place.clone(), foreign::NO_TYPE_META);
            return Ok(());
        }
        // Among other files they can be skipped.
        if source.is_member
            && let Some(problem) = without_objects(object.api_version_str(), object.kind_str())
        {
            self.ingest.no_object(source.place.clone(), problem);
            return Ok(());
        }
        self.ingest.object(object, source, item, head)
    }

    /// A document without apiVersion and kind.
    fn no_object(&mut self, object: &Item<'_>, text: &str, source: &Source) -> Result<(), SnapshotError> {
        let value = match object.meta.is_absent() {
            false => None,
            true => foreign::parse(text),
        };
        if value
            .as_ref()
            .is_some_and(|value| self.says_something(value, text, source))
        {
            return Ok(());
        }
        let missing = match (object.api_version_str(), object.kind_str()) {
            ("", "") => value.as_ref().and_then(foreign::explain),
            ("", _) => Some("it has no apiVersion".to_owned()),
            _ => Some("it has no kind".to_owned()),
        };
        let missing = missing.unwrap_or_else(|| foreign::NO_TYPE_META.to_owned());
        if (self.settings.lenient || source.is_member) && object.is_without_identity() {
            self.ingest.no_object(source.place.clone(), &missing);
            return Ok(());
        }
        let is_named = object
            .meta
            .get()
            .is_some_and(|meta| !meta.name.as_str().is_empty());
        let is_inferred = is_named
            && (object.api_version_str(), object.kind_str()) == ("", "")
            && kindless::infer(&object.body, &source.place.file).is_some();
        if is_inferred || (source.is_member && !object.meta.is_absent()) {
            // Without an inferred kind it is one object of some kind, which is incomplete then.
            self.ingest.object(object, source, None, None)?;
            self.ingest.settle_pending(None, source);
            return Ok(());
        }
        Err(source.not_an_object(missing))
    }

    /// Whether a document without metadata contains the version of the API server, or shows that a list is
    /// empty.
    fn says_something(&mut self, value: &Value, text: &str, source: &Source) -> bool {
        if let Some(version) = version::of_document(value) {
            return self
                .ingest
                .detect_version(version, VersionSource::ApiServer, &source.place);
        }
        value.get("Items").is_some_and(Value::is_null)
            && internal::kind_of(text.as_bytes(), &source.place.file).is_some()
    }

    /// One object or list that was read into a tree, of this text.
    fn value(
        &mut self,
        value: &Value,
        text: &str,
        source: &Source,
        item: Option<u32>,
    ) -> Result<(), SnapshotError> {
        let Some(object) = tree::item(value) else {
            let found = tree::type_name(value);
            if source.is_member && (item.is_none() || self.in_array) {
                self.ingest
                    .no_object(source.place.clone(), &format!("it is {found}"));
                return Ok(());
            }
            if item.is_some() {
                self.ingest
                    .unreadable(source, item, &format!("expected a map, found {found}"));
                return Ok(());
            }
            return Err(source.not_an_object(format!("it is {found}")));
        };
        if !object.is_list_kind() {
            return self.object(&object, text, source, item, None);
        }
        let empty = Vec::new();
        let items = match value.get("items") {
            None | Some(Value::Null) => &empty,
            Some(Value::Array(items)) => items,
            Some(other) => {
                return Err(source.not_an_object(format!(
                    "items: expected a list, found {}",
                    tree::type_name(other)
                )));
            }
        };
        let aside = self.ingest.suspend();
        let read = self.list(value, items, source);
        self.ingest.resume(aside);
        read
    }

    /// A list that was read into a tree.
    fn list(&mut self, list: &Value, items: &[Value], source: &Source) -> Result<(), SnapshotError> {
        let mut shape = self.shape();
        for value in items {
            match tree::item(value) {
                Some(object) if object.is_list_kind() => {
                    return Err(SnapshotError::NotAnObject {
                        place: source.place.item(shape.items),
                        problem: "a list in a list in a list".to_owned(),
                    });
                }
                Some(object) => self.ingest.object(&object, source, Some(shape.items), None)?,
                None => {
                    let problem = format!("expected a map, found {}", tree::type_name(value));
                    self.ingest.unreadable(source, Some(shape.items), &problem);
                }
            }
            shape.items += 1;
        }
        self.list_end(list, &shape, source)
    }

    /// The end of a list: its kind decides what its items are.
    fn list_end(&mut self, value: &Value, shape: &Shape, source: &Source) -> Result<(), SnapshotError> {
        let head = tree::list_head(value);
        let refuse = |problem: String| Err(source.not_an_object(problem));
        refuse_non_objects(&head.api_version, &head.kind, || source.place.clone())?;
        let of_items = head.kind.strip_suffix("List");
        if head.is_named && !head.kind.is_empty() {
            // An object of its own with a field `items`: its entries are not objects of the cluster.
            self.ingest.discard_since(shape.mark);
            return match tree::item(value) {
                Some(object) => self.ingest.object(&object, source, None, None),
                None => Ok(()),
            };
        }
        match (head.kind.as_str(), of_items) {
            ("", _) if shape.is_array => self.ingest.settle_pending(source.hint, source),
            ("", _) if shape.internal.is_some() => {}
            ("", _) if source.is_member && head.api_version.is_empty() && shape.objects == self.objects => {
                // Such as the events of an Insights archive, which are not objects.
                self.ingest.discard_since(shape.mark);
                self.ingest.no_object(source.place.clone(), foreign::NO_TYPE_META);
            }
            // As the Go client encodes a list, or a program its own choice of objects.
            ("", _) if shape.is_whole => match source.hint {
                Some(hint) => self.typed_list_end(&head, hint, shape, source),
                // Among other files it is a part of the dump, which is incomplete then.
                None if self.ingest.has_pending()
                    && (source.is_member || self.ingest.all_are_inferred(source)) =>
                {
                    self.ingest.settle_pending(None, source);
                }
                None if self.ingest.has_pending() => {
                    return refuse(
                        "neither the list nor its items have a kind; give it with read_as".to_owned(),
                    );
                }
                None if head.continues => self.continues(source),
                None => {}
            },
            ("", _) => {
                return refuse("it has items and no kind, so it is cut off or no list of objects".to_owned());
            }
            ("List", _) => {
                self.ingest.settle_pending(source.hint, source);
                if head.continues {
                    self.continues(source);
                }
            }
            ("PartialObjectMetadataList", _) => match source.hint {
                Some(hint) => self.typed_list_end(&head, hint, shape, source),
                None => {
                    let problem = "PartialObjectMetadataList does not say the kind of its objects; give it with read_as";
                    return refuse(problem.to_owned());
                }
            },
            (_, Some(kind)) if !head.api_version.is_empty() => {
                let type_id = self.ingest.store.type_id(&head.api_version, kind);
                self.typed_list_end(&head, type_id, shape, source);
            }
            (_, Some(_)) => return refuse("it has no apiVersion".to_owned()),
            (kind, None) => return refuse(format!("it has items, but {kind} is not a kind of list")),
        }
        Ok(())
    }

    fn typed_list_end(&mut self, head: &ListHead, type_id: TypeId, shape: &Shape, source: &Source) {
        self.ingest.settle_pending(Some(type_id), source);
        self.ingest
            .page(head, type_id, u64::from(shape.items), &source.place);
    }

    /// A mixed list that was cut into pages.
    fn continues(&mut self, source: &Source) {
        let (place, field) = (&source.place, "metadata.continue");
        let why = Why::ListContinues(place.clone());
        let problem = Problem::ListContinues;
        self.ingest
            .revoke_all(why, problem, place, field, "the list continues");
    }

    fn split_error<R: Read>(
        &self,
        error: json::SplitError,
        window: &Window<R>,
        source: &Source,
        item: Option<u32>,
    ) -> SnapshotError {
        let place = source.at(item);
        match error {
            json::SplitError::Window(error) => {
                window_error(error, source, item, window.line(), self.settings)
            }
            json::SplitError::Truncated => SnapshotError::Truncated {
                place,
                line: window.position(window.bytes().len()).0,
            },
            json::SplitError::Unexpected { at, expected } => {
                let (line, column) = window.position(at);
                SnapshotError::Syntax {
                    place,
                    object: None,
                    line,
                    column,
                    format: "JSON",
                    source: said(&format!("expected {expected}")),
                }
            }
        }
    }
}

/// The kind of a list's items according to the fields before them. The list has no end yet; fields after the
/// items take precedence.
fn head_of(text: &[u8]) -> Option<TypeName> {
    let text = [text, b"}"].concat();
    let head = tree::list_head(&serde_json::from_slice(&text).ok()?);
    let kind = head.kind.strip_suffix("List").filter(|kind| !kind.is_empty())?;
    let says_it = !head.api_version.is_empty() && kind != "PartialObjectMetadata";
    says_it.then(|| (head.api_version.as_str().into(), kind.into()))
}

fn said(words: &str) -> Cause {
    Box::new(ParserMessage(words.to_owned()))
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

fn yaml_error(
    error: yaml::YamlError,
    text: &str,
    source: &Source,
    item: Option<u32>,
    first_line: u64,
) -> SnapshotError {
    SnapshotError::Syntax {
        place: source.at(item),
        object: yaml::name_in(text),
        line: first_line + error.line.saturating_sub(1),
        column: error.column,
        format: "YAML",
        source: Box::new(error.said),
    }
}

fn window_error(
    error: WindowError,
    source: &Source,
    item: Option<u32>,
    line: u64,
    settings: Settings,
) -> SnapshotError {
    match error {
        WindowError::Io(source_error) => SnapshotError::Io {
            path: source.place.file.clone(),
            source: source_error,
        },
        WindowError::Full => SnapshotError::TooLarge {
            place: source.at(item),
            line,
            limit_bytes: settings.object_bytes_max,
        },
    }
}

fn as_text<'a, R: Read>(
    bytes: &'a [u8],
    window: &Window<R>,
    source: &Source,
    item: Option<u32>,
) -> Result<&'a str, SnapshotError> {
    str::from_utf8(bytes).map_err(|error| source.not_utf8(item, window.position(error.valid_up_to()).0))
}
