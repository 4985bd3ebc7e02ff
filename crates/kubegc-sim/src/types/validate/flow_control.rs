//! Flow schemas and priority levels.
//!
//! # Upstream
//! [`pkg/apis/flowcontrol/validation`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/flowcontrol/validation/validation.go).
//! The fixed values of mandatory objects are not compared.

use super::super::{
    field::{At, Check},
    go_syntax,
};
use crate::formats;

fn has_wildcard(list: &At<'_>) -> bool {
    list.texts().contains(&"*")
}

pub(super) fn known_verbs(verbs: &At<'_>, c: &mut Check) {
    const VERBS: [&str; 9] = [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "proxy",
        "update",
        "watch",
    ];
    if !has_wildcard(verbs) && !verbs.texts().iter().all(|verb| VERBS.contains(verb)) {
        let shown = go_syntax::value(c.version, verbs.value, "[]string");
        verbs.unsupported_as(c, &shown, &VERBS);
    }
}

pub(super) fn hand_size(queuing: &At<'_>, c: &mut Check) {
    const ENTROPY_MAX: f64 = 60.0;
    let hand = queuing.get("handSize");
    let (queues, size) = (queuing.get("queues").number(), hand.number());
    // `RequiredEntropyBits`: about the bits that choosing a hand of cards takes.
    let entropy = ((queues as f64).log2() * size as f64).ceil();
    let problem = if size <= 0 {
        "must be positive".to_owned()
    } else if size > queues {
        format!("should not be greater than queues ({queues})")
    } else if entropy > ENTROPY_MAX {
        format!(
            "required entropy bits of deckSize {queues} and handSize {size} should not be greater than {ENTROPY_MAX}"
        )
    } else {
        return;
    };
    hand.invalid(c, &problem);
}

/// The namespaces of a rule that are not all of them.
pub(super) fn namespace(namespace: &At<'_>, c: &mut Check) {
    for problem in formats::label(c.version, namespace.text()) {
        let problem = format!("each member of this list must be '*' or a DNS-1123 label; {problem}");
        namespace.invalid(c, &problem);
    }
}
