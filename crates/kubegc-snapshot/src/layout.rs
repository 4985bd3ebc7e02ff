//! Selects the files of a directory or archive that are dumps, by their paths, and refuses some layouts.

use std::{
    borrow::Cow,
    fs, io,
    path::{MAIN_SEPARATOR, Path, PathBuf},
    sync::Arc,
};

use crate::{SnapshotError, sniff};

/// Files in one walk.
const FILES_MAX: usize = 10_000_000;
/// Directories within directories.
const DEPTH_MAX: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) files: Vec<PathBuf>,
    /// The skipped files with the reasons, sorted.
    pub(crate) skipped: Vec<(Arc<str>, &'static str)>,
    /// Whether the files were found in a directory, where other files may be too.
    pub(crate) is_directory: bool,
}

/// The reason why a member of a directory or archive is not read.
pub(crate) const NO_DUMP: &str = "not JSON or YAML";
/// The same for the files that macOS adds to archives.
const METADATA: &str = "metadata of macOS";
/// The same for links.
pub(crate) const LINK: &str = "links and special files";
/// The same for the logs of a container in `kubectl cluster-info dump`. They may begin as JSON does.
const LOGS: &str = "logs of containers";

/// The role of a member of a directory or archive, by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Read,
    /// Not read, for this reason.
    Skipped(&'static str),
    /// The directory or archive is not a dump: its format, and what to do instead.
    Refused(&'static str, &'static str),
}

/// The role of a member of a directory or archive. `path` has slashes and begins within the directory or
/// archive.
pub(crate) fn role(path: &str) -> Role {
    let segments: Vec<&str> = path.split('/').collect();
    if segments.last() == Some(&"Chart.yaml") {
        return Role::Refused("a Helm chart", sniff::RENDER);
    }
    if segments.ends_with(&["member", "snap", "db"]) {
        return Role::Refused(
            "the data directory of etcd",
            "export the objects as YAML with auger, or dump them with kubectl get -o json",
        );
    }
    if segments.contains(&"__MACOSX") || segments.last().is_some_and(|name| name.starts_with("._")) {
        // They have the name of the neighbouring file and hold its attributes.
        return Role::Skipped(METADATA);
    }
    let plain = unpacked_name(path);
    if plain.rsplit('/').next() == Some("logs.txt") {
        return Role::Skipped(LOGS);
    }
    let in_bundle = after(&segments, "cluster-resources");
    // Older support bundles save some lists without an extension.
    let is_bundled_list = matches!(in_bundle, Some(["pvs" | "clusterroles" | "clusterrolebindings"]));
    if !is_bundled_list
        && !has_extension(
            &plain,
            &["json", "jsonl", "ndjson", "yaml", "yml", "txt", "tar", "zip"],
        )
    {
        return Role::Skipped(NO_DUMP);
    }
    if let Some(rest) = in_bundle {
        let is_other = matches!(
            rest.first(),
            Some(&("auth-cani-list" | "image-pull-secrets" | "groups.json"))
        );
        if is_other || plain.ends_with("-errors.json") {
            return Role::Skipped("reports of the collector of a support bundle");
        }
    }
    if segments.ends_with(&["cluster-info", "errors.json"]) {
        return Role::Skipped("reports of the collector of a support bundle");
    }
    if after(&segments, "config").is_some_and(|rest| rest.first() == Some(&"configmaps")) {
        return Role::Skipped("contents of ConfigMaps in an Insights archive");
    }
    let is_version = |name: &str| {
        name.strip_prefix('v')
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    if let Some([_, version, scope, ..]) = after(&segments, "resources")
        && is_version(version)
        && matches!(*scope, "namespaces" | "cluster")
    {
        // The neighbouring directory has the objects in the preferred version.
        return Role::Skipped("other versions of the objects of a Velero backup");
    }
    if segments.contains(&"insights-data") {
        // They show the same objects at another time, and not whole.
        return Role::Skipped("Insights archives of a must-gather");
    }
    if VELERO_REPORTS.iter().any(|suffix| path.ends_with(suffix)) {
        return Role::Skipped("reports of a Velero backup");
    }
    Role::Read
}

/// The apiVersion and kind of objects without them, by the path of their file.
///
/// Support bundles of troubleshoot.sh had lists without kinds up to 2021, in the versions that are here.
/// Insights archives have objects of the typed client without kinds.
pub(crate) fn kind_in_path(path: &str) -> Option<(&'static str, &'static str)> {
    let path = unpacked_name(path);
    let segments: Vec<&str> = without_extension(&path).split(['/', '\\']).collect();
    if let Some([name] | [name, _]) = after(&segments, "cluster-resources") {
        return kind_of(BUNDLED, name);
    }
    // The collectors `run` and `runPod` of a support bundle.
    if segments.last().is_some_and(|name| name.ends_with("-events")) {
        return Some(("v1", "Event"));
    }
    match after(&segments, "namespaces") {
        Some([_, "pods", one, other]) if one == other => return Some(("v1", "Pod")),
        Some([_, "imagestreams", _]) => return Some(("image.openshift.io/v1", "ImageStream")),
        _ => {}
    }
    if let Some(["rbac.authorization.k8s.io", "clusterroles", _]) =
        after(&segments, "cluster-scoped-resources")
    {
        return Some(("rbac.authorization.k8s.io/v1", "ClusterRole"));
    }
    if let Some(["imageregistry.operator.openshift.io", directory, _]) = after(&segments, "clusteroperator") {
        let api_version = "imageregistry.operator.openshift.io/v1";
        return match *directory {
            "config" => Some((api_version, "Config")),
            "imagepruner" => Some((api_version, "ImagePruner")),
            _ => None,
        };
    }
    let name = match after(&segments, "config")? {
        ["pod", _, _] => return Some(("v1", "Pod")),
        ["pdbs", _, _] => return Some(("policy/v1", "PodDisruptionBudget")),
        [file] => (*file).to_owned(),
        [directories @ .., _] => directories.join("/") + "/",
        [] => return None,
    };
    kind_of(INSIGHTS, &name)
}

/// The apiVersion and kind in the line of a table that begins with this name.
fn kind_of(table: &'static str, name: &str) -> Option<(&'static str, &'static str)> {
    table.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(name)).then(|| words.next().zip(words.next()))?
    })
}

