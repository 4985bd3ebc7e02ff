//! The cases of each controller: what is cached and stored, what is reconciled, and what is compared.

use std::{collections::BTreeMap, slice::from_ref, sync::Arc, time::Duration};

use kubegc_controllers::{
    CloudNodeLifecycle, Context, CronJobHistory, CsrCleaner, Key, LegacyTokenCleaner, Migration,
    NamespaceController, PersistentVolumeBinder, PodCertificateRequestCleaner, PodGc, PvcProtection,
    TokenCleaner, TtlAfterFinished, protection, statefulset,
};
use kubegc_core::{
    ApiResource, Catalog, KubernetesVersion, Scope, StoreError, record::Resource, store::Discovered,
};
use serde_json::{Value, json};

use super::{
    lines::Order,
    live::{Live, Outcome},
    outside::PROVISIONED_BY,
    server::{list, staying, text},
};
use crate::{Failure, failure::equal, recording::release};

type Result<T = (), E = Failure> = std::result::Result<T, E>;

fn version(case: &Value) -> Result<KubernetesVersion> {
    release(text(case, "version"))
}

fn seconds(case: &Value, key: &str) -> Duration {
    Duration::from_secs(case["settings"][key].as_u64().unwrap_or_default())
}

fn key(object: &Value) -> Key {
    let metadata = &object["metadata"];
    Key::new(text(metadata, "namespace"), text(metadata, "name"))
}

/// The objects of the server: those of the case except the absent ones, with the fields that the case sets on
/// all.
fn on_server(case: &Value, objects: &[Value]) -> Vec<Value> {
    let is_absent = |object: &Value| list(&case["absent_on_server"]).contains(&object["metadata"]["name"]);
    let mut objects: Vec<Value> = objects
        .iter()
        .filter(|object| !is_absent(object))
        .cloned()
        .collect();
    for object in &mut objects {
        for (field, key) in [
            ("server_resource_version", "resourceVersion"),
            ("server_uid", "uid"),
        ] {
            if !case[field].is_null() {
                object["metadata"][key] = case[field].clone();
            }
        }
    }
    objects
}

/// A new object that upstream enqueues is reconciled.
fn is_enqueued(live: &Live<'_>, resource: Resource, key: &Key, recorded: &Value) -> Result {
    if recorded != true || live.is_affected_by(resource, key) {
        return Ok(());
    }
    let expected = format!("{key} is reconciled");
    Err(Failure::new("the event of a new object", expected, "it is not"))
}

/// Compares the recorded delays of requeues, whose keys do not matter. Go's longest delay, 292 years, is
/// none.
fn equal_requeues(case: &Value, outcome: &Outcome) -> Result {
    let expected = list(&case["requeued"])
        .iter()
        .filter_map(|requeued| requeued["after_ns"].as_i64());
    let expected = expected.filter(|delay| *delay < i64::MAX);
    let expected: Vec<i128> = expected.map(i128::from).collect();
    let got = outcome.requeues.iter();
    let got: Vec<i128> = got.map(|after| after.as_nanos().cast_signed()).collect();
    equal("requeues, in ns", &expected, &got)
}

/// Compares an error. What upstream puts before the server's words may be missing; an error that does not
/// come from the server may be the reason why the object is kept.
fn equal_error(place: &str, expected: &Value, outcome: &Outcome) -> Result {
    let expected = expected.as_str().unwrap_or_default();
    let got = outcome.error().unwrap_or_default();
    let is_kept = || {
        outcome
            .kept
            .iter()
            .any(|(_, message)| !expected.is_empty() && message.contains(expected))
    };
    let is_its_cause = !got.is_empty() && expected.ends_with(&format!(": {got}"));
    if expected == got || is_its_cause || (got.is_empty() && is_kept()) {
        return Ok(());
    }
    equal(place, expected, got)
}

pub(super) fn ttl_after_finished(case: &Value) -> Result {
    let controller = TtlAfterFinished { is_enabled: true };
    let mut live = Live::new(case, &controller);
    let mut cached = case["cached"].clone();
    let is_cached = case["server"] == "as cached";
    let mut stored = if is_cached { &cached } else { &case["server"] }.clone();
    if stored.is_object() {
        let version = &mut stored["metadata"]["resourceVersion"];
        if version.is_null() {
            *version = "10".into();
        }
        // A state that differs has another version.
        let version = if is_cached { version.clone() } else { "9".into() };
        cached["metadata"]["resourceVersion"] = version;
        live.stored(Resource::Jobs, &[stored]);
    }
    live.cached(Resource::Jobs, from_ref(&cached))?;
    live.begin(case)?;
    let key = key(&cached);
    is_enqueued(&live, Resource::Jobs, &key, &case["enqueued_on_event"])?;
    let outcome = live.reconcile(&key);
    live.compare(&case["actions"], Order::Exact)?;
    equal_requeues(case, &outcome)?;
    equal_error("error", &case["error"], &outcome)?;
    // Without a time nothing but a change helps, so the job is kept instead of retried.
    let is_retried = outcome.errors.iter().any(|(_, is_retried)| *is_retried)
        || outcome.kept.iter().any(|(code, _)| *code == "NoFinishTime");
    equal("retried with backoff", &case["retried_with_backoff"], &is_retried)
}

