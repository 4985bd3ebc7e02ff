//! Decides which of a resource's subresources a path addresses.

use kubegc_core::{KindId, identity::split_api_version};
use kubegc_sim::{ApiServer, Subresource};

use super::call::Verb;

/// The subresource of this name, if the resource has it.
pub(super) fn find(server: &ApiServer, kind: KindId, name: &str) -> Option<Subresource> {
    let mut parts = server.subresources(kind).into_iter();
    parts.find(|part| part.name == name)
}

/// Whether a subresource takes a verb.
pub(super) fn takes(part: &Subresource, verb: Verb) -> bool {
    part.verbs.contains(&verb.as_str())
}

/// Group and version of the kind that a subresource is of, where that is not the resource's own.
pub(super) fn group_version(part: &Subresource) -> Option<(&'static str, &'static str)> {
    (!part.api_version.is_empty()).then(|| split_api_version(part.api_version))
}
