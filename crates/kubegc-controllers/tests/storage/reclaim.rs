//! The cases of the volume controller, one plan each.

use std::slice::from_ref;

use kubegc_controllers::{
    Cache, FINALIZER_EXTERNAL, FINALIZER_IN_TREE, Key, Migration, PersistentVolumeBinder, Plugin, Request,
    Step, Storage, Wire,
};
use kubegc_core::{
    DeleteOptions, Preconditions, StoreError, Timestamp,
    record::{Body, Field, PersistentVolumeSource, Record, Resource, VolumeSource},
};

use super::support::{
    DRIVER, Edit, IN_TREE, annotate, binder, binder_of, cache, claim, claim_ref, dynamic, edit_pod, plan,
    plan_cache, pod, reconcile, release, volume,
};

const RELEASED: &str = "updatestatus Released \"\"";
const AVAILABLE: &str = "updatestatus Available \"\"";
const WITHOUT_FINALIZER: &str = "update -kubernetes.io/pv-controller";
const ALL: [&str; 4] = [RELEASED, "DeleteVolume", WITHOUT_FINALIZER, "delete"];
const SAME: Edit = |_, _| {};

#[track_caller]
fn check(binder: &PersistentVolumeBinder, records: &[Record], requests: &[&str], kept: &str) {
    let (got, why) = plan(binder, records);
    assert_eq!(
        (got.iter().map(String::as_str).collect::<Vec<_>>(), why.join("; ")),
        (requests.to_vec(), kept.to_owned())
    );
}

fn other_claim() -> Record {
    let mut other = claim("other");
    other.meta.uid = "uid-new".into();
    other
}

#[test]
fn the_claim_no_longer_exists() {
    let released: Edit = |_, volume| volume.phase = Field::Known("Released".into());
    let failed: Edit = |_, volume| volume.phase = Field::Known("Failed".into());
    let reserved: Edit = |_, volume| volume.claim_ref = Some(claim_ref("")).into();
    let unclaimed: Edit = |_, volume| volume.claim_ref = None.into();
    let available: Edit = |_, volume| {
        (volume.claim_ref, volume.phase) = (None.into(), Field::Known("Available".into()));
    };
    for (record, claims, requests, kept) in [
        // t_5_1
        (dynamic("Delete", SAME), vec![], &ALL[..], ""),
        // t_5_2
        (dynamic("Retain", SAME), vec![], &[RELEASED][..], "Retained"),
        (dynamic("Retain", released), vec![], &[], "Retained"),
        // t_5_3
        (dynamic("Delete", SAME), vec![other_claim()], &ALL, ""),
        // t_5_4
        (volume("Delete", reserved), vec![], &[AVAILABLE], "NotBound"),
        (volume("Delete", unclaimed), vec![], &[AVAILABLE], "NotBound"),
        (volume("Delete", available), vec![], &[], "NotBound"),
        // t_5_5
        (dynamic("Delete", failed), vec![], &ALL[1..], ""),
    ] {
        let records: Vec<Record> = claims.into_iter().chain([record]).collect();
        check(&binder(), &records, requests, kept);
    }
}

#[test]
fn l5_4_a_migrated_volume_is_left_to_its_driver() {
    let migrated: Edit = |_, volume| annotate(volume, |found| found.migrated_to = Some(DRIVER.into()));
    let migrated_and_fit: Edit = |meta, volume| {
        annotate(volume, |found| found.migrated_to = Some(DRIVER.into()));
        meta.finalizers = vec![FINALIZER_EXTERNAL.into()];
    };
    let by_driver: Edit = |_, volume| {
        annotate(volume, |found| {
            (found.provisioned_by, found.migrated_to) = (Some(DRIVER.into()), Some(DRIVER.into()));
        });
    };
    let off = binder();
    let mut on = binder();
    let driver = DRIVER.into();
    on.storage
        .migrations
        .insert(IN_TREE.into(), Migration::On { driver });
    check(
        &on,
        &[dynamic("Delete", migrated_and_fit)],
        &[RELEASED],
        "Migrated",
    );
    let noted = "update pv.kubernetes.io/migrated-to=ebs.csi.aws.com -kubernetes.io/pv-controller";
    check(&on, &[dynamic("Delete", SAME)], &[noted, RELEASED], "Migrated");
    // The annotation of a volume without a provisioner stays.
    check(&off, &[volume("Delete", migrated)], &[RELEASED], "Migrated");
    // Where migration is off, the annotation is removed and the volume reclaimed.
    let unnoted = "update -pv.kubernetes.io/migrated-to";
    let all: Vec<&str> = [unnoted].into_iter().chain(ALL).collect();
    check(&off, &[dynamic("Delete", migrated)], &all, "");
    check(
        &off,
        &[dynamic("Delete", by_driver)],
        &[unnoted, RELEASED],
        "WaitsForProvisioner",
    );
    check(
        &off,
        &[dynamic("Retain", migrated), claim("disk")],
        &[unnoted],
        "Bound",
    );
}

