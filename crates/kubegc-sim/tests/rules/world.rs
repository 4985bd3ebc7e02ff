//! A small cluster, with helpers for requests.

use kubegc_core::{
    ApiResource, Catalog, KindId, KubernetesVersion, Preconditions, Scope, Timestamp, Uid,
    deletion::DeleteOptionsSpec,
};
use kubegc_sim::{ApiServer, ApplyOptions, Event, EventType, Manifest, Response, Settings};
use serde_json::{Value, json};

pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const JSON: &str = "application/json-patch+json";

/// A server with one namespace `ns`, and two kinds of its own: `Child` in namespaces, `Boss` in none.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) server: ApiServer,
}

pub(crate) fn world() -> World {
    world_of("1.20.2")
}

pub(crate) fn world_of(version: &str) -> World {
    let version: KubernetesVersion = version.parse().unwrap();
    let mut catalog = Catalog::builtin(version);
    let child = ApiResource::new("test.dev/v1", "Child", "children", Scope::Namespaced).custom();
    let boss = ApiResource::new("test.dev/v1", "Boss", "bosses", Scope::Cluster).custom();
    for resource in [child, boss] {
        catalog.add(resource).unwrap();
    }
    let mut server = ApiServer::new(version, catalog);
    server.set_now(Timestamp::from_secs(1_000_000));
    let mut world = World { server };
    let created = world.create("Namespace", json!({"metadata": {"name": "ns"}}));
    assert_eq!(created.code, 201);
    world
}

/// A server that completes and validates objects by their types, and needs no namespace objects.
pub(crate) fn typed(version: &str) -> ApiServer {
    let version: KubernetesVersion = version.parse().unwrap();
    let settings = Settings {
        types: true,
        namespaces_must_exist: false,
        ..Settings::default()
    };
    let mut server = ApiServer::new(version, Catalog::builtin(version)).with_settings(settings);
    server.set_now(Timestamp::from_secs(1_000_000));
    server
}

/// The kind of CustomResourceDefinitions in a version.
pub(crate) fn definitions(server: &ApiServer, version: &str) -> KindId {
    let kind = server.resolve("apiextensions.k8s.io", version, "customresourcedefinitions");
    kind.unwrap()
}

/// A small cluster without any namespace object, where none is needed.
pub(crate) fn open_world() -> World {
    let World { server } = world();
    let settings = Settings {
        namespaces_must_exist: false,
        ..Settings::default()
    };
    let catalog = server.catalog().clone();
    World {
        server: ApiServer::new(server.version(), catalog).with_settings(settings),
    }
}

impl World {
    pub(crate) fn kind(&self, kind: &str) -> KindId {
        let group = match kind {
            "Child" | "Boss" => "test.dev/v1",
            "Job" => "batch/v1",
            "ReplicaSet" | "Deployment" | "StatefulSet" => "apps/v1",
            "CertificateSigningRequest" => "certificates.k8s.io/v1",
            "PodDisruptionBudget" => "policy/v1",
            "ClusterRole" => "rbac.authorization.k8s.io/v1",
            "CustomResourceDefinition" => "apiextensions.k8s.io/v1",
            "APIService" => "apiregistration.k8s.io/v1",
            _ => "v1",
        };
        self.server.catalog().mapping(group, kind).unwrap()
    }

    /// Creates an object; namespaced ones in `ns`.
    pub(crate) fn create(&mut self, kind: &str, object: Value) -> Response {
        let id = self.kind(kind);
        self.server.create_json(id, self.namespace(kind), object)
    }

    /// Creates an object that has a name, finalizers and the uid `uid-<name>`.
    pub(crate) fn put(&mut self, kind: &str, name: &str, finalizers: &[&str]) {
        self.put_json(
            kind,
            json!({"metadata": {"name": name, "finalizers": finalizers}}),
        );
    }

    pub(crate) fn put_json(&mut self, kind: &str, object: Value) {
        let object = Manifest::read(object).unwrap().object;
        let uid = Uid::new(&format!("uid-{}", object.meta.name));
        let (id, namespace) = (self.kind(kind), self.namespace(kind));
        let response = self.server.create_with_uid(id, namespace, object, uid);
        assert_eq!(response.code, 201, "{:?}", response.body);
    }

    pub(crate) fn delete(&mut self, kind: &str, name: &str, options: &DeleteOptionsSpec) -> Response {
        let id = self.kind(kind);
        self.server.delete(id, self.namespace(kind), name, options)
    }

    pub(crate) fn patch(&mut self, kind: &str, name: &str, format: &str, patch: &Value) -> Response {
        let id = self.kind(kind);
        self.server.patch(
            id,
            self.namespace(kind),
            name,
            format,
            patch.to_string().as_bytes(),
        )
    }

    pub(crate) fn update(&mut self, kind: &str, name: &str, object: Value) -> Response {
        let id = self.kind(kind);
        let namespace = self.namespace(kind);
        self.server.update_subresource(id, namespace, name, "", object)
    }

