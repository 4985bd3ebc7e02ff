//! Times of reconciles, and retries.

use std::{sync::Arc, time::Duration};

use kubegc_controllers::{
    Controller, End, ExternalProvisioner, Input, Key, Manager, Migration, Output, PersistentVolumeBinder,
    Plugin, PvcProtection, Task, Wire,
};
use kubegc_core::{
    KubernetesVersion, StoreError, Timestamp,
    record::{Record, Resource},
};

use crate::common::{cache, object, record};

fn read(line: &str) -> Record {
    record(object(line)).1
}

fn binder() -> PersistentVolumeBinder {
    let mut binder = PersistentVolumeBinder::new(KubernetesVersion::LATEST);
    binder
        .storage
        .migrations
        .insert("kubernetes.io/aws-ebs".into(), Migration::Off);
    binder
        .storage
        .plugins
        .insert("kubernetes.io/aws-ebs".into(), Plugin::InTree);
    binder
}

/// A volume that was provisioned in the tree for the claim `shop/data`, in its state after the first sync.
fn disk(phase: &str) -> String {
    format!(
        "v1 PersistentVolume disk finalizer:kubernetes.io/pv-protection finalizer:kubernetes.io/pv-controller \
         annotation:pv.kubernetes.io/provisioned-by=kubernetes.io/aws-ebs \
         spec.persistentVolumeReclaimPolicy=Delete status.phase={phase} \
         spec.claimRef={{\"namespace\":\"shop\",\"name\":\"data\",\"uid\":\"persistentvolumeclaim-data\"}}"
    )
}

const CLAIM: &str = "v1 PersistentVolumeClaim shop/data spec.volumeName=disk";

/// A running pod that uses a claim.
fn pod(name: &str, claim: &str) -> String {
    format!(
        "v1 Pod shop/{name} spec.nodeName=n status.phase=Running \
         spec.volumes=[{{\"name\":\"data\",\"persistentVolumeClaim\":{{\"claimName\":\"{claim}\"}}}}]"
    )
}

struct Run {
    manager: Manager,
    now: Timestamp,
}

impl Run {
    fn new(controller: impl Controller + 'static, objects: &[&str]) -> Self {
        let now = Timestamp::from_secs(1_000);
        let objects: Vec<_> = objects.iter().map(|line| object(line)).collect();
        let listed = cache(&controller, &objects);
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

#[test]
fn a_claim_that_is_deleted_enqueues_its_volume_and_no_other() {
    let (claims, pods) = (Resource::PersistentVolumeClaims, Resource::Pods);
    let other = "v1 PersistentVolume other spec.persistentVolumeReclaimPolicy=Delete status.phase=Bound";
    let mut run = Run::new(binder(), &[&disk("Bound"), other, CLAIM]);
    assert_eq!(run.tasks(&End::Done), ["other"]);
    run.apply(claims, &read("v1 PersistentVolumeClaim shop/logs spec={}"));
    run.apply(pods, &read(&pod("web", "data")));
    assert_eq!((run.tasks(&End::Done), run.next()), (vec![], None));
    run.delete(claims, &read(CLAIM));
    assert_eq!(run.tasks(&End::Done), ["disk"]);
}

#[test]
fn l5_5_a_failed_operation_blocks_its_volume() {
    let volumes = Resource::PersistentVolumes;
    let mut run = Run::new(binder(), &[&disk("Released")]);
    let disk = read(&disk("Released"));
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
    let mut run = Run::new(binder(), &[&disk("Released")]);
    assert_eq!(run.tasks(&failed(false)), ["disk"]);
    assert_eq!(run.next(), Some(15_000));
}

#[test]
fn l5_9_a_provisioner_waits_longer_after_each_failure() {
    let disk = disk("Released").replace("kubernetes.io/aws-ebs", "csi.example.com");
    let disk = disk.replace(
        "kubernetes.io/pv-controller",
        "external-provisioner.volume.kubernetes.io/finalizer",
    );
    let mut run = Run::new(ExternalProvisioner::new("csi.example.com"), &[&disk]);
    for seconds in [15, 30, 60, 120, 240, 480, 960, 1_000, 1_000] {
        assert_eq!(run.tasks(&failed(true)), ["disk"]);
        assert_eq!(run.next(), Some(seconds * 1_000));
        run.wait(u64::try_from(seconds * 1_000).expect("small"));
    }
}

fn terminating(name: &str) -> String {
    format!("v1 PersistentVolumeClaim shop/{name} finalizer:kubernetes.io/pvc-protection deleted:11:00")
}

#[test]
fn a_pod_that_is_deleted_or_changes_enqueues_its_claims_and_no_others() {
    let pods = Resource::Pods;
    let on = |name, claim| read(&pod(name, claim));
    let living = "v1 PersistentVolumeClaim shop/mail finalizer:kubernetes.io/pvc-protection";
    let controller = PvcProtection::new(KubernetesVersion::LATEST);
    let mut run = Run::new(
        controller,
        &[
            &terminating("data"),
            living,
            &pod("web", "data"),
            &pod("api", "data"),
        ],
    );
    assert_eq!(run.tasks(&End::Done), Vec::<String>::new());
    for pod in [
        on("cart", "mail"),
        newer(&on("cart", "mail"), "8"),
        read("v1 Pod shop/cart spec.nodeName=n spec.volumes=[]"),
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
    let unread = |name: &str| format!("v1 Pod shop/{name} spec.nodeName=n spec.volumes=?");
    let known = |name: &str| {
        newer(
            &read(&format!("v1 Pod shop/{name} spec.nodeName=n spec.volumes=[]")),
            "8",
        )
    };
    let controller = PvcProtection::new(KubernetesVersion::LATEST);
    let mut run = Run::new(
        controller,
        &[&terminating("data"), &unread("api"), &unread("web")],
    );
    let unknown = |run: &mut Run| -> Vec<String> {
        assert_eq!(run.tasks(&End::Done), Vec::<String>::new());
        run.manager
            .unknown()
            .filter_map(|(_, _, missing, _)| missing.object().map(|pod| pod.name.to_string()))
            .collect()
    };
    assert_eq!(unknown(&mut run), ["api"]);
    run.apply(Resource::Pods, &read(&unread("cart")));
    assert_eq!(run.next(), None, "another one changes nothing");
    for (pod, left) in [("api", "cart"), ("cart", "web")] {
        run.apply(Resource::Pods, &known(pod));
        assert_eq!(unknown(&mut run), [left]);
    }
    run.delete(Resource::Pods, &read(&unread("web")));
    assert_eq!(run.tasks(&End::Done), ["shop/data"]);
}
