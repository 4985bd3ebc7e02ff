//! Label selectors of the API.

use std::{collections::BTreeMap, sync::Arc};

use crate::ObjectMeta;

/// A label selector of the API (`metav1.LabelSelector`). An empty one matches everything.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// Labels that must be there with these values.
    pub match_labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Requirements that must all hold.
    pub match_expressions: Vec<LabelRequirement>,
}

/// One of `matchExpressions` of a label selector.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LabelRequirement {
    /// The label.
    pub key: Arc<str>,
    /// Whether the label must be there with one of the values. Otherwise it must not.
    pub is_wanted: bool,
    /// The values; `None` where any value will do (`Exists`, `DoesNotExist`).
    pub values: Option<Vec<Arc<str>>>,
}

impl LabelSelector {
    /// Whether it has no requirements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// A label and its value that every object that matches has; `None` where there is no such label.
    #[must_use]
    pub fn required_label(&self) -> Option<(&Arc<str>, &Arc<str>)> {
        self.match_labels.iter().next()
    }

    /// Whether the labels of an object match.
    #[must_use]
    pub fn matches(&self, meta: &ObjectMeta) -> bool {
        let holds = |requirement: &LabelRequirement| {
            let value = meta.labels.get(&requirement.key);
            let is_there = value.is_some_and(|value| {
                let values = requirement.values.as_ref();
                values.is_none_or(|values| values.contains(value))
            });
            is_there == requirement.is_wanted
        };
        let has = |(key, value): (&Arc<str>, &Arc<str>)| meta.labels.get(key) == Some(value);
        self.match_labels.iter().all(has) && self.match_expressions.iter().all(holds)
    }
}
