//! What is known of a cluster, and what the planners say of all of it at once: no controller has a hand in that.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::Arc,
    time::Duration,
};

use kubegc_core::{Kept, ObjectMeta, PlanOf, Planner, Timestamp};
use kubegc_lifecycle::{
    controller::{Mechanism, Planned, Reason, Settings, Work},
    fields::{self, Fields, Record},
    history,
    object::{Act, Object, Reads, Resource, Wire},
    statefulset,
    token::legacy,
    volume::{
        self, Claim, Holder, Migration, Phase, Policy, Volume, external, protection,
        reclaim::{self, Plugin},
    },
};

use crate::{
    clusters::{IN_TREE, RESOURCES, TRACKING, settings},
    support::{Cluster, Run},
};

pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// Tokens go after two days, so that a run of a week sees them go.
fn quick() -> Settings {
    let mut settings = settings();
    let policy = legacy::Policy::default().with_clean_up_period(2 * DAY);
    settings.legacy_tokens = Some(policy.expect("some time"));
    settings
}

/// What is known of the objects of each resource, and whether these are all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) records: BTreeMap<(Resource, Arc<str>, Arc<str>), Record>,
    pub(crate) unlisted: BTreeSet<Resource>,
}

impl Model {
    pub(crate) fn put(&mut self, resource: Resource, record: Record) {
        let (namespace, name) = (record.meta.namespace.clone(), record.meta.name.clone());
        self.records.insert((resource, namespace, name), record);
    }

    pub(crate) fn of(&self, resource: Resource) -> Vec<Record> {
        let all = self.records.iter().filter(|((of, ..), _)| *of == resource);
        all.map(|(_, record)| record.clone()).collect()
    }

    /// A controller that begins now and is told all of this.
    pub(crate) fn begun(&self, now: Timestamp) -> Run {
        let mut cluster = Cluster::default();
        for resource in RESOURCES {
            cluster = cluster.with(resource, self.of(resource));
        }
        let controller = cluster.told_at(quick(), now);
        let mut run = Run { controller, now };
        for resource in &self.unlisted {
            run.unlist(*resource);
        }
        run
    }
}

/// The works and open questions of plans for the whole cluster, without any controller.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) works: BTreeSet<String>,
    pub(crate) undecided: BTreeMap<(Mechanism, Object), Reason>,
}

/// The name of who controls an object.
fn controller(meta: &ObjectMeta) -> Option<&Arc<str>> {
    let mut owners = meta.owner_references.iter();
    let controller = owners.find(|owner| owner.controller == Some(true));
    controller.map(|owner| &owner.name)
}

impl Whole {
    fn act(&mut self, mechanism: Mechanism, action: &(impl Act + Debug), reason: Reason) {
        let planned = Planned::of(action, reason, Wire::Strict, Vec::new());
        self.works.insert(format!("{mechanism} {:?}", Work::Act(planned)));
    }

    fn keep<R>(&mut self, mechanism: Mechanism, kept: Vec<Kept<Object, R>>, wrap: impl Fn(R) -> Reason) {
        for kept in kept {
            let reason = wrap(kept.reason);
            if reason.is_undecided() {
                self.undecided.insert((mechanism, kept.object), reason);
            }
        }
    }

    pub(crate) fn new(model: &Model, now: Timestamp) -> Self {
        let settings = quick();
        let mut whole = Self::default();
        if let Some(settings) = settings.histories {
            whole.histories(model, &settings, now);
        }
        if let Some(settings) = settings.volumes {
            whole.volumes(model, &settings, now);
        }
        for settings in settings.external_volumes {
            whole.external_volumes(model, &settings, now);
        }
        if let Some(settings) = settings.protection {
            whole.protection(model, &settings, now);
        }
        if let Some(settings) = settings.stateful_sets {
            whole.stateful_sets(model, &settings, now);
        }
        if let Some(policy) = settings.legacy_tokens {
            whole.legacy_tokens(model, &policy, now);
        }
        whole
    }

