//! The input of a forecast: intents, which are what a client deletes, horizon, and controllers.

use std::{sync::Arc, time::Duration};

use kubegc_controllers::{Controller, default_controllers};
use kubegc_core::{DeleteOptions, FieldError, KubernetesVersion, Timestamp};
use kubegc_sim::Selector;

/// A question to a [`Cluster`](crate::Cluster): what happens if these deletes are requested at this time.
///
/// # Examples
/// ```
/// # use kubegc_core::DeleteOptions;
/// # use kubegc_predict::Intent;
/// # let cluster = include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/owner_and_key.in"));
/// use std::time::Duration;
/// use kubegc_predict::Question;
/// let delete = Intent::delete("shop/ConfigMap/owner".parse()?, DeleteOptions::default());
/// let question = Question::new(cluster.version()).delete(delete).up_to(Duration::from_secs(3_600));
/// assert_eq!(cluster.forecast(&question)?.counts()["deleted"], 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Question {
    /// The deletes, in order. Without any, the question is what happens anyway.
    pub intents: Vec<Intent>,
    /// The time of the dump, of the start of every controller, and of the first delete. Default: the time of
    /// the newest event in the dump.
    pub now: Option<Timestamp>,
    /// The length of the period. Default: until nothing changes any more.
    pub horizon: Option<Duration>,
    /// Whether the forecast includes the changes that happen without the deletes. Default: only if there are
    /// none.
    pub everything: bool,
    /// The controllers that run in addition to the garbage collector. Default: those that
    /// kube-controller-manager runs by default. External provisioners named by volumes of the dump are added.
    pub controllers: Vec<Arc<dyn Controller>>,
}

impl Question {
    /// A question without intents, for a cluster of this version.
    pub fn new(version: KubernetesVersion) -> Self {
        Self {
            intents: Vec::new(),
            now: None,
            horizon: None,
            everything: false,
            controllers: default_controllers(version),
        }
    }

    /// The same with one more delete.
    #[must_use]
    pub fn delete(mut self, intent: Intent) -> Self {
        self.intents.push(intent);
        self
    }

    /// The same at this time.
    #[must_use]
    pub const fn at(mut self, now: Timestamp) -> Self {
        self.now = Some(now);
        self
    }

    /// The same up to this time after the beginning.
    #[must_use]
    pub const fn up_to(mut self, horizon: Duration) -> Self {
        self.horizon = Some(horizon);
        self
    }

    /// The same with a controller that replaces the one of its name, or runs in addition to the others.
    #[must_use]
    pub fn with(mut self, controller: impl Controller + 'static) -> Self {
        let name = controller.info().name;
        let mut known = self.controllers.iter_mut();
        match known.find(|known| known.info().name == name) {
            Some(known) => *known = Arc::new(controller),
            None => self.controllers.push(Arc::new(controller)),
        }
        self
    }

    /// The same without the controller of a name, such as `pod-garbage-collector-controller`.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.controllers
            .retain(|controller| controller.info().name != name);
        self
    }

    /// The same with only the controllers of these names.
    #[must_use]
    pub fn only(mut self, names: &[&str]) -> Self {
        self.controllers
            .retain(|controller| names.contains(&controller.info().name));
        self
    }
}

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
        let invalid = |problem| Err(FieldError::invalid("object", text, problem));
        let (namespace, kind, name) = match parts.as_slice() {
            [kind, name] => ("", *kind, *name),
            [namespace, kind, name] => (*namespace, *kind, *name),
            _ => return invalid("expected namespace/Kind/name or Kind/name"),
        };
        if kind.is_empty() || name.is_empty() {
            return invalid("kind and name must not be empty");
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
