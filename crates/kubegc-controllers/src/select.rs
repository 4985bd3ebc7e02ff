//! The controllers that a control plane runs by default, and their choice by name, as the flag
//! `--controllers` of kube-controller-manager makes it.

use std::{fmt, sync::Arc};

use kubegc_core::KubernetesVersion;
use strsim::levenshtein;

use crate::{
    CloudNodeLifecycle, Controller, CronJobHistory, CsrCleaner, LegacyTokenCleaner, NamespaceController,
    NodeLifecycle, PersistentVolumeBinder, PodCertificateRequestCleaner, PodGc, PvcProtection, Rule,
    TokenCleaner, TtlAfterFinished, apiserverleases, controllerrevisions, deployment, job, nodes, protection,
    replicaset, resourceclaim, services, statefulset, tokens, volumeattachment,
};

/// The controllers without settings.
static RULES: [&Rule; 18] = [
    &apiserverleases::RULE,
    &controllerrevisions::DAEMON_SETS,
    &controllerrevisions::STATEFUL_SETS,
    &deployment::RULE,
    &job::RULE,
    &nodes::TAINT_EVICTION,
    &protection::PERSISTENT_VOLUMES,
    &protection::SERVICE_CIDRS,
    &protection::VOLUME_ATTRIBUTES_CLASSES,
    &replicaset::RULE,
    &resourceclaim::RULE,
    &services::ENDPOINTS,
    &services::ENDPOINT_SLICES,
    &services::IP_ADDRESSES,
    &services::MIRRORED_SLICES,
    &statefulset::RULE,
    &tokens::SERVICE_ACCOUNT_TOKENS,
    &volumeattachment::RULE,
];

/// Every controller of this crate that runs by default in a release, with upstream's defaults, by name.
///
/// External provisioners have no defaults: add an [`ExternalProvisioner`](crate::ExternalProvisioner) for
/// each. [`POD_GROUPS`](crate::protection::POD_GROUPS) is off in all releases.
///
/// # Examples
/// ```
/// use kubegc_controllers::default_controllers;
/// use kubegc_core::KubernetesVersion;
/// let controllers = default_controllers(KubernetesVersion::LATEST);
/// assert!(controllers.iter().any(|controller| controller.info().name == "ttl-after-finished-controller"));
/// ```
pub fn default_controllers(version: KubernetesVersion) -> Vec<Arc<dyn Controller>> {
    let mut all: Vec<Arc<dyn Controller>> = vec![
        Arc::new(CloudNodeLifecycle::new(version)),
        Arc::new(CronJobHistory::new(version)),
        Arc::new(CsrCleaner::new(version)),
        Arc::new(LegacyTokenCleaner::new(version)),
        Arc::new(NamespaceController::new(version)),
        Arc::new(NodeLifecycle::new(version)),
        Arc::new(PersistentVolumeBinder::new(version)),
        Arc::new(PodCertificateRequestCleaner::new(version)),
        Arc::new(PodGc::new(version)),
        Arc::new(PvcProtection::new(version)),
        Arc::new(TokenCleaner::new(version)),
        Arc::new(TtlAfterFinished::new(version)),
    ];
    all.extend(RULES.map(|rule| -> Arc<dyn Controller> { Arc::new(rule.at(version)) }));
    all.retain(|controller| controller.info().since.is_none_or(|since| version.has(since)));
    all.sort_by_key(|controller| controller.info().name);
    all
}

/// The names that upstream's controllers had before 1.28, and their names since then.
///
/// # Upstream
/// `KCMControllerAliases` in [`controller_names.go`,
/// 1.34](https://github.com/kubernetes/kubernetes/blob/v1.34.0/cmd/kube-controller-manager/names/controller_names.go).
const ALIASES: &[(&str, &str)] = &[
    ("attachdetach", "persistentvolume-attach-detach-controller"),
    ("cloud-node-lifecycle", "cloud-node-lifecycle-controller"),
    ("cronjob", "cronjob-controller"),
    ("csrcleaner", "certificatesigningrequest-cleaner-controller"),
    ("daemonset", "daemonset-controller"),
    ("deployment", "deployment-controller"),
    ("endpoint", "endpoints-controller"),
    ("endpointslicemirroring", "endpointslice-mirroring-controller"),
    ("job", "job-controller"),
    (
        "legacy-service-account-token-cleaner",
        "legacy-serviceaccount-token-cleaner-controller",
    ),
    ("namespace", "namespace-controller"),
    ("nodelifecycle", "node-lifecycle-controller"),
    ("persistentvolume-binder", "persistentvolume-binder-controller"),
    ("podgc", "pod-garbage-collector-controller"),
    ("pv-protection", "persistentvolume-protection-controller"),
    ("pvc-protection", "persistentvolumeclaim-protection-controller"),
    ("replicaset", "replicaset-controller"),
    ("resource-claim-controller", "resourceclaim-controller"),
    ("serviceaccount-token", "serviceaccount-token-controller"),
    ("statefulset", "statefulset-controller"),
    ("tokencleaner", "token-cleaner-controller"),
    ("ttl-after-finished", "ttl-after-finished-controller"),
];

