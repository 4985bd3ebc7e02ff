//! Times of reconciles, and retries.

use std::{slice::from_ref, sync::Arc, time::Duration};

use kubegc_controllers::{
    Controller, End, ExternalProvisioner, FINALIZER_CLAIM_PROTECTION, FINALIZER_EXTERNAL, Input, Key,
    Manager, Output, PvcProtection, Task, Wire,
};
use kubegc_core::{
    KubernetesVersion, StoreError, Timestamp,
    record::{Field, Record, Resource, VolumeSource},
};

use super::support::{DRIVER, Edit, annotate, binder, cache, claim, dynamic, edit_pod, pod, volume};

struct Run {
    manager: Manager,
    now: Timestamp,
}

impl Run {
    fn new(controller: impl Controller + 'static, records: &[Record]) -> Self {
        let now = Timestamp::from_secs(1_000);
        let listed = cache(&controller, records);
        let mut manager = Manager::new(vec![Arc::new(controller)], Wire::Strict, now);
        for resource in manager.resources() {
            let records = listed.records(resource).cloned().collect();
            manager.handle(
                now,
                Input::Listed {
                    resource,
                    records: Ok(records),
                },
            );
        }
        Self { manager, now }
    }

    /// The tasks that are due, each with this end.
    fn tasks(&mut self, end: &End) -> Vec<String> {
        let mut names = Vec::new();
        while let Output::Perform(task) = self.manager.poll_output(self.now) {
            names.push(task.key.to_string());
            self.end(&task, end.clone());
        }
        names
    }

    fn begin(&mut self) -> Box<Task> {
        match self.manager.poll_output(self.now) {
            Output::Perform(task) => task,
            other => panic!("something is due: {other:?}"),
        }
    }

    fn end(&mut self, task: &Task, end: End) {
        self.manager.handle(self.now, Input::Ended { task: task.id, end });
    }

    fn apply(&mut self, resource: Resource, record: &Record) {
        let record = Box::new(record.clone());
        self.manager.handle(self.now, Input::Applied { resource, record });
    }

    fn delete(&mut self, resource: Resource, record: &Record) {
        let (key, uid) = (Key::from(&record.meta), record.meta.uid.clone());
        self.manager
            .handle(self.now, Input::Deleted { resource, key, uid });
    }

    fn wait(&mut self, millis: u64) {
        self.now = self.now.saturating_add(Duration::from_millis(millis));
    }

    /// The milliseconds until something is due.
    fn next(&self) -> Option<u128> {
        self.manager.next_at().map(|at| at.since(self.now).as_millis())
    }
}

fn failed(is_retried: bool) -> End {
    End::Failed {
        error: StoreError::NotFound,
        message: String::new(),
        is_retried,
    }
}

/// The same object at another version.
fn newer(record: &Record, version: &str) -> Record {
    let mut newer = record.clone();
    newer.meta.resource_version = version.into();
    newer
}

const SAME: Edit = |_, _| {};
const RELEASED: Edit = |_, volume| volume.phase = Field::Known("Released".into());

#[test]
fn a_claim_that_is_deleted_enqueues_its_volume_and_no_other() {
    let (claims, pods) = (Resource::PersistentVolumeClaims, Resource::Pods);
    let mut other = dynamic("Delete", |_, volume| volume.claim_ref = None.into());
    other.meta.name = "other".into();
    let mut run = Run::new(binder(), &[dynamic("Delete", SAME), other, claim("disk")]);
    assert_eq!(run.tasks(&End::Done), ["other"]);
    let mut unrelated = claim("");
    unrelated.meta.name = "logs".into();
    run.apply(claims, &unrelated);
    run.apply(pods, &pod("web", VolumeSource::Claim("data".into())));
    assert_eq!((run.tasks(&End::Done), run.next()), (vec![], None));
    run.delete(claims, &claim("disk"));
    assert_eq!(run.tasks(&End::Done), ["disk"]);
}

