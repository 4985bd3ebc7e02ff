//! Fields of pods: their node, their phase, the volumes with claims, and the name of every secret that they
//! reference.

use std::sync::Arc;

use kubegc_core::json::{Expected, Soft, Text};
use kubegc_core::{
    Timestamp,
    record::{Field, Pod, PodVolume, Toleration, VolumeSource},
};

use super::{
    SPEC, STATUS, annotation,
    node::conditions,
    phase_or_initial,
    reading::{Found, Path, Reading, Unreadable},
    spec_of, status_of,
};
use crate::body::{
    ANNOTATION_COMPLETION_INDEX, ANNOTATION_DELETION_COST, ANNOTATION_INDEX_FAILURES, Body, Container, List,
    Named, Spec, Status, Volume,
};

/// The condition of pods that is kept whole.
const CONDITION_DISRUPTION_TARGET: &str = "DisruptionTarget";

pub(super) fn read(reading: &mut Reading<'_>, body: &Body<'_>) -> Pod {
    let spec = spec_of(reading, body);
    let (volumes, secrets) = match spec {
        Some(spec) => contents(reading, spec),
        None => (Field::Unread, Field::Unread),
    };
    let status = status_of(reading, body);
    let conditions = reading.field(status, |reading, status| {
        conditions(reading, status, |found| found == CONDITION_DISRUPTION_TARGET)
    });
    let flaws = reading.flaws.len();
    let ready_at = reading.field(status, ready_at);
    // A problem with the list of conditions is reported once.
    let found = reading.flaws.split_off(flaws);
    let new = found.into_iter().filter(|flaw| !reading.flaws.contains(flaw));
    let new: Vec<_> = new.collect();
    reading.flaws.extend(new);
    let restarts = reading.field(status, restarts);
    Pod {
        node_name: field!(reading, spec.node_name => text_or_empty("nodeName")),
        phase: phase_or_initial(reading, body, status, "Pending"),
        reason: field!(reading, status.reason => text_or_empty("reason")),
        containers_stopped: reading.field(status, containers_stopped),
        conditions,
        volumes,
        secrets,
        termination_grace_period_seconds: reading.field(spec, |reading, spec| {
            let path = SPEC.field("terminationGracePeriodSeconds");
            Ok(reading
                .value(&spec.termination_grace_period_seconds, path)?
                .copied())
        }),
        tolerations: reading.field(spec, |reading, spec| {
            reading.list(
                &spec.tolerations,
                SPEC.field("tolerations"),
                |reading, entry, path| {
                    let key = reading.text_or_empty(&entry.key, path.field("key"));
                    let operator = reading.text_or_empty(&entry.operator, path.field("operator"));
                    let value = reading.text_or_empty(&entry.value, path.field("value"));
                    let effect = reading.text_or_empty(&entry.effect, path.field("effect"));
                    let seconds = reading.value(&entry.toleration_seconds, path.field("tolerationSeconds"));
                    Ok(Toleration {
                        key: key?,
                        operator: operator?,
                        value: value?,
                        effect: effect?,
                        toleration_seconds: seconds?.copied(),
                    })
                },
            )
        }),
        completion_index: reading.field(Some(body), |reading, body| {
            let index = annotation(reading, body, ANNOTATION_COMPLETION_INDEX)?;
            Ok(index.and_then(|index| index.parse().ok()))
        }),
        index_failure_count: reading.field(Some(body), |reading, body| {
            let count = annotation(reading, body, ANNOTATION_INDEX_FAILURES)?;
            Ok(count.and_then(|count| count.parse().ok()).unwrap_or(0))
        }),
        restart_count: restarts.map(|(sum, _)| sum),
        restart_count_max: restarts.map(|(_, most)| most),
        ready_at,
        deletion_cost: reading.field(Some(body), |reading, body| {
            let cost = annotation(reading, body, ANNOTATION_DELETION_COST)?;
            Ok(cost.map_or(0, |cost| deletion_cost(&cost)))
        }),
        pod_group: reading.field(spec, |reading, spec| {
            let path = SPEC.field("schedulingGroup");
            match reading.value(&spec.scheduling_group, path)? {
                Some(group) => reading.text_or_empty(&group.pod_group_name, path.field("podGroupName")),
                None => Ok(Arc::default()),
            }
        }),
    }
}

