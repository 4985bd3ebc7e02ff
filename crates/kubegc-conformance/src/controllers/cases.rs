//! The cases of each controller: what is cached and stored, what is reconciled, and what is compared.

use std::slice::from_ref;

use kubegc_controllers::{Key, TtlAfterFinished};
use kubegc_core::record::Resource;
use serde_json::{Value, json};

use super::live::{Live, Order, Outcome, list, text, time};
use crate::{Failure, failure::equal};

type Result<T = (), E = Failure> = std::result::Result<T, E>;

/// The key of an object.
fn key(object: &Value) -> Key {
    let metadata = &object["metadata"];
    Key::new(text(metadata, "namespace"), text(metadata, "name"))
}

/// The objects of the server: those of the case but the ones that it names as absent, with what it says of all of them.
fn on_server(case: &Value, objects: &[Value]) -> Vec<Value> {
    let is_absent = |object: &Value| list(&case["absent_on_server"]).contains(&object["metadata"]["name"]);
    let mut objects: Vec<Value> = objects.iter().filter(|object| !is_absent(object)).cloned().collect();
    for object in &mut objects {
        for (field, key) in [("server_resource_version", "resourceVersion"), ("server_uid", "uid")] {
            if !case[field].is_null() {
                object["metadata"][key] = case[field].clone();
            }
        }
    }
    objects
}

/// A new object that upstream enqueues is reconciled.
fn is_enqueued(live: &Live<'_>, resource: Resource, key: &Key, recorded: &Value) -> Result {
    if recorded == true && !live.is_affected_by(resource, key) {
        return Err(Failure::new("the event of a new object", format!("{key} is reconciled"), "it is not"));
    }
    Ok(())
}

/// Compares the recorded delays of requeues, whose keys do not matter.
fn equal_requeues(case: &Value, outcome: &Outcome) -> Result {
    let expected = list(&case["requeued"]).iter().map(|requeued| requeued["after_ns"].to_string());
    let got = outcome.requeues.iter().map(|after| after.as_nanos().to_string());
    let lines = |delays: &mut dyn Iterator<Item = String>| delays.collect::<Vec<_>>().join("\n");
    equal("requeues, in ns", lines(&mut expected.into_iter()), lines(&mut got.into_iter()))
}

/// Compares an error. What upstream puts before the server's words may be missing; an error that does not come from the server may be the reason why the object is
/// kept.
fn equal_error(place: &str, expected: &Value, outcome: &Outcome) -> Result {
    let expected = expected.as_str().unwrap_or_default();
    let got = outcome.error().unwrap_or_default();
    let is_kept = || outcome.kept.iter().any(|(_, message)| !expected.is_empty() && message.contains(expected));
    let is_its_cause = !got.is_empty() && expected.ends_with(&format!(": {got}"));
    if expected == got || is_its_cause || (got.is_empty() && is_kept()) {
        return Ok(());
    }
    equal(place, expected, got)
}

pub(super) fn ttl_after_finished(case: &Value) -> Result {
    let controller = TtlAfterFinished { is_enabled: true };
    let mut live = Live::new(&controller);
    let cached = &case["cached"];
    live.cached(Resource::Jobs, from_ref(cached))?;
    let mut stored = if case["server"] == "as cached" { cached.clone() } else { case["server"].clone() };
    if stored.is_object() {
        if stored["metadata"]["resourceVersion"].is_null() {
            stored["metadata"]["resourceVersion"] = "10".into();
        }
        live.stored(Resource::Jobs, &[stored]);
    }
    live.begin(time(&case["now"])?, &case["inject"])?;
    let key = key(cached);
    is_enqueued(&live, Resource::Jobs, &key, &case["enqueued_on_event"])?;
    let outcome = live.reconcile(&key);
    live.compare(&case["actions"], Order::Exact)?;
    equal_requeues(case, &outcome)?;
    equal_error("error", &case["error"], &outcome)?;
    // Without a time nothing but a change helps, so the job is kept instead of retried.
    let is_retried = outcome.errors.iter().any(|(_, is_retried)| *is_retried)
        || outcome.kept.iter().any(|(code, _)| *code == "NoFinishTime");
    equal("retried with backoff", case["retried_with_backoff"].to_string(), is_retried.to_string())
}

