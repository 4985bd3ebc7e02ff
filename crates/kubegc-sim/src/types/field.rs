//! A field of an object that is validated: its value, its path, and upstream's errors.
//!
//! # Upstream
//! [`field.Error`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go).

use std::{cell::OnceCell, fmt, rc::Rc, sync::Arc};

use kubegc_core::{KubernetesVersion, version::behavior::VALUES_ARE_JSON};
use serde_json::{Map, Value};

use super::go_syntax;
use crate::{
    StoredObject, formats,
    status::{Cause, quoted},
};

static NULL: Value = Value::Null;

/// The findings of a validation, and what it knows beside the validated value.
#[derive(Debug)]
pub(crate) struct Check<'v> {
    pub(crate) version: KubernetesVersion,
    pub(crate) causes: Vec<Cause>,
    /// The object before it got its normal form, if that differs.
    decoded: Option<Arc<Map<String, Value>>>,
    /// The validated object.
    pub(crate) new: &'v Value,
    /// The stored object that it replaces; null for a new one.
    pub(crate) old: &'v Value,
    /// The validated object with its metadata.
    pub(crate) object: Option<&'v StoredObject>,
    /// The group and version in which the object was sent.
    pub(crate) group: &'v str,
    pub(crate) api: &'v str,
    /// The fields that an update may change, as paths of the value that is compared next.
    pub(crate) mutable: Vec<&'static str>,
    /// The names of the validated pod's valid volumes, and whether each may be a block device.
    pub(crate) volumes: Vec<(String, bool)>,
    /// Whether the template of a StatefulSet may be invalid, as it was before.
    pub(crate) skips_template: bool,
    /// Whether the stored Ingress has an invalid rule with a wildcard, and an invalid name of a secret.
    pub(crate) stored_ingress: OnceCell<(bool, bool)>,
}

impl<'v> Check<'v> {
    pub(crate) const fn new(version: KubernetesVersion, decoded: Option<Arc<Map<String, Value>>>) -> Self {
        Self {
            version,
            causes: Vec::new(),
            decoded,
            new: &NULL,
            old: &NULL,
            object: None,
            group: "",
            api: "",
            mutable: Vec::new(),
            volumes: Vec::new(),
            skips_template: false,
            stored_ingress: OnceCell::new(),
        }
    }

    /// Whether the object is new.
    pub(crate) fn is_new(&self) -> bool {
        self.old.is_null()
    }

    /// The name of the object.
    pub(crate) fn name(&self) -> &'v str {
        self.object.map_or("", |object| &object.meta.name)
    }

    /// The validated object.
    pub(crate) fn root(&self) -> At<'v> {
        At::of_object(self.new)
    }

    /// The stored object.
    pub(crate) fn old(&self) -> At<'v> {
        At::of_object(self.old)
    }

    /// Whether the version is this minor one or newer.
    pub(crate) const fn since(&self, minor: u16) -> bool {
        self.version.minor() >= minor
    }
}

/// Replaces the value at a path, such as `containers/*/image`, by that of another object, or removes it where
/// the other has none. Items correspond by their positions. Depth is bounded by the path.
pub(super) fn copy(to: &mut Value, from: &Value, path: &str) {
    let (step, rest) = path
        .split_once('/')
        .map_or((path, None), |(step, rest)| (step, Some(rest)));
    match (to, rest, from.get(step)) {
        (Value::Array(items), Some(rest), _) => {
            for (index, item) in items.iter_mut().enumerate() {
                copy(item, from.get(index).unwrap_or(&NULL), rest);
            }
        }
        (Value::Object(fields), Some(rest), value) => {
            if let Some(inner) = fields.get_mut(step) {
                copy(inner, value.unwrap_or(&NULL), rest);
            }
        }
        (Value::Object(fields), None, Some(value)) => {
            fields.insert(step.to_owned(), value.clone());
        }
        (Value::Object(fields), None, None) => {
            fields.remove(step);
        }
        _ => {}
    }
}

/// A path, printed as upstream prints it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path(Option<Rc<(Self, Step)>>);

#[derive(Debug)]
enum Step {
    Field(Rc<str>),
    /// A field, and its name in errors.
    Renamed(Rc<str>, Rc<str>),
    Index(usize),
    Key(Rc<str>),
}

impl Path {
    fn with(&self, step: Step) -> Self {
        Self(Some(Rc::new((self.clone(), step))))
    }