/// The sum of the containers' restarts, and the largest restart count in `containerStatuses`.
fn restarts(reading: &mut Reading<'_>, status: &Status<'_>) -> Result<(i64, i64), Unreadable> {
    let lists = [
        (&status.init_container_statuses, "initContainerStatuses"),
        (&status.container_statuses, "containerStatuses"),
    ];
    let (mut sum, mut most) = (0_i64, 0);
    for (list, field) in lists {
        let counts = reading.list(list, STATUS.field(field), |reading, entry, path| {
            reading.copy_or_zero(&entry.restart_count, path.field("restartCount"))
        })?;
        most = counts.iter().copied().max().unwrap_or(0);
        sum = counts.into_iter().fold(sum, i64::saturating_add);
    }
    Ok((sum, most))
}

/// The time at which the first condition `Ready` became true, if it is true.
fn ready_at(reading: &mut Reading<'_>, status: &Status<'_>) -> Found<Timestamp> {
    let path = STATUS.field("conditions");
    let mut found = None;
    reading.list(&status.conditions, path, |reading, condition, path| {
        let condition_type = reading.value(&condition.condition_type, path.field("type"))?;
        if found.is_some() || condition_type.is_none_or(|name| name.as_str() != "Ready") {
            return Ok(());
        }
        let status = reading.value(&condition.status, path.field("status"))?;
        let at = reading.time(&condition.last_transition_time, path.field("lastTransitionTime"))?;
        let is_true = status.is_some_and(|status| status.as_str() == "True");
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
fn containers_stopped(reading: &mut Reading<'_>, status: &Status<'_>) -> Result<bool, Unreadable> {
    let path = STATUS.field("containerStatuses");
    let stopped = reading.list(&status.container_statuses, path, |reading, entry, path| {
        let path = path.field("state");
        let Some(state) = reading.value(&entry.state, path)? else {
            return Ok(false);
        };
        let waiting = reading.value(&state.waiting, path.field("waiting"))?;
        let terminated = reading.value(&state.terminated, path.field("terminated"))?;
        Ok(waiting.is_some() || terminated.is_some())
    })?;
    Ok(stopped.into_iter().all(|is_stopped| is_stopped))
}

type Contents = (Field<Vec<PodVolume>>, Field<Vec<Arc<str>>>);

/// The volumes with claims, and the names of all secrets.
fn contents(reading: &mut Reading<'_>, spec: &Spec<'_>) -> Contents {
    let mut secrets = Secrets::default();
    let mut volumes = Vec::new();
    let mut is_readable = true;
    let path = SPEC.field("volumes");
    let (_, all) = reading.entries(&spec.volumes, path, |reading, volume, path| {
        match claim(reading, volume, path) {
            Ok(claim) => volumes.extend(claim),
            Err(Unreadable) => is_readable = false,
        }
        secrets.of_volume(reading, volume, path);
        Ok(())
    });
    is_readable &= all;
    secrets.is_readable &= all;
    let path = SPEC.field("imagePullSecrets");
    secrets.each(
        reading,
        &spec.image_pull_secrets,
        path,
        |secrets, reading, reference, path| {
            secrets.name(reading, &reference.name, path.field("name"));
        },
    );
    let all_containers = [
        (&spec.containers, "containers"),
        (&spec.init_containers, "initContainers"),
        (&spec.ephemeral_containers, "ephemeralContainers"),
    ];
    for (containers, field) in all_containers {
        secrets.of_containers(reading, containers, SPEC.field(field));
    }
    let Secrets {
        mut names,
        is_readable: are_secrets_readable,
    } = secrets;
    names.sort_unstable();
    names.dedup();
    let volumes = if is_readable {
        volumes.into()
    } else {
        Field::Unread
    };
    let names = if are_secrets_readable {
        names.into()
    } else {
        Field::Unread
    };
    (volumes, names)
}

/// A volume with a claim. Others are not kept: no controller reads them, and many of their names are random.
fn claim(reading: &mut Reading<'_>, volume: &Volume<'_>, path: Path<'_>) -> Found<PodVolume> {
    let claim_path = path.field("persistentVolumeClaim");
    let claim = reading.value(&volume.persistent_volume_claim, claim_path);
    let claim = claim.and_then(|claim| match claim {
        Some(claim) => {
            let name = reading.text_or_empty(&claim.claim_name, claim_path.field("claimName"));
            name.map(VolumeSource::Claim).map(Some)
        }
        None => Ok(None),
    });
    let ephemeral = reading.value(&volume.ephemeral, path.field("ephemeral"));
    let ephemeral = ephemeral.map(|source| source.map(|_| VolumeSource::Ephemeral));
    let name = reading.value(&volume.name, path.field("name"));
    let (claim, ephemeral, name) = (claim?, ephemeral?, name?);
    Ok(claim.or(ephemeral).map(|source| PodVolume {
        name: reading.texts.share(name.map_or("", Text::as_str)),
        source,
    }))
}

/// The names of secrets, as far as they were found.
struct Secrets {
    names: Vec<Arc<str>>,
    /// Whether every field that may name one could be read.
    is_readable: bool,
}

impl Default for Secrets {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            is_readable: true,
        }
    }
}

impl Secrets {
    /// Adds a name, unless it is empty.
    fn name(&mut self, reading: &mut Reading<'_>, name: &Soft<Text<'_>>, path: Path<'_>) {
        match reading.text_unless_empty(name, path) {
            Ok(name) => self.names.extend(name),
            Err(Unreadable) => self.is_readable = false,
        }
    }

    /// The value of a field that may name a secret in one of its own fields.
    fn within<'v, 'de, T: Expected<'de>>(
        &mut self,
        reading: &mut Reading<'_>,
        value: &'v Soft<T>,
        path: Path<'_>,
    ) -> Option<&'v T> {
        let value = reading.value(value, path);
        self.is_readable &= value.is_ok();
        value.ok().flatten()
    }

    /// Reads each entry of a list that may name a secret.
    fn each<'v, 'de, T: Expected<'de>>(
        &mut self,
        reading: &mut Reading<'_>,
        list: &'v Soft<List<T>>,
        path: Path<'_>,
        mut visit: impl FnMut(&mut Self, &mut Reading<'_>, &'v T, Path<'_>),
    ) {
        let (_, all) = reading.entries(list, path, |reading, entry, path| {
            visit(self, reading, entry, path);
            Ok(())
        });
        self.is_readable &= all;
    }

    /// Adds the name of a reference.
    fn reference(&mut self, reading: &mut Reading<'_>, reference: &Soft<Named<'_>>, path: Path<'_>) {
        if let Some(reference) = self.within(reading, reference, path) {
            self.name(reading, &reference.name, path.field("name"));
        }
    }

    fn of_containers(&mut self, reading: &mut Reading<'_>, list: &Soft<List<Container<'_>>>, path: Path<'_>) {
        self.each(reading, list, path, |secrets, reading, container, path| {
            let env = path.field("env");
            secrets.each(
                reading,
                &container.env,
                env,
                |secrets, reading, variable, path| {
                    let path = path.field("valueFrom");
                    if let Some(from) = secrets.within(reading, &variable.value_from, path) {
                        secrets.reference(reading, &from.secret_key_ref, path.field("secretKeyRef"));
                    }
                },
            );
            let env_from = path.field("envFrom");
            secrets.each(
                reading,
                &container.env_from,
                env_from,
                |secrets, reading, from, path| {
                    secrets.reference(reading, &from.secret_ref, path.field("secretRef"));
                },
            );
        });
    }

    fn of_volume(&mut self, reading: &mut Reading<'_>, volume: &Volume<'_>, path: Path<'_>) {
        for (source, field) in [(&volume.secret, "secret"), (&volume.azure_file, "azureFile")] {
            let path = path.field(field);
            if let Some(source) = self.within(reading, source, path) {
                self.name(reading, &source.secret_name, path.field("secretName"));
            }
        }
        for (source, field) in [
            (&volume.cephfs, "cephfs"),
            (&volume.cinder, "cinder"),
            (&volume.flex_volume, "flexVolume"),
            (&volume.iscsi, "iscsi"),
            (&volume.rbd, "rbd"),
            (&volume.scale_io, "scaleIO"),
            (&volume.storageos, "storageos"),
        ] {
            let path = path.field(field);
            if let Some(source) = self.within(reading, source, path) {
                self.reference(reading, &source.secret_ref, path.field("secretRef"));
            }
        }
        let csi = path.field("csi");
        if let Some(driver) = self.within(reading, &volume.csi, csi) {
            let path = csi.field("nodePublishSecretRef");
            self.reference(reading, &driver.node_publish_secret_ref, path);
        }
        let projected = path.field("projected");
        if let Some(projection) = self.within(reading, &volume.projected, projected) {
            let sources = projected.field("sources");
            self.each(
                reading,
                &projection.sources,
                sources,
                |secrets, reading, source, path| {
                    secrets.reference(reading, &source.secret, path.field("secret"));
                },
            );
        }
    }
}