/// The files and directories of `config` in an Insights archive, and the kind in each.
const INSIGHTS: &str = "\
    apiserver config.openshift.io/v1 APIServer
    authentication config.openshift.io/v1 Authentication
    featuregate config.openshift.io/v1 FeatureGate
    image config.openshift.io/v1 Image
    infrastructure config.openshift.io/v1 Infrastructure
    ingress config.openshift.io/v1 Ingress
    network config.openshift.io/v1 Network
    oauth config.openshift.io/v1 OAuth
    proxy config.openshift.io/v1 Proxy
    version config.openshift.io/v1 ClusterVersion
    certificatesigningrequests/ certificates.k8s.io/v1 CertificateSigningRequest
    clusteroperator/ config.openshift.io/v1 ClusterOperator
    clusterrolebinding/ rbac.authorization.k8s.io/v1 ClusterRoleBinding
    crd/ apiextensions.k8s.io/v1 CustomResourceDefinition
    mutatingwebhookconfigurations/ admissionregistration.k8s.io/v1 MutatingWebhookConfiguration
    node/ v1 Node
    pdbs/ policy/v1 PodDisruptionBudget
    persistentvolumes/ v1 PersistentVolume
    securitycontextconstraint/ security.openshift.io/v1 SecurityContextConstraints
    storage/storageclasses/ storage.k8s.io/v1 StorageClass
    validatingwebhookconfigurations/ admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration
";

/// The directories and files of `cluster-resources` in a support bundle.
const BUNDLED: &str = "\
    clusterrolebindings rbac.authorization.k8s.io/v1 ClusterRoleBinding
    clusterroles rbac.authorization.k8s.io/v1 ClusterRole
    configmaps v1 ConfigMap
    cronjobs batch/v1 CronJob
    custom-resource-definitions apiextensions.k8s.io/v1 CustomResourceDefinition
    daemonsets apps/v1 DaemonSet
    deployments apps/v1 Deployment
    endpoints v1 Endpoints
    endpointslices discovery.k8s.io/v1 EndpointSlice
    events v1 Event
    ingress extensions/v1beta1 Ingress
    jobs batch/v1 Job
    leases coordination.k8s.io/v1 Lease
    limitranges v1 LimitRange
    namespaces v1 Namespace
    network-policy networking.k8s.io/v1 NetworkPolicy
    nodes v1 Node
    pod-disruption-budgets policy/v1 PodDisruptionBudget
    pods v1 Pod
    priorityclasses scheduling.k8s.io/v1 PriorityClass
    pvcs v1 PersistentVolumeClaim
    pvs v1 PersistentVolume
    replicasets apps/v1 ReplicaSet
    resource-quota v1 ResourceQuota
    rolebindings rbac.authorization.k8s.io/v1 RoleBinding
    roles rbac.authorization.k8s.io/v1 Role
    serviceaccounts v1 ServiceAccount
    services v1 Service
    statefulsets apps/v1 StatefulSet
    storage-classes storage.k8s.io/v1beta1 StorageClass
    volumeattachments storage.k8s.io/v1 VolumeAttachment
";

/// Whether a file is the list of resources that a support bundle has.
pub(crate) fn is_bundled_discovery(path: &str) -> bool {
    let segments: Vec<&str> = path.split(['/', '\\']).collect();
    segments.ends_with(&["cluster-resources", "resources.json"])
}

/// The files that Velero stores next to the archive of a backup.
const VELERO_REPORTS: [&str; 8] = [
    "-csi-volumesnapshotclasses.json.gz",
    "-csi-volumesnapshotcontents.json.gz",
    "-csi-volumesnapshots.json.gz",
    "-itemoperations.json.gz",
    "-podvolumebackups.json.gz",
    "-resource-list.json.gz",
    "-volumeinfo.json.gz",
    "-volumesnapshots.json.gz",
];