pub(super) fn pod_gc(case: &Value) -> Result {
    let settings = &case["settings"];
    let mut controller = PodGc::new(version(case)?);
    controller.terminated_pod_threshold = settings["terminated_pod_threshold"]
        .as_i64()
        .and_then(|count| count.try_into().ok())
        .unwrap_or(0);
    controller.quarantine = seconds(case, "quarantine_seconds");
    if let Some(tracks) = settings["pod_observed_generation_tracking"].as_bool() {
        controller.observes_generation = tracks;
    }
    let mut live = Live::new(case, &controller);
    let (mut pods, mut nodes) = (&Value::Null, &Value::Null);
    for (at, tick) in list(&case["ticks"]).iter().enumerate() {
        (pods, nodes) = (
            tick.get("pods").unwrap_or(pods),
            tick.get("nodes").unwrap_or(nodes),
        );
        live.cached(Resource::Pods, list(pods))?;
        live.cached(Resource::Nodes, list(nodes))?;
        live.server.objects.clear();
        let node = |name: &Value| json!({ "metadata": { "name": name } });
        live.stored(
            Resource::Nodes,
            &list(&tick["server_nodes"]).iter().map(node).collect::<Vec<_>>(),
        );
        let stored = tick.get("server_pods").map(|stored| {
            let pods = list(stored).iter().map(|pod| server_pod(pod, list(pods)));
            pods.collect::<Vec<_>>()
        });
        live.stored(Resource::Pods, stored.as_deref().unwrap_or(list(pods)));
        live.begin(tick)?;
        live.reconcile_all();
        live.compare(&tick["actions"], Order::WithinObject)
            .map_err(|failure| failure.within(format_args!("tick {at}")))?;
    }
    Ok(())
}

/// The pod of an identity and its finalizers, with all else as it is cached.
fn server_pod(identity: &Value, cached: &[Value]) -> Value {
    let is_it = |pod: &&Value| {
        ["namespace", "name", "uid"]
            .iter()
            .all(|key| pod["metadata"][key] == identity[key])
    };
    let mut pod = cached
        .iter()
        .find(is_it)
        .cloned()
        .unwrap_or_else(|| json!({ "metadata": identity }));
    pod["metadata"]["finalizers"] = identity["finalizers"].clone();
    pod
}

pub(super) fn cronjob_history(case: &Value) -> Result {
    let mut controller = CronJobHistory::new(version(case)?);
    controller.groups_by_uid &= !text(case, "version").contains("second");
    let mut live = Live::new(case, &controller);
    let cron_job = &case["cronjob"];
    live.cached(Resource::CronJobs, from_ref(cron_job))?;
    live.cached(Resource::Jobs, list(&case["jobs"]))?;
    live.stored(Resource::CronJobs, from_ref(cron_job));
    live.stored(Resource::Jobs, &on_server(case, list(&case["jobs"])));
    live.begin(case)?;
    let mut outcome = live.reconcile(&key(cron_job));
    let mut actions = case["actions"].clone();
    if case["status_update_needed"] == true
        && let Some(actions) = actions.as_array_mut()
    {
        // The recording ends before the caller writes the status.
        let mut body = cron_job.clone();
        if let Some(active) = body["status"]["active"].as_array_mut() {
            active.retain(|job| list(&case["active_after"]).contains(&job["uid"]));
        }
        let mut update =
            json!({ "verb": "update", "group": "batch", "resource": "cronjobs", "subresource": "status" });
        update["namespace"] = cron_job["metadata"]["namespace"].clone();
        update["name"] = cron_job["metadata"]["name"].clone();
        update["body"] = body;
        actions.push(update);
    }
    live.compare(&actions, Order::Exact)?;
    if case.get("error").is_none() {
        return Ok(());
    }
    // Errors of deletions are only logged.
    outcome.errors.retain(|(_, is_retried)| *is_retried);
    equal_error("error", &case["error"], &outcome)
}