#[test]
fn the_plugin_is_missing_external_or_unknown() {
    let mut binder = binder();
    let delete = [dynamic("Delete", SAME)];
    let message = "no deleter".to_owned();
    binder
        .storage
        .plugins
        .insert(IN_TREE.into(), Plugin::Missing { message });
    let failed = "updatestatus Failed \"no deleter\"";
    check(
        &binder,
        &delete,
        &[RELEASED, failed, "Warning VolumeFailedDelete no deleter"],
        "",
    );
    binder.storage.plugins.insert(IN_TREE.into(), Plugin::External);
    check(&binder, &delete, &[RELEASED], "WaitsForProvisioner");
    binder.storage.plugins.clear();
    let unknown = "it is not known which plugin can delete the storage of persistentvolume/disk";
    check(&binder, &delete, &[RELEASED], unknown);
    let external: Edit = |_, volume| annotate(volume, |found| found.provisioned_by = Some(DRIVER.into()));
    for version in ["1.35", "1.36"] {
        check(
            &binder_of(version),
            &[dynamic("Delete", external)],
            &[RELEASED],
            "WaitsForProvisioner",
        );
    }
}

/// A binder that has the plugins and migrations of a release.
fn binder_with_plugins_of(version: &str) -> PersistentVolumeBinder {
    let mut binder = PersistentVolumeBinder::new(release(version));
    binder.storage = Storage::of_release(release(version));
    binder
}

fn volume_on(source: Field<PersistentVolumeSource>, policy: &str, provisioner: &str) -> Record {
    let mut record = volume(policy, SAME);
    if let Body::PersistentVolume(volume) = record.body_mut() {
        volume.source = source;
        annotate(volume, |found| {
            found.provisioned_by = (!provisioner.is_empty()).then(|| provisioner.into());
        });
    }
    record
}

fn host_path(path: &str) -> PersistentVolumeSource {
    PersistentVolumeSource::HostPath { path: path.into() }
}

