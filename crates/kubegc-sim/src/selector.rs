//! Label selectors and field selectors: the text form of URLs, and the fields of objects. The server defines
//! which fields a kind supports.

use std::{cmp::Ordering, iter::Peekable, str::FromStr, sync::Arc, vec};

use kubegc_core::{FieldError, KubernetesVersion, LabelRequirement, LabelSelector, ObjectMeta};
use serde_json::Value;

use crate::{formats, object::list, status::quoted};

/// A label selector, in the text form of URLs: `app=web,tier!=db,env in (a, b),!legacy,generation>5`.
///
/// Keys must be qualified names, values must be label values. The operand of greater and less is an integer.
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
pub struct Selector {
    labels: LabelSelector,
    /// Labels whose numbers are greater or less than these.
    bounds: Vec<(Arc<str>, Ordering, i64)>,
}

impl Selector {
    /// The labels that the selector requires, each with one of the accepted values.
    pub fn wanted_labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let expressions = self.labels.match_expressions.iter();
        let wanted = expressions.filter(|requirement| requirement.is_wanted);
        wanted.flat_map(|requirement| {
            let values = requirement.values.iter().flatten();
            values.map(|value| (&*requirement.key, &**value))
        })
    }

    /// Whether the selector matches the object. A missing label is in no set.
    pub fn matches(&self, meta: &ObjectMeta) -> bool {
        let number = |label: &str| meta.labels.get(label)?.parse::<i64>().ok();
        let fits = |(label, order, than): &(Arc<str>, Ordering, i64)| {
            number(label).is_some_and(|number| number.cmp(than) == *order)
        };
        self.labels.matches(meta) && self.bounds.iter().all(fits)
    }
}

impl FromStr for Selector {
    type Err = FieldError;

    /// # Errors
    /// The problem is upstream's text.
    fn from_str(text: &str) -> Result<Self, FieldError> {
        let mut parser = Parser {
            tokens: tokens(text).into_iter().peekable(),
            read: Self::default(),
        };
        let parsed = parser.requirements();
        parsed
            .map(|()| parser.read)
            .map_err(|problem| FieldError::invalid("labelSelector", text, &problem))
    }
}

/// Reads a `metav1.LabelSelector` of an object. Labels and values that are not strings are skipped; `None`
/// for an operator that does not exist.
///
/// # Examples
/// ```
/// let selector = serde_json::json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["web", "db"]}]});
/// let selector = kubegc_sim::label_selector(&selector).expect("a known operator");
/// assert_eq!(selector.to_string(), "tier in (db,web)");
/// ```
pub fn label_selector(selector: &Value) -> Option<LabelSelector> {
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    let requirements = list(selector, "matchExpressions").map(|requirement| {
        let text = |key: &str| requirement.get(key).and_then(Value::as_str).unwrap_or_default();
        let values = list(requirement, "values").filter_map(Value::as_str);
        let values = values.map(Arc::from).collect();
        LabelRequirement::new(text("key").into(), text("operator"), values)
    });
    Some(LabelSelector {
        match_labels: labels
            .filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())))
            .collect(),
        match_expressions: requirements.collect::<Option<_>>()?,
    })
}

/// The tokens of a selector: symbols, and the text between them and spaces.
fn tokens(text: &str) -> Vec<&str> {
    const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let symbol = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
        let length = match symbol {
            Some(symbol) => symbol.len(),
            None => rest
                .find(|c: char| c.is_ascii_whitespace() || "=!(),><".contains(c))
                .unwrap_or(rest.len())
                .max(first.len_utf8()),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start_matches([' ', '\t', '\r', '\n']);
    }
    tokens
}

/// # Upstream
/// `Parser` in `apimachinery/pkg/labels/selector.go`, 1.20.2.
struct Parser<'t> {
    tokens: Peekable<vec::IntoIter<&'t str>>,
    read: Selector,
}

