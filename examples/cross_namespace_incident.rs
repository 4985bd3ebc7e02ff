//! Why did the collector delete Secrets whose owner was alive? One Secret in the wrong namespace, and the
//! order of two lists.
//!
//! `cargo run -p kubegc-examples --example cross_namespace_incident`
//!
//! `payments/copy` was copied from `shop`, with its reference to the ConfigMap `shop/root`. Up to 1.19, a
//! restarted collector that receives the copy before the ConfigMap considers the ConfigMap absent and deletes
//! its correct dependents too (kubernetes #65200). From 1.20 on every order has the same outcome, and a
//! warning names the copy. Prints `expected/cross_namespace_incident.txt`.
#![expect(clippy::print_stdout, reason = "an example")]

use std::{collections::BTreeMap, error::Error, sync::Arc};

use kubegc::{
    core::{
        ApiResource, Catalog, DeleteOptions, ObjectMeta, OwnerReference, Scope, Timestamp,
        deletion::Propagation,
    },
    objects::{Collector, Input, Operation, Output, Request, Response, Settings, WatchEvent},
    sim::ApiServer,
};

fn main() -> Result<(), Box<dyn Error>> {
    for version in ["1.13", "1.19", "1.20", "1.36"] {
        println!("Kubernetes {version}");
        for (order, owner_first) in [("owner seen first: ", true), ("Secrets seen first:", false)] {
            println!("  {order} left {}", restart(version, owner_first)?.join("\n    "));
        }
    }
    Ok(())
}

/// Restarts the collector and delivers the two lists in this order. Returns the remaining objects, and the
/// warnings.
fn restart(version: &str, owner_first: bool) -> Result<Vec<String>, Box<dyn Error>> {
    let version = version.parse()?;
    let mut kinds = Catalog::new();
    let config_maps = kinds.add(ApiResource::new(
        "v1",
        "ConfigMap",
        "configmaps",
        Scope::Namespaced,
    ))?;
    let secrets = kinds.add(ApiResource::new("v1", "Secret", "secrets", Scope::Namespaced))?;
    let mut server = ApiServer::new(version, kinds.clone());
    server.insert(config_maps, ObjectMeta::new("shop", "root", "uid-of-root"))?;
    for (namespace, name) in [("payments", "copy"), ("shop", "keys"), ("shop", "token")] {
        let mut secret = ObjectMeta::new(namespace, name, &format!("uid-of-{name}"));
        secret.owner_references.push(OwnerReference {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            name: "root".into(),
            uid: "uid-of-root".into(),
            controller: None,
            block_owner_deletion: None,
        });
        server.insert(secrets, secret)?;
    }

    let mut settings = Settings::new(version).as_upstream();
    settings.discovery_period = None;
    let mut collector = Collector::new(settings);
    let (mut now, mut seen, mut reported) = (Timestamp::EPOCH, server.revision(), Vec::new());
    let (mut monitors, mut is_listed) = (BTreeMap::new(), false);
    loop {
        match collector.poll_output() {
            Output::Discover => {
                let (catalog, failed) = (Arc::new(kinds.clone()), Vec::new());
                collector.handle(now, Input::Catalog { catalog, failed })?;
            }
            Output::Watch(monitor) => {
                let resource = collector.monitor(monitor).ok_or("unknown monitor")?;
                monitors.insert(
                    kinds.mapping("v1", &resource.kind).ok_or("unknown kind")?,
                    monitor,
                );
            }
            Output::Unwatch(_) => {}
            Output::Event(warning) => {
                reported.push(format!("warning for {}: {warning}", warning.dependent.short()))
            }
            Output::Call(call) => {
                let response = perform(&mut server, &call.request);
                collector.handle(
                    now,
                    Input::Response {
                        call: call.id,
                        response,
                    },
                )?;
            }
            // Both kinds are watched: deliver the lists in the requested order.
            Output::Wait(_) if !is_listed => {
                for kind in if owner_first {
                    [config_maps, secrets]
                } else {
                    [secrets, config_maps]
                } {
                    let objects = server.objects(kind, None);
                    let list = objects.iter().map(|object| object.meta.clone().into());
                    let list = WatchEvent::InitApply(list.collect());
                    for event in [WatchEvent::Init, list, WatchEvent::InitDone] {
                        collector.handle(
                            now,
                            Input::Watch {
                                monitor: monitors[&kind],
                                event,
                            },
                        )?;
                    }
                }
                is_listed = true;
            }
            // Deliver the watch events of the collector's own writes, which are all deletions.
            Output::Wait(_) if server.revision() > seen => {
                for change in server.changes_since(seen) {
                    let event = WatchEvent::Delete(change.event.object.meta.clone().into());
                    collector.handle(
                        now,
                        Input::Watch {
                            monitor: monitors[&change.kind],
                            event,
                        },
                    )?;
                }
                seen = server.revision();
            }
            // Retries, for a minute of simulated time.
            Output::Wait(wait) => match wait.until.filter(|&until| until < Timestamp::from_secs(60)) {
                Some(until) => {
                    now = until;
                    collector.handle(now, Input::Tick)?;
                }
                None => break,
            },
        }
    }
    let left = [config_maps, secrets]
        .into_iter()
        .flat_map(|kind| server.objects(kind, None));
    let left: Vec<_> = left
        .map(|object| format!("{}/{}", object.meta.namespace, object.meta.name))
        .collect();
    reported.insert(0, left.join(" "));
    Ok(reported)
}

/// Performs a call. Nothing here has finalizers or two owners, so the collector only reads and deletes.
fn perform(server: &mut ApiServer, request: &Request) -> Response {
    let (namespace, name) = (&request.target.namespace, &request.target.name);
    let response = match &request.operation {
        Operation::Get => server.read(request.kind, namespace, name),
        Operation::Delete { wire, propagation } => {
            let mut options = DeleteOptions::default();
            (options.propagation, options.preconditions) =
                (Some(Propagation::Policy(*propagation)), wire.clone());
            server.delete_with(request.kind, namespace, name, &options)
        }
        Operation::Patch { .. } | Operation::Put { .. } => return Response::Refused { retry_after: None },
    };
    match (response.code, response.object()) {
        (404, _) => Response::NotFound,
        (409, _) => Response::Conflict,
        (200, Some(object)) if !request.operation.is_write() => Response::Found(object.meta.clone().into()),
        (200, _) => Response::Applied(None),
        _ => Response::Unknown,
    }
}
