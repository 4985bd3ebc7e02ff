//! The controller that creates and deletes the APIServices of CustomResourceDefinitions.
//!
//! Upstream runs it inside the API server. Here the caller steps it and controls when it acts.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{DeleteOptions, KindId, Preconditions};
use serde_json::{Value, json};

use super::{cleaner::definition_kind, kinds_of, resources_of};
use crate::{ApiServer, StoredObject};

/// Marks the APIServices that the API server manages; the value `true` those that it always manages.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// The controller that keeps one APIService for each group and version of CustomResourceDefinitions.
///
/// It creates the APIService with the first definition and deletes it once the last one no longer exists. It
/// creates one that was deleted alone again, and restores a changed spec. APIServices without the label
/// `kube-aggregator.kubernetes.io/automanaged: "true"` are ignored.
///
/// The default is the controller of a starting API server: it corrects every APIService. For a loaded state
/// there is [`resumed`](Self::resumed).
///
/// # Upstream
/// [`handleVersionUpdate`](https://github.com/kubernetes/kubernetes/blob/v1.30.0/pkg/controlplane/controller/crdregistration/crdregistration_controller.go)
/// and
/// [`checkAPIService`](https://github.com/kubernetes/kubernetes/blob/v1.20.2/staging/src/k8s.io/kube-aggregator/pkg/controllers/autoregister/autoregister_controller.go),
/// the same from 1.13 to 1.37.
///
/// # Complexity
/// A step is O(d + a) for d definitions and a APIServices: step it after one of them changed.
///
/// # Examples
/// ```
/// use kubegc_core::{Catalog, KubernetesVersion, deletion::DeleteOptionsSpec};
/// use kubegc_sim::{ApiServer, CrdCleaner, CrdRegistration, CrdStep, RegistrationStep};
/// use serde_json::json;
/// let version = KubernetesVersion::LATEST;
/// let mut server = ApiServer::new(version, Catalog::builtin(version));
/// let kind = |group, kind| Catalog::builtin(version).mapping(group, kind).expect("built in");
/// let crds = kind("apiextensions.k8s.io/v1", "CustomResourceDefinition");
/// let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {
///     "group": "example.com", "scope": "Cluster", "names": {"kind": "Widget", "plural": "widgets"},
///     "versions": [{"name": "v1", "served": true, "storage": true}]}});
/// assert_eq!(server.create_json(crds, "", definition).code, 201);
/// let mut registration = CrdRegistration::default();
/// let created = RegistrationStep::Created { name: "v1.example.com".into() };
/// assert_eq!(registration.step(&mut server), created);
///
/// server.delete(crds, "", "widgets.example.com", &DeleteOptionsSpec::default());
/// assert_eq!(registration.step(&mut server), RegistrationStep::Idle);
/// let mut cleaner = CrdCleaner::default();
/// while cleaner.step(&mut server) != CrdStep::Idle {}
/// let deleted = RegistrationStep::Deleted { name: "v1.example.com".into() };
/// assert_eq!(registration.step(&mut server), deleted);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrdRegistration {
    /// Names that disagreed with the definitions when the state was loaded, and still do.
    ignored: BTreeSet<Arc<str>>,
}

/// The result of a step of a [`CrdRegistration`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationStep {
    /// Nothing: every APIService agrees with the definitions.
    Idle,
    /// It created this APIService.
    Created { name: Arc<str> },
    /// It wrote the spec of this APIService.
    Updated { name: Arc<str> },
    /// It deleted this APIService.
    Deleted { name: Arc<str> },
}

/// The correction of one APIService: whether it is wanted, and the existing one. A wanted one is created or
/// written, another one is deleted.
type Correction = (bool, Option<Arc<StoredObject>>);

impl CrdRegistration {
    /// The controller of an API server that is already running. It ignores an APIService that already
    /// disagrees with the definitions, until the two agree.
    ///
    /// A running API server has corrected all APIServices, so a disagreement means that the loaded state is
    /// incomplete.
    pub fn resumed(server: &ApiServer) -> Self {
        let due = api_services(server).map(|kind| corrections(server, kind));
        Self {
            ignored: due.into_iter().flatten().map(|(name, _)| name).collect(),
        }
    }

