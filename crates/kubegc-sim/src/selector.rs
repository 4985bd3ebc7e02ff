//! Decides which objects a label selector means.

use kubegc_core::{FieldError, ObjectMeta};

use crate::formats::{is_label_value, is_qualified_name};

/// A label selector, in the text form of URLs: `app=web,tier!=db,env in (a, b),!legacy,generation>5`.
///
/// Keys must be qualified names, values such as labels have; what a label is greater or less than is a whole number.
///
/// # Examples
/// ```
/// use kubegc_core::ObjectMeta;
/// use kubegc_sim::Selector;
/// let mut meta = ObjectMeta::new("shop", "web-0", "u1");
/// meta.labels.insert("app".into(), "web".into());
/// assert!("app=web".parse::<Selector>()?.matches(&meta));
/// assert!("app in (web, api),!legacy".parse::<Selector>()?.matches(&meta));
/// assert!(!"app notin (web)".parse::<Selector>()?.matches(&meta));
/// assert!("app in web".parse::<Selector>().is_err());
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Requirement {
    label: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Test {
    Exists,
    Missing,
    In(Vec<String>),
    NotIn(Vec<String>),
    GreaterThan(i64),
    LessThan(i64),
}

impl Selector {
    /// Selects everything.
    #[must_use]
    pub const fn everything() -> Self {
        Self(Vec::new())
    }

    /// Whether the object is meant. A label that is missing is in no set.
    #[must_use]
    pub fn matches(&self, meta: &ObjectMeta) -> bool {
        let number = |value: &str| value.parse::<i64>().ok();
        self.0.iter().all(|requirement| {
            let value = meta.labels.get(requirement.label.as_str());
            match (&requirement.test, value) {
                (Test::Exists, value) => value.is_some(),
                (Test::Missing, value) => value.is_none(),
                (Test::In(values), Some(value)) => values.iter().any(|one| **one == **value),
                (Test::In(_), None) => false,
                (Test::NotIn(values), Some(value)) => values.iter().all(|one| **one != **value),
                (Test::NotIn(_), None) => true,
                (Test::GreaterThan(than), Some(value)) => number(value).is_some_and(|value| value > *than),
                (Test::LessThan(than), Some(value)) => number(value).is_some_and(|value| value < *than),
                (Test::GreaterThan(_) | Test::LessThan(_), None) => false,
            }
        })
    }
}

impl std::str::FromStr for Selector {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        let mut requirements = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            // A comma inside parentheses separates values, not requirements.
            let mut depth = 0_u32;
            let end = rest
                .find(|c| {
                    match c {
                        '(' => depth += 1,
                        ')' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    c == ',' && depth == 0
                })
                .unwrap_or(rest.len());
            requirements.push(requirement(rest[..end].trim(), text)?);
            rest = rest.get(end + 1..).unwrap_or_default().trim();
        }
        Ok(Self(requirements))
    }
}

fn requirement(part: &str, whole: &str) -> Result<Requirement, FieldError> {
    let bad = || FieldError::invalid("labelSelector", whole, "unable to parse requirement");
    let named = |label: &str, test: Test| {
        let label = label.trim();
        let fits = match &test {
            Test::In(values) | Test::NotIn(values) => values.iter().all(|value| is_label_value(value)),
            Test::Exists | Test::Missing | Test::GreaterThan(_) | Test::LessThan(_) => true,
        };
        if !fits || !is_qualified_name(label) {
            return Err(bad());
        }
        Ok(Requirement {
            label: label.to_owned(),
            test,
        })
    };
    // A number, too, must be such as labels have: without a sign.
    let number = |value: &str| {
        let value = Some(value.trim()).filter(|value| is_label_value(value));
        value.and_then(|value| value.parse().ok()).ok_or_else(bad)
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    if let Some(label) = part.strip_prefix('!') {
        return named(label, Test::Missing);
    }
    if let Some((label, value)) = part.split_once("!=") {
        return named(label, Test::NotIn(one(value)));
    }
    if let Some((label, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return named(label, Test::In(one(value)));
    }
    if let Some((label, value)) = part.split_once('>') {
        return named(label, Test::GreaterThan(number(value)?));
    }
    if let Some((label, value)) = part.split_once('<') {
        return named(label, Test::LessThan(number(value)?));
    }
    if let Some((head, values)) = part.split_once('(') {
        let values = values.trim().strip_suffix(')').ok_or_else(bad)?;
        let values = values.split(',').map(|value| value.trim().to_owned()).collect();
        let mut words = head.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(label), Some("in"), None) => named(label, Test::In(values)),
            (Some(label), Some("notin"), None) => named(label, Test::NotIn(values)),
            _ => Err(bad()),
        };
    }
    named(part, Test::Exists)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_read_as_the_server_reads_them() {
        let mut meta = ObjectMeta::new("shop", "a", "u1");
        for (key, value) in [("app", "web"), ("gen", "7"), ("x.dev/tier", "db")] {
            meta.labels.insert(key.into(), value.into());
        }
        for (text, expected) in [
            ("", Some(true)),
            ("app", Some(true)),
            ("app=web", Some(true)),
            ("app==web,x.dev/tier in (db, web)", Some(true)),
            ("app!=web", Some(false)),
            ("missing!=web,!missing", Some(true)),
            ("missing=", Some(false)),
            ("gen>5", Some(true)),
            ("gen > 7", Some(false)),
            ("gen<10", Some(true)),
            ("gen<7", Some(false)),
            ("app>1", Some(false)),
            ("missing<1", Some(false)),
            ("gen>five", None),
            ("gen>-5", None),
            ("gen>", None),
            ("gen>=5", None),
            ("a=b=c", None),
            ("a!=b=c", None),
            ("!a/b/c", None),
            ("a/b/c", None),
            ("/a", None),
            ("!a=b", None),
            ("a b", None),
            ("a=-", None),
            ("app in (web, a b)", None),
            ("app in web", None),
            ("-a", None),
        ] {
            let read = text.parse::<Selector>();
            assert_eq!(
                read.ok().map(|selector| selector.matches(&meta)),
                expected,
                "{text}"
            );
        }
    }
}
