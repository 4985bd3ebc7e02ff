//! The objects that the arguments of `kubectl delete` select.

use std::sync::Arc;

use kubegc_core::{ApiResource, KindId, identity::split_api_version};
use kubegc_sim::Selector;
use kubegc_snapshot::Snapshot;

use crate::{
    Cluster, ObjectName, PredictError, Target,
    error::usage,
    facts::{Facts, unknown_kind, unknown_object},
};

/// The objects that the arguments of `kubectl delete` select.
///
/// | command line | selects |
/// |---|---|
/// | `TYPE NAME...`, `TYPE/NAME...` | objects by name |
/// | `TYPE[,TYPE...] -l SELECTOR` | all objects of these types with these labels |
/// | `TYPE[,TYPE...] --all` | all objects of these types |
/// | `-f FILE` | the objects that manifests name |
/// | `NAMESPACE/TYPE/NAME` | an object as forecasts name it |
///
/// A type is what [`Catalog::named`](kubegc_core::Catalog::named) takes, or a category such as `all`.
///
/// An object of a namespaced kind is looked up in `namespace`. Without one, it is looked up in the namespace
/// `default`, and if it is not there, in all namespaces.
///
/// # Examples
/// ```
/// use kubegc_core::KubernetesVersion;
/// use kubegc_predict::{Assumptions, Cluster, Selection};
/// use kubegc_snapshot::Reader;
///
/// let mut reader = Reader::new(KubernetesVersion::LATEST);
/// reader.read("dump.yaml", &b"
/// apiVersion: apps/v1
/// kind: Deployment
/// metadata: {namespace: shop, name: checkout, uid: u1}
/// "[..])?;
/// let cluster = Cluster::new(KubernetesVersion::LATEST, reader.finish()?, Assumptions::default());
/// let mut selection = Selection::default();
/// selection.arguments = vec!["deploy/checkout".into()];
/// assert_eq!(selection.targets(&cluster)?.len(), 1);
///
/// selection.arguments = vec!["deploy".into(), "chekout".into()];
/// let error = selection.targets(&cluster).unwrap_err();
/// assert_eq!(error.to_string(), "deployments.apps \"chekout\" not found in the dump; did you mean checkout -n shop?");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Upstream
/// [`Builder`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/cli-runtime/pkg/resource/builder.go)
/// of the resources that commands work on.
#[non_exhaustive]
#[derive(Debug, Default)]
pub struct Selection {
    /// The arguments that are not flags.
    pub arguments: Vec<String>,
    pub namespace: Option<Arc<str>>,
    /// `--all-namespaces`.
    pub all_namespaces: bool,
    /// `--selector`.
    pub selector: Option<Selector>,
    /// `--all`.
    pub all: bool,
    /// The manifests of `--filename`. Their objects are matched by kind, namespace and name.
    pub manifests: Vec<Snapshot>,
}

impl Selection {
    /// The selected objects, in the order of the arguments.
    ///
    /// # Errors
    /// The arguments contradict each other, or name a kind that is not known or ambiguous, or an object that
    /// is not in the dump. The message has names that are similar.
    ///
    /// # Complexity
    /// O(n) for n objects of the kinds that are selected without a namespace; otherwise O(log n) for each.
    pub fn targets(&self, cluster: &Cluster) -> Result<Vec<Target>, PredictError> {
        let facts = &cluster.facts;
        let selects_many = self.selector.is_some() || self.all;
        let (first, names) = match &*self.arguments {
            [] if !self.manifests.is_empty() && !selects_many => return self.of_manifests(facts),
            _ if !self.manifests.is_empty() => {
                return usage("manifests select objects alone: give no names, --selector or --all");
            }
            [] => return usage("name the objects, such as deployment/web, deploy web, or pods -l app=web"),
            [first, names @ ..] => (first, names),
        };
        let by_slash = first.contains('/');
        if let Some(name) = names.iter().find(|name| !by_slash && name.contains('/')) {
            return usage(format!(
                "{name}: either all arguments are TYPE/NAME, or the first is a type and the others are names"
            ));
        }
        if selects_many && (by_slash || !names.is_empty()) {
            return usage("objects are selected by name or by --selector or --all, not by both");
        }
        if by_slash {
            let objects = self.arguments.iter();
            return objects.map(|name| self.slash_name(facts, name)).collect();
        }
        if !names.is_empty() {
            let kinds = first.split(',');
            let pairs = kinds.flat_map(|kind| names.iter().map(move |name| (kind, name)));
            let objects = pairs.map(|(kind, name)| self.object(facts, None, kind, name));
            return objects.collect();
        }
        let kinds = kinds(facts, first)?.into_iter();
        if !selects_many {
            return usage(format!(
                "{first} is a type: name objects of it, or select them with --selector or --all"
            ));
        }
        let targets = kinds.map(|kind| Target::Labelled {
            kind: exact(&facts.catalog()[kind]),
            namespace: self.namespace.clone().filter(|_| !self.all_namespaces),
            selector: self.selector.clone().unwrap_or_default(),
        });
        Ok(targets.collect())
    }

