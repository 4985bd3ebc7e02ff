//! The volume plugins of kube-controller-manager, and the CSI drivers that they are migrated to.
//!
//! | volume | deletion | recycling |
//! |---|---|---|
//! | of an external provisioner | left to the provisioner | by volume source |
//! | of a provisioner whose plugin the release has | by that plugin | by volume source |
//! | of any other provisioner `kubernetes.io/...` | fails | by volume source |
//! | without a provisioner | by the plugin of the volume source | by the plugin of the volume source |
//!
//! # Upstream
//! -
//!   [`findDeletablePlugin`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/volume/persistentvolume/pv_controller.go)
//! - [`FindDeletablePluginBySpec`,
//!   `FindRecyclablePluginBySpec`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/volume/plugins.go)
//! -
//!   [`ProbeProvisionableRecyclableVolumePlugins`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/cmd/kube-controller-manager/app/plugins.go)
//! -
//!   [`IsMigrationEnabledForPlugin`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/volume/csimigration/plugin_manager.go)

use kubegc_core::record::PersistentVolumeSource;

use super::{Migration, volume::Volume};
use crate::{Plugin, prelude::*};

/// The messages of errors of the binder start with lower case.
const LOWER_CASE_ERRORS: Behavior = Behavior::since(22, 0, "kubernetes #101115");

/// A plugin within kube-controller-manager.
struct InTree {
    /// The field of `spec` of its volumes.
    source: &'static str,
    /// Its name, and that of its provisioner.
    name: &'static str,
    deletes: bool,
    recycles: bool,
    /// The minor version of the first release without it; 0 if all have it.
    removed: u16,
    /// The CSI driver that its volumes can be migrated to; empty if there is none.
    driver: &'static str,
    /// The minor version of the first release that migrates them by default; 0 if none does.
    migrated: u16,
}

macro_rules! plugins {
    ($($source:literal $name:literal $deletes:literal $recycles:literal
       $removed:literal $driver:literal $migrated:literal,)+) => {
        &[$(InTree {
            source: $source,
            name: concat!("kubernetes.io/", $name),
            deletes: $deletes,
            recycles: $recycles,
            removed: $removed,
            driver: $driver,
            migrated: $migrated,
        }),+]
    };
}

/// The plugins of the binder, in the order of the fields of [`InTree`]. It has none for other volume sources,
/// such as `iscsi`.
static PLUGINS: &[InTree] = plugins! {
    "hostPath"             "host-path"       true  true  0  "" 0,
    "nfs"                  "nfs"             false true  0  "" 0,
    "local"                "local-volume"    false false 0  "" 0,
    "csi"                  "csi"             false false 0  "" 0,
    "awsElasticBlockStore" "aws-ebs"         true  false 27 "ebs.csi.aws.com" 23,
    "azureDisk"            "azure-disk"      true  false 27 "disk.csi.azure.com" 23,
    "azureFile"            "azure-file"      true  false 30 "file.csi.azure.com" 24,
    "cinder"               "cinder"          true  false 26 "cinder.csi.openstack.org" 21,
    "gcePersistentDisk"    "gce-pd"          true  false 28 "pd.csi.storage.gke.io" 23,
    "vsphereVolume"        "vsphere-volume"  true  false 30 "csi.vsphere.vmware.com" 25,
    "portworxVolume"       "portworx-volume" true  false 36 "pxd.portworx.com" 31,
    "rbd"                  "rbd"             true  false 31 "rbd.csi.ceph.com" 0,
    "glusterfs"            "glusterfs"       true  false 26 "" 0,
    "flocker"              "flocker"         true  false 25 "" 0,
    "quobyte"              "quobyte"         true  false 25 "" 0,
    "storageos"            "storageos"       true  false 25 "" 0,
    "scaleIO"              "scaleio"         true  false 22 "" 0,
};

/// Returns whether a release is this minor version or a later one; never if it is 0.
const fn reaches(release: KubernetesVersion, minor: u16) -> bool {
    minor > 0
        && release.has(Behavior::since(
            minor,
            0,
            "the in-tree plugin is migrated or removed",
        ))
}

/// Returns whether volumes of a provisioner within kube-controller-manager are migrated in a release with
/// upstream's defaults; `None` if the release is not known and decides.
pub(super) fn migration(release: Option<KubernetesVersion>, provisioner: &str) -> Option<Migration> {
    let plugin = PLUGINS.iter().find(|plugin| plugin.name == provisioner);
    let Some(plugin) = plugin.filter(|plugin| !plugin.driver.is_empty()) else {
        return Some(Migration::Off);
    };
    let driver = plugin.driver.into();
    Some(match reaches(release?, plugin.migrated) {
        true => Migration::On { driver },
        false => Migration::Off,
    })
}

/// The plugin that does this work on a volume in a release; `None` if that is not known.
pub(super) fn find(release: KubernetesVersion, volume: &Volume<'_>, operation: Operation) -> Option<Plugin> {
    let source = volume.body.source.known();
    let provisioner = volume.provisioner();
    // The last release with this plugin is not known.
    if provisioner == "kubernetes.io/photon-pd"
        || source.is_some_and(|source| source.field() == "photonPersistentDisk")
    {
        return None;
    }
    let plugins = PLUGINS.iter().filter(|plugin| !reaches(release, plugin.removed));
    let of_source = || {
        let field = source?.field();
        Some(plugins.clone().find(|plugin| plugin.source == field))
    };
    if operation == Operation::RecycleVolume {
        return Some(match of_source()? {
            Some(plugin) if plugin.recycles => Plugin::InTree,
            _ => missing("no recyclable volume plugin matched".to_owned()),
        });
    }
    let is_lower = release.has(LOWER_CASE_ERRORS);
    let name = &volume.meta.name;
    let plugin = if provisioner.is_empty() {
        let getting = if is_lower { "error" } else { "Error" };
        let context = format!("{getting} getting deleter volume plugin for volume {name:?}: ");
        match of_source()? {
            Some(plugin) if plugin.deletes => plugin,
            Some(_) => return Some(missing(context + "no deletable volume plugin matched")),
            None => return Some(missing(context + "no volume plugin matched")),
        }
    } else if volume.is_external() {
        return Some(Plugin::External);
    } else {
        match plugins.clone().find(|plugin| plugin.name == provisioner) {
            Some(plugin) if plugin.deletes => plugin,
            Some(_) => return Some(missing("no deletable volume plugin matched".to_owned())),
            None => return Some(missing(format!("no volume plugin matched name: {provisioner}"))),
        }
    };
    if plugin.source != "hostPath" {
        return Some(Plugin::InTree);
    }
    Some(match source? {
        PersistentVolumeSource::HostPath { path } if is_temporary(path) => Plugin::InTree,
        PersistentVolumeSource::HostPath { path } => missing(format!(
            "host_path deleter only supports /tmp/.+ but received provided {path}"
        )),
        _ => {
            let failed = if is_lower { "failed" } else { "Failed" };
            missing(format!(
                "{failed} to create deleter for volume {name:?}: spec.PersistentVolumeSource.HostPath is nil"
            ))
        }
    })
}

/// Returns whether `/tmp/` and a character other than a line feed are anywhere in a path.
///
/// # Upstream
/// [`hostPathDeleter`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/volume/hostpath/host_path.go).
fn is_temporary(path: &str) -> bool {
    let mut rests = path
        .match_indices("/tmp/")
        .filter_map(|(at, found)| path.get(at + found.len()..));
    rests.any(|rest| !rest.is_empty() && !rest.starts_with('\n'))
}

const fn missing(message: String) -> Plugin {
    Plugin::Missing { message }
}