pub(super) fn csr_cleaner(case: &Value) -> Result {
    let mut controller = CsrCleaner::new(version(case)?);
    // The rules before kubernetes #133116.
    controller.unissued_age = None;
    let live = Live::new(case, &controller);
    by_name("csrs", live, Resource::CertificateSigningRequests)
}

pub(super) fn pod_certificate_requests(case: &Value) -> Result {
    let mut controller = PodCertificateRequestCleaner::new(version(case)?);
    controller.threshold = seconds(case, "threshold_seconds");
    let live = Live::new(case, &controller);
    by_name("requests", live, Resource::PodCertificateRequests)
}

/// Reconciles each object of a field in order, and compares the errors, which are recorded by name.
fn by_name(field: &str, live: Live<'_>, resource: Resource) -> Result {
    let case = live.case;
    let objects = list(&case[field]);
    for (object, outcome) in objects.iter().zip(each(live, resource, objects)?) {
        let name = text(&object["metadata"], "name");
        equal_error(&format!("error of {name}"), &case["errors"][name], &outcome)?;
    }
    Ok(())
}

/// Fills the cache and the server with objects, reconciles them in order and compares the actions.
fn each(mut live: Live<'_>, resource: Resource, objects: &[Value]) -> Result<Vec<Outcome>> {
    let case = live.case;
    live.cached(resource, objects)?;
    live.stored(resource, &on_server(case, objects));
    live.begin(case)?;
    let enqueued = &case["enqueued_on_event"];
    let mut outcomes = Vec::new();
    for (at, object) in objects.iter().enumerate() {
        // Of several objects a list is recorded.
        let enqueued = enqueued.get(at).unwrap_or(enqueued);
        is_enqueued(&live, resource, &key(object), enqueued)?;
        outcomes.push(live.reconcile(&key(object)));
    }
    live.compare(&case["actions"], Order::Exact)?;
    Ok(outcomes)
}

pub(super) fn pv_protection(case: &Value) -> Result {
    let controller = protection::PERSISTENT_VOLUMES.at(version(case)?);
    let (live, volume) = (Live::new(case, &controller), from_ref(&case["volume"]));
    for outcome in each(live, Resource::PersistentVolumes, volume)? {
        equal_error("error", &case["error"], &outcome)?;
    }
    Ok(())
}

pub(super) fn pvc_protection(case: &Value) -> Result {
    let mut controller = PvcProtection::new(version(case)?);
    controller.ephemeral_volumes = case["settings"]["ephemeral_volumes"] == true;
    let mut live = Live::new(case, &controller);
    live.cached(Resource::Pods, list(&case["cached_pods"]))?;
    live.stored(Resource::Pods, list(&case["live_pods"]));
    let claims = list(&case["claims"]);
    let outcomes = each(live, Resource::PersistentVolumeClaims, claims)?;
    for (result, outcome) in list(&case["results"]).iter().zip(&outcomes) {
        let place = format!("error of {}", result["claim"]);
        equal_error(&place, &result["error"], outcome)?;
    }
    Ok(())
}

pub(super) fn bootstrap_tokens(case: &Value) -> Result {
    let controller = TokenCleaner::new(version(case)?);
    let (live, secret) = (Live::new(case, &controller), from_ref(&case["secret"]));
    for outcome in each(live, Resource::Secrets, secret)? {
        equal_requeues(case, &outcome)?;
        // Upstream logs an error of the delete and returns none.
        let is_retried = outcome.errors.iter().any(|(_, is_retried)| *is_retried);
        equal("retried with backoff", &case["error"].is_string(), &is_retried)?;
    }
    Ok(())
}

pub(super) fn legacy_tokens(case: &Value) -> Result {
    let controller = LegacyTokenCleaner::new(version(case)?)
        .with_clean_up_period(seconds(case, "clean_up_period_seconds"));
    let controller = controller.map_err(Failure::unreadable)?;
    let mut live = Live::new(case, &controller);
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
    live.begin(case)?;
    for (at, pass) in list(&case["passes"]).iter().enumerate() {
        secrets = pass.get("secrets").map_or(secrets, list);
        live.cached(Resource::Secrets, secrets)?;
        live.begin_at(&pass["now"])?;
        let outcome = live.reconcile_all();
        let within = |failure: Failure| failure.within(format_args!("pass {at}"));
        live.compare(&pass["actions"], Order::WithinObject)
            .map_err(within)?;
        equal_logged(list(&pass["logged_errors"]), &outcome).map_err(within)?;
    }
    Ok(())
}