pub(super) fn pod_gc(case: &Value) -> Result {
    let controller = super::Absent(&[Resource::Pods, Resource::Nodes]);
    let mut live = Live::new(&controller);
    let (mut pods, mut nodes) = (&Value::Null, &Value::Null);
    for (at, tick) in list(&case["ticks"]).iter().enumerate() {
        (pods, nodes) = (tick.get("pods").unwrap_or(pods), tick.get("nodes").unwrap_or(nodes));
        live.cached(Resource::Pods, list(pods))?;
        live.cached(Resource::Nodes, list(nodes))?;
        live.server.objects.clear();
        let node = |name: &Value| json!({ "metadata": { "name": name } });
        live.stored(Resource::Nodes, &list(&tick["server_nodes"]).iter().map(node).collect::<Vec<_>>());
        match tick.get("server_pods") {
            None => live.stored(Resource::Pods, list(pods)),
            Some(stored) => {
                let pod = |pod: &Value| json!({ "metadata": pod });
                live.stored(Resource::Pods, &list(stored).iter().map(pod).collect::<Vec<_>>());
            }
        }
        live.begin(time(&tick["now"])?, &tick["inject"])?;
        live.pass();
        live.compare(&tick["actions"], Order::WithinObject)
            .map_err(|failure| failure.within(format_args!("tick {at}")))?;
    }
    Ok(())
}

pub(super) fn cronjob_history(case: &Value) -> Result {
    let controller = super::Absent(&[Resource::CronJobs, Resource::Jobs]);
    let mut live = Live::new(&controller);
    let cron_job = &case["cronjob"];
    live.cached(Resource::CronJobs, from_ref(cron_job))?;
    live.cached(Resource::Jobs, list(&case["jobs"]))?;
    live.stored(Resource::CronJobs, from_ref(cron_job));
    live.stored(Resource::Jobs, &on_server(case, list(&case["jobs"])));
    live.begin(kubegc_core::Timestamp::EPOCH, &case["inject"])?;
    let outcome = live.reconcile(&key(cron_job));
    let mut actions = case["actions"].clone();
    if case["status_update_needed"] == true
        && let Some(actions) = actions.as_array_mut()
    {
        // The recording ends before the caller writes the status.
        let mut body = cron_job.clone();
        if let Some(active) = body["status"]["active"].as_array_mut() {
            active.retain(|job| list(&case["active_after"]).contains(&job["uid"]));
        }
        let mut update = json!({ "verb": "update", "group": "batch", "resource": "cronjobs", "subresource": "status" });
        update["namespace"] = cron_job["metadata"]["namespace"].clone();
        update["name"] = cron_job["metadata"]["name"].clone();
        update["body"] = body;
        actions.push(update);
    }
    live.compare(&actions, Order::Exact)?;
    if case.get("error").is_some() { equal_error("error", &case["error"], &outcome) } else { Ok(()) }
}

pub(super) fn csr_cleaner(case: &Value) -> Result {
    let controller = super::Absent(&[Resource::CertificateSigningRequests]);
    each(case, "csrs", Live::new(&controller), Resource::CertificateSigningRequests)
}

pub(super) fn pod_certificate_requests(case: &Value) -> Result {
    let controller = super::Absent(&[Resource::PodCertificateRequests]);
    each(case, "requests", Live::new(&controller), Resource::PodCertificateRequests)
}

/// Reconciles each object of a field in order.
fn each(case: &Value, field: &str, mut live: Live<'_>, resource: Resource) -> Result {
    let objects = list(&case[field]);
    live.cached(resource, objects)?;
    live.stored(resource, &on_server(case, objects));
    live.begin(time(&case["now"])?, &case["inject"])?;
    let outcomes: Vec<Outcome> = objects.iter().map(|object| live.reconcile(&key(object))).collect();
    live.compare(&case["actions"], Order::Exact)?;
    for (object, outcome) in objects.iter().zip(&outcomes) {
        let name = text(&object["metadata"], "name");
        equal_error(&format!("error of {name}"), &case["errors"][name], outcome)?;
    }
    Ok(())
}

