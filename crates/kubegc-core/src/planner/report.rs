//! Plans and reasons as text.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
};

use super::Plan;

/// The maximum number of objects that a line names.
const NAMED_MAX: usize = 5;

impl<Action: Display, Object: Display, Reason: Display, Summary> Display
    for Plan<Action, Object, Reason, Summary>
{
    /// The actions, then the kept objects, grouped by reason with counts: `it has not finished (2): job/a -n
    /// shop, job/b -n shop`. At most five objects are named. A reason omits the name of the object where it
    /// would repeat it. The summary is omitted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = |f: &mut fmt::Formatter<'_>, title: &str, count: usize| {
            let colon = if count == 0 { "" } else { ":" };
            writeln!(f, "{title} ({count}){colon}")
        };
        header(f, "actions", self.actions.len())?;
        for action in &self.actions {
            writeln!(f, "  {action}")?;
        }
        for (title, all) in [("kept", &self.kept), ("findings", &self.findings)] {
            if !all.is_empty() {
                header(f, title, all.len())?;
            }
            let mut groups = BTreeMap::<String, Vec<String>>::new();
            for kept in all {
                let object = kept.object.to_string();
                let reason = kept.reason.to_string().replacen(&format!("{object}: "), "", 1);
                groups.entry(reason).or_default().push(object);
            }
            for (reason, objects) in groups {
                let named = objects[..objects.len().min(NAMED_MAX)].join(", ");
                write!(f, "  {reason} ({}): {named}", objects.len())?;
                match objects.len().saturating_sub(NAMED_MAX) {
                    0 => writeln!(f)?,
                    more => writeln!(f, " and {more} more")?,
                }
            }
        }
        match &self.next_at {
            Some(at) => writeln!(f, "the next change is due at {at}"),
            None => Ok(()),
        }
    }
}

/// Serializes a reason as `{"reason": name, "message": text}`, the fields of conditions and Events.
#[cfg(feature = "serde")]
pub fn serialize_reason<S: serde::Serializer>(
    name: &str,
    message: &dyn Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeStruct;

    let mut fields = serializer.serialize_struct("Reason", 2)?;
    fields.serialize_field("reason", name)?;
    fields.serialize_field("message", &message.to_string())?;
    fields.end()
}

/// Declares reasons, each variant with the arguments of its text, which may name the variant's fields. The
/// name of a reason is that of its variant.
#[doc(hidden)]
#[macro_export]
macro_rules! reasons {
    ($(
        $(#[$attribute:meta])*
        pub enum $reason:ident {$(
            $(#[$doc:meta])*
            $variant:ident
                $(($value:ident: $inner:ty))?
                $({ $($(#[$field_doc:meta])* $field:ident: $type:ty),+ $(,)? })?
                = $text:literal $(, $argument:expr)*;
        )+}
    )+) => {$(
        $(#[$attribute])*
        #[non_exhaustive]
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $reason {$(
            $(#[$doc])*
            $variant $(($inner))? $({ $($(#[$field_doc])* $field: $type),+ })?,
        )+}

        impl $reason {
            /// The reason's name, in the form of an Event's reason.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => stringify!($variant),)+
                }
            }
        }

        impl std::fmt::Display for $reason {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$variant $(($value))? $({ $($field),+ })? => {
                        // A text need not name every field.
                        $(_ = $value;)?
                        $($(_ = $field;)+)?
                        write!(f, $text $(, $argument)*)
                    })+
                }
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $reason {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                $crate::planner::serialize_reason(self.name(), self, serializer)
            }
        }
    )+};
}
