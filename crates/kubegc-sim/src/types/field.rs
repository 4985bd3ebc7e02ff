//! A field of an object that is validated: its value, its path, and upstream's errors.
//!
//! # Upstream
//! [`field.Error`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go).

use std::{fmt, rc::Rc, sync::Arc};

use kubegc_core::{KubernetesVersion, version::behavior::VALUES_ARE_JSON};
use serde_json::{Map, Value};

use super::validate::go_syntax;
use crate::{
    formats,
    status::{Cause, quoted},
};

static NULL: Value = Value::Null;

/// The findings of a validation.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) version: KubernetesVersion,
    pub(crate) causes: Vec<Cause>,
    /// The object before it got its normal form, if that differs.
    decoded: Option<Arc<Map<String, Value>>>,
}

impl Check {
    pub(crate) const fn new(version: KubernetesVersion, decoded: Option<Arc<Map<String, Value>>>) -> Self {
        Self {
            version,
            causes: Vec::new(),
            decoded,
        }
    }

    /// Whether the version is this minor one or newer.
    pub(crate) const fn since(&self, minor: u16) -> bool {
        self.version.minor() >= minor
    }
}

/// A path, printed as upstream prints it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path(Option<Rc<(Self, Step)>>);

#[derive(Debug)]
enum Step {
    Field(Rc<str>),
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
            Step::Field(name) if parent.0.is_none() => object.get(&**name),
            Step::Field(name) | Step::Key(name) => parent.find(object)?.get(&**name),
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
            Step::Field(name) if parent.0.is_none() => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
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
    /// A field of the object itself.
    pub(crate) fn root(body: &'v Map<String, Value>, name: &str) -> Self {
        Self {
            value: body.get(name).unwrap_or(&NULL),
            path: Path::default().with(Step::Field(name.into())),
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

    /// The value as upstream prints it: strings quoted.
    pub(crate) fn shown(&self) -> String {
        match self.value {
            Value::Null => "\"null\"".to_owned(),
            Value::String(text) => quoted(text),
            other => other.to_string(),
        }
    }

    fn shown_in(&self, version: KubernetesVersion) -> String {
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

    pub(crate) fn unsupported(&self, c: &mut Check, supported: &[&str]) {
        self.unsupported_as(c, &self.shown_in(c.version), supported);
    }

    pub(crate) fn unsupported_as(&self, c: &mut Check, shown: &str, supported: &[&str]) {
        c.causes
            .push(Cause::not_supported(self.path.to_string(), shown, supported));
    }

    pub(crate) fn duplicate(&self, c: &mut Check) {
        self.duplicate_as(c, &self.shown_in(c.version));
    }

    /// A value that is printed as one of this Go type is a duplicate.
    pub(crate) fn duplicate_typed(&self, c: &mut Check, ty: &str) {
        let shown = go_syntax::value(c.version, self.value, ty);
        self.duplicate_as(c, &shown);
    }

    pub(crate) fn duplicate_as(&self, c: &mut Check, shown: &str) {
        c.causes.push(Cause::duplicate(self.path.to_string(), shown));
    }

    pub(crate) fn not_found(&self, c: &mut Check) {
        c.causes.push(Cause {
            reason: "FieldValueNotFound",
            field: self.path.to_string(),
            message: format!("Not found: {}", self.shown()),
        });
    }

    pub(crate) fn too_long(&self, c: &mut Check, max: usize) {
        c.causes
            .push(Cause::too_long(c.version, self.path.to_string(), max));
    }

    pub(crate) fn too_many(&self, c: &mut Check, count: usize, max: usize) {
        c.causes
            .push(Cause::too_many(c.version, self.path.to_string(), count, max));
    }

    /// One of these values, required.
    pub(crate) fn one_of(&self, c: &mut Check, supported: &[&str]) {
        if self.text().is_empty() {
            self.required(c, "");
        } else if !supported.contains(&self.text()) {
            self.unsupported(c, supported);
        }
    }

    /// Whether the value is present; adds an error otherwise.
    pub(crate) fn present(&self, c: &mut Check) -> bool {
        let present = match self.value {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            _ => true,
        };
        if !present {
            self.required(c, "");
        }
        present
    }

    pub(crate) fn not_negative(&self, c: &mut Check) {
        if self.number() < 0 {
            self.invalid(c, "must be greater than or equal to 0");
        }
    }

    pub(crate) fn label(&self, c: &mut Check) {
        self.text_problems(c, formats::label(c.version, self.text()));
    }

    pub(crate) fn subdomain(&self, c: &mut Check) {
        self.text_problems(c, formats::subdomain(c.version, self.text()));
    }

    pub(crate) fn qualified_name(&self, c: &mut Check) {
        self.text_problems(c, formats::qualified_name(c.version, self.text()));
    }

    /// Every problem of a list makes the string invalid; one that is not set is empty.
    fn text_problems(&self, c: &mut Check, problems: Vec<String>) {
        for problem in problems {
            self.invalid_as(c, &quoted(self.text()), &problem);
        }
    }

    /// Every problem of a list makes the value invalid.
    pub(crate) fn problems(&self, c: &mut Check, problems: Vec<String>) {
        for problem in problems {
            self.invalid(c, &problem);
        }
    }
}
