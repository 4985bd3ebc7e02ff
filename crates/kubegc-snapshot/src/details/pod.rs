//! What is read of pods: where they run, how they stand, the claims behind their volumes, and every secret that they mention.

use std::sync::Arc;

use kubegc_lifecycle::{
    pod,
    volume::{PodVolume, Source},
};

use super::{
    PodDetails, SPEC, STATUS,
    node::conditions,
    phase_of,
    reading::{Found, Path, Reading, Unreadable},
    status_of,
};
use crate::{
    body::{Body, Container, List, Named, PodSpec, Status, Volume},
    item::Text,
    mentions::Mentions,
    soft::{Expected, Soft},
};

/// The only condition of pods that decides anything.
const CONDITION_DISRUPTION_TARGET: &str = "DisruptionTarget";

pub(super) fn read(reading: &mut Reading<'_>, body: &Body<'_>, mentions: Mentions) -> PodDetails {
    let mut details = PodDetails::default();
    if let Ok(Some(spec)) = reading.value(&body.spec, SPEC) {
        let spec = &*spec.of_pod();
        let node_name = reading.text_or_empty(&spec.node_name, SPEC.field("nodeName"));
        let grace_field = SPEC.field("terminationGracePeriodSeconds");
        let grace = reading.value(&spec.termination_grace_period_seconds, grace_field);
        let (volumes, secrets) = contents(reading, spec, mentions);
        details.fields.node_name = node_name.ok();
        details.fields.volumes = volumes.ok();
        details.fields.secrets = secrets.ok();
        details.termination_grace_period_seconds = grace.ok().flatten().copied();
    }
    if let Ok(status) = status_of(reading, body) {
        details.fields.status = status_fields(reading, status, mentions).ok().flatten();
    }
    details
}

/// The status; one without a phase was not read. An empty phase is one: upstream takes it for that of a pod that has ended.
fn status_fields(
    reading: &mut Reading<'_>,
    status: Option<&Status<'_>>,
    mentions: Mentions,
) -> Found<pod::Status> {
    let phase = phase_of(reading, status);
    let Some(status) = status else {
        return Ok(None);
    };
    let reason = reading.text_or_empty(&status.reason, STATUS.field("reason"));
    let conditions = if mentions.disruption {
        conditions(reading, status, |kind| kind == CONDITION_DISRUPTION_TARGET)
    } else {
        Ok(Vec::new())
    };
    let (phase, reason, conditions) = (phase?, reason?, conditions?);
    Ok(phase.map(|phase| pod::Status {
        phase,
        reason,
        conditions,
    }))
}

type Contents = (
    Result<Vec<PodVolume>, Unreadable>,
    Result<Vec<Arc<str>>, Unreadable>,
);

/// The volumes with a claim behind them, and the names of all secrets.
fn contents(reading: &mut Reading<'_>, spec: &PodSpec<'_>, mentions: Mentions) -> Contents {
    let mut secrets = Secrets::default();
    let mut volumes = Vec::new();
    let mut volumes_told = true;
    let path = SPEC.field("volumes");
    let (_, volumes_listed) = reading.entries(&spec.volumes, path, |reading, volume, path| {
        match claim(reading, volume, path) {
            Ok(claim) => volumes.extend(claim),
            Err(Unreadable) => volumes_told = false,
        }
        secrets.of_volume(reading, volume, path);
        Ok(())
    });
    secrets.told &= volumes_listed;
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
    for (containers, field) in all_containers.into_iter().filter(|_| mentions.secrets) {
        secrets.of_containers(reading, containers, SPEC.field(field));
    }
    let Secrets { mut names, told } = secrets;
    names.sort_unstable();
    names.dedup();
    (
        (volumes_told && volumes_listed)
            .then_some(volumes)
            .ok_or(Unreadable),
        told.then_some(names).ok_or(Unreadable),
    )
}

/// The claim behind a volume. Of all others not even the name is kept: nothing depends on it, and many are random.
fn claim(reading: &mut Reading<'_>, volume: &Volume<'_>, path: Path<'_>) -> Found<PodVolume> {
    let claim_path = path.field("persistentVolumeClaim");
    let claim = reading.value(&volume.persistent_volume_claim, claim_path);
    let claim = claim.and_then(|claim| match claim {
        Some(claim) => {
            let name = reading.text_or_empty(&claim.claim_name, claim_path.field("claimName"));
            name.map(Source::Claim).map(Some)
        }
        None => Ok(None),
    });
    let ephemeral = reading.value(&volume.ephemeral, path.field("ephemeral"));
    let ephemeral = ephemeral.map(|source| source.map(|_| Source::Ephemeral));
    let name = reading.value(&volume.name, path.field("name"));
    let (claim, ephemeral, name) = (claim?, ephemeral?, name?);
    Ok(claim.or(ephemeral).map(|source| PodVolume {
        name: reading.texts.share(name.map_or("", Text::as_str)),
        source,
    }))
}

/// The names of secrets that were found so far.
struct Secrets {
    names: Vec<Arc<str>>,
    /// Whether every place that may name one could be read.
    told: bool,
}

impl Default for Secrets {
    fn default() -> Self {
        Self {
            names: Vec::new(),
            told: true,
        }
    }
}

impl Secrets {
    /// Takes a name. An empty one names nothing.
    fn name(&mut self, reading: &mut Reading<'_>, name: &Soft<Text<'_>>, path: Path<'_>) {
        match reading.text_unless_empty(name, path) {
            Ok(name) => self.names.extend(name),
            Err(Unreadable) => self.told = false,
        }
    }

    /// What a field holds that may name a secret further down.
    fn within<'v, 'de, T: Expected<'de>>(
        &mut self,
        reading: &mut Reading<'_>,
        value: &'v Soft<T>,
        path: Path<'_>,
    ) -> Option<&'v T> {
        let value = reading.value(value, path);
        self.told &= value.is_ok();
        value.ok().flatten()
    }

    /// Looks at each entry of a list that may name a secret further down.
    fn each<'v, 'de, T: Expected<'de>>(
        &mut self,
        reading: &mut Reading<'_>,
        list: &'v Soft<List<T>>,
        path: Path<'_>,
        mut look: impl FnMut(&mut Self, &mut Reading<'_>, &'v T, Path<'_>),
    ) {
        let (_, all) = reading.entries(list, path, |reading, entry, path| {
            look(self, reading, entry, path);
            Ok(())
        });
        self.told &= all;
    }

    /// Takes the name of a reference.
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
