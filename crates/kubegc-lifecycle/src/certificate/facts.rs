//! Fixes what is known of certificate signing requests.

#![expect(clippy::exhaustive_structs, reason = "facts that callers build")]

use std::sync::Arc;

use kubegc_core::{ObjectMeta, Timestamp};

use crate::object::Condition;

/// What a plan rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The requests as they were listed.
    pub requests: Vec<Request>,
}

/// A certificate signing request, as far as its deletion depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Metadata. The creation time counts for requests without conditions.
    pub meta: ObjectMeta,
    /// `status.conditions` with type and `lastUpdateTime`; `None` where nothing is known of them. Their status is not read.
    pub conditions: Option<Vec<Condition>>,
    /// `status.certificate`.
    pub certificate: Certificate,
}

/// What is known of an issued certificate.
#[expect(clippy::exhaustive_enums, reason = "callers say which")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Certificate {
    /// Nobody knows whether there is one.
    #[default]
    Unknown,
    /// There is none.
    None,
    /// There is an empty one, as opposed to none. Only before 1.19 does it make a difference.
    Empty,
    /// There is one, and nobody has read it.
    Unread,
    /// Its `NotAfter`. A date beyond what a [`Timestamp`] can tell is the nearest that it can: such certificates do not expire in time.
    NotAfter(Timestamp),
    /// It could not be read. Upstream says `expected the certificate associated with the CSR to be PEM encoded`,
    /// `unable to parse certificate data: <error>` or `no certificates found`.
    Bad(Arc<str>),
}
