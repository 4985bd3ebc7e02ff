//! Delete options: propagation, preconditions, grace period, and validation.

use std::{fmt, str::FromStr};

use crate::{ResourceVersion, Uid, error::FieldError};

/// The propagation policy of a deletion: whether and when the dependents are deleted.
#[expect(
    clippy::exhaustive_enums,
    reason = "the API knows these three; executors must handle each"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Orphan => "Orphan",
            Self::Background => "Background",
            Self::Foreground => "Foreground",
        }
    }
}

impl fmt::Display for PropagationPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
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
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "camelCase")
)]
pub struct Preconditions {
    /// The uid that the stored object must have.
    pub uid: Option<Uid>,
    /// The version that the stored object must have.
    pub resource_version: Option<ResourceVersion>,
}

impl Preconditions {
    /// Expects only the uid.
    #[must_use]
    pub const fn uid(uid: Uid) -> Self {
        Self {
            uid: Some(uid),
            resource_version: None,
        }
    }
}

/// The body of a DELETE, valid by construction: see [`DeleteOptionsSpec`] for the wire form.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeleteOptions {
    /// The propagation; `None` for that of the object's finalizers, or the default of its kind.
    pub propagation: Option<Propagation>,
    /// The preconditions on the stored object.
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
#[expect(clippy::exhaustive_enums, reason = "the API knows these two fields")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Propagation {
    /// `propagationPolicy`.
    Policy(PropagationPolicy),
    /// The legacy `orphanDependents`.
    OrphanDependents(bool),
}

impl DeleteOptions {
    /// Options with a policy only.
    #[must_use]
    pub fn policy(policy: PropagationPolicy) -> Self {
        Self {
            propagation: Some(Propagation::Policy(policy)),
            ..Self::default()
        }
    }
}

/// The fields of `DeleteOptions` as they were sent, before validation.
#[expect(clippy::exhaustive_structs, reason = "a fact that callers build")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "camelCase", default)
)]
pub struct DeleteOptionsSpec {
    /// `propagationPolicy`, any string.
    pub propagation_policy: Option<String>,
    /// `orphanDependents`.
    pub orphan_dependents: Option<bool>,
    /// `preconditions`.
    pub preconditions: Option<Preconditions>,
    /// `gracePeriodSeconds`.
    pub grace_period_seconds: Option<i64>,
    /// `dryRun`.
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
        let policy = match self
            .propagation_policy
            .as_deref()
            .map(PropagationPolicy::from_str)
        {
            Some(Err(problem)) => {
                problems.push(problem);
                None
            }
            Some(Ok(policy)) => Some(policy),
            None => None,
        };
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
