//! Named formats, such as `format.dns1123Label().validate(self.name)`.
//!
//! # Upstream
//! [`format.go`](https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/cel/library/format.go).

use std::any::Any;

use cel::{
    DeclarationError, Env, ExecutionError,
    common::{
        types::{CelList, CelOptional, CelString, Type},
        value::{CowVal, StaticVal, Val},
    },
};
use kubegc_core::KubernetesVersion;

use super::{super::string_formats, library::value, urls::Url};
use crate::formats;

const NAMES: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

/// A format, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Format(&'static str);
value!(Format, "kubernetes.NamedFormat");

/// Declares the functions.
///
/// # Errors
/// A function of this name is already declared.
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    macro_rules! constants {
        ($($index:literal)*) => {
            $(
                let name = format!("format.{}", NAMES[$index]);
                env.add_overload(&name, &name, vec![], constant::<$index>)?;
            )*
        };
    }
    constants!(0 1 2 3 4 5 6 7 8 9 10 11 12);
    cel::add_overload!(env, fn named: (CelString) -> CelOptional, name = "format.named")?;
    cel::add_member_overload!(env, fn validate: (Format, CelString) -> CelOptional)
}

fn constant<'b, 'v, const INDEX: usize>(_: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    Ok(CowVal::owned(Format(NAMES[INDEX])))
}

fn named(name: &CelString<'_>) -> CelOptional<'static> {
    let known = NAMES.into_iter().find(|known| *known == name.inner());
    known.map_or_else(CelOptional::none, |known| {
        CelOptional::of(Box::new(Format(known)))
    })
}

/// The problems of a text, if it has any.
fn validate(format: &Format, text: &CelString<'_>) -> CelOptional<'static> {
    let problems = problems(format.0, text.inner());
    if problems.is_empty() {
        return CelOptional::none();
    }
    let problems = problems.into_iter().map(|problem| {
        let problem: Box<dyn Val> = Box::new(CelString::from(problem));
        problem
    });
    CelOptional::of(Box::new(CelList::from(problems.collect::<Vec<_>>())))
}

/// The texts are those of the latest release.
fn problems(format: &str, text: &str) -> Vec<String> {
    let release = KubernetesVersion::LATEST;
    let unless = |problem: &str| match string_formats::fits(format, text) {
        true => Vec::new(),
        false => vec![problem.to_owned()],
    };
    let (kind, text) = match format.strip_suffix("Prefix") {
        Some(kind) => (kind, masked(text)),
        None => (format, text.to_owned()),
    };
    match kind {
        "dns1123Label" => formats::label(release, &text),
        "dns1123Subdomain" => formats::subdomain(release, &text),
        "dns1035Label" => formats::dns_1035_label(&text),
        "qualifiedName" => formats::qualified_name(release, &text),
        "labelValue" => formats::label_value(release, &text),
        "uri" => Url::parse_request(&text).err().into_iter().collect(),
        "uuid" => unless("does not match the UUID format"),
        "byte" => unless("invalid base64"),
        "date" => unless("invalid date"),
        _ => unless("invalid datetime"),
    }
}

/// A prefix may end with a dash.
fn masked(text: &str) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    if chars.len() > 1 && chars.last() == Some(&'-') {
        chars.truncate(chars.len() - 2);
        chars.push('a');
    }
    chars.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::problems;

    #[test]
    fn formats_are_checked() {
        for (format, text, fits) in [
            ("dns1123Label", "a-b", true),
            ("dns1123Label", "a.b", false),
            ("dns1123LabelPrefix", "a-", true),
            ("dns1035Label", "1a", false),
            ("qualifiedName", "x.dev/a", true),
            ("labelValue", "", true),
            ("uri", "https://x", true),
            ("uri", "x", false),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", true),
            ("byte", "YWJj", true),
            ("date", "2026-01-01", true),
            ("datetime", "2026-01-01", false),
        ] {
            assert_eq!(problems(format, text).is_empty(), fits, "{format} {text}");
        }
    }
}
