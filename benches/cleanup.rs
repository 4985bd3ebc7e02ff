//! How long it takes to foresee what a large cluster cleans up in a day: each mechanism with all that follows from it, each mechanism by itself, each planner,
//! all together; and to read its dump.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

use kubegc::{
    core::{Planner, Timestamp},
    lifecycle::{
        controller::{Controller, Ended, Input, Mechanism, Output, Settings, Work},
        fields::{Fields, Record},
        history, job,
        object::{Call, Reads, Resource, Wire},
        pod, statefulset,
        volume::{self, protection},
    },
    predict::{CleanupFrame, Cluster, cleanup_forecast},
};
use kubegc_benches::{
    sizes,
    town::{NOW, Town, VERSION},
};

const PODS: [usize; 2] = [4_000, 200_000];

/// The mechanisms of which a forecast has settings. What leases and namespaces need is part of each.
const MECHANISMS: [Mechanism; 11] = [
    Mechanism::Pods,
    Mechanism::Jobs,
    Mechanism::Histories,
    Mechanism::Certificates,
    Mechanism::PodCertificates,
    Mechanism::Volumes,
    Mechanism::Protection,
    Mechanism::StatefulSets,
    Mechanism::Nodes,
    Mechanism::LegacyTokens,
    Mechanism::BootstrapTokens,
];

fn forecasts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cleanup/forecast");
    group.sample_size(10);
    for pods in sizes(&PODS) {
        let town = Town::new(pods);
        let cluster = Town::cluster(&town.documents());
        group.throughput(Throughput::Elements((town.pods + town.jobs) as u64));
        for mechanism in MECHANISMS {
            let frame = only(town, mechanism);
            group.bench_function(BenchmarkId::new(mechanism.name(), pods), |bencher| {
                bencher.iter_with_large_drop(|| cleanup_forecast(&cluster, &frame));
            });
        }
        let frame = town.frame();
        group.bench_function(BenchmarkId::new("all", pods), |bencher| {
            bencher.iter_with_large_drop(|| cleanup_forecast(&cluster, &frame));
        });
    }
    group.finish();
}

/// The same question to one mechanism.
fn only(town: Town, mechanism: Mechanism) -> CleanupFrame {
    let mut frame = town.frame();
    let threshold = frame.settings.pods.as_ref().map(|pods| pods.terminated_threshold);
    frame.settings = Settings::only(VERSION, [mechanism]);
    if let (Some(pods), Some(threshold)) = (&mut frame.settings.pods, threshold) {
        pods.terminated_threshold = threshold;
    }
    frame
}

/// All objects of a resource.
fn records(cluster: &Cluster, resource: Resource) -> impl Iterator<Item = Record> + '_ {
    let snapshot = cluster.snapshot();
    let positions = snapshot.positions_of_kind(resource.group(), resource.kind());
    positions.filter_map(|position| snapshot.record_at(position))
}

/// What each mechanism does in a day, and when: by itself, without a server on which anything follows from it.
fn controllers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cleanup/controller");
    group.sample_size(10);
    for pods in sizes(&PODS) {
        let town = Town::new(pods);
        let cluster = Town::cluster(&town.documents());
        group.throughput(Throughput::Elements((town.pods + town.jobs) as u64));
        for mechanism in MECHANISMS {
            let frame = only(town, mechanism);
            let until = NOW.saturating_add(frame.horizon);
            let lists: Vec<(Resource, Vec<Record>)> = frame
                .settings
                .resources()
                .into_iter()
                .map(|resource| (resource, records(&cluster, resource).collect()))
                .collect();
            group.bench_function(BenchmarkId::new(mechanism.name(), pods), |bencher| {
                let begin = || {
                    let controller = Controller::new(frame.settings.clone(), Wire::AsUpstream, NOW);
                    (controller.still(), lists.clone())
                };
                let run = |(mut controller, lists): (Controller, Vec<(Resource, Vec<Record>)>)| {
                    for (resource, records) in lists {
                        let records = Ok(records);
                        controller.handle(NOW, Input::Listed { resource, records });
                    }
                    let tasks = tasks(&mut controller, until);
                    (controller, tasks)
                };
                bencher.iter_batched(begin, run, BatchSize::PerIteration);
            });
        }
    }
    group.finish();
}

/// How much there is to do until a time, if all of it succeeds.
fn tasks(controller: &mut Controller, until: Timestamp) -> usize {
    let (mut now, mut tasks) = (NOW, 0);
    loop {
        match controller.poll_output(now) {
            Output::Perform(task) => {
                tasks += 1;
                if let Work::Act(planned) = &task.work
                    && planned
                        .calls
                        .iter()
                        .any(|call| matches!(call, Call::Delete { .. }))
                {
                    let gone = planned.object.clone();
                    let gone = Input::Gone {
                        resource: gone.resource,
                        namespace: gone.namespace,
                        name: gone.name,
                        uid: gone.uid,
                    };
                    controller.handle(now, gone);
                }
                let (task, ended) = (task.id, Ended::Done);
                controller.handle(now, Input::Ended { task, ended });
            }
            Output::Wait { until: Some(at) } if at > now && at <= until => now = at,
            _ => return tasks,
        }
    }
}

