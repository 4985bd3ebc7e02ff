//! Macros for enumerations whose variants have texts.

/// Declares reasons, each variant with the arguments of its text, which may name the variant's fields. The
/// name of a reason is that of its variant.
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
            #[must_use]
            pub const fn as_str(&self) -> &'static str {
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
                kubegc_core::planner::serialize_reason(self.as_str(), self, serializer)
            }
        }
    )+};
}

/// Declares enumerations of names.
macro_rules! names {
    ($(
        $(#[$attribute:meta])*
        pub enum $kind:ident {$(
            $(#[$doc:meta])*
            $variant:ident = $name:literal;
        )+}
    )+) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $kind {$(
            $(#[$doc])*
            $variant,
        )+}

        impl $kind {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        serialize_text!($kind);
    )+};
}

/// Implements `Serialize` as text, by `Display`.
macro_rules! serialize_text {
    ($($text:ty),+) => {$(
        #[cfg(feature = "serde")]
        impl serde::Serialize for $text {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )+};
}