/// The controllers of a list: `*` for all that run by default in the release, `NAME` for one more,
/// `-NAME` for one less. Of several entries about one controller the first counts. Sorted by name.
///
/// A name is that of [`Info`](crate::Info), or what upstream called the controller before 1.28, such as
/// `podgc`.
///
/// # Errors
/// A name belongs to no controller of the release.
///
/// # Examples
/// ```
/// use kubegc_controllers::select_controllers;
/// use kubegc_core::KubernetesVersion;
/// let select = |list: &[&str]| select_controllers(KubernetesVersion::LATEST, list);
/// assert_eq!(select(&["podgc", "ttl-after-finished-controller"])?.len(), 2);
/// assert_eq!(select(&["*", "-podgc"])?.len() + 1, select(&["*"])?.len());
/// let error = select(&["pvc-protecton"]).unwrap_err();
/// assert_eq!(error.to_string(), "there is no controller \"pvc-protecton\"; did you mean \"pvc-protection\"?");
/// # Ok::<(), kubegc_controllers::UnknownController>(())
/// ```
///
/// # Upstream
/// `IsControllerEnabled` in [`helper.go`,
/// 1.34](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/controller-manager/app/helper.go).
pub fn select_controllers(
    version: KubernetesVersion,
    list: &[impl AsRef<str>],
) -> Result<Vec<Arc<dyn Controller>>, UnknownController> {
    let mut all: Vec<(bool, Arc<dyn Controller>)> = default_controllers(version)
        .into_iter()
        .map(|controller| (true, controller))
        .collect();
    all.push((false, Arc::new(protection::POD_GROUPS.at(version))));
    let has_all = list.iter().any(|entry| entry.as_ref() == "*");
    // The first entry about each controller: its name, and whether it is to run.
    let mut entries = Vec::new();
    for entry in list.iter().map(AsRef::as_ref).filter(|entry| *entry != "*") {
        let (name, runs) = entry
            .strip_prefix('-')
            .map_or((entry, true), |name| (name, false));
        let canonical = canonical(name);
        if !all.iter().any(|(_, known)| known.info().name == canonical) {
            return Err(UnknownController::new(version, name, &all));
        }
        entries.push((canonical, runs));
    }
    all.retain(|(is_default, controller)| {
        let mut about = entries.iter().filter(|(name, _)| *name == controller.info().name);
        about.next().map_or(has_all && *is_default, |(_, runs)| *runs)
    });
    all.sort_by_key(|(_, controller)| controller.info().name);
    Ok(all.into_iter().map(|(_, controller)| controller).collect())
}

fn canonical(name: &str) -> &str {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    alias.map_or(name, |(_, canonical)| *canonical)
}

/// A name that belongs to no controller of a release.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnknownController {
    pub name: String,
    /// A known name that resembles it, if there is one.
    pub nearest: Option<&'static str>,
    /// The release, if a later one has the controller.
    pub missing_in: Option<KubernetesVersion>,
}

impl UnknownController {
    fn new(version: KubernetesVersion, name: &str, known: &[(bool, Arc<dyn Controller>)]) -> Self {
        let canonical = canonical(name);
        let latest = default_controllers(KubernetesVersion::LATEST);
        let is_later = latest.iter().any(|later| later.info().name == canonical);
        let names = known.iter().map(|(_, controller)| controller.info().name);
        let aliases = ALIASES.iter().map(|(alias, _)| *alias);
        let nearest = names.chain(aliases).min_by_key(|known| levenshtein(name, known));
        Self {
            name: name.to_owned(),
            // A name with less than half of the letters in common is not similar.
            nearest: nearest
                .filter(|known| !is_later && levenshtein(name, known) * 2 <= name.chars().count()),
            missing_in: is_later.then_some(version),
        }
    }
}

impl fmt::Display for UnknownController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(version) = self.missing_in {
            return write!(
                f,
                "controller {:?} does not run in Kubernetes {version}",
                self.name
            );
        }
        write!(f, "there is no controller {:?}", self.name)?;
        match self.nearest {
            Some(nearest) => write!(f, "; did you mean {nearest:?}?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for UnknownController {}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<&'static str> {
        let selected = select_controllers(KubernetesVersion::LATEST, list).expect("known names");
        selected.iter().map(|controller| controller.info().name).collect()
    }

    #[test]
    fn the_first_entry_about_a_controller_counts() {
        let podgc = "pod-garbage-collector-controller";
        assert_eq!(names(&["-podgc", "podgc"]), [""; 0]);
        assert_eq!(names(&["podgc", &format!("-{podgc}")]), [podgc]);
        // One that is off by default runs if it is named.
        let groups = "podgroup-protection-controller";
        assert!(!names(&["*"]).contains(&groups) && names(&["*", groups]).contains(&groups));
    }

    #[test]
    fn every_alias_belongs_to_a_controller() {
        for (alias, name) in ALIASES {
            assert_eq!(names(&[alias]), [*name]);
        }
    }

    #[test]
    fn an_unknown_name_is_explained() {
        for (release, name, message) in [
            (
                "1.36",
                "-podcg",
                "there is no controller \"podcg\"; did you mean \"podgc\"?",
            ),
            ("1.36", "coffee", "there is no controller \"coffee\""),
            (
                "1.20",
                "service-cidr-controller",
                "controller \"service-cidr-controller\" does not run in Kubernetes 1.20.0",
            ),
        ] {
            let version: KubernetesVersion = release.parse().expect("a release in range");
            let error = select_controllers(version, &[name]).expect_err("unknown");
            assert_eq!(error.to_string(), message);
        }
    }
}