impl<'t> Parser<'t> {
    /// The next token; empty at the end.
    fn next(&mut self) -> &'t str {
        self.tokens.peek().copied().unwrap_or_default()
    }

    fn take(&mut self) -> &'t str {
        self.tokens.next().unwrap_or_default()
    }

    fn requirements(&mut self) -> Result<(), String> {
        loop {
            let token = self.next();
            if token.is_empty() {
                return Ok(());
            }
            if token != "!" && !is_identifier(token) {
                return Err(format!(
                    "found '{token}', expected: !, identifier, or 'end of string'"
                ));
            }
            self.requirement()
                .map_err(|problem| format!("unable to parse requirement: {problem}"))?;
            match self.take() {
                "" => return Ok(()),
                "," => {
                    let token = self.next();
                    if token != "!" && !is_identifier(token) {
                        return Err(format!("found '{token}', expected: identifier after ','"));
                    }
                }
                token => return Err(format!("found '{token}', expected: ',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<(), String> {
        let is_missing = self.next() == "!";
        if is_missing {
            self.take();
        }
        let label = self.take();
        if !is_identifier(label) {
            return Err(format!("found '{label}', expected: identifier"));
        }
        check(
            "<nil>",
            label,
            &formats::qualified_name(KubernetesVersion::LATEST, label),
        )?;
        if is_missing {
            self.add(label, "DoesNotExist", Vec::new());
            return Ok(());
        }
        if matches!(self.next(), "" | ",") {
            self.add(label, "Exists", Vec::new());
            return Ok(());
        }
        let operator = self.take();
        let values = match operator {
            "in" | "notin" => self.values()?,
            "=" | "==" | "!=" | ">" | "<" => vec![self.value()?],
            token => {
                return Err(format!(
                    "found '{token}', expected: '=', '!=', '==', 'in', notin'"
                ));
            }
        };
        let order = match operator {
            ">" => Some(Ordering::Greater),
            "<" => Some(Ordering::Less),
            _ => None,
        };
        if let Some(order) = order {
            let number = values.first().and_then(|value| value.parse::<i64>().ok());
            let number = number.ok_or("for 'Gt', 'Lt' operators, the value must be an integer")?;
            self.read.bounds.push((label.into(), order, number));
        }
        for (index, value) in values.iter().enumerate() {
            let problems = formats::label_value(KubernetesVersion::LATEST, value);
            check(&format!("values[{index}][{label}]"), value, &problems)?;
        }
        match operator {
            ">" | "<" => {}
            "notin" | "!=" => self.add(label, "NotIn", values),
            _ => self.add(label, "In", values),
        }
        Ok(())
    }

    fn add(&mut self, label: &str, operator: &str, values: Vec<String>) {
        let values = values.into_iter().map(Into::into).collect();
        let requirement = LabelRequirement::new(label.into(), operator, values);
        self.read.labels.match_expressions.extend(requirement);
    }

    fn value(&mut self) -> Result<String, String> {
        if matches!(self.next(), "" | ",") {
            return Ok(String::new());
        }
        match self.take() {
            token if is_identifier(token) => Ok(token.to_owned()),
            token => Err(format!("found '{token}', expected: identifier")),
        }
    }

    /// The values between parentheses. A comma without a value next to it adds an empty value.
    fn values(&mut self) -> Result<Vec<String>, String> {
        let token = self.take();
        if token != "(" {
            return Err(format!("found '{token}' expected: '('"));
        }
        let first = self.next();
        if first == ")" {
            self.take();
            return Ok(vec![String::new()]);
        }
        if first != "," && !is_identifier(first) {
            return Err(format!("found '{first}', expected: ',', ')' or identifier"));
        }
        let mut values = Vec::new();
        loop {
            match self.take() {
                "," => {
                    if values.is_empty() {
                        values.push(String::new());
                    }
                    match self.next() {
                        ")" => {
                            values.push(String::new());
                            break;
                        }
                        "," => {
                            self.take();
                            values.push(String::new());
                        }
                        _ => {}
                    }
                }
                token if is_identifier(token) => {
                    values.push(token.to_owned());
                    match self.next() {
                        "," => {}
                        ")" => break,
                        token => return Err(format!("found '{token}', expected: ',' or ')'")),
                    }
                }
                token => return Err(format!("found '{token}', expected: ',', or identifier")),
            }
        }
        // The closing parenthesis.
        self.take();
        Ok(values)
    }
}

fn is_identifier(token: &str) -> bool {
    !matches!(token, "" | "==" | "!=" | "=" | "!" | "(" | ")" | "," | ">" | "<")
}

fn check(field: &str, value: &str, problems: &[String]) -> Result<(), String> {
    if problems.is_empty() {
        return Ok(());
    }
    let (value, problems) = (quoted(value), problems.join("; "));
    Err(format!("{field}: Invalid value: {value}: {problems}"))
}

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

impl FromStr for FieldSelector {
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
