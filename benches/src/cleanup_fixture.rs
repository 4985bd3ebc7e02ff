//! A cluster with many finished objects, as `kubectl get -o json` prints them.
//!
//! Pods, Jobs and the other objects that controllers delete, from a fixed seed.

use std::{fmt::Display, time::Duration};

use kubegc::{
    controllers::PodGc,
    core::{KubernetesVersion, Timestamp},
    predict::{Assumptions, Cluster, Question},
    snapshot::Reader,
};

use crate::shapes::{Kind, Random};

/// The time of the dump.
pub const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

/// The version of the cluster.
pub const VERSION: KubernetesVersion = KubernetesVersion::LATEST;

const DAY_SECONDS: u64 = 86_400;
const NODES: usize = 100;

/// The number of objects.
#[non_exhaustive]
#[derive(Clone, Copy, Debug)]
pub struct CleanupFixture {
    /// Pods. Of 200, 10 have succeeded and belong to Jobs, 7.5 have failed or were evicted, and one is on a
    /// node that no longer exists.
    pub pods: usize,
    /// Jobs, a quarter as many. Of 10, 4 expire within a day, 5 later, and one belongs to a CronJob that
    /// keeps 3 of 5.
    pub jobs: usize,
}

impl CleanupFixture {
    /// A cluster with this number of pods.
    pub const fn new(pods: usize) -> Self {
        Self { pods, jobs: pods / 4 }
    }

    /// A question about one day. A fortieth of the pods exceeds the threshold of terminated pods.
    pub fn question(self) -> Question {
        let mut podgc = PodGc::new(VERSION);
        podgc.terminated_pod_threshold = i32::try_from(self.pods / 16).unwrap_or(i32::MAX);
        Question::new(VERSION)
            .at(NOW)
            .up_to(Duration::from_secs(DAY_SECONDS))
            .with(podgc)
    }

    /// The documents, a few megabytes each.
    pub fn documents(self) -> Vec<Vec<u8>> {
        let mut out = Documents::new(self.pods as u64);
        self.nodes(&mut out);
        self.jobs(&mut out);
        self.pods(&mut out);
        self.stateful_sets_and_storage(&mut out);
        self.certificates_and_tokens(&mut out);
        out.finish()
    }

