//! Delete options, and the part of a DELETE that changes metadata: finalizers of the garbage collector, and
//! the deletion timestamp.

use std::{fmt, str::FromStr, sync::Arc};

use crate::{
    ObjectMeta, ResourceVersion, Timestamp, Uid,
    catalog::DefaultDeletion,
    error::{FieldError, StoreError},
    metadata::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN},
};

/// The propagation policy of a deletion: whether and when the dependents are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum PropagationPolicy {
    /// The dependents are orphaned: their references to the object are removed first.
    Orphan,
    /// The object is deleted first, its dependents afterwards.
    Background,
    /// The blocking dependents are deleted first, then the object.
    Foreground,
}

impl PropagationPolicy {
    /// The value of `propagationPolicy` on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Orphan => "Orphan",
            Self::Background => "Background",
            Self::Foreground => "Foreground",
        }
    }
}

impl FromStr for PropagationPolicy {
    type Err = FieldError;

    fn from_str(text: &str) -> Result<Self, FieldError> {
        match text {
            "Orphan" => Ok(Self::Orphan),
            "Background" => Ok(Self::Background),
            "Foreground" => Ok(Self::Foreground),
            _ => Err(FieldError::NotSupported {
                field: "propagationPolicy".to_owned(),
                value: text.to_owned(),
                supported: vec!["Foreground", "Background", "Orphan", "nil"],
            }),
        }
    }
}

/// The preconditions of a deletion on the stored object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "camelCase")
)]
pub struct Preconditions {
    pub uid: Option<Uid>,
    pub resource_version: Option<ResourceVersion>,
}

impl Preconditions {
    /// Expects only the uid.
    pub const fn uid(uid: Uid) -> Self {
        Self {
            uid: Some(uid),
            resource_version: None,
        }
    }

    pub fn hold(&self, meta: &ObjectMeta) -> bool {
        self.check(meta).is_ok()
    }

    fn check(&self, meta: &ObjectMeta) -> Result<(), StoreError> {
        let conflict = |field: &str, expected: &dyn fmt::Display, stored: &dyn fmt::Display| {
            let message = format!("the precondition expects {field} {expected}, and the object has {stored}");
            Err(StoreError::Conflict { message })
        };
        match self {
            Self { uid: Some(uid), .. } if *uid != meta.uid => conflict("the uid", uid, &meta.uid),
            Self {
                resource_version: Some(version),
                ..
            } if *version != meta.resource_version => {
                conflict("the resourceVersion", version, &meta.resource_version)
            }
            _ => Ok(()),
        }
    }
}

/// The body of a DELETE, valid by construction: see [`DeleteOptionsSpec`] for the wire form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeleteOptions {
    /// The propagation; `None` for that of the object's finalizers, or the default of its kind.
    pub propagation: Option<Propagation>,
    pub preconditions: Preconditions,
    /// Grace period of a pod in seconds; `None` uses the pod's own.
    pub grace_period_seconds: Option<i64>,
    /// Returns the response of a deletion, but changes nothing.
    pub dry_run: bool,
}

/// The field that sets the propagation.
///
/// The two fields differ. `orphanDependents: false` results in code 202 if the object remains for a while; a
/// policy never does. On namespaces, `false` requests foreground deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Propagation {
    /// `propagationPolicy`.
    Policy(PropagationPolicy),
    /// The legacy `orphanDependents`.
    OrphanDependents(bool),
}

impl DeleteOptions {
    pub fn policy(policy: PropagationPolicy) -> Self {
        Self {
            propagation: Some(Propagation::Policy(policy)),
            ..Self::default()
        }
    }
}

/// The fields of `DeleteOptions` as they were sent, before validation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "camelCase", default)
)]
pub struct DeleteOptionsSpec {
    /// `propagationPolicy`, any string.
    pub propagation_policy: Option<String>,
    pub orphan_dependents: Option<bool>,
    pub preconditions: Option<Preconditions>,
    pub grace_period_seconds: Option<i64>,
    pub dry_run: Vec<String>,
}

