//! Forecasts of a day of clean-up in a large cluster.
//!
//! Each controller in a forecast, each controller alone, each as a batch plan, all together, and the read of
//! the dump.

use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kubegc::{
    controllers::{
        BatchPlanner, Cache, Controller, End, Input, Key, Manager, Output, Request, Response, Step, Task,
        Wire, Work,
    },
    core::{
        Planner, StoreError, Timestamp,
        record::{ObjectId, Record, Resource},
    },
    predict::Cluster,
};
use kubegc_benches::{
    cleanup_fixture::{CleanupFixture, NOW},
    sizes,
};

const PODS: [usize; 2] = [4_000, 200_000];

/// The controllers of the question without the namespace controller, which is part of every forecast.
fn controllers_of(fixture: CleanupFixture) -> Vec<Arc<dyn Controller>> {
    let mut controllers = fixture.question().controllers;
    controllers.retain(|controller| controller.info().name != "namespace-controller");
    controllers
}

fn forecasts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cleanup/forecast");
    group.sample_size(10);
    for pods in sizes(&PODS) {
        let fixture = CleanupFixture::new(pods);
        let cluster = CleanupFixture::cluster(&fixture.documents());
        group.throughput(Throughput::Elements((fixture.pods + fixture.jobs) as u64));
        for controller in controllers_of(fixture) {
            let name = controller.info().name;
            let question = fixture.question().only(&[name]);
            group.bench_function(BenchmarkId::new(name, pods), |bencher| {
                bencher.iter_with_large_drop(|| cluster.forecast(&question));
            });
        }
        let question = fixture.question();
        group.bench_function(BenchmarkId::new("all", pods), |bencher| {
            bencher.iter_with_large_drop(|| cluster.forecast(&question));
        });
    }
    group.finish();
}

/// The lists of the resources that a controller reads.
fn lists(cluster: &Cluster, controller: &dyn Controller) -> Vec<(Resource, Vec<Record>)> {
    let snapshot = cluster.snapshot();
    let list = |resource: Resource| {
        let positions = snapshot.positions_of_kind(resource.group(), resource.kind());
        let records = positions.filter_map(|position| Some(snapshot.object(position)?.record()));
        (resource, records.collect())
    };
    controller.info().resources.iter().copied().map(list).collect()
}

/// A day of each controller alone, without an API server.
fn managers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cleanup/controller");
    group.sample_size(10);
    for pods in sizes(&PODS) {
        let fixture = CleanupFixture::new(pods);
        let cluster = CleanupFixture::cluster(&fixture.documents());
        let until = NOW.saturating_add(fixture.question().horizon.unwrap_or_default());
        group.throughput(Throughput::Elements((fixture.pods + fixture.jobs) as u64));
        for controller in controllers_of(fixture) {
            let lists = lists(&cluster, &*controller);
            group.bench_function(BenchmarkId::new(controller.info().name, pods), |bencher| {
                let begin = || {
                    let manager = Manager::new(vec![Arc::clone(&controller)], Wire::AsUpstream, NOW);
                    (manager.into_simulation(), lists.clone())
                };
                let run = |(mut manager, lists): (Manager, Vec<(Resource, Vec<Record>)>)| {
                    for (resource, records) in lists {
                        let records = Ok(records);
                        manager.handle(NOW, Input::Listed { resource, records });
                    }
                    let tasks = tasks(&mut manager, until);
                    (manager, tasks)
                };
                bencher.iter_batched(begin, run, BatchSize::PerIteration);
            });
        }
    }
    group.finish();
}

/// The number of tasks until a time, if all of them succeed.
fn tasks(manager: &mut Manager, until: Timestamp) -> usize {
    let (mut now, mut tasks) = (NOW, 0);
    loop {
        match manager.poll_output(now) {
            Output::Perform(task) => {
                tasks += 1;
                let id = task.id;
                for object in deletions(*task) {
                    let (key, resource) = (Key::new(object.namespace, object.name), object.resource);
                    let uid = object.uid;
                    manager.handle(now, Input::Deleted { resource, key, uid });
                }
                let (task, end) = (id, End::Done);
                manager.handle(now, Input::Ended { task, end });
            }
            Output::Wait { until: Some(at) } if at > now && at <= until => now = at,
            _ => return tasks,
        }
    }
}

/// The objects that a task deletes if every GET responds with 404 and every write succeeds.
fn deletions(task: Task) -> Vec<ObjectId> {
    if let Work::Action(action) = task.work {
        let object = action.is_deletion().then_some(action.object);
        return object.into_iter().collect();
    }
    let (mut sequence, mut response, mut deleted) = (task.work.into_steps(false).begin(), None, Vec::new());
    while let Step::Perform { request, .. } = sequence.next(response.take()) {
        response = Some(match request {
            Request::Delete { object, .. } => {
                deleted.push(object);
                Response::Done
            }
            Request::Write(_) | Request::Event(_) => Response::Written(None),
            _ => Response::Failed(StoreError::NotFound),
        });
    }
    deleted
}

/// One plan of each controller over all objects.
fn planners(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cleanup/planner");
    group.sample_size(10);
    for pods in sizes(&PODS) {
        let fixture = CleanupFixture::new(pods);
        let cluster = CleanupFixture::cluster(&fixture.documents());
        group.throughput(Throughput::Elements((fixture.pods + fixture.jobs) as u64));
        for controller in controllers_of(fixture) {
            let resources = controller.info().resources.iter().copied();
            let mut cache = Cache::new(resources, controller.info().indexes.iter().copied());
            for (resource, records) in lists(&cluster, &*controller) {
                cache.set_listed(resource, Ok(()));
                cache.replace(resource, records);
            }
            let name = controller.info().name;
            let planner = BatchPlanner::from(controller);
            group.bench_function(BenchmarkId::new(name, pods), |bencher| {
                bencher.iter_with_large_drop(|| planner.plan(&cache, NOW));
            });
        }
    }
    group.finish();
}

fn reading(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cleanup/snapshot");
    group.sample_size(10);
    for pods in sizes(&PODS) {
        let documents = CleanupFixture::new(pods).documents();
        group.throughput(Throughput::Bytes(
            documents.iter().map(Vec::len).sum::<usize>() as u64
        ));
        group.bench_function(BenchmarkId::new("read", pods), |bencher| {
            bencher.iter_with_large_drop(|| CleanupFixture::cluster(&documents));
        });
    }
    group.finish();
}

criterion_group!(benches, forecasts, managers, planners, reading);
criterion_main!(benches);
