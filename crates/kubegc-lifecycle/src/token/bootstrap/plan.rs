//! Fixes what is known of bootstrap tokens and plans the deletion of those that have expired.

use std::{fmt, sync::Arc};

use kubegc_core::{
    DeleteOptions, Kept, KubernetesVersion, ObjectMeta, PlanOf, Planner, Preconditions, StoreError, Timestamp,
};

use super::expiry::{self, Expiry};
use crate::object::{Act, Call, Failure, Object, Resource, Sent, Wire, by_identity, expected};

/// The namespace of bootstrap tokens.
pub const NAMESPACE: &str = "kube-system";
/// The type of their secrets.
pub const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";

/// Whether expired bootstrap tokens are deleted.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Whether the controller runs. Default: yes, as in clusters that kubeadm made.
    ///
    /// Upstream: `--controllers` of kube-controller-manager must name `tokencleaner`, which kubeadm sees to. Off, expired tokens stay, and are
    /// refused.
    pub enabled: bool,
}

impl Settings {
    /// The settings for a release. All known releases are alike.
    #[must_use]
    pub const fn new(_version: KubernetesVersion) -> Self {
        Self { enabled: true }
    }
}

impl Default for Settings {
    /// The settings for the newest release that the recordings describe.
    fn default() -> Self {
        Self::new(KubernetesVersion::LATEST)
    }
}

/// What a plan rests on.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// Secrets as they were listed. Others than bootstrap tokens may be among them.
    pub secrets: Vec<Secret>,
}

/// A secret, as far as its deletion depends on it.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Secret {
    /// Metadata.
    pub meta: ObjectMeta,
    /// `type`; `None` where nothing is known of it.
    pub secret_type: Option<Arc<str>>,
    /// `data.expiration`.
    pub expiration: Expiration,
}

/// What a secret says of its expiry.
#[expect(clippy::exhaustive_enums, reason = "callers say which")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Expiration {
    /// Nobody knows.
    #[default]
    Unknown,
    /// Nothing.
    Absent,
    /// This, decoded. An empty text says nothing.
    Text(Arc<str>),
}

/// What is done to a token.
#[expect(clippy::exhaustive_enums, reason = "an executor must handle each")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Deletes the secret.
    Delete {
        /// The secret.
        object: Object,
        /// The secret as it was listed; its uid is known. Upstream expects the uid alone.
        expect: Preconditions,
        /// Why.
        reason: Reason,
    },
}

impl Action {
    /// What upstream makes of a failed deletion: what is gone or another one is no concern, all else is told, and nothing tries again before the
    /// secret changes or the controller starts anew.
    #[must_use]
    pub const fn failure(error: &StoreError) -> Failure {
        Failure::unless_gone_or_changed(error)
    }
}

impl Act for Action {
    fn object(&self) -> &Object {
        let Self::Delete { object, .. } = self;
        object
    }

    fn expect(&self) -> &Preconditions {
        let Self::Delete { expect, .. } = self;
        expect
    }

    fn calls(&self, wire: Wire) -> Vec<Call> {
        let Self::Delete { object, expect, .. } = self;
        let options = DeleteOptions::default();
        vec![Call::delete(object, expect, wire, Sent::Uid, options)]
    }
}

/// Why a secret is deleted or stays.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// It has expired.
    Expired {
        /// Since when.
        since: Timestamp,
    },
    /// Its expiry is no date, which counts as expired.
    ExpiryUnreadable {
        /// What stands there.
        text: Arc<str>,
    },
    /// It has not expired.
    NotExpired {
        /// When it does.
        until: Timestamp,
    },
    /// It has no expiry, or one beyond what a [`Timestamp`] can tell.
    NeverExpires,
    /// It is no bootstrap token.
    OtherType,
    /// It is not in the namespace of bootstrap tokens.
    OtherNamespace,
    /// The controller does not run.
    Disabled,
    /// Its deletion was asked for already.
    Deleting,
    /// Two listed secrets have this name and are not alike.
    ListedTwice,
    /// A field that decides is not known.
    NotKnown {
        /// The field.
        field: &'static str,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { since } => write!(f, "expired at {since}"),
            Self::ExpiryUnreadable { text } => {
                write!(f, "counts as expired: {text:?} is not an RFC 3339 date")
            }
            Self::NotExpired { until } => write!(f, "stays until {until}"),
            Self::NeverExpires => f.write_str("never expires"),
            Self::OtherType => f.write_str("is not a bootstrap token"),
            Self::OtherNamespace => f.write_str("is not in kube-system"),
            Self::Disabled => f.write_str("bootstrap tokens are not deleted"),
            Self::Deleting => f.write_str("is being deleted"),
            Self::ListedTwice => f.write_str("listed twice, and not alike"),
            Self::NotKnown { field } => write!(f, "its {field} is not known"),
        }
    }
}

impl Planner for Settings {
    type Facts = Facts;
    type Action = Action;
    type Object = Object;
    type Reason = Reason;
    type Summary = ();

    /// Plans the deletion of what has expired, in the order of namespaces and names. Upstream deletes each token at the very time of its
    /// expiry, which is also when `next_at` is.
    ///
    /// # Complexity
    /// O(n log n) in the number of secrets.
    fn plan(&self, facts: &Facts, now: Timestamp) -> PlanOf<Self> {
        let mut plan = PlanOf::<Self>::default();
        for (object, secret) in by_identity(Resource::Secrets, &facts.secrets, |secret| &secret.meta) {
            let reason = secret.map_or(Reason::ListedTwice, |secret| self.fate(secret, now));
            match (secret, &reason) {
                (Some(secret), Reason::Expired { .. } | Reason::ExpiryUnreadable { .. }) => {
                    plan.actions.push(Action::Delete {
                        object,
                        expect: expected(&secret.meta),
                        reason,
                    });
                }
                (_, kept) => {
                    if let Reason::NotExpired { until } = *kept {
                        plan.next_at = plan.next_at.into_iter().chain([until]).min();
                    }
                    plan.kept.push(Kept { object, reason });
                }
            }
        }
        plan
    }
}

impl Settings {
    fn fate(&self, secret: &Secret, now: Timestamp) -> Reason {
        if !self.enabled {
            return Reason::Disabled;
        }
        if &*secret.meta.namespace != NAMESPACE {
            return Reason::OtherNamespace;
        }
        if secret.meta.is_deleting() {
            return Reason::Deleting;
        }
        match secret.secret_type.as_deref() {
            Some(SECRET_TYPE) => {}
            Some(_) => return Reason::OtherType,
            None => return Reason::NotKnown { field: "type" },
        }
        let text = match &secret.expiration {
            Expiration::Unknown => {
                let field = "data.expiration";
                return Reason::NotKnown { field };
            }
            Expiration::Text(text) if !text.is_empty() => text,
            Expiration::Absent | Expiration::Text(_) => return Reason::NeverExpires,
        };
        // The deletion has to expect it.
        if secret.meta.uid.is_empty() {
            let field = "metadata.uid";
            return Reason::NotKnown { field };
        }
        match expiry::read(text) {
            Expiry::At(since) if since <= now => Reason::Expired { since },
            Expiry::At(until) => Reason::NotExpired { until },
            Expiry::Never => Reason::NeverExpires,
            Expiry::Unreadable => Reason::ExpiryUnreadable {
                text: Arc::clone(text),
            },
        }
    }
}