#[test]
fn l5_5_a_release_decides_which_plugin_deletes_a_volume() {
    let other = PersistentVolumeSource::Other;
    let (driver, handle) = (DRIVER.into(), "vol-1".into());
    let csi = PersistentVolumeSource::Csi { driver, handle };
    let host_path_name = "kubernetes.io/host-path";
    for (version, provisioner, source) in [
        ("1.20", "", host_path("/tmp/a")),
        ("1.36", "", host_path("/var/tmp/a")),
        ("1.36", "", host_path("/tmp//tmp/")),
        ("1.30", host_path_name, host_path("/tmp/a")),
        ("1.13", "", other("awsElasticBlockStore")),
        ("1.26", "", other("awsElasticBlockStore")),
        ("1.22", IN_TREE, other("awsElasticBlockStore")),
        ("1.20", "kubernetes.io/cinder", other("cinder")),
        ("1.30", "kubernetes.io/rbd", other("rbd")),
        ("1.24", "", other("quobyte")),
    ] {
        let binder = binder_with_plugins_of(version);
        let deleted = [RELEASED, "DeleteVolume", "delete"];
        check(
            &binder,
            &[volume_on(source.into(), "Delete", provisioner)],
            &deleted,
            "",
        );
    }
    let upper = "Error getting deleter volume plugin for volume \"disk\": no deletable volume plugin matched";
    let lower = "error getting deleter volume plugin for volume \"disk\": no deletable volume plugin matched";
    let none = "error getting deleter volume plugin for volume \"disk\": no volume plugin matched";
    let path = "host_path deleter only supports /tmp/.+ but received provided ";
    let no_path = "Failed to create deleter for volume \"disk\": spec.PersistentVolumeSource.HostPath is nil";
    for (version, provisioner, source, message) in [
        ("1.20", "", csi.clone(), upper),
        ("1.20", "", other("local"), upper),
        ("1.36", "", other("nfs"), lower),
        ("1.36", "", other("iscsi"), none),
        ("1.27", "", other("awsElasticBlockStore"), none),
        ("1.36", "", PersistentVolumeSource::None, none),
        ("1.20", "", host_path("/var/lib"), &format!("{path}/var/lib")),
        (
            "1.20",
            host_path_name,
            host_path("/tmp/"),
            &format!("{path}/tmp/"),
        ),
        ("1.20", "", host_path("/tmp/\n"), &format!("{path}/tmp/\n")),
        ("1.20", host_path_name, other("nfs"), no_path),
        (
            "1.20",
            "kubernetes.io/nfs",
            other("nfs"),
            "no deletable volume plugin matched",
        ),
        (
            "1.20",
            "kubernetes.io/mine",
            host_path("/tmp/a"),
            "no volume plugin matched name: kubernetes.io/mine",
        ),
    ] {
        let binder = binder_with_plugins_of(version);
        let failed = format!("updatestatus Failed {message:?}");
        let event = format!("Warning VolumeFailedDelete {message}");
        let requests = [RELEASED, &failed, &event];
        check(
            &binder,
            &[volume_on(source.into(), "Delete", provisioner)],
            &requests,
            "",
        );
    }
    // Missing facts, and decisions of other components.
    let unknown = "it is not known which plugin can delete the storage of persistentvolume/disk";
    for (provisioner, source, kept) in [
        ("", Field::Unread, unknown),
        ("", other("photonPersistentDisk").into(), unknown),
        ("kubernetes.io/photon-pd", Field::Unread, unknown),
        (host_path_name, Field::Unread, unknown),
        ("example.com/mine", Field::Unread, "WaitsForProvisioner"),
    ] {
        let binder = binder_with_plugins_of("1.20");
        check(
            &binder,
            &[volume_on(source, "Delete", provisioner)],
            &[RELEASED],
            kept,
        );
    }
    // Without a release, only the executor knows.
    let by_executor = PersistentVolumeBinder::new(release("1.20"));
    let temporary = volume_on(host_path("/tmp/a").into(), "Delete", host_path_name);
    check(&by_executor, &[temporary], &[RELEASED], unknown);
}

