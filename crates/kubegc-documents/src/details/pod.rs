//! Facts of pods: their node, their phase, the volumes with claims, and the name of every Secret that they
//! reference.

use std::sync::Arc;

use kubegc_core::{
    Timestamp,
    json::JsonType,
    record::{Field, Pod, PodVolume, Toleration, VolumeSource},
};
use serde_json::{Value, json};

use super::{
    facts::{Each, Fact, Facts, Filled, In, Object, Plain, object, unless_empty, written},
    node::Conditions,
    reading::{At, Found, Reading, Unreadable},
};
use crate::fields::{ANNOTATION_COMPLETION_INDEX, ANNOTATION_DELETION_COST, ANNOTATION_INDEX_FAILURES};

/// The conditions of pods that are kept whole.
const KEPT_CONDITIONS: &[&str] = &["DisruptionTarget"];

map_of_facts! {
    Toleration {
        key: "key" => Filled,
        operator: "operator" => Filled,
        value: "value" => Filled,
        effect: "effect" => Filled,
        toleration_seconds: "tolerationSeconds" => Filled,
    }
}

impl Facts for Pod {
    fn read(reading: &mut Reading<'_>, object: At<'_, '_>) -> Self {
        let spec = reading.part(&object, "spec");
        let (volumes, secrets) = match spec {
            Some(spec) => contents(reading, spec),
            None => (Field::Unread, Field::Unread),
        };
        let status = reading.part(&object, "status");
        let conditions = reading.fact(status, "conditions", &Conditions(KEPT_CONDITIONS));
        let flaws = reading.flaws.len();
        let ready_at = reading.field(status, ready_at);
        // A problem with the list of conditions is reported once.
        let found = reading.flaws.split_off(flaws);
        let new = found.into_iter().filter(|flaw| !reading.flaws.contains(flaw));
        let new: Vec<_> = new.collect();
        reading.flaws.extend(new);
        let restarts = reading.field(status, restarts);
        Self {
            node_name: reading.fact(spec, "nodeName", &Plain),
            phase: reading.field(status, |reading, status| {
                reading.phase_or_initial(status.field("phase"), "Pending")
            }),
            reason: reading.fact(status, "reason", &Filled),
            containers_stopped: reading.field(status, containers_stopped),
            conditions,
            volumes,
            secrets,
            termination_grace_period_seconds: reading.fact(spec, "terminationGracePeriodSeconds", &Plain),
            tolerations: reading.fact(spec, "tolerations", &Filled),
            completion_index: reading.field(Some(object), |reading, object| {
                let index = annotation(reading, object, ANNOTATION_COMPLETION_INDEX)?;
                Ok(index.and_then(|index| index.parse().ok()))
            }),
            index_failure_count: reading.field(Some(object), |reading, object| {
                let count = annotation(reading, object, ANNOTATION_INDEX_FAILURES)?;
                Ok(count.and_then(|count| count.parse().ok()).unwrap_or(0))
            }),
            restart_count: restarts.map(|(sum, _)| sum),
            restart_count_max: restarts.map(|(_, most)| most),
            ready_at,
            deletion_cost: reading.field(Some(object), |reading, object| {
                let cost = annotation(reading, object, ANNOTATION_DELETION_COST)?;
                Ok(cost.map_or(0, |cost| deletion_cost(&cost)))
            }),
            pod_group: reading.fact(spec, "schedulingGroup", &In("podGroupName", Filled)),
        }
    }