/// Compares logged errors. A date that cannot be parsed is not a request's error, but the reason why nothing
/// is done.
fn equal_logged(expected: &[Value], outcome: &Outcome) -> Result {
    let expected: Vec<&str> = expected.iter().filter_map(Value::as_str).collect();
    let reason = |error: &str| {
        let Some(date) = error.strip_prefix("Getting lastest possible tracked_since time: ") else {
            return error
                .starts_with("Parsing lastUsed time: ")
                .then_some("InvalidLastUse");
        };
        // The ConfigMap does not exist, or has no date.
        let is_untracked = date.starts_with("configmaps") || date.starts_with("configMap");
        let is_invalid = date.starts_with("error parsing").then_some("InvalidTracking");
        is_invalid.or(is_untracked.then_some("NotTracked"))
    };
    let is_kept = |error: &str| {
        reason(error)
            .is_some_and(|reason| outcome.is_dropped || outcome.kept.iter().any(|(code, _)| *code == reason))
    };
    let is_same = |expected: &str, got: &str| expected == got || expected.ends_with(&format!(": {got}"));
    let got: Vec<&str> = outcome.errors.iter().map(|(error, _)| error.as_str()).collect();
    let is_missing = |error: &&&str| !is_kept(error) && !got.iter().any(|got| is_same(error, got));
    let is_new = |error: &&&str| !expected.iter().any(|expected| is_same(expected, error));
    if expected.iter().any(|error| is_missing(&error)) || got.iter().any(|error| is_new(&error)) {
        return equal("logged errors", &expected, &got);
    }
    Ok(())
}

pub(super) fn statefulset_pvc(case: &Value) -> Result {
    let version = version(case)?;
    let controller = statefulset::RULE.at(version);
    let mut live = Live::new(case, &controller);
    let claims = list(&case["claims"]);
    live.cached(Resource::StatefulSets, from_ref(&case["set"]))?;
    live.cached(Resource::Pods, from_ref(&case["pod"]))?;
    live.cached(Resource::PersistentVolumeClaims, claims)?;
    live.stored(Resource::PersistentVolumeClaims, &on_server(case, claims));
    live.begin(case)?;
    let cache = live.cache.clone();
    let [set_key, pod_key] = [key(&case["set"]), key(&case["pod"])];
    let (Some(set), Some(pod)) = (
        cache.get(Resource::StatefulSets, &set_key),
        cache.get(Resource::Pods, &pod_key),
    ) else {
        return Err(Failure::unreadable("there is no StatefulSet, or no pod"));
    };
    let claims: Vec<_> = cache.records(Resource::PersistentVolumeClaims).collect();
    for (field, got) in [
        (
            "claims_match",
            statefulset::claims_match(version, set, &pod.meta, &claims),
        ),
        (
            "pod_claim_is_stale",
            statefulset::pod_claim_is_stale(version, set, &pod.meta, &claims),
        ),
    ] {
        let got = got.map_or_else(|missing| missing.to_string().into(), Value::from);
        equal(field, &case[field], &got)?;
    }
    let mut outcome = Outcome::default();
    let decide = |cx: &Context<'_>| statefulset::update_pod_claims(version, cx, set, &pod.meta, &claims);
    live.run(&set_key, &decide, &mut outcome);
    live.compare(&case["actions"], Order::Exact)?;
    equal_error("error", &case["error"], &outcome)
}

pub(super) fn cloud_nodes(case: &Value) -> Result {
    let controller = CloudNodeLifecycle::new(version(case)?);
    let live = Live::new(case, &controller);
    each(live, Resource::Nodes, list(&case["nodes"])).map(|_| ())
}

pub(super) fn pv_reclaim(case: &Value) -> Result {
    // The texts of "latest" are of 1.31 to 1.33.
    let version = version(case)?.min(KubernetesVersion::new(33, 0).map_err(Failure::unreadable)?);
    let mut controller = PersistentVolumeBinder::new(version);
    let settings = &case["settings"];
    controller.deletion_finalizers = settings["deletion_finalizers"] == true;
    let volume = &case["volume"];
    let provisioner = text(&volume["metadata"]["annotations"], PROVISIONED_BY);
    let migration = match text(&settings["csi_migrated_provisioners"], provisioner) {
        "" => Migration::Off,
        driver => Migration::On {
            driver: driver.into(),
        },
    };
    controller
        .storage
        .migrations
        .insert(provisioner.into(), migration);
    let mut live = Live::new(case, &controller);
    let stored = case.get("volume_on_server").unwrap_or(volume);
    if stored.is_object() {
        live.stored(Resource::PersistentVolumes, from_ref(stored));
    }
    if case["claim"].is_object() {
        live.stored(Resource::PersistentVolumeClaims, from_ref(&case["claim"]));
    }
    if case["claim_found_in"] == "cache" {
        live.cached(Resource::PersistentVolumeClaims, from_ref(&case["claim"]))?;
    }
    live.cached(Resource::Pods, list(&case["pods"]))?;
    for (at, sync) in list(&case["syncs"]).iter().enumerate() {
        let within = |failure: Failure| failure.within(format_args!("sync {at}"));
        let volume = sync.get("volume").unwrap_or(volume);
        live.cached(Resource::PersistentVolumes, from_ref(volume))?;
        live.begin(sync)?;
        let outcome = live.reconcile(&key(volume));
        live.compare(&sync["actions"], Order::Exact).map_err(within)?;
        // The error of a sync is not that of the operations that it starts.
        if sync["error"].is_string() || list(&sync["operations"]).is_empty() {
            equal_error("error", &sync["error"], &outcome).map_err(within)?;
        }
    }
    Ok(())
}