pub(super) fn pv_protection(case: &Value) -> Result {
    let controller = super::Absent(&[Resource::PersistentVolumes]);
    let mut live = Live::new(&controller);
    let volume = &case["volume"];
    live.cached(Resource::PersistentVolumes, from_ref(volume))?;
    live.stored(Resource::PersistentVolumes, &on_server(case, from_ref(volume)));
    live.begin(kubegc_core::Timestamp::EPOCH, &case["inject"])?;
    is_enqueued(&live, Resource::PersistentVolumes, &key(volume), &case["enqueued_on_event"])?;
    let outcome = live.reconcile(&key(volume));
    live.compare(&case["actions"], Order::Exact)?;
    equal_error("error", &case["error"], &outcome)
}

pub(super) fn pvc_protection(case: &Value) -> Result {
    let controller = super::Absent(&[Resource::PersistentVolumeClaims, Resource::Pods]);
    let mut live = Live::new(&controller);
    let claims = list(&case["claims"]);
    live.cached(Resource::PersistentVolumeClaims, claims)?;
    live.cached(Resource::Pods, list(&case["cached_pods"]))?;
    live.stored(Resource::PersistentVolumeClaims, &on_server(case, claims));
    live.stored(Resource::Pods, list(&case["live_pods"]));
    live.begin(kubegc_core::Timestamp::EPOCH, &case["inject"])?;
    let mut outcomes = Vec::new();
    for (claim, enqueued) in claims.iter().zip(list(&case["enqueued_on_event"])) {
        is_enqueued(&live, Resource::PersistentVolumeClaims, &key(claim), enqueued)?;
        outcomes.push(live.reconcile(&key(claim)));
    }
    live.compare(&case["actions"], Order::Exact)?;
    for (result, outcome) in list(&case["results"]).iter().zip(&outcomes) {
        equal_error(&format!("error of {}", result["claim"]), &result["error"], outcome)?;
    }
    Ok(())
}

pub(super) fn bootstrap_tokens(case: &Value) -> Result {
    let controller = super::Absent(&[Resource::Secrets]);
    let mut live = Live::new(&controller);
    let secret = &case["secret"];
    live.cached(Resource::Secrets, from_ref(secret))?;
    live.stored(Resource::Secrets, &on_server(case, from_ref(secret)));
    live.begin(time(&case["now"])?, &case["inject"])?;
    is_enqueued(&live, Resource::Secrets, &key(secret), &case["enqueued_on_event"])?;
    let outcome = live.reconcile(&key(secret));
    live.compare(&case["actions"], Order::Exact)?;
    equal_requeues(case, &outcome)?;
    // Upstream logs an error of the delete and returns none.
    let is_retried = outcome.errors.iter().any(|(_, is_retried)| *is_retried);
    equal("retried with backoff", case["error"].is_string().to_string(), is_retried.to_string())
}

pub(super) fn legacy_tokens(case: &Value) -> Result {
    let controller = super::Absent(&[Resource::Secrets, Resource::ServiceAccounts, Resource::Pods, Resource::ConfigMaps]);
    let mut live = Live::new(&controller);
    live.cached(Resource::ServiceAccounts, list(&case["service_accounts"]))?;
    live.cached(Resource::Pods, list(&case["pods"]))?;
    if case["tracking"].is_object() {
        live.stored(Resource::ConfigMaps, from_ref(&case["tracking"]));
        live.cached(Resource::ConfigMaps, from_ref(&case["tracking"]))?;
    }
    let mut secrets = list(&case["secrets"]);
    let mut stored = secrets.to_vec();
    for secret in &mut stored {
        if list(&case["changed_on_server"]).contains(&secret["metadata"]["name"]) {
            secret["metadata"]["resourceVersion"] = "77".into();
        }
    }
    live.stored(Resource::Secrets, &stored);
    for (at, pass) in list(&case["passes"]).iter().enumerate() {
        secrets = pass.get("secrets").map_or(secrets, list);
        live.cached(Resource::Secrets, secrets)?;
        live.begin(time(&pass["now"])?, if at == 0 { &case["inject"] } else { &Value::Null })?;
        let outcome = live.pass();
        let within = |failure: Failure| failure.within(format_args!("pass {at}"));
        live.compare(&pass["actions"], Order::WithinObject).map_err(within)?;
        for expected in list(&pass["logged_errors"]) {
            let errors = outcome.errors.iter().map(|(error, _)| Outcome { errors: vec![(error.clone(), false)], ..Outcome::default() });
            let mut each = errors.chain([Outcome { kept: outcome.kept.clone(), ..Outcome::default() }]);
            if !each.any(|outcome| equal_error("", expected, &outcome).is_ok()) {
                return equal_error("logged errors", expected, &outcome).map_err(within);
            }
        }
    }
    Ok(())
}