    fn histories(&mut self, model: &Model, settings: &history::Settings, now: Timestamp) {
        // A job of which not even the metadata was read may be of any cron job of its namespace: nothing is known of the jobs of those.
        let mut of_anybody = BTreeMap::new();
        for record in model.of(Resource::Jobs) {
            let has_controller = controller(&record.meta).is_some();
            if record.fields == Fields::MetadataUnread && !has_controller {
                let object = Object::new(Resource::Jobs, &record.meta);
                self.undecided
                    .insert((Mechanism::Histories, object), Reason::Unread);
                let (namespace, name) = (record.meta.namespace, record.meta.name);
                of_anybody.entry(namespace).or_insert(name);
            }
        }
        let jobs = model.of(Resource::Jobs).into_iter().map(|record| history::Job {
            meta: record.meta,
            status: match record.fields {
                Fields::Job(fields) => fields.status,
                _ => None,
            },
        });
        // What has not finished stays, whatever is known of its cron job.
        let jobs = jobs.filter(|job| job.status.as_ref().is_none_or(|status| status.class().is_some()));
        let jobs: Vec<history::Job> = jobs.collect();
        let (unsure, sure): (Vec<Record>, Vec<Record>) = model
            .of(Resource::CronJobs)
            .into_iter()
            .partition(|cron_job| of_anybody.contains_key(&cron_job.meta.namespace));
        for cron_job in unsure {
            let meta = &cron_job.meta;
            let reason = Reason::NotListed {
                resource: "jobs",
                message: format!("who controls {} was not read", of_anybody[&meta.namespace]).into(),
            };
            let its = jobs.iter().filter(|job| {
                job.meta.namespace == meta.namespace && controller(&job.meta) == Some(&meta.name)
            });
            let objects = its.map(|job| Object::new(Resource::Jobs, &job.meta));
            for object in objects.chain([Object::new(Resource::CronJobs, meta)]) {
                self.undecided
                    .insert((Mechanism::Histories, object), reason.clone());
            }
        }
        let cron_jobs = sure.into_iter().map(|record| {
            let fields = match record.fields {
                Fields::CronJob(fields) => fields,
                _ => fields::CronJob::default(),
            };
            history::CronJob {
                meta: record.meta,
                successful_limit: fields.successful_limit,
                failed_limit: fields.failed_limit,
                template_labels: fields.template_labels,
            }
        });
        let facts = history::Facts::new(cron_jobs.collect(), jobs);
        let plan = settings.plan(&facts, now);
        for action in &plan.actions {
            self.works.insert(format!("{action:?}"));
        }
        self.keep(Mechanism::Histories, plan.kept, Reason::History);
    }

    fn volumes(&mut self, model: &Model, settings: &reclaim::Settings, now: Timestamp) {
        let claims = model.of(Resource::PersistentVolumeClaims);
        let (claims, unread): (Vec<Record>, Vec<Record>) = claims
            .into_iter()
            .partition(|claim| claim.fields != Fields::Unread);
        let mut all = volumes(model);
        all.retain(|volume| {
            let unread = volume.claim_ref.claim().is_some_and(|claim| {
                let is_named = |other: &Record| {
                    (&other.meta.namespace, &other.meta.name) == (&claim.namespace, &claim.name)
                };
                !claim.uid.is_empty() && unread.iter().any(is_named)
            });
            if unread {
                let object = Object::new(Resource::PersistentVolumes, &volume.meta);
                self.undecided
                    .insert((Mechanism::Volumes, object), Reason::Unread);
            }
            !unread
        });
        let claims = claims.iter().map(claim).collect();
        let names = all.iter().map(|volume| {
            let annotations = volume.annotations.as_ref();
            let provisioner = annotations.and_then(|annotations| annotations.provisioned_by.as_deref());
            let is_known = provisioner.is_none_or(|name| name == IN_TREE || name.is_empty());
            let plugin = if is_known { Plugin::Known } else { Plugin::Unknown };
            (volume.meta.name.clone(), plugin)
        });
        let plugins = names.collect();
        let mut facts = reclaim::Facts::new(all, claims, pods(model));
        facts.read_volumes = Reads::AsListed;
        facts.read_claims = Reads::AsListed;
        facts.plugins = plugins;
        let plan: PlanOf<reclaim::Settings> = settings.plan(&facts, now);
        for action in &plan.actions {
            let name = &action.object().name;
            self.works.insert(format!("look at {name}"));
        }
        self.keep(Mechanism::Volumes, plan.kept, Reason::Volume);
    }

    fn external_volumes(&mut self, model: &Model, settings: &external::Settings, now: Timestamp) {
        let volumes = volumes(model);
        let names = volumes.iter().map(|volume| volume.meta.name.clone());
        let facts = external::Facts {
            guards: names.map(|name| (name, external::Guard::Allows)).collect(),
            volumes,
            read_volumes: Reads::AsListed,
        };
        let plan = settings.plan(&facts, now);
        for action @ external::Action::Delete { reason, .. } in &plan.actions {
            self.act(
                Mechanism::ExternalVolumes,
                action,
                Reason::ExternalVolume(reason.clone()),
            );
        }
        self.keep(Mechanism::ExternalVolumes, plan.kept, Reason::ExternalVolume);
    }

    fn protection(&mut self, model: &Model, settings: &protection::Settings, now: Timestamp) {
        let facts = protection::Facts {
            claims: model
                .of(Resource::PersistentVolumeClaims)
                .iter()
                .map(claim)
                .collect(),
            volumes: volumes(model),
            pods: Ok(pods(model)),
            live_pods: protection::LivePods::AsListed,
        };
        let plan = settings.plan(&facts, now);
        for action in &plan.actions {
            let (protection::Action::AddFinalizer { reason, .. }
            | protection::Action::RemoveFinalizer { reason, .. }) = action;
            self.act(Mechanism::Protection, action, Reason::Protection(reason.clone()));
        }
        self.keep(Mechanism::Protection, plan.kept, Reason::Protection);
    }