    fn write(&self) -> Object {
        let volumes = match self.volumes.known() {
            Some(volumes) => unless_empty(volumes.iter().map(written_volume).collect()),
            // A list that is not a list would make the secrets unread too.
            None => json!([{ "persistentVolumeClaim": false }]),
        };
        let secrets = written(&Each(In("name", Plain)), &self.secrets);
        let spec = object([
            ("nodeName", written(&Plain, &self.node_name)),
            ("volumes", volumes),
            ("imagePullSecrets", unless_empty(secrets)),
            (
                "terminationGracePeriodSeconds",
                written(&Plain, &self.termination_grace_period_seconds),
            ),
            ("tolerations", written(&Filled, &self.tolerations)),
            (
                "schedulingGroup",
                written(&In("podGroupName", Filled), &self.pod_group),
            ),
        ]);
        // A value of a wrong type stands for a field that was not read.
        let mut conditions = match written(&Conditions(KEPT_CONDITIONS), &self.conditions) {
            Value::Array(known) => known,
            _ => vec![json!({ "type": "DisruptionTarget", "status": false })],
        };
        conditions.extend(match self.ready_at.known() {
            Some(None) => None,
            Some(Some(at)) => {
                Some(json!({ "type": "Ready", "status": "True", "lastTransitionTime": at.to_string() }))
            }
            None => Some(json!({ "type": "Ready", "status": false })),
        });
        let state = match self.containers_stopped.known() {
            Some(true) => json!({ "terminated": {} }),
            Some(false) => json!({ "running": {} }),
            None => "deletionTimestamp".into(),
        };
        let most = written(&Plain, &self.restart_count_max);
        let container_statuses = json!([{ "state": state, "restartCount": most }]);
        // The sum is that of all containers.
        let most = self.restart_count_max.known().copied().unwrap_or(0);
        let init_container_statuses = match self.restart_count.known().map(|sum| sum.saturating_sub(most)) {
            Some(0) => Value::Null,
            Some(count) => json!([{ "restartCount": count }]),
            None => "restartCount".into(),
        };
        let status = object([
            ("phase", written(&Plain, &self.phase)),
            ("reason", written(&Filled, &self.reason)),
            ("conditions", conditions.into()),
            ("containerStatuses", container_statuses),
            ("initContainerStatuses", init_container_statuses),
        ]);
        let unless_zero = |number: &Field<i32>| match number.known() {
            Some(0) => Value::Null,
            Some(number) => number.to_string().into(),
            None => Value::Bool(false),
        };
        let completion_index: Value = match self.completion_index.known() {
            Some(index) => index.map(|index| index.to_string()).into(),
            None => Value::Bool(false),
        };
        let annotations = object([
            (ANNOTATION_COMPLETION_INDEX, completion_index),
            (ANNOTATION_INDEX_FAILURES, unless_zero(&self.index_failure_count)),
            (ANNOTATION_DELETION_COST, unless_zero(&self.deletion_cost)),
        ]);
        let metadata = match annotations.is_empty() {
            true => Value::Null,
            false => json!({ "annotations": annotations }),
        };
        object([
            ("metadata", metadata),
            ("spec", spec.into()),
            ("status", status.into()),
        ])
    }
}

fn annotation(reading: &mut Reading<'_>, object: At<'_, '_>, key: &str) -> Found<Arc<str>> {
    let metadata = object.field("metadata");
    let annotations = metadata.field("annotations");
    reading.map(annotations)?;
    reading.text(annotations.field(key))
}

/// The sum of the containers' restarts, and the largest restart count in `containerStatuses`.
fn restarts(reading: &mut Reading<'_>, status: At<'_, '_>) -> Result<(i64, i64), Unreadable> {
    let (mut sum, mut most) = (0_i64, 0);
    for field in ["initContainerStatuses", "containerStatuses"] {
        let counts = reading.list(status.field(field), JsonType::Map, |reading, entry| {
            i64::read(reading, entry.field("restartCount"))
        })?;
        most = counts.iter().copied().max().unwrap_or(0);
        sum = counts.into_iter().fold(sum, i64::saturating_add);
    }
    Ok((sum, most))
}

/// The time at which the first condition `Ready` became true, if it is true.
fn ready_at(reading: &mut Reading<'_>, status: At<'_, '_>) -> Found<Timestamp> {
    let mut found = None;
    reading.list(status.field("conditions"), JsonType::Map, |reading, condition| {
        let condition_type = reading.str(condition.field("type"))?;
        if found.is_some() || condition_type != Some("Ready") {
            return Ok(());
        }
        let is_true = reading.str(condition.field("status"))? == Some("True");
        let at = reading.time(condition.field("lastTransitionTime"))?;
        found = Some(is_true.then(|| at.unwrap_or(Timestamp::EPOCH)));
        Ok(())
    })?;
    Ok(found.flatten())
}

/// The number, as upstream reads it: no sign but a minus, no leading zeros, 32 bits.
fn deletion_cost(text: &str) -> i32 {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_valid = digits.starts_with(|first: char| matches!(first, '1'..='9'));
    text.parse().ok().filter(|_| is_valid).unwrap_or(0)
}

/// Whether every container waits or has terminated.
fn containers_stopped(reading: &mut Reading<'_>, status: At<'_, '_>) -> Result<bool, Unreadable> {
    let stopped = reading.list(
        status.field("containerStatuses"),
        JsonType::Map,
        |reading, entry| {
            let state = entry.field("state");
            reading.map(state)?;
            let waiting = reading.map(state.field("waiting"))?;
            let terminated = reading.map(state.field("terminated"))?;
            Ok(waiting.is_some() || terminated.is_some())
        },
    )?;
    Ok(stopped.into_iter().all(|is_stopped| is_stopped))
}

type Contents = (Field<Vec<PodVolume>>, Field<Vec<Arc<str>>>);

