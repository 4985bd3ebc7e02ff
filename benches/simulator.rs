//! Requests to the simulated API server: kinds with types, the same without types, and kinds that have no
//! type.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kubegc::{
    core::{Catalog, KubernetesVersion, deletion::DeleteOptionsSpec},
    sim::{ApiServer, Settings},
};
use kubegc_benches::sizes;
use serde_json::{Value, json};

/// API version, kind and an object without name. A ResourceClaim has no type in the simulator.
fn samples() -> [(&'static str, &'static str, Value); 4] {
    let pod = json!({"containers": [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "100m"}}}]});
    let deployment = json!({
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
    });
    [
        ("v1", "ConfigMap", json!({"data": {"a": "b"}})),
        ("v1", "Pod", json!({"spec": pod})),
        ("apps/v1", "Deployment", json!({"spec": deployment})),
        (
            "resource.k8s.io/v1",
            "ResourceClaim",
            json!({"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}}),
        ),
    ]
}

struct Run {
    server: ApiServer,
    api_version: &'static str,
    kind: &'static str,
    objects: Vec<Value>,
}

impl Run {
    fn new(
        types: bool,
        (api_version, kind, sample): &(&'static str, &'static str, Value),
        count: usize,
    ) -> Self {
        let version = KubernetesVersion::LATEST;
        let server = ApiServer::new(version, Catalog::builtin(version)).with_settings(Settings {
            types,
            namespaces_must_exist: false,
            ..Settings::default()
        });
        let objects = (0..count).map(|number| {
            let mut object = sample.clone();
            object["metadata"] = json!({"name": format!("object-{number}")});
            object
        });
        Self {
            server,
            api_version,
            kind,
            objects: objects.collect(),
        }
    }

    /// Creates all objects, labels each and deletes it.
    fn perform(mut self) -> ApiServer {
        let server = &mut self.server;
        let kind = server
            .catalog()
            .mapping(self.api_version, self.kind)
            .expect("a kind");
        let names: Vec<String> = (0..self.objects.len())
            .map(|number| format!("object-{number}"))
            .collect();
        for object in self.objects {
            let response = server.create_json(kind, "default", object);
            assert!(response.is_success(), "{response:?}");
        }
        for name in &names {
            let patch = br#"{"metadata": {"labels": {"app": "web"}}}"#;
            let response = server.patch(kind, "default", name, "application/merge-patch+json", patch);
            assert!(response.is_success(), "{response:?}");
        }
        for name in &names {
            let response = server.delete(kind, "default", name, &DeleteOptionsSpec::default());
            assert!(response.is_success(), "{response:?}");
        }
        self.server
    }
}

fn requests(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("simulator");
    group.sample_size(10);
    for count in sizes(&[100, 1_000]) {
        group.throughput(Throughput::Elements(count as u64));
        for sample in &samples() {
            for (name, types) in [("without types", false), ("with types", true)] {
                let id = BenchmarkId::new(format!("{}, {name}", sample.1), count);
                group.bench_function(id, |bencher| {
                    bencher.iter_batched(
                        || Run::new(types, sample, count),
                        Run::perform,
                        BatchSize::PerIteration,
                    );
                });
            }
        }
    }
    group.finish();
}

criterion_group!(benches, requests);
criterion_main!(benches);