pub(super) fn namespace_deletion(case: &Value) -> Result {
    let mut controller = NamespaceController::new(version(case)?);
    let pods_first = case["settings"]["ordered"] == true;
    controller.deletes_pods_first = pods_first;
    let mut live = Live::new(case, &controller);
    let namespace = &case["namespace"];
    if case["absent_on_server"] != true {
        live.stored(Resource::Namespaces, from_ref(namespace));
    }
    for item in list(&case["items"]) {
        let stays = item["stays_when_deleted"] == true;
        let object = if stays {
            staying(&item["object"])
        } else {
            item["object"].clone()
        };
        live.server
            .put(text(item, "group"), text(item, "resource"), &object);
    }
    live.cached(Resource::Namespaces, from_ref(namespace))?;
    for (at, step) in list(&case["steps"]).iter().enumerate() {
        let within = |failure: Failure| failure.within(format_args!("step {at}"));
        let is_removed = |name: &String| list(&step["gone_before"]).iter().any(|gone| gone == name);
        live.server.objects.retain(|(_, _, name), _| !is_removed(name));
        live.discovered = Some(discovered(case, text(step, "discovery_error"))?);
        live.begin(step)?;
        let outcome = live.reconcile(&key(namespace));
        live.compare(&step["actions"], Order::Namespace { pods_first })
            .map_err(within)?;
        let after = step["remaining_estimate"]
            .as_u64()
            .map(|estimate| Duration::from_secs(estimate / 2 + 1));
        let requeues: Vec<Duration> = after.into_iter().collect();
        equal("requeues", &requeues, &outcome.requeues).map_err(within)?;
        let mut expected: Vec<&str> = list(&step["errors"]).iter().filter_map(Value::as_str).collect();
        let got = outcome.error().unwrap_or_default();
        // The order of several errors is that of the resources, which is random.
        let is_aggregate = |errors: &[&str]| got == format!("[{}]", errors.join(", "));
        let is_same = match expected.as_mut_slice() {
            [] => got.is_empty(),
            [one] => *one == got,
            [one, other] => is_aggregate(&[one, other]) || is_aggregate(&[other, one]),
            more => is_aggregate(more),
        };
        if !is_same {
            equal("errors", expected.join("\n").as_str(), got).map_err(within)?;
        }
    }
    Ok(())
}

/// The discovery response in a step.
fn discovered(case: &Value, error: &str) -> Result<Result<Arc<Discovered>, StoreError>> {
    let mut catalog = Catalog::new();
    for entry in list(&case["discovery"]) {
        let mut resource = ApiResource::new(
            "",
            text(entry, "kind"),
            text(entry, "resource"),
            Scope::Namespaced,
        );
        let (group, version) = text(entry, "group_version")
            .split_once('/')
            .unwrap_or(("", text(entry, "group_version")));
        (resource.group, resource.version) = (group.into(), version.into());
        let has = |verb: &str| list(&entry["verbs"]).iter().any(|known| known == verb);
        resource.verbs.delete = has("delete");
        resource.verbs.delete_collection = has("deletecollection");
        resource.verbs.list = has("list");
        catalog.add(resource).map_err(Failure::unreadable)?;
    }
    let failed: BTreeMap<String, String> = match error {
        "" => BTreeMap::new(),
        "nothing" => {
            return Ok(Err(StoreError::Unknown {
                message: "discovery is down".to_owned(),
            }));
        }
        "groups" => [("broken.io/v1".to_owned(), "unreachable".to_owned())].into(),
        other => [(String::new(), other.to_owned())].into(),
    };
    Ok(Ok(Arc::new(Discovered { catalog, failed })))
}
