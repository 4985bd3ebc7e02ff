//! Names of objects as kubectl writes them.

use kubegc_core::{ObjectRef, identity::kubectl_name, record::ObjectId};

use crate::words::{frequencies, number, some_of};

/// The name of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'a> {
    pub(super) group: &'a str,
    pub(super) kind: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

impl<'a> From<&'a ObjectRef> for Name<'a> {
    fn from(object: &'a ObjectRef) -> Self {
        Self {
            group: object.group(),
            kind: &object.kind,
            namespace: &object.namespace,
            name: &object.name,
        }
    }
}

impl<'a> From<&'a ObjectId> for Name<'a> {
    fn from(object: &'a ObjectId) -> Self {
        Self {
            group: object.resource.group(),
            kind: object.resource.kind(),
            namespace: &object.namespace,
            name: &object.name,
        }
    }
}

impl Name<'_> {
    /// `pod/web -n shop`.
    pub(super) fn full(&self) -> String {
        kubectl_name(self.group, self.kind, self.namespace, self.name)
    }

    /// `shop/web`.
    pub(super) fn with_namespace(&self) -> String {
        match self.namespace {
            "" => self.name.to_owned(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }
}

/// Objects of one kind: `pod/web -n shop`, `2 pods -n shop (a, b)`, or with several namespaces `2 pods
/// (shop/a, test/b)`.
pub(super) fn names_of_kind(names: &[Name<'_>], names_max: usize) -> String {
    match names {
        [] => String::new(),
        [name] => name.full(),
        [first, others @ ..] => {
            let count = number(names.len(), &first.kind.to_lowercase());
            let is_one = others.iter().all(|other| other.namespace == first.namespace);
            let (place, texts): (String, Vec<String>) = match is_one && !first.namespace.is_empty() {
                true => (
                    format!(" -n {}", first.namespace),
                    names.iter().map(|name| name.name.to_owned()).collect(),
                ),
                false => (String::new(), names.iter().map(Name::with_namespace).collect()),
            };
            format!("{count}{place} ({})", some_of(texts, names_max).join(", "))
        }
    }
}

/// Number of objects by kind, most frequent first: `3 pods`.
pub(super) fn counted<'a>(kinds: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let counts = frequencies(kinds).into_iter();
    counts
        .map(|(kind, count)| number(count, &kind.to_lowercase()))
        .collect()
}
