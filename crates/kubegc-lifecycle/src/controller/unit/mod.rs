//! What each mechanism looks at together, and what comes of a look.
//!
//! A *unit* is one job, one volume, one node, or, for pods, the whole pass. Every mechanism says, each in a file of its own, which units a change concerns,
//! which there are when it begins, what is to be done for one of them now, and what a failure of that means.

pub(super) mod bootstrap_tokens;
pub(super) mod certificates;
pub(super) mod external_volumes;
pub(super) mod histories;
pub(super) mod jobs;
pub(super) mod leases;
pub(super) mod legacy_tokens;
pub(super) mod namespaces;
pub(super) mod nodes;
pub(super) mod pod_certificates;
pub(super) mod pods;
pub(super) mod protection;
pub(super) mod stateful_sets;
pub(super) mod volumes;

use std::sync::Arc;

use kubegc_core::{Kept, Plan, StoreError, Timestamp};

use super::{
    Basis, Mechanism, Planned, Reason, Settings, Work,
    table::Key,
    tables::{Change, PodsSeen, Tables},
};
use crate::{
    fields::{Fields, Record},
    object::{Act, Failure, Object, Resource, Wire},
};

/// One unit of one mechanism: which object it is about; empty for pods, which are looked at all together.
pub(super) type Unit = (Mechanism, Key);

/// What came of a look at one unit.
#[derive(Clone, Debug, Default)]
pub(super) struct Look {
    /// What is to be done now, in order.
    pub(super) works: Vec<Work>,
    /// The objects about which nothing could be decided, and why. They replace those of the unit's look before.
    pub(super) undecided: Vec<(Object, Reason)>,
    /// When the same facts give something else.
    pub(super) next_at: Option<Timestamp>,
    /// The node that the cloud is to be asked about, with its provider id. The unit is not looked at before the answer.
    pub(super) ask: Option<(Object, Arc<str>)>,
    /// Of the pods: what the next look needs.
    pub(super) pods_seen: Option<PodsSeen>,
}

impl Look {
    /// Nothing can be decided about one object.
    pub(super) fn undecided(object: Object, reason: Reason) -> Self {
        Self {
            undecided: vec![(object, reason)],
            ..Self::default()
        }
    }

    /// Takes what a planner kept: the objects of which something was not known are undecided.
    pub(super) fn keep<R>(&mut self, kept: Vec<Kept<Object, R>>, wrap: impl Fn(R) -> Reason) {
        let reasons = kept.into_iter().map(|kept| (kept.object, wrap(kept.reason)));
        self.undecided
            .extend(reasons.filter(|(_, reason)| reason.is_undecided()));
    }

    /// What a planner said of one object. `reason` and `rests_on` are those of each action.
    pub(super) fn of<A: Act, R: Clone, S>(
        plan: Plan<A, Object, R, S>,
        wire: Wire,
        wrap: impl Fn(R) -> Reason,
        reason: impl Fn(&A) -> &R,
        rests_on: impl Fn(&A) -> Vec<Basis>,
    ) -> Self {
        let mut look = Self {
            next_at: plan.next_at,
            ..Self::default()
        };
        for action in &plan.actions {
            look.act(action, wrap(reason(action).clone()), wire, rests_on(action));
        }
        look.keep(plan.kept, wrap);
        look
    }

    /// One more action to be carried out.
    pub(super) fn act(&mut self, action: &impl Act, reason: Reason, wire: Wire, rests_on: Vec<Basis>) {
        let planned = Planned::of(action, reason, wire, rests_on);
        self.works.push(Work::Act(planned));
    }
}

/// The object that a unit is about; or all that there is to say of it: that it is gone, or that nothing is decided while its metadata is not known, or not all
/// objects of the resources that are needed.
pub(super) fn subject<'t>(
    tables: &'t Tables,
    resource: Resource,
    key: &Key,
    needed: &[Resource],
) -> Result<&'t Record, Box<Look>> {
    let record = tables.get(resource, key).ok_or_else(Box::<Look>::default)?;
    let unread = (record.fields == Fields::MetadataUnread).then_some(Reason::Unread);
    match tables.any_not_listed(needed).or(unread) {
        None => Ok(record),
        Some(reason) => {
            let object = Object::new(resource, &record.meta);
            Err(Box::new(Look::undecided(object, reason)))
        }
    }
}

/// What upstream makes of the failure of some work.
pub(super) type OnFailure = fn(&StoreError) -> Failure;

