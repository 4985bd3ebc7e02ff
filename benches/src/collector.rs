//! A collector with an owner and its dependents, and responses to its calls from memory.

use std::sync::Arc;

use kubegc::{
    core::{ApiResource, Catalog, ObjectMeta, Scope, Timestamp},
    objects::{Collector, Input, Operation, Output, Response, Settings, WatchEvent, collector::MonitorId},
};

/// A collector that knows an owner and its dependents, with one worker.
///
/// # Panics
/// Never: the inputs are in their order.
pub fn collector(root: &Arc<ObjectMeta>, dependents: &[Arc<ObjectMeta>]) -> (Collector, MonitorId) {
    let mut settings = Settings::new("1.20.2".parse().expect("a version")).as_upstream();
    settings.attempt_to_delete_workers = 1;
    settings.discovery_period = None;
    let mut collector = Collector::new(settings);
    let mut catalog = Catalog::new();
    catalog
        .add(ApiResource::new(
            "v1",
            "ConfigMap",
            "configmaps",
            Scope::Namespaced,
        ))
        .expect("the first kind");
    let mut catalog = Some(Arc::new(catalog));
    let mut watched = None;
    loop {
        match collector.poll_output() {
            Output::Discover => {
                let catalog = catalog.take().expect("requested once");
                handle(
                    &mut collector,
                    Input::Catalog {
                        catalog,
                        failed: Vec::new(),
                    },
                );
            }
            Output::Watch(monitor) => {
                watched = Some(monitor);
                let list = std::iter::once(root).chain(dependents).map(Arc::clone);
                let list = WatchEvent::InitApply(list.collect());
                for event in [WatchEvent::Init, list, WatchEvent::InitDone] {
                    watch(&mut collector, monitor, event);
                }
            }
            _ => return (collector, watched.expect("one resource is watched")),
        }
    }
}

/// Passes a watch event to a collector.
pub fn watch(collector: &mut Collector, monitor: MonitorId, event: WatchEvent) {
    handle(collector, Input::Watch { monitor, event });
}

fn handle(collector: &mut Collector, input: Input) {
    collector
        .handle(Timestamp::EPOCH, input)
        .expect("inputs in their order");
}

/// Responds to calls from memory until there are no more. Returns the number of deleted dependents.
pub fn collect(collector: &mut Collector, monitor: MonitorId, dependents: &[Arc<ObjectMeta>]) -> usize {
    let mut deleted = 0;
    while let Output::Call(call) = collector.poll_output() {
        // The name ends in the position.
        let name = &call.request.target.name;
        let found = name[name.len() - 6..]
            .parse::<usize>()
            .ok()
            .and_then(|at| dependents.get(at));
        let response = match (&call.request.operation, found) {
            (Operation::Get, Some(meta)) => Response::Found(Arc::clone(meta)),
            (Operation::Get, None) => Response::NotFound,
            _ => Response::Applied(None),
        };
        let is_delete = matches!(call.request.operation, Operation::Delete { .. });
        handle(
            collector,
            Input::Response {
                call: call.id,
                response,
            },
        );
        if let Some(meta) = found.filter(|_| is_delete) {
            deleted += 1;
            watch(collector, monitor, WatchEvent::Delete(Arc::clone(meta)));
        }
    }
    deleted
}
