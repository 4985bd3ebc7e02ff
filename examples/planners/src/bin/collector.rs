//! A complete garbage collector over a store of one's own: a map.
use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::{Catalog, PartialObjectMetadata, Timestamp};
use kubegc_objects::{Collector, Input, Output, Settings, WatchEvent};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let version = "1.36".parse()?;
    let (catalog, now) = (Arc::new(Catalog::builtin(version)), Timestamp::EPOCH);
    let objects: Vec<PartialObjectMetadata> = serde_json::from_str(include_str!("../../shop.json"))?;
    let mut stored = BTreeMap::new();
    // The Deployment is missing.
    for object in objects.into_iter().skip(1) {
        let kind = catalog.mapping(&object.api_version, &object.kind);
        let kind = catalog[kind.ok_or("an unknown kind")?].qualified_resource();
        let meta = Arc::new(object.metadata);
        stored.insert((kind, meta.namespace.clone(), meta.name.clone()), meta);
    }
    let mut collector = Collector::new(Settings::new(version));
    let mut monitors = BTreeMap::new();
    loop {
        match collector.poll_output() {
            Output::Discover => collector.handle(now, Input::catalog(Arc::clone(&catalog)))?,
            Output::Watch(monitor) => {
                let resource = collector.monitor(monitor).ok_or("an unknown monitor")?;
                let kind = resource.qualified_resource();
                let list = stored.iter().filter(|(key, _)| key.0 == kind);
                for event in WatchEvent::list(list.map(|(_, meta)| Arc::clone(meta))) {
                    collector.handle(now, Input::watch(monitor, event))?;
                }
                monitors.insert(kind, monitor);
            }
            Output::Call(call) => {
                let (request, resource) = (&call.request, &catalog[call.request.kind]);
                let kind = resource.qualified_resource();
                let monitor = monitors[&kind];
                let key = (
                    kind,
                    request.target.namespace.clone(),
                    request.target.name.clone(),
                );
                let (response, change) = request.perform(stored.get(&key), resource, now);
                if let Some(event) = change {
                    println!("{request}");
                    match &event {
                        WatchEvent::Apply(meta) => stored.insert(key, Arc::clone(meta)),
                        _ => stored.remove(&key),
                    };
                    collector.handle(now, Input::watch(monitor, event))?;
                }
                collector.handle(now, Input::response(call.id, response))?;
            }
            // Nothing is left to do.
            Output::Wait(_) => return Ok(()),
            Output::Unwatch(_) | Output::Event(_) => {}
        }
    }
}
