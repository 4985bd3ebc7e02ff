//! Aggregates error messages as upstream does ([N3.50](crate::rules#n3-50)).

use std::collections::BTreeSet;

/// Joins messages: `None` without messages, the message itself if all are equal, otherwise `[a, b]`.
/// Duplicates are removed; the order is that of the first occurrence.
///
/// For a nested aggregate, pass its messages one by one. *O*(n log n) for n messages.
///
/// # Upstream
/// [`NewAggregate`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apimachinery/pkg/util/errors/errors.go),
/// 1.20 to 1.36.
///
/// # Examples
/// ```
/// use kubegc_node::aggregate;
/// assert_eq!(aggregate(["runtime", "disk", "runtime", "pods"]).as_deref(), Some("[runtime, disk, pods]"));
/// assert_eq!(aggregate(["disk", "", "disk"]).as_deref(), Some("[disk, ]"));
/// assert_eq!(aggregate(["disk", "disk"]).as_deref(), Some("disk"));
/// assert_eq!(aggregate([""]).as_deref(), Some(""));
/// assert_eq!(aggregate([""; 0]), None);
/// ```
pub fn aggregate<I>(messages: I) -> Option<String>
where
    I: IntoIterator,
    I::Item: AsRef<str>,
{
    let messages: Vec<I::Item> = messages.into_iter().collect();
    let mut seen = BTreeSet::new();
    let distinct: Vec<&str> = messages
        .iter()
        .map(AsRef::as_ref)
        .filter(|message| seen.insert(*message))
        .collect();
    match distinct.as_slice() {
        [] => None,
        [only] => Some((*only).to_owned()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}
