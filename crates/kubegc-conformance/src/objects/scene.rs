//! A scenario made ready to be played: where each alias lives, and a world before the first step.

use std::{collections::BTreeSet, sync::Arc};

use kubegc_core::{ApiResource, Catalog, KindId, Scope, Timestamp, Uid};
use kubegc_objects::{Collector, Input, Output, Request, Settings, WatchEvent, collector::MonitorId};
use kubegc_sim::ApiServer;

use super::format::{Object, Scenario};
use crate::{Failure, namespaces::create_namespaces, recording::release};

/// One scenario, and where its objects live.
pub(super) struct Scene<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) objects: Vec<Placed<'a>>,
}

/// An object and its address.
pub(super) struct Placed<'a> {
    pub(super) object: &'a Object,
    pub(super) kind: KindId,
    pub(super) uid: Uid,
}

impl Placed<'_> {
    pub(super) fn address(&self) -> (KindId, &str, &str) {
        (self.kind, &self.object.namespace, &self.object.name)
    }
}

impl<'a> Scene<'a> {
    /// The scenario on a server with these kinds.
    pub(super) fn new(scenario: &'a Scenario, catalog: &Catalog) -> Result<Self, Failure> {
        let place = |object: &'a Object| {
            let Object {
                alias,
                api_version,
                kind,
                ..
            } = object;
            let unknown = || Failure::unreadable(format!("{alias} is of unknown kind {api_version}/{kind}"));
            Ok(Placed {
                object,
                kind: catalog.mapping(api_version, kind).ok_or_else(unknown)?,
                uid: Uid::new(&format!("uid:{alias}")),
            })
        };
        let objects = scenario.objects.iter().map(place).collect::<Result<_, _>>()?;
        let scene = Self { scenario, objects };
        scene.check_aliases()?;
        Ok(scene)
    }

    /// The kinds of the objects, in the versions that are monitored.
    pub(super) fn monitored(&self, catalog: &Catalog) -> BTreeSet<KindId> {
        let monitored = |placed: &Placed<'_>| {
            let own = &catalog[placed.kind];
            let mut versions = catalog.iter().filter(|(_, other)| {
                other.preferred && (&other.group, &other.resource) == (&own.group, &own.resource)
            });
            versions.next().map_or(placed.kind, |(preferred, _)| preferred)
        };
        self.objects.iter().map(monitored).collect()
    }

    pub(super) fn placed(&self, alias: &str) -> Option<&Placed<'a>> {
        self.objects.iter().find(|placed| placed.object.alias == alias)
    }

    /// The alias of the object with a uid.
    pub(super) fn alias_of(&self, uid: &Uid) -> Option<&'a str> {
        let found = self.objects.iter().find(|placed| placed.uid == *uid)?;
        Some(&found.object.alias)
    }

    /// The alias of the target of a request: of its uid, or else of its coordinate, the later one where two
    /// objects share it.
    pub(super) fn target_alias(&self, catalog: &Catalog, request: &Request, uid: &Uid) -> &'a str {
        let (of, target) = (&catalog[request.kind], &request.target);
        let by_place = || {
            let mut later = self.objects.iter().rev();
            later.find(|Placed { object, kind, .. }| {
                let own = &catalog[*kind];
                *object.name == *target.name
                    && *object.namespace == *target.namespace
                    && (&own.group, &own.resource) == (&of.group, &of.resource)
            })
        };
        self.alias_of(uid)
            .or_else(|| Some(&by_place()?.object.alias))
            .unwrap_or("None")
    }

    fn check_aliases(&self) -> Result<(), Failure> {
        for step in &self.scenario.steps {
            let named = match &*step.op {
                "create" => step.aliases.as_slice(),
                "delete_namespace" | "stop-gc" | "start-gc" | "wait" | "snapshot" => &[],
                "delete" | "set_owner_refs" | "set_finalizers" | "add_finalizer" | "remove_finalizer"
                | "touch" | "patch" => std::slice::from_ref(&step.alias),
                other => return Err(Failure::unreadable(format!("unknown step {other:?}"))),
            };
            let mut named = named.iter();
            if let Some(unknown) = named.find(|alias| self.placed(alias).is_none()) {
                return Err(Failure::unreadable(format!("no object has the alias {unknown}")));
            }
        }
        Ok(())
    }
}

/// The release of scenarios that name none.
const VERSION: &str = "1.20.2";

/// The initial state of every run: an API server with the kinds and namespaces of all scenarios.
pub(super) fn server(scenario: &Scenario) -> Result<ApiServer, Failure> {
    use Scope::{Cluster, Namespaced};
    let version = release(scenario.kubernetes.as_deref().unwrap_or(VERSION))?;
    let mut catalog = Catalog::builtin(version);
    for (api_version, kind, resource, scope) in [
        ("test.kubegc.dev/v1", "Parent", "parents", Namespaced),
        ("test.kubegc.dev/v1", "Child", "children", Namespaced),
        ("test.kubegc.dev/v1", "Widget", "widgets", Namespaced),
        ("test.kubegc.dev/v1", "ClusterParent", "clusterparents", Cluster),
        ("test.kubegc.dev/v1", "ClusterWidget", "clusterwidgets", Cluster),
        ("test.kubegc.dev/v1beta1", "Widget", "widgets", Namespaced),
    ] {
        let mut resource = ApiResource::new(api_version, kind, resource, scope).custom();
        resource.preferred = api_version.ends_with("v1");
        catalog.add(resource).map_err(Failure::unreadable)?;
    }
    let mut server = ApiServer::new(version, catalog);
    server.set_now(Timestamp::from_secs(1_600_000_000));
    create_namespaces(&mut server, ["default", "ns1", "ns2"])?;
    Ok(server)
}

/// A collector after discovery. The lists of kinds that are not in `kinds` have been delivered, without
/// objects. Returns the monitors of the others.
pub(super) fn start_collector(
    server: &ApiServer,
    workers: u32,
    kinds: &BTreeSet<KindId>,
    now: Timestamp,
) -> Result<(Collector, Vec<(MonitorId, KindId)>), Failure> {
    let mut settings = Settings::new(server.version()).as_upstream();
    settings.attempt_to_delete_workers = workers;
    settings.attempt_to_orphan_workers = workers;
    settings.discovery_period = None;
    let mut collector = Collector::new(settings);
    let handle = |collector: &mut Collector, input| collector.handle(now, input).map_err(Failure::unreadable);
    let mut monitored = Vec::new();
    loop {
        match collector.poll_output() {
            Output::Discover => {
                let (catalog, failed) = (Arc::new(server.catalog().clone()), Vec::new());
                handle(&mut collector, Input::Catalog { catalog, failed })?;
            }
            Output::Watch(monitor) => {
                let kind = collector
                    .monitor(monitor)
                    .and_then(|of| server.catalog().by_resource(&of.group, &of.version, &of.resource))
                    .ok_or_else(|| Failure::unreadable("a monitor watches an unknown resource"))?;
                if kinds.contains(&kind) {
                    monitored.push((monitor, kind));
                    continue;
                }
                for event in [WatchEvent::Init, WatchEvent::InitDone] {
                    handle(&mut collector, Input::Watch { monitor, event })?;
                }
            }
            Output::Unwatch(_) | Output::Event(_) => {}
            // The calls begin once all lists are there.
            Output::Call(call) => return Err(Failure::unreadable(format!("an early call: {call:?}"))),
            Output::Wait(_) => return Ok((collector, monitored)),
        }
    }
}
