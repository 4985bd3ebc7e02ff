//! Decides which objects a label selector means.

use kubegc_core::{FieldError, ObjectMeta};

/// A label selector, in the text form of URLs: `app=web,tier!=db,env in (a, b),!legacy`.
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
        self.0.iter().all(|requirement| {
            let value = meta.labels.get(requirement.label.as_str());
            match (&requirement.test, value) {
                (Test::Exists, value) => value.is_some(),
                (Test::Missing, value) => value.is_none(),
                (Test::In(values), Some(value)) => values.iter().any(|one| **one == **value),
                (Test::In(_), None) => false,
                (Test::NotIn(values), Some(value)) => values.iter().all(|one| **one != **value),
                (Test::NotIn(_), None) => true,
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
        if label.is_empty() || label.contains(char::is_whitespace) {
            return Err(bad());
        }
        Ok(Requirement {
            label: label.to_owned(),
            test,
        })
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
