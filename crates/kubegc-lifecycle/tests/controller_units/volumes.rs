//! Volumes and the claims that they name.

use std::time::Duration;

use kubegc_lifecycle::{
    controller::{Mechanism, Settings},
    fields::{self, Fields, Record},
    object::Resource::{PersistentVolumeClaims, PersistentVolumes, Pods},
    volume::{Annotations, ClaimRef, Holder, Migration, Phase, Policy, reclaim::Plugin},
};

use crate::support::{Cluster, Run, changed, nothing_but, only, pod, record, unread};

const IN_TREE: &str = "kubernetes.io/aws-ebs";

/// A volume that was provisioned for the claim `shop/<claim>`, as it looks after its claim has gone.
pub(crate) fn volume(name: &str, claim: &str, provisioner: Option<&str>) -> Record {
    let fields = fields::PersistentVolume {
        phase: Phase::Released,
        policy: Policy::Delete,
        claim_ref: Holder::Claim(ClaimRef::new("shop", claim, &format!("uid-{claim}"))),
        mode: None,
        annotations: Some(Annotations {
            provisioned_by: provisioner.map(Into::into),
            ..Annotations::default()
        }),
    };
    let mut record = record("", name, Fields::PersistentVolume(fields));
    record
        .meta
        .finalizers
        .push(kubegc_lifecycle::volume::FINALIZER_IN_TREE.into());
    record
}

pub(crate) fn fields_of(record: &mut Record) -> &mut fields::PersistentVolume {
    match &mut record.fields {
        Fields::PersistentVolume(fields) => fields,
        _ => panic!("a volume"),
    }
}

/// A claim that is bound to a volume.
fn claim(name: &str, volume: &str) -> Record {
    let fields = fields::PersistentVolumeClaim {
        volume_name: volume.into(),
        mode: None,
    };
    record("shop", name, Fields::PersistentVolumeClaim(fields))
}

fn bound(name: &str, claim: &str) -> Record {
    let mut volume = volume(name, claim, Some(IN_TREE));
    fields_of(&mut volume).phase = Phase::Bound;
    volume
}

fn recycled() -> Record {
    let mut volume = volume("disk", "data", None);
    fields_of(&mut volume).policy = Policy::Recycle;
    volume.meta.finalizers.clear();
    volume
}

fn settings() -> Settings {
    let mut settings = only(Mechanism::Volumes);
    let storage = &mut settings.storage;
    storage.migrations.insert(IN_TREE.into(), Migration::Off);
    storage.plugins.insert(IN_TREE.into(), Plugin::Known);
    storage.plugins.insert("".into(), Plugin::Known);
    settings
}

fn run(volumes: impl IntoIterator<Item = Record>, claims: impl IntoIterator<Item = Record>) -> Run {
    let cluster = Cluster::default()
        .with(PersistentVolumes, volumes)
        .with(PersistentVolumeClaims, claims);
    Run::new(settings(), &cluster)
}

#[test]
fn a_released_volume_is_looked_at_and_a_bound_one_is_not() {
    let volumes = [
        volume("disk", "data", Some(IN_TREE)),
        bound("other", "mail"),
        volume("csi", "gone", Some("example.com")),
    ];
    let mut run = run(volumes, [claim("mail", "other")]);
    assert_eq!(run.outcome(), (vec!["look at disk".into()], vec![]));
    assert!(run.is_quiet());
}

#[test]
fn storage_that_nobody_knows_leaves_volumes_alone() {
    let cluster = Cluster::default().with(PersistentVolumes, [volume("disk", "data", Some(IN_TREE))]);
    let mut settings = only(Mechanism::Volumes);
    let mut run = Run::new(settings.clone(), &cluster);
    let unknown = "whether a driver has taken over its provisioner's volumes is not known";
    assert_eq!(
        run.outcome(),
        nothing_but(&[&format!("PersistentVolume disk: {unknown}")])
    );
    settings.storage.migrations.insert(IN_TREE.into(), Migration::Off);
    let mut run = Run::new(settings, &cluster);
    let unknown = "whether it has a plugin is not known";
    assert_eq!(
        run.outcome(),
        nothing_but(&[&format!("PersistentVolume disk: {unknown}")])
    );
}

#[test]
fn what_was_not_read_is_undecided() {
    let disk = || volume("disk", "data", Some(IN_TREE));
    let claimed = unread(&claim("data", "disk"));
    let mut of_another_uid = claimed.clone();
    of_another_uid.meta.uid = "uid-2".into();
    for (volume, claims, reason) in [
        (unread(&disk()), vec![], "its phase is not known"),
        (disk(), vec![claimed], "nothing but its metadata was read"),
        (disk(), vec![of_another_uid], "nothing but its metadata was read"),
    ] {
        let expected = nothing_but(&[&format!("PersistentVolume disk: {reason}")]);
        assert_eq!(run([volume], claims).outcome(), expected);
    }
}

#[test]
fn what_is_only_reserved_needs_no_claim() {
    let mut reserved = volume("disk", "data", None);
    reserved.meta.finalizers.clear();
    fields_of(&mut reserved).claim_ref = Holder::Claim(ClaimRef::new("shop", "data", ""));
    fields_of(&mut reserved).phase = Phase::Available;
    let mut run = run([reserved], [unread(&claim("data", "disk"))]);
    assert_eq!(run.outcome(), nothing_but(&[]));
}