    /// The value at this path of an object.
    fn find<'v>(&self, object: &'v Map<String, Value>) -> Option<&'v Value> {
        let (parent, step) = &**self.0.as_ref()?;
        match step {
            Step::Field(name) | Step::Renamed(name, _) if parent.0.is_none() => object.get(&**name),
            Step::Field(name) | Step::Renamed(name, _) | Step::Key(name) => parent.find(object)?.get(&**name),
            Step::Index(index) => parent.find(object)?.get(index),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(node) = &self.0 else { return Ok(()) };
        let (parent, step) = &**node;
        write!(f, "{parent}")?;
        match step {
            Step::Field(name) | Step::Renamed(_, name) if parent.0.is_none() => f.write_str(name),
            Step::Field(name) | Step::Renamed(_, name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

/// A value, maybe null, at its path.
#[derive(Clone, Debug)]
pub(crate) struct At<'v> {
    pub(crate) value: &'v Value,
    pub(crate) path: Path,
}

impl<'v> At<'v> {
    /// The object itself.
    pub(crate) fn of_object(value: &'v Value) -> Self {
        Self {
            value,
            path: Path::default(),
        }
    }

    /// The value at the same path of the stored object.
    pub(crate) fn old(&self, c: &Check<'v>) -> &'v Value {
        let object = c.old.as_object();
        match self.path.0 {
            Some(_) => object.and_then(|object| self.path.find(object)).unwrap_or(&NULL),
            None => c.old,
        }
    }

    /// A value whose path is not its place in the object.
    pub(crate) fn of_value(value: Option<&'v Value>, path: &str) -> Self {
        Self {
            value: value.unwrap_or(&NULL),
            path: Path::default().with(Step::Field(path.into())),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Self {
        Self {
            value: self.value.get(name).unwrap_or(&NULL),
            path: self.path.with(Step::Field(name.into())),
        }
    }

    /// The same value at the path of another one: for items whose position upstream omits.
    pub(crate) fn placed(&self, other: &Self) -> Self {
        Self {
            value: self.value,
            path: other.path.clone(),
        }
    }

    /// The same value at the path of the value that has it.
    pub(crate) fn without_last_step(&self) -> Self {
        let parent = self.path.0.as_ref().map(|node| node.0.clone());
        Self {
            value: self.value,
            path: parent.unwrap_or_default(),
        }
    }

    /// The values of some fields.
    pub(crate) fn fields<const N: usize>(&self, names: [&str; N]) -> [Self; N] {
        names.map(|name| self.get(name))
    }

    /// The strings of a list.
    pub(crate) fn texts(&self) -> Vec<&'v str> {
        self.items().map(|item| item.text()).collect()
    }

    /// The same value under another path: for fields that upstream names differently.
    pub(crate) fn named(&self, name: &str) -> Self {
        self.under(self, name)
    }

    /// The same value as a field of another one: for fields that upstream keeps elsewhere.
    pub(crate) fn under(&self, other: &Self, name: &str) -> Self {
        Self {
            value: self.value,
            path: other.path.with(Step::Field(name.into())),
        }
    }

    /// A field that errors name differently.
    pub(crate) fn renamed(&self, name: &str, shown: &str) -> Self {
        Self {
            value: self.get(name).value,
            path: self.path.with(Step::Renamed(name.into(), shown.into())),
        }
    }

    /// The entry of a map.
    pub(crate) fn key(&self, key: &str) -> Self {
        Self {
            value: self.value.get(key).unwrap_or(&NULL),
            path: self.path.with(Step::Key(key.into())),
        }
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = Self> + use<'v> {
        let path = self.path.clone();
        let items = self.value.as_array().map_or(&[][..], Vec::as_slice);
        items.iter().enumerate().map(move |(index, value)| Self {
            value,
            path: path.with(Step::Index(index)),
        })
    }

    /// The entries of a map, each at the path with its key.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'v str, Self)> + use<'v> {
        let path = self.path.clone();
        let entries = self.value.as_object().into_iter().flatten();
        entries.map(move |(key, value)| {
            let path = path.with(Step::Key(key.as_str().into()));
            (key.as_str(), Self { value, path })
        })
    }

    /// The value before it got its normal form: empty lists are not null, and quantities have the text that
    /// was sent.
    pub(crate) fn decoded<'a>(&'a self, c: &'a Check) -> &'a Value {
        let decoded = c.decoded.as_deref().and_then(|object| self.path.find(object));
        decoded.unwrap_or(self.value)
    }

    pub(crate) fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// The string; empty where there is none.
    pub(crate) fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    /// The number; zero where there is none.
    pub(crate) fn number(&self) -> i64 {
        self.value.as_i64().unwrap_or(0)
    }

    pub(crate) fn flag(&self) -> bool {
        self.value.as_bool().unwrap_or(false)
    }

    /// The number of items or entries.
    pub(crate) fn len(&self) -> usize {
        match self.value {
            Value::Array(items) => items.len(),
            Value::Object(entries) => entries.len(),
            _ => 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key of the entry, or the name of the field, that the value is.
    pub(crate) fn key_or_name(&self) -> &str {
        match self.path.0.as_deref() {
            Some((_, Step::Field(name) | Step::Renamed(name, _) | Step::Key(name))) => name,
            _ => "",
        }
    }

    /// The value as upstream prints it: strings quoted.
    pub(crate) fn shown(&self) -> String {
        match self.value {
            Value::Null => "\"null\"".to_owned(),
            Value::String(text) => quoted(text),
            other => other.to_string(),
        }
    }

    /// The value as the errors of a release print it.
    pub(crate) fn shown_in(&self, version: KubernetesVersion) -> String {
        if self.value.is_null() && version.has(VALUES_ARE_JSON) {
            "null".to_owned()
        } else {
            self.shown()
        }
    }

    pub(crate) fn required(&self, c: &mut Check, detail: &str) {
        c.causes.push(Cause::required(self.path.to_string(), detail));
    }

    pub(crate) fn forbidden(&self, c: &mut Check, detail: &str) {
        c.causes.push(Cause::forbidden(self.path.to_string(), detail));
    }

    /// The value itself is invalid.
    pub(crate) fn invalid(&self, c: &mut Check, detail: &str) {
        self.invalid_as(c, &self.shown_in(c.version), detail);
    }

    /// A value that is printed as one of this Go type is invalid.
    pub(crate) fn invalid_typed(&self, c: &mut Check, ty: &str, detail: &str) {
        let shown = go_syntax::value(c.version, self.value, ty);
        self.invalid_as(c, &shown, detail);
    }

    /// A value that is printed differently is invalid.
    pub(crate) fn invalid_as(&self, c: &mut Check, shown: &str, detail: &str) {
        c.causes
            .push(Cause::invalid(self.path.to_string(), shown, detail));
    }

    pub(crate) fn unsupported_as(&self, c: &mut Check, shown: &str, supported: &[&str]) {
        c.causes
            .push(Cause::not_supported(self.path.to_string(), shown, supported));
    }

    pub(crate) fn duplicate(&self, c: &mut Check) {
        self.duplicate_as(c, &self.shown_in(c.version));
    }

    pub(crate) fn duplicate_as(&self, c: &mut Check, shown: &str) {
        c.causes.push(Cause::duplicate(self.path.to_string(), shown));
    }

    pub(crate) fn not_found(&self, c: &mut Check, detail: &str) {
        let mut message = format!("Not found: {}", quoted(self.text()));
        if !detail.is_empty() {
            message += &format!(": {detail}");
        }
        let cause = Cause::new("FieldValueNotFound", self.path.to_string(), message);
        c.causes.push(cause);
    }

    pub(crate) fn too_long(&self, c: &mut Check, max: usize) {
        c.causes
            .push(Cause::too_long(c.version, self.path.to_string(), max));
    }

    pub(crate) fn too_many(&self, c: &mut Check, count: usize, max: usize) {
        c.causes
            .push(Cause::too_many(c.version, self.path.to_string(), count, max));
    }

    /// `ValidateImmutableField` of a value of this Go type; without one, it is shown as it is.
    pub(crate) fn immutable(&self, c: &mut Check, old: &Value, ty: &str) {
        if self.value == old {
            return;
        }
        let shown = match self.decoded(c) {
            Value::Null if ty == "string" => "\"\"".to_owned(),
            Value::Null => self.shown_in(c.version),
            _ if ty.is_empty() => self.shown_in(c.version),
            value => go_syntax::value(c.version, value, ty),
        };
        self.invalid_as(c, &shown, "field is immutable");
    }

    pub(crate) fn not_negative(&self, c: &mut Check) {
        if self.number() < 0 {
            self.invalid(c, "must be greater than or equal to 0");
        }
    }

    pub(crate) fn label(&self, c: &mut Check) {
        self.problems_of(c, self.text(), formats::label(c.version, self.text()));
    }

    pub(crate) fn subdomain(&self, c: &mut Check) {
        self.problems_of(c, self.text(), formats::subdomain(c.version, self.text()));
    }

    pub(crate) fn qualified_name(&self, c: &mut Check) {
        self.problems_of(c, self.text(), formats::qualified_name(c.version, self.text()));
    }

    /// Every problem of a list makes a text invalid: the value, or a part of it.
    pub(crate) fn problems_of(&self, c: &mut Check, text: &str, problems: Vec<String>) {
        for problem in problems {
            self.invalid_as(c, &quoted(text), &problem);
        }
    }

    /// Every problem of a list makes the value invalid.
    pub(crate) fn problems(&self, c: &mut Check, problems: Vec<String>) {
        for problem in problems {
            self.invalid(c, &problem);
        }
    }
}