    /// Applies a configuration as a manager; `apiVersion` and `kind` are filled in where they are missing.
    pub(crate) fn apply(&mut self, kind: &str, manager: &str, config: Value) -> Response {
        self.apply_to(kind, None, manager, false, config)
    }

    pub(crate) fn force(&mut self, kind: &str, manager: &str, config: Value) -> Response {
        self.apply_to(kind, None, manager, true, config)
    }

    pub(crate) fn apply_to(
        &mut self,
        kind: &str,
        subresource: Option<&str>,
        manager: &str,
        force: bool,
        mut config: Value,
    ) -> Response {
        let id = self.kind(kind);
        let resource = &self.server.catalog()[id];
        let own = [
            ("apiVersion", resource.api_version()),
            ("kind", resource.kind.to_string()),
        ];
        for (key, value) in own {
            if config.get(key).is_none() {
                config[key] = value.into();
            }
        }
        let name = config["metadata"]["name"].as_str().unwrap_or("a").to_owned();
        let options = ApplyOptions {
            field_manager: manager.to_owned(),
            force,
        };
        let namespace = self.namespace(kind);
        self.server
            .apply(id, namespace, &name, subresource, config, &options)
    }

    /// The managers of an object's fields: manager, operation and subresource, and the fields.
    pub(crate) fn managers(&self, kind: &str, name: &str) -> Vec<(String, Value)> {
        let entries = self.get(kind, name)["metadata"]["managedFields"].clone();
        let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let described = entries.as_array().into_iter().flatten().map(|entry| {
            let mut manager = format!("{} {}", text(entry, "manager"), text(entry, "operation"));
            if entry.get("subresource").is_some() {
                manager = format!("{manager} {}", text(entry, "subresource"));
            }
            (manager, entry["fieldsV1"].clone())
        });
        described.collect()
    }

    /// The object as JSON; null where there is none.
    pub(crate) fn get(&self, kind: &str, name: &str) -> Value {
        let id = self.kind(kind);
        let object = self.server.object(id, self.namespace(kind), name);
        object.map_or(Value::Null, |object| object.to_json(&self.server.catalog()[id]))
    }

    pub(crate) fn finalizers(&self, kind: &str, name: &str) -> Vec<String> {
        texts(&self.get(kind, name)["metadata"]["finalizers"])
    }

    /// The events of a kind after a revision: the letter of the type, and whether the object is terminating.
    pub(crate) fn events(&self, kind: &str, since: u64) -> Vec<String> {
        let events = self.server.events_since(self.kind(kind), since).unwrap();
        events.map(describe).collect()
    }

    pub(crate) fn tick(&mut self, seconds: i64) {
        let now = self.server.now().as_secs() + seconds;
        self.server.set_now(Timestamp::from_secs(now));
    }

    pub(crate) fn namespace(&self, kind: &str) -> &'static str {
        if self.server.catalog()[self.kind(kind)].is_namespaced() {
            "ns"
        } else {
            ""
        }
    }
}

fn describe(event: &Event) -> String {
    let verb = match event.event_type {
        EventType::Added => "ADDED",
        EventType::Modified => "MODIFIED",
        EventType::Deleted => "DELETED",
    };
    let deleting = if event.object.meta.is_deleting() {
        " deleting"
    } else {
        ""
    };
    format!("{verb} {}{deleting}", event.object.meta.name)
}

pub(crate) fn texts(list: &Value) -> Vec<String> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}

pub(crate) fn policy(policy: &str) -> DeleteOptionsSpec {
    DeleteOptionsSpec {
        propagation_policy: Some(policy.to_owned()),
        ..DeleteOptionsSpec::default()
    }
}

pub(crate) fn orphan_dependents(orphan: bool) -> DeleteOptionsSpec {
    DeleteOptionsSpec {
        orphan_dependents: Some(orphan),
        ..DeleteOptionsSpec::default()
    }
}

pub(crate) fn dry_run() -> DeleteOptionsSpec {
    DeleteOptionsSpec {
        dry_run: vec!["All".to_owned()],
        ..DeleteOptionsSpec::default()
    }
}

pub(crate) fn grace(seconds: i64) -> DeleteOptionsSpec {
    DeleteOptionsSpec {
        grace_period_seconds: Some(seconds),
        ..DeleteOptionsSpec::default()
    }
}

pub(crate) fn expecting(uid: Option<&str>, version: Option<&str>) -> DeleteOptionsSpec {
    DeleteOptionsSpec {
        preconditions: Some(Preconditions {
            uid: uid.map(Uid::from),
            resource_version: version.map(Into::into),
        }),
        ..policy("Background")
    }
}

/// The objects of a namespace `ns` and a kind by name, for kinds of a definition.
pub(crate) fn served(world: &World, api_version: &str, kind: &str) -> KindId {
    world.server.catalog().mapping(api_version, kind).unwrap()
}

pub(crate) fn message(response: &Response) -> &str {
    response.status().map_or("", |status| &status.message)
}

/// A reference to an owner with the uid `uid-<name>`.
pub(crate) fn owner(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": format!("uid-{name}")})
}