    fn nodes(self, out: &mut Documents) {
        for node in 0..=NODES {
            let owner = owner("v1", "Node", &format!("node-{node}"), false);
            let lease = format!(r#","ownerReferences":[{owner}]"#);
            out.item(
                ("coordination.k8s.io/v1", "Lease"),
                "kube-node-lease",
                &format!("node-{node}"),
                900,
                &lease,
                "",
            );
            // The last one no longer exists.
            if node < NODES {
                let rest = r#","spec":{"providerID":"cloud://1"},"status":{"conditions":[{"type":"Ready","status":"True"}]}"#;
                out.item(("v1", "Node"), "", &format!("node-{node}"), 900, "", rest);
            }
        }
    }

    fn jobs(self, out: &mut Documents) {
        let of_cron_jobs = self.jobs / 10;
        for job in 0..self.jobs {
            let namespace = namespace(job);
            let name = format!("job-{job:06}");
            let finished = out.time_ago(DAY_SECONDS);
            let seconds_ago = NOW.since(finished).as_secs();
            let (owner, ttl) = if job < self.jobs * 4 / 10 {
                (
                    String::new(),
                    Some(seconds_ago + 1 + out.random.below(DAY_SECONDS - 1)),
                )
            } else if job < self.jobs - of_cron_jobs {
                (String::new(), Some(7 * DAY_SECONDS))
            } else {
                let cron_job = (job + of_cron_jobs - self.jobs) / 5;
                let owner = owner("batch/v1", "CronJob", &format!("cron-{cron_job}"), true);
                (format!(r#","ownerReferences":[{owner}]"#), None)
            };
            // The jobs of a cron job share its namespace.
            let namespace = if ttl.is_some() {
                namespace
            } else {
                "team-000".to_owned()
            };
            let ttl = ttl
                .map(|ttl| format!(r#""ttlSecondsAfterFinished":{ttl},"#))
                .unwrap_or_default();
            let rest = format!(
                r#","spec":{{{ttl}"template":{{}}}},"status":{{"startTime":"{finished}","completionTime":"{finished}","succeeded":1,"conditions":[{{"type":"SuccessCriteriaMet","status":"True","lastTransitionTime":"{finished}"}},{{"type":"Complete","status":"True","lastTransitionTime":"{finished}"}}]}}"#
            );
            out.item(("batch/v1", "Job"), &namespace, &name, DAY_SECONDS, &owner, &rest);
        }
        for cron_job in 0..of_cron_jobs.div_ceil(5) {
            let rest = r#","spec":{"schedule":"0 * * * *","successfulJobsHistoryLimit":3,"failedJobsHistoryLimit":1,"jobTemplate":{"metadata":{}}}"#;
            out.item(
                ("batch/v1", "CronJob"),
                "team-000",
                &format!("cron-{cron_job}"),
                DAY_SECONDS,
                "",
                rest,
            );
        }
    }

    fn pods(self, out: &mut Documents) {
        let [succeeded, failed, orphaned] = [self.pods / 20, self.pods * 3 / 80, self.pods / 200];
        let of_sets = 2 * self.stateful_sets();
        for pod in 0..self.pods - of_sets {
            let mut owners = String::new();
            let mut node = pod % NODES;
            let mut status = r#"{"phase":"Running"}"#;
            if pod < succeeded {
                let job = owner("batch/v1", "Job", &format!("job-{pod:06}"), true);
                owners = format!(r#","ownerReferences":[{job}]"#);
                status = r#"{"phase":"Succeeded"}"#;
            } else if pod < succeeded + failed {
                status = match pod % 2 {
                    0 => r#"{"phase":"Failed","reason":"Evicted"}"#,
                    _ => r#"{"phase":"Failed"}"#,
                };
            } else if pod < succeeded + failed + orphaned {
                node = NODES;
            }
            let rest = format!(
                r#","spec":{{"nodeName":"node-{node}","terminationGracePeriodSeconds":30,"containers":[{{"name":"app","image":"registry.example.com/team/app:1.4","resources":{{"limits":{{"cpu":"100m"}}}}}}],"volumes":[{{"name":"token","projected":{{"sources":[{{"serviceAccountToken":{{"path":"token"}}}}]}}}}]}},"status":{status}"#
            );
            out.item(
                ("v1", "Pod"),
                &namespace(pod),
                &format!("pod-{pod:06}"),
                DAY_SECONDS,
                &owners,
                &rest,
            );
        }
    }

    const fn stateful_sets(self) -> usize {
        self.pods / 200
    }

    fn stateful_sets_and_storage(self, out: &mut Documents) {
        for set in 0..self.stateful_sets() {
            let name = format!("set-{set:05}");
            let policy = if set % 2 == 0 { "Delete" } else { "Retain" };
            let rest = format!(
                r#","spec":{{"replicas":2,"persistentVolumeClaimRetentionPolicy":{{"whenDeleted":"{policy}","whenScaled":"Retain"}},"volumeClaimTemplates":[{{"metadata":{{"name":"data"}}}}]}}"#
            );
            out.item(
                ("apps/v1", "StatefulSet"),
                &namespace(set),
                &name,
                DAY_SECONDS,
                "",
                &rest,
            );
            for ordinal in 0..2 {
                let owner = owner("apps/v1", "StatefulSet", &name, true);
                let owners = format!(r#","ownerReferences":[{owner}]"#);
                let rest = format!(
                    r#","spec":{{"nodeName":"node-{}","containers":[],"volumes":[{{"name":"data","persistentVolumeClaim":{{"claimName":"data-{name}-{ordinal}"}}}}]}},"status":{{"phase":"Running"}}"#,
                    set % NODES
                );
                out.item(
                    ("v1", "Pod"),
                    &namespace(set),
                    &format!("{name}-{ordinal}"),
                    DAY_SECONDS,
                    &owners,
                    &rest,
                );
                out.claim_and_volume(&namespace(set), &format!("data-{name}-{ordinal}"), false);
            }
        }
        let others = self.pods / 20 - 2 * self.stateful_sets();
        for claim in 0..others {
            // Of a hundred, one is being deleted and not in use.
            out.claim_and_volume(&namespace(claim), &format!("claim-{claim:05}"), claim % 100 == 0);
        }
    }

    fn certificates_and_tokens(self, out: &mut Documents) {
        for request in 0..self.pods / 100 {
            let denied = out.time_ago(7_200);
            let status = match request % 2 {
                0 => format!(
                    r#"{{"conditions":[{{"type":"Denied","status":"True","lastUpdateTime":"{denied}"}}]}}"#
                ),
                _ => "{}".to_owned(),
            };
            let rest = format!(r#","spec":{{}},"status":{status}"#);
            out.item(
                ("certificates.k8s.io/v1", "CertificateSigningRequest"),
                "",
                &format!("csr-{request:05}"),
                2 * DAY_SECONDS,
                "",
                &rest,
            );
        }
        let tracking = r#","data":{"since":"2024-01-01"}"#;
        let name = "kube-apiserver-legacy-service-account-token-tracking";
        out.item(
            ("v1", "ConfigMap"),
            "kube-system",
            name,
            DAY_SECONDS,
            "",
            tracking,
        );
        for token in 0..self.pods / 200 {
            // Every token is a year and more old, and belongs to an account that lists it.
            let (account, name) = (format!("account-{token:05}"), format!("token-{token:05}"));
            let secrets = format!(r#","secrets":[{{"name":"{name}"}}]"#);
            out.item(
                ("v1", "ServiceAccount"),
                &namespace(token),
                &account,
                DAY_SECONDS,
                "",
                &secrets,
            );
            let annotations =
                format!(r#","annotations":{{"kubernetes.io/service-account.name":"{account}"}}"#);
            out.old_item(
                ("v1", "Secret"),
                &namespace(token),
                &name,
                &annotations,
                r#","type":"kubernetes.io/service-account-token""#,
            );
        }
    }
}

impl CleanupFixture {
    /// Reads documents into a cluster.
    ///
    /// # Panics
    /// The documents are not those of this fixture.
    pub fn cluster(documents: &[Vec<u8>]) -> Cluster {
        let mut reader = Reader::new(VERSION).complete("all");
        for (at, document) in documents.iter().enumerate() {
            reader
                .read(&format!("dump-{at}.json"), &**document)
                .expect("a list");
        }
        Cluster::new(
            VERSION,
            reader.finish().expect("a snapshot"),
            Assumptions::default(),
        )
    }
}

fn namespace(object: usize) -> String {
    format!("team-{:03}", object % 200)
}

/// A reference to an object of this fixture. Its uid consists of its kind and name.
fn owner(api_version: &str, kind: &str, name: &str, is_controller: bool) -> String {
    let controller = if is_controller {
        r#","controller":true,"blockOwnerDeletion":true"#
    } else {
        ""
    };
    format!(
        r#"{{"apiVersion":"{api_version}","kind":"{kind}","name":"{name}","uid":"{kind}-{name}"{controller}}}"#
    )
}

/// A builder of documents.
struct Documents {
    finished: Vec<Vec<u8>>,
    current: Vec<u8>,
    random: Random,
    version: u64,
}

const DOCUMENT_BYTES: usize = 4 << 20;

impl Documents {
    fn new(seed: u64) -> Self {
        Self {
            finished: Vec::new(),
            current: Vec::new(),
            random: Random::new(seed),
            version: 0,
        }
    }

    fn time_ago(&mut self, seconds_max: u64) -> Timestamp {
        NOW.saturating_sub(Duration::from_secs(self.random.below(seconds_max)))
    }

    /// An object that was created within this number of seconds.
    fn item(
        &mut self,
        kind: Kind,
        namespace: &str,
        name: &str,
        age_seconds: u64,
        metadata: &str,
        rest: &str,
    ) {
        let created = self.time_ago(age_seconds);
        self.write(kind, namespace, name, created, metadata, rest);
    }

    /// An object that was created two years ago.
    fn old_item(&mut self, kind: Kind, namespace: &str, name: &str, metadata: &str, rest: &str) {
        let created = NOW.saturating_sub(Duration::from_secs(730 * DAY_SECONDS));
        self.write(kind, namespace, name, created, metadata, rest);
    }

    fn write(
        &mut self,
        (api_version, kind): Kind,
        namespace: &str,
        name: &str,
        created: impl Display,
        metadata: &str,
        rest: &str,
    ) {
        if self.current.len() > DOCUMENT_BYTES {
            self.end();
        }
        let begin = match self.current.is_empty() {
            true => r#"{"apiVersion":"v1","kind":"List","items":["#,
            false => ",",
        };
        self.version += 1;
        let version = self.version;
        let namespaced = match namespace {
            "" => String::new(),
            namespace => format!(r#""namespace":"{namespace}","#),
        };
        let item = format!(
            r#"{begin}{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{{{namespaced}"name":"{name}","uid":"{kind}-{name}","resourceVersion":"{version}","creationTimestamp":"{created}"{metadata}}}{rest}}}"#
        );
        self.current.extend_from_slice(item.as_bytes());
    }

    /// A claim and the volume that it is bound to.
    fn claim_and_volume(&mut self, namespace: &str, name: &str, is_deleted: bool) {
        let deleted = match is_deleted {
            true => format!(r#","deletionTimestamp":"{NOW}","deletionGracePeriodSeconds":0"#),
            false => String::new(),
        };
        let metadata = format!(r#"{deleted},"finalizers":["kubernetes.io/pvc-protection"]"#);
        let rest = format!(r#","spec":{{"volumeName":"pv-{name}"}},"status":{{"phase":"Bound"}}"#);
        self.item(
            ("v1", "PersistentVolumeClaim"),
            namespace,
            name,
            DAY_SECONDS,
            &metadata,
            &rest,
        );
        let metadata = r#","finalizers":["external-provisioner.volume.kubernetes.io/finalizer","kubernetes.io/pv-protection"],"annotations":{"pv.kubernetes.io/provisioned-by":"disk.csi.example.com"}"#;
        let rest = format!(
            r#","spec":{{"persistentVolumeReclaimPolicy":"Delete","claimRef":{{"apiVersion":"v1","kind":"PersistentVolumeClaim","namespace":"{namespace}","name":"{name}","uid":"PersistentVolumeClaim-{name}"}}}},"status":{{"phase":"Bound"}}"#
        );
        self.item(
            ("v1", "PersistentVolume"),
            "",
            &format!("pv-{name}"),
            DAY_SECONDS,
            metadata,
            &rest,
        );
    }

    fn end(&mut self) {
        if !self.current.is_empty() {
            self.current.extend_from_slice(b"]}");
            self.finished.push(std::mem::take(&mut self.current));
        }
    }

    fn finish(mut self) -> Vec<Vec<u8>> {
        self.end();
        self.finished
    }
}