impl DeleteOptionsSpec {
    /// Validates the fields as the API server does and returns consistent options.
    ///
    /// # Errors
    /// Every problem, in the API server's order: both propagation fields set, an unknown policy, a dry run
    /// other than `All`.
    ///
    /// # Upstream
    /// [`ValidateDeleteOptions`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/staging/src/k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go).
    ///
    /// # Examples
    /// ```
    /// use kubegc_core::deletion::DeleteOptionsSpec;
    /// let spec = DeleteOptionsSpec { propagation_policy: Some("Sideways".into()), ..Default::default() };
    /// assert_eq!(
    ///     spec.validate().unwrap_err()[0].to_string(),
    ///     r#"propagationPolicy: Unsupported value: "Sideways": supported values: "Foreground", "Background", "Orphan", "nil""#,
    /// );
    /// ```
    pub fn validate(&self) -> Result<DeleteOptions, Vec<FieldError>> {
        let mut problems = Vec::new();
        if let (Some(policy), Some(_)) = (&self.propagation_policy, self.orphan_dependents) {
            problems.push(FieldError::invalid(
                "propagationPolicy",
                policy,
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        let policy = self.propagation_policy.as_deref();
        let policy = policy.map(PropagationPolicy::from_str).transpose();
        let policy = policy.unwrap_or_else(|problem| {
            problems.push(problem);
            None
        });
        if let Some(other) = self.dry_run.iter().find(|value| *value != "All") {
            problems.push(FieldError::NotSupported {
                field: "dryRun".to_owned(),
                value: other.clone(),
                supported: vec!["All"],
            });
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(DeleteOptions {
            propagation: policy
                .map(Propagation::Policy)
                .or(self.orphan_dependents.map(Propagation::OrphanDependents)),
            preconditions: self.preconditions.clone().unwrap_or_default(),
            grace_period_seconds: self.grace_period_seconds,
            dry_run: !self.dry_run.is_empty(),
        })
    }
}

/// The result of a DELETE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deleted {
    Removed,
    /// The object is terminating, in this state.
    Terminating(Box<ObjectMeta>),
}

/// Applies a DELETE as an API server does: the object is removed, or is terminating with these finalizers.
///
/// `default` is the propagation of the object's kind where `options` name none
/// ([`ApiResource::default_deletion`](crate::ApiResource::default_deletion)). Pods are the exception: their
/// grace period depends on their node and phase, which metadata does not contain.
///
/// # Errors
/// [`StoreError::Conflict`]: the object does not meet a precondition.
///
/// # Upstream
/// [`Store.Delete`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go).
///
/// # Examples
/// ```
/// use kubegc_core::{DeleteOptions, ObjectMeta, PropagationPolicy, Timestamp};
/// use kubegc_core::{DefaultDeletion, deletion::{Deleted, begin_deletion}};
///
/// let meta = ObjectMeta::new("shop", "web", "u1");
/// let options = DeleteOptions::policy(PropagationPolicy::Foreground);
/// match begin_deletion(&meta, DefaultDeletion::Delete, &options, Timestamp::EPOCH)? {
///     Deleted::Terminating(meta) => assert_eq!(&*meta.finalizers[0], "foregroundDeletion"),
///     Deleted::Removed => unreachable!("it waits for its dependents"),
/// }
/// # Ok::<(), kubegc_core::StoreError>(())
/// ```
pub fn begin_deletion(
    meta: &ObjectMeta,
    default: DefaultDeletion,
    options: &DeleteOptions,
    now: Timestamp,
) -> Result<Deleted, StoreError> {
    options.preconditions.check(meta)?;
    let mut meta = meta.clone();
    if let Some(finalizers) = finalizers_of_deletion(&meta.finalizers, default, options.propagation) {
        meta.finalizers = finalizers;
    }
    if meta.finalizers.is_empty() {
        return Ok(Deleted::Removed);
    }
    mark_terminating(&mut meta, now);
    Ok(Deleted::Terminating(Box::new(meta)))
}

/// The finalizers of an object after a DELETE has set or removed those of the garbage collector; `None` if
/// they stay the same.
///
/// # Upstream
/// [`deletionFinalizersForGarbageCollection`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go).
pub fn finalizers_of_deletion(
    finalizers: &[Arc<str>],
    default: DefaultDeletion,
    propagation: Option<Propagation>,
) -> Option<Vec<Arc<str>>> {
    let wanted = wanted_finalizer(finalizers, default, propagation);
    let present = |name: &str| finalizers.iter().any(|finalizer| **finalizer == *name);
    let is_unchanged = COLLECTORS
        .iter()
        .all(|name| present(name) == (wanted == Some(*name)));
    if is_unchanged {
        return None;
    }
    let kept = finalizers
        .iter()
        .filter(|finalizer| !COLLECTORS.contains(&&***finalizer))
        .cloned();
    Some(kept.chain(wanted.map(Arc::from)).collect())
}

/// The finalizers of the garbage collector.
const COLLECTORS: [&str; 2] = [FINALIZER_ORPHAN, FINALIZER_FOREGROUND];

/// The finalizer of the garbage collector that a deletion sets, if any.
fn wanted_finalizer(
    finalizers: &[Arc<str>],
    default: DefaultDeletion,
    propagation: Option<Propagation>,
) -> Option<&'static str> {
    if default == DefaultDeletion::Unsupported {
        return None;
    }
    match propagation {
        Some(Propagation::OrphanDependents(true) | Propagation::Policy(PropagationPolicy::Orphan)) => {
            Some(FINALIZER_ORPHAN)
        }
        Some(Propagation::Policy(PropagationPolicy::Foreground)) => Some(FINALIZER_FOREGROUND),
        Some(Propagation::OrphanDependents(false) | Propagation::Policy(PropagationPolicy::Background)) => {
            None
        }
        None => finalizers
            .iter()
            .find_map(|finalizer| COLLECTORS.into_iter().find(|name| **finalizer == **name))
            .or((default == DefaultDeletion::Orphan).then_some(FINALIZER_ORPHAN)),
    }
}

/// Marks an object as terminating. It is removed as soon as it has no finalizers.
///
/// # Upstream
/// [`markAsDeleting`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/apiserver/pkg/registry/generic/registry/store.go).
pub fn mark_terminating(meta: &mut ObjectMeta, now: Timestamp) {
    if meta.deletion_timestamp.is_none() && meta.generation > 0 {
        meta.generation += 1;
    }
    if meta.deletion_timestamp.is_none_or(|deletion| deletion > now) {
        meta.deletion_timestamp = Some(now.truncate_to_secs());
    }
    meta.deletion_grace_period_seconds = Some(0);
}
