//! Volumes of provisioners outside Kubernetes.

use std::time::Duration;

use kubegc_lifecycle::{
    controller::{Basis, Ended, Input, Mechanism, Output, Settings, Work},
    fields::Record,
    object::Resource::PersistentVolumes,
    volume::{FINALIZER_EXTERNAL, Phase, external},
};

use crate::{
    support::{Cluster, Run, changed, nothing_but, only, refused, unread},
    volumes::{fields_of, volume},
};

const OURS: &str = "example.com/nfs";

fn disk() -> Record {
    let mut disk = volume("disk", "data", Some(OURS));
    disk.meta.finalizers = vec![FINALIZER_EXTERNAL.into()];
    disk
}

fn settings() -> Settings {
    let mut settings = only(Mechanism::ExternalVolumes);
    let names = ["example.com/other", OURS, OURS];
    settings.external_volumes = names.map(external::Settings::new).into();
    settings
}

fn run(volumes: impl IntoIterator<Item = Record>) -> Run {
    Run::new(settings(), &Cluster::default().with(PersistentVolumes, volumes))
}

#[test]
fn l5_9_a_released_volume_goes_once_if_it_is_still_the_one_that_was_listed() {
    let foreign = volume("foreign", "data", Some("example.com/unknown"));
    let tasks = run([disk(), foreign]).tasks();
    let [task] = &tasks[..] else {
        panic!("one volume goes: {tasks:?}")
    };
    let Work::Act(planned) = &task.work else {
        panic!("calls")
    };
    assert_eq!(planned.rests_on, [Basis::same(PersistentVolumes, &disk().meta)]);
    let expected = format!("DeleteVolume disk, disk -{FINALIZER_EXTERNAL}, delete disk");
    assert_eq!(run([disk()]).works(), [expected]);
}

#[test]
fn what_was_not_read_is_undecided() {
    let mut without_version = disk();
    without_version.meta.resource_version = "".into();
    let mut without_phase = disk();
    fields_of(&mut without_phase).phase = Phase::Unknown;
    for (volume, reason) in [
        (unread(&disk()), "its annotations are not known"),
        (without_version, "its uid or version is not known"),
        (without_phase, "its phase is not known"),
    ] {
        let expected = nothing_but(&[&format!("PersistentVolume disk: {reason}")]);
        assert_eq!(run([volume]).outcome(), expected);
    }
}

#[test]
fn what_was_not_listed_is_undecided() {
    let mut run = run([disk()]);
    run.unlist(PersistentVolumes);
    let reason = "the persistentvolumes are not known: refused with 403: forbidden";
    assert_eq!(
        run.outcome(),
        nothing_but(&[&format!("PersistentVolume disk: {reason}")])
    );
}

#[test]
fn a_volume_that_changes_is_due_and_no_other() {
    let mut bound = disk();
    fields_of(&mut bound).phase = Phase::Bound;
    let mut run = run([bound.clone()]);
    assert_eq!(run.outcome(), nothing_but(&[]));
    let other = volume("other", "mail", None);
    run.apply(PersistentVolumes, &other);
    assert_eq!(run.works(), Vec::<String>::new());
    run.apply(PersistentVolumes, &changed(&bound));
    assert_eq!(run.works(), Vec::<String>::new());
    run.apply(PersistentVolumes, &disk());
    assert_eq!(run.works().len(), 1);
    assert!(run.is_quiet());
}

#[test]
fn a_provisioner_that_failed_is_asked_again_after_its_own_waits() {
    let mut run = run([disk()]);
    for seconds in [15, 30, 60, 120, 240, 480, 960, 1_000, 1_000] {
        let Output::Perform(task) = run.controller.poll_output(run.now) else {
            panic!("something is to be done")
        };
        let ended = Ended::Failed(refused());
        run.controller
            .handle(run.now, Input::Ended { task: task.id, ended });
        let again = run.now.saturating_add(Duration::from_secs(seconds));
        assert_eq!(run.controller.next_at(), Some(again), "{seconds} s");
        run.now = again;
    }
}
