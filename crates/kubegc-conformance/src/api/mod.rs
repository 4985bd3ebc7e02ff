//! Replays requests that were recorded from a real API server, and compares each response.
//!
//! A case runs on a server of its own, through the HTTP layer of `kubegc-testkit`. Later requests of a case
//! use values of the simulated server's earlier responses: uids, versions, generated names.

mod compare;
mod exchange;
mod matching;

use std::time::Duration;

use kubegc_core::{Catalog, KubernetesVersion, Timestamp};
use kubegc_sim::{ApiServer, CrdCleaner, CrdStep, Settings};
use serde::Deserialize;
use serde_json::{Value, json};

use self::matching::Matcher;
use crate::{Failure, Report, namespaces::create_namespaces, recording};

/// The time at which a replayed case begins. No recording contains this day, so a date of this day was set by
/// the server.
const BEGIN: &str = "2033-05-18T06:00:00Z";
/// The recorder's user, with a UID of the same text.
const USER: &str = "admin";
const STEP: Duration = Duration::from_millis(20);
/// Maximum number of waits of the clean-up of a deleted definition.
const CLEANER_WAITS_MAX: usize = 20;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    category: String,
    kubernetes: String,
    managed_fields: String,
    #[serde(default)]
    namespace: Option<String>,
    requests: Vec<Request>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Request {
    method: String,
    path: String,
    query: String,
    #[serde(rename = "contentType")]
    content_type: Option<String>,
    body: Value,
    #[serde(rename = "rawBody")]
    raw_body: Option<String>,
    user_agent: Option<String>,
    accept: Option<String>,
    response: Response,
    /// Two runs on the real server gave different responses: only the code is compared, with both.
    unstable: bool,
    response2: Option<Response>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Response {
    code: u16,
    body: Value,
}

/// Replays one case. It passes where every response agrees.
pub(crate) fn replay(case: &recording::Case<'_>, report: &mut Report) -> Result<(), Failure> {
    let case: Case = case.read()?;
    let mut server = server(&case)?;
    let keeps_managers = case.managed_fields == "kept";
    let mut matcher = Matcher::new(&case.requests);
    let mut bodies = Vec::with_capacity(case.requests.len());
    let mut differences = Vec::new();
    for (index, request) in case.requests.iter().enumerate() {
        server.set_now(server.now().saturating_add(STEP));
        let (sent, mut response) = exchange::run(&mut server, request, &matcher, &bodies);
        clean_up(&mut server);
        bodies.push(response.body.clone());
        if !keeps_managers {
            drop_managers(&mut response.body);
        }
        if let Err(difference) = compare::response(&mut matcher, request, &response) {
            differences.push(format!("{index} {sent}: {difference}"));
        }
    }
    let (all, failed) = (case.requests.len(), differences.len());
    report.requests.insert(case.category, (all - failed, all));
    if differences.is_empty() {
        return Ok(());
    }
    let place = format!("{failed} of {all} responses differ");
    Err(Failure::list(&place, &differences))
}

/// The server of a case, as the recorded one was set up, with the case's namespace.
fn server(case: &Case) -> Result<ApiServer, Failure> {
    let version: KubernetesVersion = case.kubernetes.parse().map_err(Failure::unreadable)?;
    let settings = Settings {
        types: true,
        service_account_issuer: "https://kubernetes.default.svc".into(),
        user_uids: [(USER.to_owned(), USER.to_owned())].into(),
        ..Settings::default()
    };
    let mut server = ApiServer::new(version, Catalog::builtin(version)).with_settings(settings);
    server.set_now(Timestamp::parse(BEGIN).map_err(Failure::unreadable)?);
    let names = ["default", "kube-system", "kube-public", "kube-node-lease"];
    let names = names.into_iter().chain(case.namespace.as_deref());
    create_namespaces(&mut server, names)?;
    create_service_range(&mut server)?;
    Ok(server)
}

/// Creates the range of cluster addresses that the API server itself creates (since 1.33).
fn create_service_range(server: &mut ApiServer) -> Result<(), Failure> {
    const NAME: &str = "kubernetes";
    let Ok(kind) = server.resolve("networking.k8s.io", "v1", "servicecidrs") else {
        return Ok(());
    };
    let mut range = json!({"metadata": {"name": NAME}, "spec": {"cidrs": ["10.96.0.0/16"]}});
    let created = server.create_json(kind, "", range.clone());
    range["status"] = json!({"conditions": [{
        "type": "Ready",
        "status": "True",
        "reason": "",
        "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": BEGIN,
    }]});
    let ready = server.update_subresource(kind, "", NAME, "status", range);
    match (created.code, ready.code) {
        (201, 200) => Ok(()),
        _ => {
            let problem = format!("the ServiceCIDR is not created: {:?}", ready.body);
            Err(Failure::unreadable(problem))
        }
    }
}

/// Completes the clean-up of deleted definitions, if that is possible.
///
/// The recorder waited until a deleted definition was removed. If finalizers keep its custom resources, it is
/// not removed, and the clean-up had not begun before the next request.
fn clean_up(server: &mut ApiServer) {
    let mut cleaner = CrdCleaner::default();
    let mut later = server.clone();
    let mut waits = 0;
    loop {
        match cleaner.step(&mut later) {
            CrdStep::Idle => break,
            CrdStep::Worked { .. } => {}
            CrdStep::Waiting { .. } if waits == CLEANER_WAITS_MAX => return,
            CrdStep::Waiting { until } => {
                waits += 1;
                later.set_now(until);
            }
        }
    }
    *server = later;
}

/// Removes `managedFields` everywhere.
fn drop_managers(value: &mut Value) {
    let mut pending = vec![value];
    // Ends: each value is visited once.
    while let Some(value) = pending.pop() {
        match value {
            Value::Object(fields) => {
                fields.remove("managedFields");
                pending.extend(fields.values_mut());
            }
            Value::Array(items) => pending.extend(items),
            _ => {}
        }
    }
}
