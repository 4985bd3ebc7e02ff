//! Steps of paths into objects, as `managedFields` and error messages show them.

use serde_json::Value;

use crate::status::quoted;

/// One step of a path into an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Element {
    Field(String),
    /// An item of a list of objects: its keys in order, each with its value as JSON.
    Key(Vec<(String, String)>),
    /// An item of a set: the value as JSON.
    Value(String),
}

impl Element {
    pub(super) fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    pub(super) const fn is_item(&self) -> bool {
        !matches!(self, Self::Field(_))
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let (form, rest) = text.split_once(':')?;
        match form {
            "f" => Some(Self::field(rest)),
            "k" => match serde_json::from_str(rest).ok()? {
                Value::Object(keys) => {
                    let mut keys: Vec<_> = keys
                        .into_iter()
                        .map(|(key, value)| (key, value.to_string()))
                        .collect();
                    keys.sort_unstable();
                    Some(Self::Key(keys))
                }
                _ => None,
            },
            "v" => Some(Self::Value(serde_json::from_str::<Value>(rest).ok()?.to_string())),
            _ => None,
        }
    }

    pub(super) fn written(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => {
                let keys: Vec<String> = keys
                    .iter()
                    .map(|(key, value)| format!("{}:{value}", Value::from(key.as_str())))
                    .collect();
                format!("k:{{{}}}", keys.join(","))
            }
            Self::Value(value) => format!("v:{value}"),
        }
    }

    /// The step in the form of error messages, such as `.spec` or `[name="web"]`.
    fn shown(&self) -> String {
        match self {
            Self::Field(name) => format!(".{name}"),
            Self::Key(keys) => {
                let keys: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                format!("[{}]", keys.join(","))
            }
            Self::Value(value) => format!("[={value}]"),
        }
    }
}

/// A path in the form of error messages.
pub(super) fn shown(path: &[Element]) -> String {
    path.iter().map(Element::shown).collect()
}

/// A scalar in the form of conflicts and keys.
pub(super) fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}
