//! Intents: what a client deletes.

use std::{sync::Arc, time::Duration};

use kubegc_core::{DeleteOptions, FieldError};
use kubegc_sim::Selector;

/// One thing to be deleted.
///
/// # Examples
/// ```
/// use kubegc_core::{DeleteOptions, PropagationPolicy};
/// use kubegc_predict::Intent;
/// let options = DeleteOptions::policy(PropagationPolicy::Foreground);
/// let delete = Intent::delete("shop/Deployment/web".parse()?, options);
/// assert!(delete.after.is_zero());
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    pub target: Target,
    /// The options of the request: propagation policy, preconditions, grace period, dry run.
    pub options: DeleteOptions,
    /// Time of the request, since the beginning. The intents of a question must be in this order.
    pub after: Duration,
}

/// The target of a deletion.
///
/// # Examples
/// All Secrets of an application, in every namespace.
/// ```
/// use std::time::Duration;
/// use kubegc_core::DeleteOptions;
/// use kubegc_predict::{Intent, Target};
/// let target = Target::Labelled {
///     kind: "secrets".into(),
///     namespace: None,
///     selector: "app=shop".parse()?,
/// };
/// let delete = Intent { target, options: DeleteOptions::default(), after: Duration::ZERO };
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// One object. The content of a Namespace and the objects of a CustomResourceDefinition are deleted with
    /// it.
    Object(ObjectName),
    /// All objects of a kind with these labels, in one namespace or in all.
    Labelled {
        /// As in [`ObjectName`].
        kind: Arc<str>,
        /// The namespace; `None` for all.
        namespace: Option<Arc<str>>,
        selector: Selector,
    },
}

impl Intent {
    /// Deletes one object.
    pub const fn delete(object: ObjectName, options: DeleteOptions) -> Self {
        Self {
            target: Target::Object(object),
            options,
            after: Duration::ZERO,
        }
    }
}

/// An object as people name it.
///
/// # Examples
/// ```
/// use kubegc_predict::ObjectName;
/// let name: ObjectName = "shop/Deployment/web".parse()?;
/// assert_eq!((&*name.namespace, &*name.kind, &*name.name), ("shop", "Deployment", "web"));
/// assert!("web".parse::<ObjectName>().is_err());
/// # Ok::<(), kubegc_core::FieldError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// A name that [`Catalog::named`](kubegc_core::Catalog::named) takes: `Deployment`, `deploy`,
    /// `deployments.apps`, `apps/v1/Deployment`. One that fits several groups means the core group, and is
    /// ambiguous if the core group does not have it.
    pub kind: Arc<str>,
    pub name: Arc<str>,
}

impl std::str::FromStr for ObjectName {
    type Err = FieldError;

    /// Reads `namespace/Kind/name`, or `Kind/name` for cluster-scoped objects.
    fn from_str(text: &str) -> Result<Self, FieldError> {
        let parts: Vec<&str> = text.split('/').collect();
        let (namespace, kind, name) = match parts.as_slice() {
            [kind, name] => ("", *kind, *name),
            [namespace, kind, name] => (*namespace, *kind, *name),
            _ => {
                return Err(FieldError::invalid(
                    "object",
                    text,
                    "expected namespace/Kind/name or Kind/name",
                ));
            }
        };
        if kind.is_empty() || name.is_empty() {
            return Err(FieldError::invalid(
                "object",
                text,
                "kind and name must not be empty",
            ));
        }
        Ok(Self {
            namespace: namespace.into(),
            kind: kind.into(),
            name: name.into(),
        })
    }
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        write!(f, "{}/{}", self.kind, self.name)
    }
}
