//! Label selectors of the API.

use std::{collections::BTreeMap, fmt, sync::Arc};

use crate::ObjectMeta;

/// A label selector of the API (`metav1.LabelSelector`). An empty one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    pub match_labels: BTreeMap<Arc<str>, Arc<str>>,
    pub match_expressions: Vec<LabelRequirement>,
}

/// One of `matchExpressions` of a label selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelRequirement {
    pub key: Arc<str>,
    /// Whether the object must have the label with one of the values. Otherwise it must not.
    pub is_wanted: bool,
    /// The values; `None` if any value is accepted (`Exists`, `DoesNotExist`).
    pub values: Option<Vec<Arc<str>>>,
}

impl LabelSelector {
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// A label and its value that every matching object has; `None` if there is no such label.
    pub fn required_label(&self) -> Option<(&Arc<str>, &Arc<str>)> {
        self.match_labels.iter().next()
    }

    pub fn matches(&self, meta: &ObjectMeta) -> bool {
        self.matches_labels(|key| meta.labels.get(key).map(|value| &**value))
    }

    /// Whether labels match. They are looked up by key.
    pub fn matches_labels<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        let holds = |requirement: &LabelRequirement| {
            let is_present = label(&requirement.key).is_some_and(|value| {
                let values = requirement.values.as_ref();
                values.is_none_or(|values| values.iter().any(|known| **known == *value))
            });
            is_present == requirement.is_wanted
        };
        let has = |(key, value): (&Arc<str>, &Arc<str>)| label(key) == Some(&**value);
        self.match_labels.iter().all(has) && self.match_expressions.iter().all(holds)
    }
}

impl LabelRequirement {
    /// A requirement by the name of its operator: `In`, `NotIn`, `Exists` or `DoesNotExist`. `None` if there
    /// is no such operator.
    pub fn new(key: Arc<str>, operator: &str, values: Vec<Arc<str>>) -> Option<Self> {
        let (is_wanted, values) = match operator {
            "In" => (true, Some(values)),
            "NotIn" => (false, Some(values)),
            "Exists" => (true, None),
            "DoesNotExist" => (false, None),
            _ => return None,
        };
        Some(Self {
            key,
            is_wanted,
            values,
        })
    }

    pub const fn operator(&self) -> &'static str {
        match (self.is_wanted, &self.values) {
            (true, Some(_)) => "In",
            (false, Some(_)) => "NotIn",
            (true, None) => "Exists",
            (false, None) => "DoesNotExist",
        }
    }
}

impl fmt::Display for LabelSelector {
    /// The text form, sorted by key: `app=web,env in (a,b),!legacy`.
    ///
    /// # Upstream
    /// [`FormatLabelSelector`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go),
    /// but empty if it has no requirements.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.match_labels.iter();
        let labels = labels.map(|(key, value)| (key, format!("{key}={value}")));
        let expressions = self.match_expressions.iter().map(|requirement| {
            let key = &requirement.key;
            let mut values = requirement.values.clone().unwrap_or_default();
            values.sort_unstable();
            let values = values.join(",");
            let text = match requirement.operator() {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "DoesNotExist" => format!("!{key}"),
                _ => key.to_string(),
            };
            (key, text)
        });
        let mut parts: Vec<(&Arc<str>, String)> = labels.chain(expressions).collect();
        parts.sort_unstable();
        let parts: Vec<String> = parts.into_iter().map(|(_, text)| text).collect();
        f.write_str(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(key: &str, operator: &str, values: &[&str]) -> LabelRequirement {
        let values = values.iter().map(|value| Arc::from(*value)).collect();
        LabelRequirement::new(key.into(), operator, values).expect("an operator")
    }

    fn labels(key: &str) -> Option<&'static str> {
        match key {
            "app" => Some("web"),
            "tier" => Some("db"),
            _ => None,
        }
    }

    #[test]
    fn selectors_match_labels_and_print_like_kubectl() {
        for (key, operator, values, matches, text) in [
            ("tier", "In", &["web", "db"][..], true, "tier in (db,web)"),
            ("none", "In", &["db"], false, "none in (db)"),
            ("tier", "NotIn", &["db"], false, "tier notin (db)"),
            ("none", "NotIn", &["db"], true, "none notin (db)"),
            ("app", "Exists", &[], true, "app"),
            ("none", "Exists", &[], false, "none"),
            ("none", "DoesNotExist", &[], true, "!none"),
            ("app", "DoesNotExist", &["x"], false, "!app"),
        ] {
            let selector = LabelSelector {
                match_expressions: vec![requirement(key, operator, values)],
                ..LabelSelector::default()
            };
            assert_eq!(selector.matches_labels(labels), matches, "{text}");
            assert_eq!(selector.to_string(), text);
            assert_eq!(selector.match_expressions[0].operator(), operator);
        }
        for (key, value, matches) in [("app", "web", true), ("app", "api", false), ("none", "", false)] {
            let selector = LabelSelector {
                match_labels: [(key.into(), value.into())].into(),
                ..LabelSelector::default()
            };
            assert_eq!(selector.matches_labels(labels), matches, "{key}={value}");
        }
        let selector = LabelSelector {
            match_labels: [("tier".into(), "db".into())].into(),
            match_expressions: vec![
                requirement("none", "DoesNotExist", &[]),
                requirement("app", "Exists", &[]),
            ],
        };
        assert!(selector.matches_labels(labels));
        assert_eq!(selector.to_string(), "app,!none,tier=db");
        assert_eq!(LabelRequirement::new("a".into(), "Gt", vec![]), None);
    }

    #[test]
    fn a_selector_without_requirements_is_empty() {
        let (key, value): (Arc<str>, Arc<str>) = ("app".into(), "web".into());
        let by_label = LabelSelector {
            match_labels: [("tier".into(), "db".into()), (key.clone(), value.clone())].into(),
            ..LabelSelector::default()
        };
        let by_expression = LabelSelector {
            match_expressions: vec![requirement(&key, "Exists", &[])],
            ..LabelSelector::default()
        };
        let mut meta = ObjectMeta::new("shop", "web", "u1");
        for (selector, is_empty, required, matches) in [
            (&LabelSelector::default(), true, None, true),
            (&by_label, false, Some((&key, &value)), false),
            (&by_expression, false, None, false),
        ] {
            assert_eq!(
                (selector.is_empty(), selector.required_label()),
                (is_empty, required)
            );
            assert_eq!(selector.matches(&meta), matches);
        }
        meta.labels = by_label.match_labels.clone();
        assert!(by_label.matches(&meta) && by_expression.matches(&meta));
        meta.labels.insert(key, "api".into());
        assert!(!by_label.matches(&meta) && by_expression.matches(&meta));
    }
}
