//! Persistent volumes and claims: migration, properties of plans, times of reconciles, and retries.

use kubegc_controllers::{Migration, Storage};
use kubegc_core::KubernetesVersion;

mod laws;
mod manager;

fn release(text: &str) -> KubernetesVersion {
    text.parse().expect("a release in range")
}

#[test]
fn l5_4_a_release_decides_which_volumes_are_migrated() {
    for (version, provisioner, driver) in [
        ("1.23", "aws-ebs", "ebs.csi.aws.com"),
        ("1.23", "azure-disk", "disk.csi.azure.com"),
        ("1.24", "azure-file", "file.csi.azure.com"),
        ("1.21", "cinder", "cinder.csi.openstack.org"),
        ("1.23", "gce-pd", "pd.csi.storage.gke.io"),
        ("1.25", "vsphere-volume", "csi.vsphere.vmware.com"),
        ("1.31", "portworx-volume", "pxd.portworx.com"),
    ] {
        let provisioner = format!("kubernetes.io/{provisioner}");
        let (first, driver) = (release(version), driver.into());
        let storage = Storage::of_release(first);
        assert_eq!(storage.migration(&provisioner), Some(Migration::On { driver }));
        let before = release(&format!("1.{}", first.minor() - 1));
        let storage = Storage::of_release(before);
        assert_eq!(storage.migration(&provisioner), Some(Migration::Off), "{before}");
        assert_eq!(Storage::default().migration(&provisioner), None);
    }
    // Known facts about the cluster come first.
    let aws = "kubernetes.io/aws-ebs";
    let mut storage = Storage::of_release(release("1.36"));
    storage.migrations.insert(aws.into(), Migration::Off);
    assert_eq!(storage.migration(aws), Some(Migration::Off));
    let rbd = Storage::of_release(release("1.30")).migration("kubernetes.io/rbd");
    assert_eq!(rbd, Some(Migration::Off));
    for never in ["host-path", "no-provisioner", "glusterfs"] {
        let never = format!("kubernetes.io/{never}");
        assert_eq!(Storage::default().migration(&never), Some(Migration::Off));
    }
}
