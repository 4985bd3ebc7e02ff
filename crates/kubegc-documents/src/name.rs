//! The name of an object of a document.

use std::{fmt, sync::Arc};

/// The name of an object as far as it could be read: some parts may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// Group and version.
    pub api_version: Arc<str>,
    pub kind: Arc<str>,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn shown(text: &str) -> &str {
            if text.is_empty() { "?" } else { text }
        }
        f.write_str(shown(&self.kind))?;
        match (&*self.namespace, &*self.name) {
            ("", "") => Ok(()),
            ("", name) => write!(f, " {name}"),
            (namespace, name) => write!(f, " {namespace}/{}", shown(name)),
        }
    }
}
