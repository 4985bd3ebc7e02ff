//! Fields of certificate requests, secrets, service accounts and config maps.

use std::sync::Arc;

use super::{Condition, Field};
use crate::Timestamp;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CertificateSigningRequest {
    /// `status.conditions`.
    pub conditions: Field<Vec<Condition>>,
    /// `status.certificate`.
    pub certificate: Field<Certificate>,
}

/// `status.certificate` of a CertificateSigningRequest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Certificate {
    #[default]
    Absent,
    /// The field is empty. Only releases before 1.19 distinguish this from an absent field.
    Empty,
    /// `NotAfter` of the first certificate. A date outside the range of [`Timestamp`] becomes the nearest one
    /// in it.
    NotAfter(Timestamp),
    /// The field contains no certificate; the text is Go's error.
    Malformed(Arc<str>),
}

/// Fields of a ConfigMap: the single entry of `data` that a controller reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConfigMap {
    /// `data.since`; `None` if there is no such key.
    pub since: Field<Option<Arc<str>>>,
}

/// Fields of a Secret. Its data is never retained.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Secret {
    /// `type`.
    pub secret_type: Field<Arc<str>>,
    /// The annotation `kubernetes.io/service-account.name`; empty if there is none.
    pub service_account_name: Field<Arc<str>>,
    /// The annotation `kubernetes.io/service-account.uid`; empty if there is none.
    pub service_account_uid: Field<Arc<str>>,
    /// `data.expiration` of a bootstrap token, decoded; empty if there is none. It is not read for other
    /// Secrets.
    pub expiration: Field<Arc<str>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServiceAccount {
    /// The names in `secrets`, in stored order.
    pub secrets: Field<Vec<Arc<str>>>,
}