    fn stateful_sets(&mut self, model: &Model, settings: &statefulset::Settings, now: Timestamp) {
        let sets = model.of(Resource::StatefulSets).into_iter();
        let sets = sets.filter_map(|record| match record.fields {
            Fields::StatefulSet(fields) => Some(statefulset::StatefulSet {
                meta: record.meta,
                replicas: fields.replicas,
                first_ordinal: fields.first_ordinal,
                when_deleted: fields.when_deleted,
                when_scaled: fields.when_scaled,
                templates: fields.templates,
            }),
            _ => None,
        });
        let metas = |resource| model.of(resource).into_iter().map(|record| record.meta);
        let facts = statefulset::Facts {
            sets: sets.collect(),
            pods: Ok(metas(Resource::Pods).collect()),
            claims: Ok(metas(Resource::PersistentVolumeClaims).collect()),
            failed_claims: [].into(),
        };
        let plan = settings.plan(&facts, now);
        for action in &plan.actions {
            let reason = Reason::StatefulSet(action.reason().clone());
            self.act(Mechanism::StatefulSets, action, reason);
        }
        self.keep(Mechanism::StatefulSets, plan.kept, Reason::StatefulSet);
    }

    fn legacy_tokens(&mut self, model: &Model, policy: &legacy::Policy, now: Timestamp) {
        let maps = model.of(Resource::ConfigMaps);
        let map = maps.iter().find(|map| &*map.meta.name == TRACKING);
        let secrets = model.of(Resource::Secrets).into_iter().map(|record| {
            let fields = match record.fields {
                Fields::Secret(fields) => fields,
                _ => fields::Secret::default(),
            };
            legacy::Secret {
                meta: record.meta,
                secret_type: fields.secret_type,
                account_name: fields.account_name,
                account_uid: fields.account_uid,
            }
        });
        let is_of_type = |of_type: &Arc<str>| **of_type == *legacy::SECRET_TYPE;
        let secrets = secrets.filter(|secret| secret.secret_type.as_ref().is_none_or(is_of_type));
        let accounts = model.of(Resource::ServiceAccounts).into_iter();
        let accounts = accounts.map(|record| legacy::ServiceAccount {
            meta: record.meta,
            secrets: match record.fields {
                Fields::ServiceAccount(fields) => fields.secrets,
                _ => None,
            },
        });
        let pods = model.of(Resource::Pods).into_iter().map(|record| legacy::Pod {
            meta: record.meta,
            secrets: match record.fields {
                Fields::Pod(fields) => fields.secrets,
                _ => None,
            },
        });
        let facts = legacy::Facts {
            tracking: match map.map(|map| &map.fields) {
                None => legacy::Tracking::Missing,
                Some(Fields::ConfigMap(fields::ConfigMap { since: Some(since) })) => {
                    legacy::Tracking::Since(since.clone())
                }
                Some(Fields::ConfigMap(_)) => legacy::Tracking::NoDate,
                Some(_) => legacy::Tracking::Unknown,
            },
            secrets: secrets.collect(),
            accounts: Ok(accounts.collect()),
            pods: Ok(pods.collect()),
        };
        let plan = policy.plan(&facts, now);
        for action in &plan.actions {
            let (legacy::Action::Mark { reason, .. } | legacy::Action::Delete { reason, .. }) = action;
            self.act(
                Mechanism::LegacyTokens,
                action,
                Reason::LegacyToken(reason.clone()),
            );
        }
        self.keep(Mechanism::LegacyTokens, plan.kept, Reason::LegacyToken);
    }
}

fn volumes(model: &Model) -> Vec<Volume> {
    let records = model.of(Resource::PersistentVolumes).into_iter();
    let volumes = records.map(|record| {
        let fields = match record.fields {
            Fields::PersistentVolume(fields) => fields,
            _ => fields::PersistentVolume {
                phase: Phase::Unknown,
                policy: Policy::Unknown,
                claim_ref: Holder::Unknown,
                mode: None,
                annotations: None,
            },
        };
        let annotations = fields.annotations.as_ref();
        let provisioner = annotations.and_then(|annotations| annotations.provisioned_by.as_deref());
        Volume {
            meta: record.meta,
            phase: fields.phase,
            policy: fields.policy,
            claim_ref: fields.claim_ref,
            mode: fields.mode,
            migration: match provisioner {
                Some(IN_TREE) => Migration::Off,
                _ => Migration::Unknown,
            },
            annotations: fields.annotations,
        }
    });
    volumes.collect()
}

fn claim(record: &Record) -> Claim {
    let fields = match &record.fields {
        Fields::PersistentVolumeClaim(fields) => fields.clone(),
        _ => fields::PersistentVolumeClaim::default(),
    };
    Claim {
        meta: record.meta.clone(),
        volume_name: fields.volume_name,
        mode: fields.mode,
    }
}

fn pods(model: &Model) -> Vec<volume::Pod> {
    let records = model.of(Resource::Pods).into_iter();
    let pods = records.map(|record| {
        let fields = match record.fields {
            Fields::Pod(fields) => fields,
            _ => fields::Pod::default(),
        };
        volume::Pod {
            meta: record.meta,
            node_name: fields.node_name,
            phase: fields.status.map(|status| status.phase).unwrap_or_default(),
            volumes: fields.volumes,
        }
    });
    pods.collect()
}
