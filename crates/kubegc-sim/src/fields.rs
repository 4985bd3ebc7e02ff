//! Field selectors: parsing and matching. The server defines which fields a kind supports.

use kubegc_core::FieldError;

use crate::Selector;

/// A field selector, in the text form of URLs: `metadata.name=web,status.phase!=Failed`.
///
/// Commas, equal signs and backslashes in values are escaped by a backslash.
///
/// # Examples
/// ```
/// use kubegc_sim::FieldSelector;
/// let selector: FieldSelector = "metadata.name=web,status.phase!=Failed".parse()?;
/// assert!(selector.matches_by(|field| if field == "metadata.name" { "web".to_owned() } else { "Running".to_owned() }));
/// assert!("metadata.name".parse::<FieldSelector>().is_err());
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
///
/// # Upstream
/// `ParseSelector` in `apimachinery/pkg/fields/selector.go`, 1.30.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector(
    /// Fields, values, and whether they are to be equal.
    Vec<(String, String, bool)>,
);

impl FieldSelector {
    /// The fields of the requirements, in order.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(field, ..)| &**field)
    }

    /// Whether the selector matches an object whose fields have these values; a missing field is empty.
    pub fn matches_by(&self, mut value: impl FnMut(&str) -> String) -> bool {
        self.0
            .iter()
            .all(|(field, wanted, is_equal)| (value(field) == *wanted) == *is_equal)
    }
}

impl std::str::FromStr for FieldSelector {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        let mut requirements = Vec::new();
        for part in terms(text) {
            if part.is_empty() {
                continue;
            }
            let bad = |problem: &str| FieldError::invalid("fieldSelector", text, problem);
            let unreadable = || bad(&format!("invalid selector: '{text}'; can't understand '{part}'"));
            let (field, value, equal) = split(part).ok_or_else(unreadable)?;
            let value = unescaped(value).map_err(|problem| bad(&problem))?;
            requirements.push((field.to_owned(), value, equal));
        }
        Ok(Self(requirements))
    }
}

/// The terms between commas that no backslash precedes.
fn terms(text: &str) -> Vec<&str> {
    let mut is_escaped = false;
    let ends = |c: char| {
        let is_end = c == ',' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    };
    text.split(ends).collect()
}

/// Field, value and whether they are to be equal, at the first operator.
fn split(term: &str) -> Option<(&str, &str, bool)> {
    let place = term.find(['!', '='])?;
    let (field, rest) = term.split_at(place);
    let mut operators = [("!=", false), ("==", true), ("=", true)].into_iter();
    operators.find_map(|(operator, equal)| Some((field, rest.strip_prefix(operator)?, equal)))
}

fn unescaped(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                c => {
                    let sequence: String = std::iter::once('\\').chain(c).collect();
                    return Err(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    ));
                }
            },
            // An operator without escape.
            '=' => return Err("invalid field selector: unescaped character in value: 61".to_owned()),
            c => plain.push(c),
        }
    }
    Ok(plain)
}

/// A filter of lists: by labels and by fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Filter {
    pub labels: Selector,
    pub fields: FieldSelector,
}

impl From<FieldSelector> for Filter {
    fn from(fields: FieldSelector) -> Self {
        Self {
            fields,
            ..Self::default()
        }
    }
}