/// The units of one mechanism that a change concerns. Keys may come twice.
pub(super) fn concerned(
    mechanism: Mechanism,
    settings: &Settings,
    tables: &Tables,
    change: &Change<'_>,
    keys: &mut Vec<Key>,
) {
    /// Calls the mechanism, where it has settings.
    macro_rules! of {
        ($settings:expr, $unit:ident) => {
            if let Some(settings) = &$settings {
                $unit::concerned(settings, tables, change, keys);
            }
        };
    }
    match mechanism {
        Mechanism::Pods => of!(settings.pods, pods),
        Mechanism::Jobs => of!(settings.jobs, jobs),
        Mechanism::Histories => of!(settings.histories, histories),
        Mechanism::Certificates => of!(settings.certificates, certificates),
        Mechanism::PodCertificates => of!(settings.pod_certificates, pod_certificates),
        Mechanism::Volumes => of!(settings.volumes, volumes),
        Mechanism::ExternalVolumes => {
            external_volumes::concerned(&settings.external_volumes, tables, change, keys);
        }
        Mechanism::Protection => of!(settings.protection, protection),
        Mechanism::StatefulSets => of!(settings.stateful_sets, stateful_sets),
        Mechanism::Nodes => of!(settings.nodes, nodes),
        Mechanism::Leases => of!(settings.leases, leases),
        Mechanism::LegacyTokens => of!(settings.legacy_tokens, legacy_tokens),
        Mechanism::BootstrapTokens => of!(settings.bootstrap_tokens, bootstrap_tokens),
        Mechanism::Namespaces => of!(settings.namespaces, namespaces),
    }
}

/// All units of one mechanism, as things are. Keys may come twice.
pub(super) fn all(mechanism: Mechanism, settings: &Settings, tables: &Tables, keys: &mut Vec<Key>) {
    /// Calls the mechanism, where it has settings.
    macro_rules! of {
        ($settings:expr, $unit:ident) => {
            if let Some(settings) = &$settings {
                $unit::all(settings, tables, keys);
            }
        };
    }
    match mechanism {
        Mechanism::Pods => of!(settings.pods, pods),
        Mechanism::Jobs => of!(settings.jobs, jobs),
        Mechanism::Histories => of!(settings.histories, histories),
        Mechanism::Certificates => of!(settings.certificates, certificates),
        Mechanism::PodCertificates => of!(settings.pod_certificates, pod_certificates),
        Mechanism::Volumes => of!(settings.volumes, volumes),
        Mechanism::ExternalVolumes => external_volumes::all(&settings.external_volumes, tables, keys),
        Mechanism::Protection => of!(settings.protection, protection),
        Mechanism::StatefulSets => of!(settings.stateful_sets, stateful_sets),
        Mechanism::Nodes => of!(settings.nodes, nodes),
        Mechanism::Leases => of!(settings.leases, leases),
        Mechanism::LegacyTokens => of!(settings.legacy_tokens, legacy_tokens),
        Mechanism::BootstrapTokens => of!(settings.bootstrap_tokens, bootstrap_tokens),
        Mechanism::Namespaces => of!(settings.namespaces, namespaces),
    }
}

/// Looks at one unit. One whose object is gone gives nothing.
pub(super) fn look(
    mechanism: Mechanism,
    settings: &Settings,
    tables: &Tables,
    key: &Key,
    now: Timestamp,
    wire: Wire,
) -> Look {
    /// Calls the mechanism, where it has settings.
    macro_rules! of {
        ($settings:expr, $unit:ident) => {
            match &$settings {
                Some(settings) => $unit::look(settings, tables, key, now, wire),
                None => Look::default(),
            }
        };
    }
    match mechanism {
        Mechanism::Pods => of!(settings.pods, pods),
        Mechanism::Jobs => of!(settings.jobs, jobs),
        Mechanism::Histories => of!(settings.histories, histories),
        Mechanism::Certificates => of!(settings.certificates, certificates),
        Mechanism::PodCertificates => of!(settings.pod_certificates, pod_certificates),
        Mechanism::Volumes => of!(settings.volumes, volumes),
        Mechanism::ExternalVolumes => {
            external_volumes::look(&settings.external_volumes, tables, key, now, wire)
        }
        Mechanism::Protection => of!(settings.protection, protection),
        Mechanism::StatefulSets => of!(settings.stateful_sets, stateful_sets),
        Mechanism::Nodes => of!(settings.nodes, nodes),
        Mechanism::Leases => of!(settings.leases, leases),
        Mechanism::LegacyTokens => of!(settings.legacy_tokens, legacy_tokens),
        Mechanism::BootstrapTokens => of!(settings.bootstrap_tokens, bootstrap_tokens),
        Mechanism::Namespaces => of!(settings.namespaces, namespaces),
    }
}

/// What a failure of this work will mean.
pub(super) fn on_failure(mechanism: Mechanism, work: &Work) -> OnFailure {
    match mechanism {
        Mechanism::Pods => pods::on_failure(work),
        Mechanism::Jobs => jobs::on_failure(work),
        Mechanism::Histories => histories::on_failure(work),
        Mechanism::Certificates => certificates::on_failure(work),
        Mechanism::PodCertificates => pod_certificates::on_failure(work),
        Mechanism::Volumes => volumes::on_failure(work),
        Mechanism::ExternalVolumes => external_volumes::on_failure(work),
        Mechanism::Protection => protection::on_failure(work),
        Mechanism::StatefulSets => stateful_sets::on_failure(work),
        Mechanism::Nodes => nodes::on_failure(work),
        Mechanism::Leases => leases::on_failure(work),
        Mechanism::LegacyTokens => legacy_tokens::on_failure(work),
        Mechanism::BootstrapTokens => bootstrap_tokens::on_failure(work),
        Mechanism::Namespaces => namespaces::on_failure(work),
    }
}
