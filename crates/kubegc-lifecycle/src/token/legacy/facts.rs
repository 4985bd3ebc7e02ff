//! Fixes what is known of tokens, of what tracks their uses, and of who may need them.

#![expect(clippy::exhaustive_structs, reason = "facts that callers build")]

use std::sync::Arc;

use kubegc_core::{ObjectMeta, StoreError};

/// What a plan rests on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// Since when uses are tracked.
    pub tracking: Tracking,
    /// Secrets as they were listed. Others than tokens of service accounts may be among them.
    pub secrets: Vec<Secret>,
    /// All service accounts, or why they are not known.
    pub accounts: Result<Vec<ServiceAccount>, StoreError>,
    /// All pods, whatever their phase, or why they are not known.
    pub pods: Result<Vec<Pod>, StoreError>,
}

/// What the ConfigMap `kube-apiserver-legacy-service-account-token-tracking` in `kube-system` says.
#[expect(clippy::exhaustive_enums, reason = "callers say which")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tracking {
    /// Nobody has read it.
    #[default]
    Unknown,
    /// There is no such ConfigMap.
    Missing,
    /// It has no key `since`.
    NoDate,
    /// The value of `since`: a date.
    Since(Arc<str>),
}

/// A secret, as far as its deletion depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Secret {
    /// Metadata. Its labels say when the token was last used, and since when it is invalid.
    pub meta: ObjectMeta,
    /// `type`; `None` where nothing is known of it.
    pub secret_type: Option<Arc<str>>,
    /// The annotation `kubernetes.io/service-account.name`: empty where there is none, `None` where nothing is known of it.
    pub account_name: Option<Arc<str>>,
    /// The annotation `kubernetes.io/service-account.uid`: empty where there is none, `None` where nothing is known of it.
    pub account_uid: Option<Arc<str>>,
}

/// A service account, as far as the deletion of its tokens depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServiceAccount {
    /// Metadata.
    pub meta: ObjectMeta,
    /// The names in its `secrets`: these were made for it. `None` where nothing is known of them.
    pub secrets: Option<Vec<Arc<str>>>,
}

/// A pod, as far as the deletion of tokens depends on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pod {
    /// Metadata.
    pub meta: ObjectMeta,
    /// Every name of a secret that the pod mentions: to pull images, in `env` and `envFrom` of all its containers, in volumes of every kind, projected and CSI
    /// ones included. `None` where nothing is known of them.
    pub secrets: Option<Vec<Arc<str>>>,
}