pub(super) fn statefulset_pvc(case: &Value) -> Result {
    let controller = super::Absent(&[Resource::StatefulSets, Resource::Pods, Resource::PersistentVolumeClaims]);
    let mut live = Live::new(&controller);
    let claims = list(&case["claims"]);
    live.cached(Resource::StatefulSets, from_ref(&case["set"]))?;
    live.cached(Resource::Pods, from_ref(&case["pod"]))?;
    live.cached(Resource::PersistentVolumeClaims, claims)?;
    live.stored(Resource::PersistentVolumeClaims, &on_server(case, claims));
    live.begin(kubegc_core::Timestamp::EPOCH, &case["inject"])?;
    let outcome = live.reconcile(&key(&case["set"]));
    live.compare(&case["actions"], Order::Exact)?;
    equal_error("error", &case["error"], &outcome)
}

pub(super) fn cloud_nodes(case: &Value) -> Result {
    let controller = super::Absent(&[Resource::Nodes]);
    let mut live = Live::new(&controller);
    let nodes = list(&case["nodes"]);
    live.cached(Resource::Nodes, nodes)?;
    live.stored(Resource::Nodes, &on_server(case, nodes));
    live.begin(time(&case["now"])?, &case["inject"])?;
    for node in nodes {
        live.reconcile(&key(node));
    }
    live.compare(&case["actions"], Order::Exact)
}

pub(super) fn pv_reclaim(case: &Value) -> Result {
    let controller = super::Absent(&[Resource::PersistentVolumes, Resource::PersistentVolumeClaims, Resource::Pods]);
    let mut live = Live::new(&controller);
    let volume = &case["volume"];
    match case.get("volume_on_server") {
        None => live.stored(Resource::PersistentVolumes, from_ref(volume)),
        Some(stored) if stored.is_object() => live.stored(Resource::PersistentVolumes, from_ref(stored)),
        Some(_) => {}
    }
    if case["claim"].is_object() {
        live.stored(Resource::PersistentVolumeClaims, from_ref(&case["claim"]));
    }
    live.cached(Resource::Pods, list(&case["pods"]))?;
    for (at, sync) in list(&case["syncs"]).iter().enumerate() {
        let volume = sync.get("volume").unwrap_or(volume);
        live.cached(Resource::PersistentVolumes, from_ref(volume))?;
        live.begin(kubegc_core::Timestamp::EPOCH, &sync["inject"])?;
        let outcome = live.reconcile(&key(volume));
        let within = |failure: Failure| failure.within(format_args!("sync {at}"));
        live.compare(&sync["actions"], Order::Exact).map_err(within)?;
        equal_error("error", &sync["error"], &outcome).map_err(within)?;
    }
    Ok(())
}

pub(super) fn namespace_deletion(case: &Value) -> Result {
    let controller = super::Absent(&[Resource::Namespaces]);
    let mut live = Live::new(&controller);
    let namespace = &case["namespace"];
    if case["absent_on_server"] != true {
        live.stored(Resource::Namespaces, from_ref(namespace));
    }
    for item in list(&case["items"]) {
        let mut object = item["object"].clone();
        if item["stays_when_deleted"] == true {
            object = super::live::staying(&object);
        }
        live.server.put(text(item, "group"), text(item, "resource"), &object);
    }
    live.cached(Resource::Namespaces, from_ref(namespace))?;
    let pods_first = case["settings"]["ordered"] == true;
    for (at, step) in list(&case["steps"]).iter().enumerate() {
        live.server.objects.retain(|(_, _, name), _| !list(&step["gone_before"]).iter().any(|gone| gone == name));
        live.begin(time(&step["now"])?, &step["inject"])?;
        let _outcome = live.reconcile(&key(namespace));
        let within = |failure: Failure| failure.within(format_args!("step {at}"));
        live.compare(&step["actions"], Order::Namespace { pods_first }).map_err(within)?;
    }
    Ok(())
}