fn planners(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cleanup/planner");
    group.sample_size(10);
    for pods in sizes(&PODS) {
        let town = Town::new(pods);
        let cluster = Town::cluster(&town.documents());
        let facts = pod_facts(&cluster);
        let settings = town.frame().settings;
        let settings = settings.pods.expect("all mechanisms run");
        group.throughput(Throughput::Elements(town.pods as u64));
        group.bench_function(BenchmarkId::new("pods", pods), |bencher| {
            bencher.iter_with_large_drop(|| settings.plan(&facts, NOW));
        });
        let (facts, settings) = (job_facts(&cluster), job::Settings::new(VERSION));
        group.throughput(Throughput::Elements(town.jobs as u64));
        group.bench_function(BenchmarkId::new("jobs", pods), |bencher| {
            bencher.iter_with_large_drop(|| settings.plan(&facts, NOW));
        });
        let (facts, settings) = (history_facts(&cluster), history::Settings::new(VERSION));
        group.bench_function(BenchmarkId::new("histories", pods), |bencher| {
            bencher.iter_with_large_drop(|| settings.plan(&facts, NOW));
        });
        let (facts, settings) = (protection_facts(&cluster), protection::Settings::default());
        group.throughput(Throughput::Elements(town.pods as u64));
        group.bench_function(BenchmarkId::new("protection", pods), |bencher| {
            bencher.iter_with_large_drop(|| settings.plan(&facts, NOW));
        });
        let (facts, settings) = (set_facts(&cluster), statefulset::Settings::new(VERSION));
        group.bench_function(BenchmarkId::new("stateful-sets", pods), |bencher| {
            bencher.iter_with_large_drop(|| settings.plan(&facts, NOW));
        });
    }
    group.finish();
}

fn pod_facts(cluster: &Cluster) -> pod::Facts {
    let pods = records(cluster, Resource::Pods).filter_map(|record| match record.fields {
        Fields::Pod(fields) => Some(pod::Pod {
            meta: record.meta,
            node_name: fields.node_name,
            status: fields.status,
        }),
        _ => None,
    });
    let nodes = records(cluster, Resource::Nodes).filter_map(|record| match record.fields {
        Fields::Node(fields) => Some(pod::Node {
            name: record.meta.name,
            conditions: fields.conditions,
            taints: fields.taints,
        }),
        _ => None,
    });
    pod::Facts::new(pods.collect(), nodes.collect())
}

fn job_facts(cluster: &Cluster) -> job::Facts {
    let jobs = records(cluster, Resource::Jobs).filter_map(|record| match record.fields {
        Fields::Job(fields) => Some(job::Job {
            meta: record.meta,
            ttl: fields.ttl,
            conditions: fields.status.map(|status| status.conditions),
        }),
        _ => None,
    });
    job::Facts {
        jobs: jobs.collect(),
        reads: Reads::AsListed,
    }
}

fn history_facts(cluster: &Cluster) -> history::Facts {
    let cron_jobs = records(cluster, Resource::CronJobs).filter_map(|record| match record.fields {
        Fields::CronJob(fields) => Some(history::CronJob {
            meta: record.meta,
            successful_limit: fields.successful_limit,
            failed_limit: fields.failed_limit,
            template_labels: fields.template_labels,
        }),
        _ => None,
    });
    let jobs = records(cluster, Resource::Jobs).filter_map(|record| match record.fields {
        Fields::Job(fields) => Some(history::Job {
            meta: record.meta,
            status: fields.status,
        }),
        _ => None,
    });
    history::Facts::new(cron_jobs.collect(), jobs.collect())
}

fn protection_facts(cluster: &Cluster) -> protection::Facts {
    let claims =
        records(cluster, Resource::PersistentVolumeClaims).filter_map(|record| match record.fields {
            Fields::PersistentVolumeClaim(fields) => Some(volume::Claim {
                meta: record.meta,
                volume_name: fields.volume_name,
                mode: fields.mode,
            }),
            _ => None,
        });
    let volumes = records(cluster, Resource::PersistentVolumes).filter_map(|record| match record.fields {
        Fields::PersistentVolume(fields) => Some(volume::Volume {
            meta: record.meta,
            phase: fields.phase,
            policy: fields.policy,
            claim_ref: fields.claim_ref,
            mode: fields.mode,
            annotations: fields.annotations,
            migration: volume::Migration::Unknown,
        }),
        _ => None,
    });
    let pods = records(cluster, Resource::Pods).filter_map(|record| match record.fields {
        Fields::Pod(fields) => Some(volume::Pod {
            meta: record.meta,
            node_name: fields.node_name,
            phase: fields.status.unwrap_or_default().phase,
            volumes: fields.volumes,
        }),
        _ => None,
    });
    protection::Facts {
        claims: claims.collect(),
        volumes: volumes.collect(),
        pods: Ok(pods.collect()),
        live_pods: protection::LivePods::AsListed,
    }
}

fn set_facts(cluster: &Cluster) -> statefulset::Facts {
    let sets = records(cluster, Resource::StatefulSets).filter_map(|record| match record.fields {
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
    let metadata = |resource| Ok(records(cluster, resource).map(|record| record.meta).collect());
    statefulset::Facts {
        sets: sets.collect(),
        pods: metadata(Resource::Pods),
        claims: metadata(Resource::PersistentVolumeClaims),
        failed_claims: std::collections::BTreeMap::new(),
    }
}

fn reading(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cleanup/snapshot");
    group.sample_size(10);
    for pods in sizes(&PODS) {
        let documents = Town::new(pods).documents();
        group.throughput(Throughput::Bytes(
            documents.iter().map(Vec::len).sum::<usize>() as u64
        ));
        group.bench_function(BenchmarkId::new("read", pods), |bencher| {
            bencher.iter_with_large_drop(|| Town::cluster(&documents));
        });
    }
    group.finish();
}

criterion_group!(benches, forecasts, controllers, planners, reading);
criterion_main!(benches);