#[test]
fn what_was_not_listed_is_undecided() {
    let not_known = "the persistentvolumes are not known: refused with 403: forbidden";
    for (resource, reason) in [
        (PersistentVolumes, not_known),
        (
            PersistentVolumeClaims,
            "whether its claim exists must be read first",
        ),
    ] {
        let mut run = run([volume("disk", "data", Some(IN_TREE))], []);
        run.unlist(resource);
        let expected = nothing_but(&[&format!("PersistentVolume disk: {reason}")]);
        assert_eq!(run.outcome(), expected);
    }
    // Pods decide nothing here.
    let mut run = run([volume("disk", "data", Some(IN_TREE))], []);
    run.unlist(Pods);
    assert_eq!(run.works(), ["look at disk"]);
}

#[test]
fn a_claim_that_goes_makes_its_volume_due_and_no_other() {
    let mut run = run(
        [bound("disk", "data"), bound("other", "mail")],
        [claim("data", "disk"), claim("mail", "other")],
    );
    assert_eq!(run.outcome(), nothing_but(&[]));
    for record in [claim("more", ""), changed(&claim("more", ""))] {
        run.apply(PersistentVolumeClaims, &record);
        assert!(run.is_quiet());
    }
    run.apply(Pods, &pod("web", &["data"]));
    assert!(run.is_quiet());
    run.gone(PersistentVolumeClaims, &claim("data", "disk"));
    assert_eq!(run.works(), ["look at disk"]);
}

#[test]
fn a_volume_that_names_another_claim_follows_that() {
    let mut run = run(
        [bound("disk", "data")],
        [claim("data", "disk"), claim("mail", "disk")],
    );
    assert_eq!(run.outcome(), nothing_but(&[]));
    run.apply(PersistentVolumes, &bound("disk", "mail"));
    assert_eq!(run.outcome(), nothing_but(&[]));
    run.gone(PersistentVolumeClaims, &claim("data", "disk"));
    assert!(run.is_quiet());
    run.gone(PersistentVolumeClaims, &claim("mail", "disk"));
    assert_eq!(run.works(), ["look at disk"]);
}

#[test]
fn pods_count_for_what_is_to_be_emptied() {
    let cluster = Cluster::default()
        .with(PersistentVolumes, [recycled()])
        .with(Pods, [unread(&pod("web", &[]))]);
    let mut run = Run::new(settings(), &cluster);
    let reason = "whether pods use it is not known";
    let unlisted = format!("PersistentVolume disk: {reason}: not listed: nothing is known of this object");
    assert_eq!(run.outcome(), nothing_but(&[&unlisted]));
    // Another pod changes nothing; that one does, once it is known.
    run.apply(Pods, &pod("xena", &["mail"]));
    assert!(run.is_quiet());
    run.apply(Pods, &pod("web", &[]));
    assert_eq!(run.outcome(), (vec!["look at disk".into()], vec![]));
    // Whoever mentions the claim counts.
    run.apply(Pods, &pod("web", &["data"]));
    assert_eq!(run.works(), ["look at disk"]);
    run.unlist(Pods);
    let refused = format!("PersistentVolume disk: {reason}: refused with 403: forbidden");
    assert_eq!(run.outcome(), nothing_but(&[&refused]));
}

#[test]
fn l5_5_nothing_brings_a_plugin_that_failed_forward_before_its_wait_is_over() {
    use kubegc_core::StoreError;
    use kubegc_lifecycle::controller::{Ended, Input, Output};
    let disk = volume("disk", "data", Some(IN_TREE));
    let mut run = run([disk.clone()], []);
    let fail = |run: &mut Run, seen: &Record| {
        let Output::Perform(task) = run.controller.poll_output(run.now) else {
            panic!("something is to be done")
        };
        // The driver's own write is a change, and comes before the end.
        run.apply(PersistentVolumes, seen);
        let message = "disk is on fire".to_owned();
        let ended = Ended::Failed(StoreError::Unknown { message });
        run.controller
            .handle(run.now, Input::Ended { task: task.id, ended });
    };
    let after = |run: &Run, millis| run.now.saturating_add(Duration::from_millis(millis));
    let marked = changed(&disk);
    fail(&mut run, &marked);
    assert_eq!(run.controller.next_at(), Some(after(&run, 15_000)));
    run.now = after(&run, 500);
    run.apply(PersistentVolumes, &disk);
    assert_eq!(run.controller.next_at(), Some(after(&run, 14_500)));
    run.now = after(&run, 1);
    run.apply(PersistentVolumes, &marked);
    assert_eq!(run.controller.next_at(), Some(run.now), "the wait is over");
    // It is longer each time: after six failures the first resync is still within it.
    for _ in 0..4 {
        fail(&mut run, &disk);
        run.now = after(&run, 15_000);
    }
    fail(&mut run, &marked);
    assert_eq!(run.controller.next_at(), Some(after(&run, 30_000)));
    // What failed is no matter of another volume of the name.
    run.gone(PersistentVolumes, &marked);
    let mut new = disk;
    new.meta.uid = "uid-of-another".into();
    run.apply(PersistentVolumes, &new);
    assert_eq!(run.works(), ["look at disk"]);
}

#[test]
fn a_pass_that_failed_comes_again_after_the_resync() {
    use kubegc_core::StoreError;
    use kubegc_lifecycle::controller::{Ended, Input, Output};
    let mut run = run([volume("disk", "data", Some(IN_TREE))], []);
    let Output::Perform(task) = run.controller.poll_output(run.now) else {
        panic!("something is to be done")
    };
    let ended = Ended::Failed(StoreError::NotFound);
    let resync = run.now.saturating_add(Duration::from_secs(15));
    run.controller
        .handle(run.now, Input::Ended { task: task.id, ended });
    assert_eq!(run.controller.next_at(), Some(resync));
    run.now = resync;
    assert_eq!(run.works(), ["look at disk"]);
}