/// The volumes with claims, and the names of all Secrets.
fn contents(reading: &mut Reading<'_>, spec: At<'_, '_>) -> Contents {
    let mut secrets = Secrets {
        names: Vec::new(),
        is_readable: true,
    };
    let mut volumes = Vec::new();
    let mut is_readable = true;
    let (_, all) = reading.entries(spec.field("volumes"), JsonType::Map, |reading, volume| {
        match claim(reading, volume) {
            Ok(claim) => volumes.extend(claim),
            Err(Unreadable) => is_readable = false,
        }
        secrets.find(reading, volume, OF_VOLUME);
        Ok(())
    });
    is_readable &= all;
    secrets.is_readable &= all;
    secrets.find(reading, spec, OF_SPEC);
    let Secrets {
        mut names,
        is_readable: are_secrets_readable,
    } = secrets;
    names.sort_unstable();
    names.dedup();
    let volumes = is_readable.then_some(volumes).map_or(Field::Unread, Field::Known);
    let names = are_secrets_readable.then_some(names);
    (volumes, names.map_or(Field::Unread, Field::Known))
}

/// A volume with a claim. Others are not kept: no controller reads them, and many of their names are random.
fn claim(reading: &mut Reading<'_>, volume: At<'_, '_>) -> Found<PodVolume> {
    let claim = match reading.map(volume.field("persistentVolumeClaim")) {
        Ok(Some(claim)) => {
            let name = reading.text_or_empty(claim.field("claimName"));
            name.map(VolumeSource::Claim).map(Some)
        }
        Ok(None) => Ok(None),
        Err(Unreadable) => Err(Unreadable),
    };
    let ephemeral = reading.map(volume.field("ephemeral"));
    let ephemeral = ephemeral.map(|source| source.map(|_| VolumeSource::Ephemeral));
    let name = reading.str(volume.field("name"));
    let (claim, ephemeral, name) = (claim?, ephemeral?, name?);
    Ok(claim.or(ephemeral).map(|source| PodVolume {
        name: reading.texts.share(name.unwrap_or_default()),
        source,
    }))
}

fn written_volume(volume: &PodVolume) -> Value {
    let name = &volume.name;
    match &volume.source {
        VolumeSource::Claim(claim) => {
            json!({ "name": name, "persistentVolumeClaim": { "claimName": claim } })
        }
        VolumeSource::Ephemeral => json!({ "name": name, "ephemeral": {} }),
        VolumeSource::Other => json!({ "name": name }),
    }
}

/// The names of Secrets, as far as they were found.
struct Secrets {
    names: Vec<Arc<str>>,
    /// Whether every field that may name one could be read.
    is_readable: bool,
}

impl Secrets {
    /// Adds the names in these fields of a map; empty ones name nothing.
    fn find(&mut self, reading: &mut Reading<'_>, at: At<'_, '_>, names: &[Names]) {
        for names in names {
            match names {
                Names::Text(field) => match reading.text_unless_empty(at.field(field)) {
                    Ok(name) => self.names.extend(name),
                    Err(Unreadable) => self.is_readable = false,
                },
                Names::Map(field, names) => match reading.map(at.field(field)) {
                    Ok(Some(map)) => self.find(reading, map, names),
                    Ok(None) => {}
                    Err(Unreadable) => self.is_readable = false,
                },
                Names::List(field, names) => {
                    let (_, all) = reading.entries(at.field(field), JsonType::Map, |reading, entry| {
                        self.find(reading, entry, names);
                        Ok(())
                    });
                    self.is_readable &= all;
                }
            }
        }
    }
}

/// A field that names a Secret, or contains such fields.
enum Names {
    /// A text: the name.
    Text(&'static str),
    Map(&'static str, &'static [Self]),
    /// A list of maps.
    List(&'static str, &'static [Self]),
}

const NAME: &[Names] = &[Names::Text("name")];
const SECRET_NAME: &[Names] = &[Names::Text("secretName")];
const REFERENCE: &[Names] = &[Names::Map("secretRef", NAME)];

/// Of the spec of a pod, apart from its volumes.
const OF_SPEC: &[Names] = &[
    Names::List("imagePullSecrets", NAME),
    Names::List("containers", OF_CONTAINER),
    Names::List("initContainers", OF_CONTAINER),
    Names::List("ephemeralContainers", OF_CONTAINER),
];

const OF_CONTAINER: &[Names] = &[
    Names::List(
        "env",
        &[Names::Map("valueFrom", &[Names::Map("secretKeyRef", NAME)])],
    ),
    Names::List("envFrom", REFERENCE),
];

const OF_VOLUME: &[Names] = &[
    Names::Map("secret", SECRET_NAME),
    Names::Map("azureFile", SECRET_NAME),
    Names::Map("cephfs", REFERENCE),
    Names::Map("cinder", REFERENCE),
    Names::Map("flexVolume", REFERENCE),
    Names::Map("iscsi", REFERENCE),
    Names::Map("rbd", REFERENCE),
    Names::Map("scaleIO", REFERENCE),
    Names::Map("storageos", REFERENCE),
    Names::Map("csi", &[Names::Map("nodePublishSecretRef", NAME)]),
    Names::Map(
        "projected",
        &[Names::List("sources", &[Names::Map("secret", NAME)])],
    ),
];