#[test]
fn l5_5_a_failed_operation_blocks_its_volume() {
    let volumes = Resource::PersistentVolumes;
    let disk = dynamic("Delete", RELEASED);
    let mut run = Run::new(binder(), from_ref(&disk));
    let fail = |run: &mut Run, version: &str| {
        let task = run.begin();
        // The executor's own write comes before the end.
        run.apply(volumes, &newer(&disk, version));
        run.end(&task, failed(true));
    };
    fail(&mut run, "8");
    assert_eq!(run.next(), Some(15_000));
    run.wait(500);
    run.apply(volumes, &newer(&disk, "9"));
    assert_eq!(run.next(), Some(14_500));
    run.wait(1);
    run.apply(volumes, &newer(&disk, "10"));
    assert_eq!(run.next(), Some(0), "the delay is over");
    // It doubles: after six failures the first resync is still within it.
    for version in ["11", "12", "13", "14"] {
        fail(&mut run, version);
        run.wait(15_000);
    }
    fail(&mut run, "15");
    assert_eq!(run.next(), Some(30_000));
    // Another volume with that name is not blocked.
    let mut new = newer(&disk, "16");
    new.meta.uid = "uid-new".into();
    run.delete(volumes, &newer(&disk, "15"));
    run.apply(volumes, &new);
    assert_eq!(run.next(), Some(0));
}

#[test]
fn a_failed_sync_is_repeated_at_the_resync() {
    let mut run = Run::new(binder(), &[dynamic("Delete", RELEASED)]);
    assert_eq!(run.tasks(&failed(false)), ["disk"]);
    assert_eq!(run.next(), Some(15_000));
}

#[test]
fn l5_9_a_provisioner_waits_longer_after_each_failure() {
    let disk = volume("Delete", |meta, volume| {
        volume.phase = Field::Known("Released".into());
        annotate(volume, |found| found.provisioned_by = Some(DRIVER.into()));
        meta.finalizers.push(FINALIZER_EXTERNAL.into());
    });
    let mut run = Run::new(ExternalProvisioner::new(DRIVER), &[disk]);
    for seconds in [15, 30, 60, 120, 240, 480, 960, 1_000, 1_000] {
        assert_eq!(run.tasks(&failed(true)), ["disk"]);
        assert_eq!(run.next(), Some(seconds * 1_000));
        run.wait(u64::try_from(seconds * 1_000).expect("small"));
    }
}

fn terminating(name: &str) -> Record {
    let mut claim = claim("disk");
    claim.meta.name = name.into();
    claim.meta.finalizers = vec![FINALIZER_CLAIM_PROTECTION.into()];
    claim.meta.deletion_timestamp = Some(Timestamp::EPOCH);
    claim
}

#[test]
fn a_pod_that_is_deleted_or_changes_enqueues_its_claims_and_no_others() {
    let pods = Resource::Pods;
    let on = |name, claim: &str| pod(name, VolumeSource::Claim(claim.into()));
    let mut living = terminating("mail");
    living.meta.deletion_timestamp = None;
    let controller = PvcProtection::new(KubernetesVersion::LATEST);
    let mut run = Run::new(
        controller,
        &[terminating("data"), living, on("web", "data"), on("api", "data")],
    );
    assert_eq!(run.tasks(&End::Done), Vec::<String>::new());
    for pod in [
        on("cart", "mail"),
        newer(&on("cart", "mail"), "8"),
        pod("cart", VolumeSource::Other),
    ] {
        run.apply(pods, &pod);
        assert_eq!(run.next(), None);
    }
    run.delete(pods, &on("web", "data"));
    assert_eq!(run.tasks(&End::Done), Vec::<String>::new());
    run.apply(pods, &newer(&on("api", "mail"), "8"));
    assert_eq!(run.tasks(&End::Done), ["shop/data"]);
}

#[test]
fn of_pods_that_were_not_read_the_first_counts() {
    let unread = |name| {
        edit_pod(pod(name, VolumeSource::Other), |_, pod| {
            pod.volumes = Field::Unread
        })
    };
    let read = |name| newer(&pod(name, VolumeSource::Other), "8");
    let controller = PvcProtection::new(KubernetesVersion::LATEST);
    let mut run = Run::new(controller, &[terminating("data"), unread("api"), unread("web")]);
    let unknown = |run: &mut Run| -> Vec<String> {
        assert_eq!(run.tasks(&End::Done), Vec::<String>::new());
        run.manager
            .unknown()
            .filter_map(|(_, _, missing, _)| missing.object().map(|pod| pod.name.to_string()))
            .collect()
    };
    assert_eq!(unknown(&mut run), ["api"]);
    run.apply(Resource::Pods, &unread("cart"));
    assert_eq!(run.next(), None, "another one changes nothing");
    for (pod, left) in [("api", "cart"), ("cart", "web")] {
        run.apply(Resource::Pods, &read(pod));
        assert_eq!(unknown(&mut run), [left]);
    }
    run.delete(Resource::Pods, &unread("web"));
    assert_eq!(run.tasks(&End::Done), ["shop/data"]);
}
