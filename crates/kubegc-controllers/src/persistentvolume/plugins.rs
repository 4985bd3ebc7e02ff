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

use kubegc_core::{Behavior, KubernetesVersion, record::PersistentVolumeSource};

use super::{Migration, volume::Volume};
use crate::{Operation, Plugin};

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
    /// The first release without it.
    removed: Option<Behavior>,
    /// The CSI driver that its volumes can be migrated to, and the first release that does so by default.
    driver: Option<(&'static str, Option<Behavior>)>,
}

impl InTree {
    const fn new(source: &'static str, name: &'static str) -> Self {
        Self {
            source,
            name,
            deletes: true,
            recycles: false,
            removed: None,
            driver: None,
        }
    }

    const fn removed_in(self, minor: u16) -> Self {
        Self {
            removed: Some(Behavior::since(minor, 0, "removal of the in-tree plugin")),
            ..self
        }
    }

    const fn migrated_since(self, driver: &'static str, minor: u16) -> Self {
        let gate = Behavior::since(minor, 0, "feature gate CSIMigration of the plugin is on");
        Self {
            driver: Some((driver, Some(gate))),
            ..self
        }
    }

    fn is_in(&self, release: KubernetesVersion) -> bool {
        !self.removed.is_some_and(|removed| release.has(removed))
    }
}

/// The plugins of the binder. It has none for other volume sources, such as `iscsi`.
static PLUGINS: [InTree; 17] = [
    InTree {
        recycles: true,
        ..InTree::new("hostPath", "kubernetes.io/host-path")
    },
    InTree {
        recycles: true,
        deletes: false,
        ..InTree::new("nfs", "kubernetes.io/nfs")
    },
    InTree {
        deletes: false,
        ..InTree::new("local", "kubernetes.io/local-volume")
    },
    InTree {
        deletes: false,
        ..InTree::new("csi", "kubernetes.io/csi")
    },
    InTree::new("awsElasticBlockStore", "kubernetes.io/aws-ebs")
        .removed_in(27)
        .migrated_since("ebs.csi.aws.com", 23),
    InTree::new("azureDisk", "kubernetes.io/azure-disk")
        .removed_in(27)
        .migrated_since("disk.csi.azure.com", 23),
    InTree::new("azureFile", "kubernetes.io/azure-file")
        .removed_in(30)
        .migrated_since("file.csi.azure.com", 24),
    InTree::new("cinder", "kubernetes.io/cinder")
        .removed_in(26)
        .migrated_since("cinder.csi.openstack.org", 21),
    InTree::new("gcePersistentDisk", "kubernetes.io/gce-pd")
        .removed_in(28)
        .migrated_since("pd.csi.storage.gke.io", 23),
    InTree::new("vsphereVolume", "kubernetes.io/vsphere-volume")
        .removed_in(30)
        .migrated_since("csi.vsphere.vmware.com", 25),
    InTree::new("portworxVolume", "kubernetes.io/portworx-volume")
        .removed_in(36)
        .migrated_since("pxd.portworx.com", 31),
    InTree {
        driver: Some(("rbd.csi.ceph.com", None)),
        ..InTree::new("rbd", "kubernetes.io/rbd").removed_in(31)
    },
    InTree::new("glusterfs", "kubernetes.io/glusterfs").removed_in(26),
    InTree::new("flocker", "kubernetes.io/flocker").removed_in(25),
    InTree::new("quobyte", "kubernetes.io/quobyte").removed_in(25),
    InTree::new("storageos", "kubernetes.io/storageos").removed_in(25),
    InTree::new("scaleIO", "kubernetes.io/scaleio").removed_in(22),
];

/// Returns whether volumes of a provisioner within kube-controller-manager are migrated in a release with
/// upstream's defaults; `None` if the release is not known and decides.
pub(super) fn migration(release: Option<KubernetesVersion>, provisioner: &str) -> Option<Migration> {
    let plugin = PLUGINS.iter().find(|plugin| plugin.name == provisioner);
    let Some((driver, since)) = plugin.and_then(|plugin| plugin.driver) else {
        return Some(Migration::Off);
    };
    let release = release?;
    Some(match since.filter(|since| release.has(*since)) {
        Some(_) => Migration::On {
            driver: driver.into(),
        },
        None => Migration::Off,
    })
}

/// The plugin that does this work on a volume in a release; `None` if that is not known.
pub(super) fn find(release: KubernetesVersion, volume: &Volume<'_>, operation: Operation) -> Option<Plugin> {
    let source = volume.body.source.known();
    let provisioner = volume.annotations.provisioned_by.as_deref().unwrap_or_default();
    // The last release with this plugin is not known.
    if provisioner == "kubernetes.io/photon-pd"
        || source.is_some_and(|source| source.field() == "photonPersistentDisk")
    {
        return None;
    }
    let find = |is_it: &dyn Fn(&InTree) -> bool| {
        let mut plugins = PLUGINS.iter().filter(|plugin| plugin.is_in(release));
        plugins.find(|plugin| is_it(plugin))
    };
    let of_source = || {
        let field = source?.field();
        Some(find(&|plugin| plugin.source == field))
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
        match find(&|plugin| plugin.name == provisioner) {
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
