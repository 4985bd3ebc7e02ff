//! Finds the parts of a pod that need not be read: a name that does not occur in the whole text does not
//! occur in a part either.
//!
//! Containers are most of a pod's text, and most mention no secret; conditions are many, and hardly a pod has
//! the one that matters.

use std::sync::LazyLock;

use memchr::{memchr_iter, memmem::Finder};

/// The names that a text may mention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mentions {
    /// Secrets in the environment of containers.
    pub secrets: bool,
    /// The condition `DisruptionTarget`.
    pub disruption: bool,
    /// A deletion, during which the states of containers matter.
    pub deletion: bool,
    /// A container that was restarted.
    pub restarts: bool,
}

impl Mentions {
    /// All that there may be.
    pub const ANY: Self = Self {
        secrets: true,
        disruption: true,
        deletion: true,
        restarts: true,
    };

    /// None of them.
    pub const NONE: Self = Self {
        secrets: false,
        disruption: false,
        deletion: false,
        restarts: false,
    };

    /// Whether phase and reason of a pod are all that matters of its status.
    pub const fn is_plain_status(self) -> bool {
        !self.disruption && !self.deletion && !self.restarts
    }

    /// Searches a text for names. A possible occurrence counts as one.
    ///
    /// # Complexity
    /// Linear in the text.
    pub fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        // Only `secretKeyRef` and `secretRef` lead to secrets from a container.
        let is_reference = |at: usize| matches!(bytes.get(at + SECRET.needle().len()), Some(b'K' | b'R'));
        let found = Self {
            secrets: SECRET.find_iter(bytes).any(is_reference),
            disruption: DISRUPTION.find(bytes).is_some(),
            deletion: DELETION.find(bytes).is_some(),
            restarts: RESTARTS.find_iter(bytes).any(|at| !is_zero(bytes, at)),
        };
        // A name may be written with its letters escaped.
        if found != Self::ANY && memchr_iter(b'\\', bytes).any(|at| may_hide(bytes.get(at + 1))) {
            return Self::ANY;
        }
        found
    }
}

/// Of a text that is not searched.
impl Default for Mentions {
    fn default() -> Self {
        Self::ANY
    }
}

/// Whether the number at a `restartCount` is plainly zero.
fn is_zero(bytes: &[u8], at: usize) -> bool {
    let follows = bytes.get(at + RESTARTS.needle().len()..).unwrap_or_default();
    let follows = follows.strip_prefix(b"\"").unwrap_or(follows);
    let Some(value) = follows.strip_prefix(b":") else {
        return false;
    };
    let value = value.trim_ascii_start();
    value.first() == Some(&b'0') && matches!(value.get(1), None | Some(b',' | b'}' | b' ' | b'\r' | b'\n'))
}

/// Whether what follows a backslash may spell a letter, in JSON or in YAML, or let a name go on in the next
/// line, as YAML does.
const fn may_hide(follows: Option<&u8>) -> bool {
    matches!(follows, Some(b'u' | b'U' | b'x' | b'\n' | b'\r'))
}

static SECRET: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"ecret"));
static DISRUPTION: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"DisruptionTarget"));
static RESTARTS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"restartCount"));
static DELETION: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"deletionTimestamp"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_wherever_they_stand() {
        let of = |secrets, disruption| Mentions {
            secrets,
            disruption,
            deletion: secrets && disruption,
            restarts: secrets && disruption,
        };
        for (text, expected) in [
            ("", of(false, false)),
            (r#"{"secretKeyRef":{"name":"a"}}"#, of(true, false)),
            (r#"{"secretRef":{"name":"a"}}"#, of(true, false)),
            (
                r#"{"mountPath":"/var/run/secrets","imagePullSecrets":[{"name":"a"}],"secretName":"b"}"#,
                of(false, false),
            ),
            (r#"{"secrets":1,"secret":2,"secretRef":3}"#, of(true, false)),
            (r#"{"type":"DisruptionTarget"}"#, of(false, true)),
            (r#"{"type":"Disruption"}"#, of(false, false)),
            (r#"{"s\u0065cretRef":1}"#, of(true, true)),
            (r#""s\x65cretKeyRef": {}"#, of(true, true)),
            (r#""s\U00000065cretKeyRef": {}"#, of(true, true)),
            ("\"sec\\\n  retKeyRef\": {}", of(true, true)),
            ("\"sec\\\r\n  retKeyRef\": {}", of(true, true)),
            (r#"{"message":"a \"b\" \n\t\/\\"}"#, of(false, false)),
            ("a\\", of(false, false)),
            ("secret", of(false, false)),
        ] {
            assert_eq!(Mentions::of(text), expected, "{text}");
        }
        assert!(Mentions::of(r#"{"metadata":{"deletionTimestamp":null}}"#).deletion);
        for (text, restarts) in [
            (r#"{"restartCount":0,"a":1}"#, false),
            (r#"{"restartCount": 0}"#, false),
            ("restartCount: 0\nready: true", false),
            ("restartCount: 0", false),
            (r#"[{"restartCount":0},{"restartCount":1}]"#, true),
            (r#"{"restartCount":0.5}"#, true),
            (r#"{"restartCount":"0"}"#, true),
            (r#""restartCount""#, true),
            ("restartCount:\n  7", true),
        ] {
            assert_eq!(Mentions::of(text).restarts, restarts, "{text}");
        }
    }
}