    /// Corrects the first APIService, by name, that disagrees with the definitions.
    pub fn step(&mut self, server: &mut ApiServer) -> RegistrationStep {
        let Some(kind) = api_services(server) else {
            return RegistrationStep::Idle;
        };
        let corrections = corrections(server, kind);
        self.ignored.retain(|name| corrections.contains_key(name));
        for (name, (is_wanted, existing)) in corrections {
            if self.ignored.contains(&name) {
                continue;
            }
            let (response, step) = match existing {
                None => {
                    let created = server.create_json(kind, "", api_service(server, &name));
                    (created, RegistrationStep::Created { name: name.clone() })
                }
                Some(existing) if is_wanted => {
                    let mut object = StoredObject::clone(&existing);
                    object.body_mut().insert("spec".to_owned(), spec(&name));
                    let updated = server.update(kind, "", &name, object);
                    (updated, RegistrationStep::Updated { name: name.clone() })
                }
                Some(existing) => {
                    let options = DeleteOptions {
                        preconditions: Preconditions::uid(existing.meta.uid.clone()),
                        ..DeleteOptions::default()
                    };
                    let deleted = server.delete_with(kind, "", &name, &options);
                    (deleted, RegistrationStep::Deleted { name: name.clone() })
                }
            };
            if response.is_success() {
                return step;
            }
            // The server would refuse the same request again.
            self.ignored.insert(name);
        }
        RegistrationStep::Idle
    }
}

/// The kind of APIServices, if the server has it.
fn api_services(server: &ApiServer) -> Option<KindId> {
    let catalog = server.catalog();
    let kind = catalog.by_resource("apiregistration.k8s.io", "v1", "apiservices")?;
    server.serves(kind).then_some(kind)
}

/// The due corrections, by name of the APIService.
fn corrections(server: &ApiServer, kind: KindId) -> BTreeMap<Arc<str>, Correction> {
    let wanted = wanted(server).into_iter();
    let mut corrections: BTreeMap<_, Correction> = wanted.map(|name| (name, (true, None))).collect();
    for existing in server.objects(kind, None) {
        let meta = &existing.meta;
        let label = meta.labels.get(AUTOMANAGED);
        let managed = label.is_some_and(|value| &**value == "true");
        let is_wanted = corrections.remove(&meta.name).is_some();
        let name = Arc::clone(&meta.name);
        let stored = existing.at(&["spec"]);
        let is_due = match is_wanted {
            true => stored.is_some_and(|stored| *stored != spec(&name)),
            false => !meta.is_deleting(),
        };
        if managed && is_due {
            corrections.insert(name, (is_wanted, Some(existing)));
        }
    }
    corrections
}

/// The names of the APIServices of all definitions: one for each group and served version.
fn wanted(server: &ApiServer) -> BTreeSet<Arc<str>> {
    let mut wanted = BTreeSet::new();
    let definitions = definition_kind(server).map(|kind| server.objects(kind, None));
    for definition in definitions.into_iter().flatten() {
        let mut resources = resources_of(&definition);
        if resources.is_empty() {
            // Only metadata is known: the catalog defines its versions.
            let kinds = kinds_of(server, &definition).into_iter();
            resources.extend(kinds.map(|kind| server.catalog()[kind].clone()));
        }
        let names = resources.iter().map(|of| format!("{}.{}", of.version, of.group));
        wanted.extend(names.map(Arc::from));
    }
    wanted
}

/// The APIService of a group and version that the API server itself serves.
fn api_service(server: &ApiServer, name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {AUTOMANAGED: "true"}},
        "spec": spec(name),
        "status": {"conditions": [{
            "type": "Available", "status": "True", "reason": "Local",
            "message": "Local APIServices are always available",
            "lastTransitionTime": server.now().truncate_to_secs().to_string(),
        }]},
    })
}

/// The spec of an APIService for custom resources.
fn spec(name: &str) -> Value {
    let (version, group) = name.split_once('.').unwrap_or((name, ""));
    json!({"group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 100})
}