    /// Reads `TYPE/NAME` or `NAMESPACE/TYPE/NAME`.
    fn slash_name(&self, facts: &Facts, argument: &str) -> Result<Target, PredictError> {
        let parts: Vec<&str> = argument.split('/').collect();
        let (namespace, kind, name) = match parts.as_slice() {
            [kind, name] => (None, *kind, *name),
            [namespace, kind, name] => (Some(*namespace), *kind, *name),
            _ => return usage(format!("{argument}: expected TYPE/NAME or NAMESPACE/TYPE/NAME")),
        };
        if kind.is_empty() || name.is_empty() {
            return usage(format!("{argument}: type and name must not be empty"));
        }
        self.object(facts, namespace, kind, name)
    }

    /// The object of this name, of the kind that the dump has it of.
    fn object(
        &self,
        facts: &Facts,
        namespace: Option<&str>,
        kind: &str,
        name: &str,
    ) -> Result<Target, PredictError> {
        if self.all_namespaces && namespace.is_none() {
            return usage("an object is not selected by name in all namespaces: use --namespace");
        }
        let namespace = namespace.or(self.namespace.as_deref());
        let catalog = facts.catalog();
        let kinds = catalog.named(kind);
        let Some(&first) = kinds.first() else {
            return Err(unknown_kind(facts, kind));
        };
        let found = kinds
            .iter()
            .map(|&kind| (kind, namespaces_of(facts, namespace, &catalog[kind], name)));
        let mut found: Vec<(KindId, Vec<Arc<str>>)> = found.collect();
        found.retain(|(_, namespaces)| !namespaces.is_empty());
        // As in kubectl, the core group takes precedence.
        if let Some(core) = found.iter().position(|(kind, _)| catalog[*kind].group.is_empty()) {
            found = vec![found.swap_remove(core)];
        }
        match found.as_slice() {
            [] => Err(unknown_object(facts, namespace, &catalog[first], name)),
            [(kind, namespaces)] => match namespaces.as_slice() {
                [namespace] => Ok(Target::Object(ObjectName {
                    namespace: Arc::clone(namespace),
                    kind: exact(&catalog[*kind]),
                    name: name.into(),
                })),
                several => usage(format!(
                    "{} {name:?} is in the namespaces {}: choose one with --namespace",
                    catalog[*kind].qualified_resource(),
                    several.join(", ")
                )),
            },
            several => {
                let kinds: Vec<KindId> = several.iter().map(|(kind, _)| *kind).collect();
                Err(facts.ambiguous_kind(kind, &kinds))
            }
        }
    }

    fn of_manifests(&self, facts: &Facts) -> Result<Vec<Target>, PredictError> {
        // Objects of manifests are named one by one, also with --all-namespaces.
        let one_by_one = Self {
            namespace: self.namespace.clone(),
            ..Self::default()
        };
        let manifests = self.manifests.iter().flat_map(Snapshot::objects);
        let targets = manifests.map(|manifest| {
            // Of the core group, a kind alone may fit others; the version of a manifest may be another one.
            let kind = match split_api_version(manifest.api_version()).0 {
                "" => format!("{}.v1", manifest.kind()),
                group => format!("{}.{group}", manifest.kind()),
            };
            let namespace = Some(&**manifest.namespace()).filter(|namespace| !namespace.is_empty());
            one_by_one.object(facts, namespace, &kind, manifest.name())
        });
        targets.collect()
    }
}

/// The namespaces in which the dump has an object of this name: one for objects that are in no namespace.
fn namespaces_of(facts: &Facts, namespace: Option<&str>, kind: &ApiResource, name: &str) -> Vec<Arc<str>> {
    let is_in = |namespace: &str| {
        let found = facts.find(kind, namespace, name);
        found.map(|_| vec![namespace.into()])
    };
    match namespace {
        _ if !kind.is_namespaced() => is_in("").unwrap_or_default(),
        Some(namespace) => is_in(namespace).unwrap_or_default(),
        None => is_in("default").unwrap_or_else(|| {
            let views = facts.of_kind(kind).map(|position| facts.view(position));
            let same_name = views.filter(|view| **view.name() == *name);
            same_name.map(|view| Arc::clone(view.namespace())).collect()
        }),
    }
}

/// A name that means exactly this resource: a bare kind means that of the core group, if there is one.
fn exact(resource: &ApiResource) -> Arc<str> {
    resource.qualified_kind().into()
}

/// The kinds of `TYPE[,TYPE...]`.
fn kinds(facts: &Facts, types: &str) -> Result<Vec<KindId>, PredictError> {
    let catalog = facts.catalog();
    let mut kinds = Vec::new();
    for name in types.split(',') {
        let of_category = catalog.iter().filter(|(_, resource)| {
            resource.preferred && resource.categories.iter().any(|category| **category == *name)
        });
        let of_category: Vec<KindId> = of_category.map(|(kind, _)| kind).collect();
        if of_category.is_empty() {
            kinds.push(facts.kind(name)?.0);
        }
        kinds.extend(of_category);
    }
    Ok(kinds)
}
