//! Label selectors.

use kubegc_core::json::Soft;
use kubegc_core::{LabelRequirement, LabelSelector};

use super::reading::{Path, Reading, Unreadable};
use crate::body;

/// A selector; one that is absent is empty.
pub(super) fn selector(
    reading: &mut Reading<'_>,
    selector: &Soft<body::LabelSelector<'_>>,
    path: Path<'_>,
) -> Result<LabelSelector, Unreadable> {
    match reading.value(selector, path)? {
        Some(selector) => requirements(reading, selector, path),
        None => Ok(LabelSelector::default()),
    }
}

/// `spec.selector` of a workload; one that is absent is empty.
pub(super) fn of_workload(
    reading: &mut Reading<'_>,
    selector: &Soft<body::Selector<'_>>,
    path: Path<'_>,
) -> Result<LabelSelector, Unreadable> {
    match reading.value(selector, path)? {
        Some(selector) => requirements(reading, &selector.of_workload, path),
        None => Ok(LabelSelector::default()),
    }
}

fn requirements(
    reading: &mut Reading<'_>,
    selector: &body::LabelSelector<'_>,
    path: Path<'_>,
) -> Result<LabelSelector, Unreadable> {
    Ok(LabelSelector {
        match_labels: reading.labels(&selector.match_labels, path.field("matchLabels"))?,
        match_expressions: reading.list(
            &selector.match_expressions,
            path.field("matchExpressions"),
            requirement,
        )?,
    })
}

fn requirement(
    reading: &mut Reading<'_>,
    requirement: &body::LabelRequirement<'_>,
    path: Path<'_>,
) -> Result<LabelRequirement, Unreadable> {
    let key = reading.text_or_empty(&requirement.key, path.field("key"))?;
    let values = reading.all_texts(&requirement.values, path.field("values"))?;
    let operator_path = path.field("operator");
    let operator = reading.text_or_empty(&requirement.operator, operator_path)?;
    LabelRequirement::new(key, &operator, values)
        .ok_or_else(|| reading.bad(operator_path, "not an operator of label selectors"))
}
