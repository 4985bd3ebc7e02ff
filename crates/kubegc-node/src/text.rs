//! Macros for enumerations whose variants have texts.

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
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
        #[display("{}", self.as_str())]
        pub enum $kind {$(
            $(#[$doc])*
            $variant,
        )+}

        impl $kind {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
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