#[test]
fn l5_4_a_release_decides_which_volumes_are_migrated() {
    for (version, provisioner, driver) in [
        ("1.23", IN_TREE, DRIVER),
        ("1.23", "kubernetes.io/azure-disk", "disk.csi.azure.com"),
        ("1.24", "kubernetes.io/azure-file", "file.csi.azure.com"),
        ("1.21", "kubernetes.io/cinder", "cinder.csi.openstack.org"),
        ("1.23", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
        ("1.25", "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
        ("1.31", "kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ] {
        let (first, driver) = (release(version), driver.into());
        let storage = Storage::of_release(first);
        assert_eq!(storage.migration(provisioner), Some(Migration::On { driver }));
        let before = release(&format!("1.{}", first.minor() - 1));
        let storage = Storage::of_release(before);
        assert_eq!(storage.migration(provisioner), Some(Migration::Off), "{before}");
        assert_eq!(Storage::default().migration(provisioner), None);
    }
    // Known facts about the cluster come first.
    let mut storage = Storage::of_release(release("1.36"));
    storage.migrations.insert(IN_TREE.into(), Migration::Off);
    assert_eq!(storage.migration(IN_TREE), Some(Migration::Off));
    let rbd = Storage::of_release(release("1.30")).migration("kubernetes.io/rbd");
    assert_eq!(rbd, Some(Migration::Off));
    for never in [
        "kubernetes.io/host-path",
        "kubernetes.io/no-provisioner",
        "kubernetes.io/glusterfs",
    ] {
        assert_eq!(Storage::default().migration(never), Some(Migration::Off));
    }
    let noted = format!("update pv.kubernetes.io/migrated-to={DRIVER}");
    let source = PersistentVolumeSource::Other("awsElasticBlockStore");
    check(
        &binder_with_plugins_of("1.23"),
        &[volume_on(source.into(), "Delete", IN_TREE)],
        &[&noted, RELEASED],
        "Migrated",
    );
}

#[test]
fn l5_6_a_release_decides_which_plugin_recycles_a_volume() {
    let binder = binder_with_plugins_of("1.20");
    let other = PersistentVolumeSource::Other;
    let done = [
        RELEASED,
        "RecycleVolume",
        "Normal VolumeRecycled Volume recycled",
        "update RemoveClaimRefUid",
        AVAILABLE,
    ];
    let text = "No recycler plugin found for the volume!";
    let failed = format!("updatestatus Failed {text:?}");
    let event = format!("Warning VolumeFailedRecycle {text}");
    for (source, provisioner, recycles) in [
        (host_path("/var/lib"), "", true),
        (other("nfs"), "", true),
        (other("nfs"), "example.com/mine", true),
        (other("awsElasticBlockStore"), "", false),
        (other("iscsi"), "", false),
    ] {
        let volume = [volume_on(source.into(), "Recycle", provisioner)];
        if recycles {
            check(&binder, &volume, &done, "Unbound");
        } else {
            check(&binder, &volume, &[RELEASED, &failed, &event], "");
        }
    }
}

#[test]
fn a_claim_that_is_bound_elsewhere_frees_the_volume() {
    let elsewhere = || claim("other");
    check(&binder(), &[dynamic("Delete", SAME), elsewhere()], &ALL, "");
    let by_controller = "update RemoveClaimRef -pv.kubernetes.io/bound-by-controller";
    check(
        &binder(),
        &[dynamic("Retain", SAME), elsewhere()],
        &[by_controller, AVAILABLE],
        "Unbound",
    );
    // Not provisioned for the claim: freed, though its policy is Delete. L5.10: a user bound it, so it stays
    // reserved.
    let by_user = ["update RemoveClaimRefUid", AVAILABLE];
    check(
        &binder(),
        &[volume("Delete", SAME), elsewhere()],
        &by_user,
        "Unbound",
    );
}

#[test]
fn an_unknown_policy_fails_the_volume() {
    let text = "Volume has unrecognized PersistentVolumeReclaimPolicy";
    let (failed, event) = (
        format!("updatestatus Failed {text:?}"),
        format!("Warning VolumeUnknownReclaimPolicy {text}"),
    );
    check(
        &binder(),
        &[volume("Burn", SAME)],
        &[RELEASED, &failed, &event],
        "UnknownReclaimPolicy",
    );
    let failed: Edit = |_, volume| volume.phase = Field::Known("Failed".into());
    check(&binder(), &[volume("Burn", failed)], &[], "UnknownReclaimPolicy");
}

#[test]
fn the_gate_decides_about_finalizers_and_terminating_volumes() {
    let terminating: Edit = |meta, volume| {
        meta.deletion_timestamp = Some(Timestamp::EPOCH);
        volume.phase = Field::Known("Released".into());
    };
    check(
        &binder_of("1.31"),
        &[dynamic("Delete", terminating)],
        &ALL[1..],
        "",
    );
    check(
        &binder_of("1.30"),
        &[dynamic("Delete", terminating)],
        &[],
        "Terminating",
    );
    check(
        &binder_of("1.30"),
        &[dynamic("Delete", SAME)],
        &[RELEASED, "DeleteVolume", "delete"],
        "",
    );
    let without_finalizer: Edit = |meta, _| meta.finalizers.clear();
    check(
        &binder_of("1.30"),
        &[dynamic("Delete", without_finalizer), claim("disk")],
        &[],
        "Bound",
    );
    // If it is not known whether the finalizer is to be added, nothing is added.
    let no_policy: Edit = |meta, volume| {
        meta.deletion_timestamp = Some(Timestamp::EPOCH);
        meta.finalizers.clear();
        volume.reclaim_policy = Field::Unread;
    };
    let unread = "persistentvolume/disk: spec.persistentVolumeReclaimPolicy could not be read";
    check(&binder(), &[dynamic("Delete", no_policy)], &[], unread);
    // The API server refuses new finalizers on terminating objects.
    let clear_while_terminating: Edit = |meta, _| {
        meta.deletion_timestamp = Some(Timestamp::EPOCH);
        meta.finalizers.clear();
    };
    let terminating_without_finalizer = dynamic("Delete", clear_while_terminating);
    check(
        &binder(),
        from_ref(&terminating_without_finalizer),
        &[],
        "FinalizerForbidden",
    );
    let cache = cache(&binder(), &[terminating_without_finalizer]);
    let decision = reconcile(&binder(), &cache, &Key::cluster("disk"), Wire::AsUpstream);
    let first = decision.steps.expect("upstream tries").begin().next(None);
    assert!(matches!(
        first,
        Step::Perform {
            request: Request::Write(_),
            ..
        }
    ));
}

#[test]
fn finalizers_follow_the_policy() {
    let both = [FINALIZER_IN_TREE, FINALIZER_EXTERNAL];
    let on = || Migration::On {
        driver: DRIVER.into(),
    };
    let add = "update +kubernetes.io/pv-controller";
    let remove = "update -kubernetes.io/pv-controller";
    let external = "-external-provisioner.volume.kubernetes.io/finalizer";
    for (name, provisioner, migration, policy, finalizers, request) in [
        (
            "t_5_12 switched to Retain",
            Some(IN_TREE),
            Some(Migration::Off),
            "Retain",
            &both[..1],
            remove.to_owned(),
        ),
        (
            "t_5_13 static",
            None,
            Some(Migration::Off),
            "Delete",
            &[][..],
            String::new(),
        ),
        (
            "added",
            Some(IN_TREE),
            Some(Migration::Off),
            "Delete",
            &[],
            add.to_owned(),
        ),
        (
            "exchanged",
            Some(IN_TREE),
            Some(Migration::Off),
            "Delete",
            &both[1..],
            format!("{add} {external}"),
        ),
        (
            "Recycle loses both",
            Some(IN_TREE),
            Some(Migration::Off),
            "Recycle",
            &both,
            format!("{remove} {external}"),
        ),
        (
            "up to date",
            Some(IN_TREE),
            Some(Migration::Off),
            "Delete",
            &both[..1],
            String::new(),
        ),
        (
            "external",
            Some(DRIVER),
            Some(Migration::Off),
            "Delete",
            &both,
            String::new(),
        ),
        (
            "an empty name",
            Some(""),
            Some(Migration::Off),
            "Delete",
            &both,
            String::new(),
        ),
        (
            "migrated",
            Some(IN_TREE),
            Some(on()),
            "Delete",
            &both[1..],
            format!("update pv.kubernetes.io/migrated-to={DRIVER}"),
        ),
        (
            "migration unknown",
            Some(IN_TREE),
            None,
            "Retain",
            &both,
            String::new(),
        ),
        (
            "another policy",
            Some(IN_TREE),
            Some(Migration::Off),
            "Burn",
            &both,
            format!("update {external}"),
        ),
    ] {
        let mut record = volume(policy, SAME);
        if let Body::PersistentVolume(volume) = record.body_mut() {
            annotate(volume, |found| found.provisioned_by = provisioner.map(Into::into));
        }
        record.meta.finalizers = finalizers.iter().map(|&name| name.into()).collect();
        let mut binder = binder();
        binder.storage.migrations.clear();
        binder
            .storage
            .migrations
            .extend(migration.map(|migration| (IN_TREE.into(), migration)));
        let (requests, kept) = plan(&binder, &[record, claim("disk")]);
        assert_eq!(
            (requests.join("; "), kept.join("; ")),
            (request, "Bound".to_owned()),
            "{name}"
        );
    }
}

#[test]
fn r_4_and_r_5_a_claim_that_exists_holds_the_volume() {
    let available: Edit = |_, volume| volume.phase = Field::Known("Available".into());
    let record = || volume("Delete", available);
    check(
        &binder(),
        &[record(), claim("disk")],
        &["updatestatus Bound \"\""],
        "Bound",
    );
    check(&binder(), &[record(), claim("")], &[], "ClaimNotBound");
    for (mode, is_block) in [("Block", true), ("Filesystem", false)] {
        let mut claim = claim("");
        if let Body::PersistentVolumeClaim(body) = claim.body_mut() {
            body.volume_mode = Some(mode.into()).into();
        }
        let (requests, kept) = plan(&binder(), &[record(), claim]);
        assert_eq!(
            (requests.len(), &*kept[0]),
            if is_block {
                (2, "VolumeModeMismatch")
            } else {
                (0, "ClaimNotBound")
            }
        );
        assert!(
            requests
                .iter()
                .all(|request| request.starts_with("Warning VolumeMismatch Cannot bind"))
        );
    }
}

#[test]
fn unknown_facts_keep_the_volume() {
    let unknown = |field: &str| format!("persistentvolume/disk: {field} could not be read");
    let no_phase: Edit = |_, volume| volume.phase = Field::Unread;
    let no_claim_ref: Edit = |_, volume| volume.claim_ref = Field::Unread;
    let no_annotations: Edit = |_, volume| volume.annotations = Field::Unread;
    let no_policy: Edit = |_, volume| volume.reclaim_policy = Field::Unread;
    for (edit, field) in [
        (no_phase, "status.phase"),
        (no_claim_ref, "spec.claimRef"),
        (no_annotations, "metadata.annotations"),
    ] {
        check(&binder(), &[dynamic("Delete", edit)], &[], &unknown(field));
    }
    let policy = unknown("spec.persistentVolumeReclaimPolicy");
    check(&binder(), &[dynamic("Delete", no_policy)], &[RELEASED], &policy);
    check(
        &binder(),
        &[dynamic("Delete", no_policy), claim("other")],
        &[],
        &policy,
    );
    let mut nothing_known = binder();
    nothing_known.storage.migrations.clear();
    let migration =
        "it is not known whether volumes of provisioner kubernetes.io/aws-ebs are migrated to a CSI driver";
    check(&nothing_known, &[dynamic("Delete", SAME)], &[RELEASED], migration);
    check(
        &nothing_known,
        &[dynamic("Retain", SAME)],
        &[RELEASED],
        "Retained",
    );

    let metadata_only = Record::metadata_only(dynamic("Delete", SAME).meta);
    check(
        &binder(),
        &[metadata_only],
        &[],
        "persistentvolume/disk: only its metadata was read",
    );
    let unversioned: Edit = |meta, _| meta.resource_version = "".into();
    let metadata = "persistentvolume/disk: its metadata could not be read in full";
    check(&binder(), &[dynamic("Delete", unversioned)], &[], metadata);
    check(
        &binder(),
        &[dynamic("Delete", unversioned), claim("disk")],
        &[],
        "Bound",
    );
    let metadata_only = Record::metadata_only(claim("disk").meta);
    let body = "persistentvolumeclaim/data -n shop: only its metadata was read";
    check(
        &binder(),
        &[dynamic("Delete", SAME), metadata_only.clone()],
        &[],
        body,
    );
    // A claim with another uid needs no further facts, nor does one that the volume is only reserved for.
    let mut replaced = metadata_only.clone();
    replaced.meta.uid = "uid-new".into();
    check(&binder(), &[dynamic("Delete", SAME), replaced], &ALL, "");
    let reserved: Edit = |_, volume| volume.claim_ref = Some(claim_ref("")).into();
    check(
        &binder(),
        &[volume("Delete", reserved), metadata_only],
        &[AVAILABLE],
        "NotBound",
    );
}

#[test]
fn missing_lists_make_the_outcome_unknown() {
    let unlisted = |records: &[Record], resource| -> (Vec<String>, Vec<String>) {
        let mut cache: Cache = cache(&binder(), records);
        cache.set_listed(resource, Err(StoreError::Unlisted));
        plan_cache(&binder(), &cache)
    };
    let claims = Resource::PersistentVolumeClaims;
    let (requests, kept) = unlisted(&[dynamic("Delete", SAME)], claims);
    assert_eq!(
        (requests.len(), &*kept[0]),
        (
            0,
            "the list of persistentvolumeclaims is not complete: not listed"
        )
    );
    // A known claim is enough, and so is a known absence.
    assert_eq!(
        unlisted(&[dynamic("Delete", SAME), claim("disk")], claims).1,
        ["Bound"]
    );
    let unclaimed: Edit = |_, volume| volume.claim_ref = None.into();
    assert_eq!(unlisted(&[volume("Delete", unclaimed)], claims).0, [AVAILABLE]);
    // Pods matter only to recycling.
    assert_eq!(unlisted(&[dynamic("Delete", SAME)], Resource::Pods).0, ALL);
    let (requests, kept) = unlisted(&[volume("Recycle", SAME)], Resource::Pods);
    assert_eq!(
        (requests, &*kept[0]),
        (
            vec![RELEASED.to_owned()],
            "the list of pods is not complete: not listed"
        )
    );
}

#[test]
fn l5_6_recycling() {
    let recycled = [
        RELEASED,
        "RecycleVolume",
        "Normal VolumeRecycled Volume recycled",
        "update RemoveClaimRefUid",
        AVAILABLE,
    ];
    let data = || VolumeSource::Claim("data".into());
    let in_phase =
        |name, phase: &str| edit_pod(pod(name, data()), |_, pod| pod.phase = Field::Known(phase.into()));
    let with =
        |pods: Vec<Record>| -> Vec<Record> { pods.into_iter().chain([volume("Recycle", SAME)]).collect() };
    check(&binder(), &with(vec![]), &recycled, "Unbound");
    let stopped = edit_pod(pod("e", data()), |meta, pod| {
        meta.deletion_timestamp = Some(Timestamp::EPOCH);
        pod.containers_stopped = true.into();
    });
    let mut elsewhere = pod("d", data());
    elsewhere.meta.namespace = "other".into();
    let idle = vec![
        in_phase("a", "Succeeded"),
        in_phase("b", "Failed"),
        pod("c", VolumeSource::Claim("logs".into())),
        elsewhere,
        stopped.clone(),
    ];
    check(&binder(), &with(idle), &recycled, "Unbound");
    let running = edit_pod(stopped, |_, pod| pod.containers_stopped = false.into());
    let busy = || {
        vec![
            in_phase("b", "Running"),
            in_phase("a", "Pending"),
            running.clone(),
        ]
    };
    let event = "Normal VolumeFailedRecycle Volume is used by pods: shop/a,shop/b,shop/e";
    check(&binder(), &with(busy()), &[RELEASED, event], "UsedByPods");
    // A claim of that name is another one, which is bound to another volume, and so are its pods.
    let mut records = with(busy());
    records.push(other_claim());
    check(&binder(), &records, &recycled, "Unbound");
    let unread = edit_pod(pod("a", data()), |_, pod| pod.volumes = Field::Unread);
    let unknown = "pod/a -n shop: spec.volumes could not be read";
    check(&binder(), &with(vec![unread.clone()]), &[RELEASED], unknown);
    let ended = edit_pod(unread, |_, pod| pod.phase = Field::Known("Failed".into()));
    check(&binder(), &with(vec![ended]), &recycled, "Unbound");
    // A pod of which it is not known whether it runs is not reported as a user.
    let no_phase = edit_pod(pod("a", data()), |_, pod| pod.phase = Field::Unread);
    let unknown = "pod/a -n shop: status.phase could not be read";
    check(&binder(), &with(vec![no_phase]), &[RELEASED], unknown);
    let no_statuses = edit_pod(running, |_, pod| pod.containers_stopped = Field::Unread);
    let unknown = "pod/e -n shop: status.containerStatuses could not be read";
    check(&binder(), &with(vec![no_statuses]), &[RELEASED], unknown);
    for plugin in [
        Plugin::External,
        Plugin::Missing {
            message: "anything".to_owned(),
        },
    ] {
        let mut binder = binder();
        binder.storage.plugins.insert("".into(), plugin);
        let text = "No recycler plugin found for the volume!";
        let (failed, event) = (
            format!("updatestatus Failed {text:?}"),
            format!("Warning VolumeFailedRecycle {text}"),
        );
        check(&binder, &with(vec![]), &[RELEASED, &failed, &event], "");
    }
}

#[test]
fn only_strict_deletions_carry_preconditions() {
    let released: Edit = |_, volume| volume.phase = Field::Known("Released".into());
    let cache = cache(&binder(), &[volume("Delete", released)]);
    for (wire, expected) in [
        (Wire::AsUpstream, Preconditions::default()),
        (
            Wire::Strict,
            Preconditions {
                uid: Some("uid-disk".into()),
                resource_version: Some("7".into()),
            },
        ),
    ] {
        let planner = kubegc_controllers::BatchPlanner::new(binder()).wire(wire);
        let plan = kubegc_core::Planner::plan(&planner, &cache, Timestamp::EPOCH);
        let last = plan.actions.last().expect("a deletion");
        assert_eq!(last.reason.to_string(), "claim shop/data no longer exists");
        let [Request::Delete { options, .. }] = &last.requests[..] else {
            panic!("the volume is deleted last: {last:?}")
        };
        let expected = DeleteOptions {
            preconditions: expected,
            ..DeleteOptions::default()
        };
        assert_eq!(*options, expected);
    }
}
