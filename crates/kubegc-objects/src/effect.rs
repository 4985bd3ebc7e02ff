//! Effects: how the graph and attempts reach queues, cache and event recorder.

use std::fmt;

use kubegc_core::{ObjectRef, OwnerReference};

use crate::graph::NodeId;

/// One effect of an event or an attempt. Effects are in upstream's order.
///
/// An effect that names a node retains it. The caller that handles the effect must call
/// [`Graph::release`](crate::Graph::release) when it no longer uses the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Queue the node for attemptToDelete.
    AttemptToDelete(NodeId),
    /// Queue the node for attemptToDelete after the delay of the rate limiter.
    AttemptToDeleteRateLimited(NodeId),
    /// Queue the node for attemptToOrphan.
    AttemptToOrphan(NodeId),
    /// Cache this owner as absent.
    OwnerAbsent(Box<ObjectRef>),
    /// Process a virtual delete of this identity after the pending events.
    VirtualDelete(Box<ObjectRef>),
    Warn(Box<InvalidNamespace>),
}

/// A dependent that names an owner in another namespace. It is published as Event `OwnerRefInvalidNamespace`
/// ([G-27](crate::rules#g-27)).
///
/// # Upstream
/// `reportInvalidNamespaceOwnerRef` in
/// [`graph_builder.go`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/pkg/controller/garbagecollector/graph_builder.go),
/// 1.20.2. Operators search for the text, so it is upstream's.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, derive_more::Display)]
#[display(
    "ownerRef [{}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace {}",
    reference.api_version,
    reference.kind,
    dependent.namespace,
    reference.name,
    reference.uid,
    Quoted(&dependent.namespace)
)]
pub struct InvalidNamespace {
    /// The dependent, which the Event is about.
    pub dependent: ObjectRef,
    /// Its first reference with the owner's uid.
    pub reference: OwnerReference,
}

impl InvalidNamespace {
    /// The Event's reason.
    pub const REASON: &'static str = "OwnerRefInvalidNamespace";
    /// The component that the Event comes from.
    pub const COMPONENT: &'static str = "garbage-collector-controller";

    pub const fn new(dependent: ObjectRef, reference: OwnerReference) -> Self {
        Self { dependent, reference }
    }
}

/// A text between double quotes, escaped as Go's `%q` does.
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for char in self.0.chars() {
            match char {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                '\u{7}' => f.write_str("\\a")?,
                '\u{8}' => f.write_str("\\b")?,
                '\u{b}' => f.write_str("\\v")?,
                '\u{c}' => f.write_str("\\f")?,
                control if u32::from(control) < 0x20 || control == '\u{7f}' => {
                    write!(f, "\\x{:02x}", u32::from(control))?;
                }
                // Go prints what Unicode calls printable; a space other than U+0020 is not.
                other if other.is_control() || (other.is_whitespace() && other != ' ') => {
                    write!(f, "\\u{:04x}", u32::from(other))?;
                }
                other => write!(f, "{other}")?,
            }
        }
        f.write_str("\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_as_go_does() {
        for (text, quoted) in [
            ("", r#""""#),
            ("red \u{e9}", "\"red \u{e9}\""),
            (r#"a"b\c"#, r#""a\"b\\c""#),
            ("\n\r\t\u{7}\u{8}\u{b}\u{c}", r#""\n\r\t\a\b\v\f""#),
            ("\0\u{1f}\u{7f} ", r#""\x00\x1f\x7f ""#),
            (
                "\u{80}\u{9f}\u{a0}\u{2028}\u{3000}",
                r#""\u0080\u009f\u00a0\u2028\u3000""#,
            ),
        ] {
            assert_eq!(Quoted(text).to_string(), quoted);
        }
    }
}