/// Like [`role`], for the facts of a node.
pub(crate) fn node_role(path: &str) -> Role {
    match role(path) {
        Role::Refused(looks_like, advice) => Role::Refused(looks_like, advice),
        Role::Skipped(reason) if reason == METADATA => Role::Skipped(reason),
        _ if has_extension(&unpacked_name(path), &["json", "yaml", "yml", "tar", "zip"]) => Role::Read,
        _ => Role::Skipped("not a .json, .yaml or .yml file"),
    }
}

/// The segments behind the last one with this name.
fn after<'s, 'p>(segments: &'s [&'p str], name: &str) -> Option<&'s [&'p str]> {
    let at = segments.iter().rposition(|segment| *segment == name)?;
    Some(&segments[at + 1..])
}

/// The name of a file without the suffix of its compression.
pub(crate) fn unpacked_name(path: &str) -> Cow<'_, str> {
    let Some((stem, _)) = path.rsplit_once('.') else {
        return path.into();
    };
    if has_extension(path, &["tgz", "txz", "tzst"]) {
        return format!("{stem}.tar").into();
    }
    if has_extension(path, &["gz", "xz", "zst"]) {
        return stem.into();
    }
    path.into()
}

/// A name without the extension of JSON or YAML.
pub(crate) fn without_extension(name: &str) -> &str {
    let extensions = [".json", ".jsonl", ".ndjson", ".yaml", ".yml"].into_iter();
    let mut names = extensions.filter_map(|extension| name.strip_suffix(extension));
    names.next().unwrap_or(name)
}

/// Whether a text may be a dump only if it begins as JSON does.
pub(crate) fn is_plain_text(path: &str) -> bool {
    has_extension(path, &["txt"])
}

/// Whether a name has one of these extensions, in upper or lower case.
pub(crate) fn has_extension(path: &str, known: &[&str]) -> bool {
    let extension = path.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| known.iter().any(|one| extension.eq_ignore_ascii_case(one)))
}

/// The files of a path: itself, or the files of its directory.
pub(crate) fn walk(path: &Path, role: fn(&str) -> Role) -> Result<Found, SnapshotError> {
    let meta = fs::metadata(path).map_err(|error| io_error(path, error))?;
    if !meta.is_dir() {
        return Ok(Found {
            files: vec![path.to_owned()],
            ..Found::default()
        });
    }
    let found = walk_directory(path, role)?;
    if found.files.is_empty() {
        return Err(nothing(&name(path)));
    }
    Ok(found)
}

/// The error for a directory without dumps.
pub(crate) fn nothing(directory: &Arc<str>) -> SnapshotError {
    SnapshotError::nothing(directory, "no .json, .yaml or .yml file in this directory")
}

fn walk_directory(root: &Path, role: fn(&str) -> Role) -> Result<Found, SnapshotError> {
    let mut found = Found {
        is_directory: true,
        ..Found::default()
    };
    let mut directories = vec![(root.to_owned(), 0)];
    // Each iteration reads one directory; links to directories are not followed, so there are no cycles.
    while let Some((directory, depth)) = directories.pop() {
        for entry in fs::read_dir(&directory).map_err(|error| io_error(&directory, error))? {
            let entry = entry.map_err(|error| io_error(&directory, error))?;
            let path = entry.path();
            let kind = entry.file_type().map_err(|error| io_error(&path, error))?;
            let is_link = kind.is_symlink();
            let target = fs::metadata(&path);
            let is_dir = kind.is_dir() || (is_link && target.as_ref().is_ok_and(fs::Metadata::is_dir));
            // Opening a named pipe blocks until something writes to it.
            let is_file = target.as_ref().is_ok_and(fs::Metadata::is_file);
            let relative = relative(root, &path);
            if is_dir && is_link {
                found.skipped.push((name(&path), "a link to a directory"));
            } else if is_dir && depth >= DEPTH_MAX {
                let what = "directories within directories";
                return Err(SnapshotError::too_many(&name(root), DEPTH_MAX, what));
            } else if is_dir {
                directories.push((path, depth + 1));
            } else if !is_file && (is_link || target.is_ok()) {
                found.skipped.push((name(&path), LINK));
            } else {
                match role(&relative) {
                    Role::Read => found.files.push(path),
                    Role::Skipped(reason) => found.skipped.push((name(&path), reason)),
                    Role::Refused(looks_like, advice) => {
                        return Err(SnapshotError::refused(&name(root), looks_like, advice));
                    }
                }
            }
        }
        if found.files.len() + found.skipped.len() + directories.len() > FILES_MAX {
            return Err(SnapshotError::too_many(&name(root), FILES_MAX, "files"));
        }
    }
    found.files.sort();
    found.skipped.sort();
    Ok(found)
}

/// The path of a file within a directory, with slashes.
fn relative(root: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(root).unwrap_or(path);
    relative.to_string_lossy().replace(MAIN_SEPARATOR, "/")
}

fn name(path: &Path) -> Arc<str> {
    path.to_string_lossy().into()
}

fn io_error(path: &Path, source: io::Error) -> SnapshotError {
    SnapshotError::io(&name(path), source)
}
