//! Forecasts the intents of a case.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kubegc_control_plane::finalizers::external_components;
use kubegc_controllers::{Controller, PodGc, TtlAfterFinished, default_controllers};
use kubegc_core::{KubernetesVersion, Timestamp};
use kubegc_predict::{
    Assumptions, Cluster, Fate, Intent, ObjectFate, ObjectName, Question, Step, Target, trace::Why,
};
use kubegc_snapshot::Reader;
use serde_json::{Value, json};

use super::format::{Case, End, RecordedIntent, State};

pub(super) struct Prediction {
    /// The outcomes of the objects of the dump by uid.
    pub(super) ends: BTreeMap<String, End>,
    /// The conditions that terminating objects wait for, by uid.
    pub(super) waits: BTreeMap<String, Vec<kubegc_predict::Wait>>,
    /// The resources of all recorded objects by uid, with their groups, as in `deployments.apps`.
    pub(super) resources: BTreeMap<String, String>,
    /// The HTTP status of each intent; `None` where the forecast has no request of it.
    pub(super) codes: Vec<Option<u16>>,
    /// The writes of the forecast.
    pub(super) timeline: Vec<Step>,
}

/// The resources that the recorded API server serves in addition to its defaults: it ran with
/// `--runtime-config=batch/v2alpha1=true`.
const SERVED: &str = r#"{
  "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "batch/v2alpha1", "resources": [
    {"name": "cronjobs", "singularName": "", "namespaced": true, "kind": "CronJob",
     "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]}
]}"#;

/// The URL of the recorded webhooks.
const UNREACHABLE_URL: &str = "https://127.0.0.1:1/";

/// Intents further apart than this, in seconds, were separated by a wait of the client.
const PAUSE_MIN_S: f64 = 0.5;

/// Forecasts the effects of a case's intents.
pub(super) fn forecast(case: &Case) -> Result<Prediction, String> {
    let version: KubernetesVersion = case.kubernetes.parse().map_err(text)?;
    // As `kubectl get -o json` prints it.
    let list = json!({"apiVersion": "v1", "kind": "List", "items": case.before});
    let mut reader = Reader::new(version)
        .complete("all")
        .api_resources(SERVED)
        .map_err(text)?;
    reader.read(&case.id, list.to_string().as_bytes()).map_err(text)?;
    let snapshot = reader.finish().map_err(text)?;
    let cluster = Cluster::new(version, snapshot, assumptions(case));
    let mut question = Question {
        controllers: controllers(version),
        everything: true,
        ..Question::new(version)
    }
    .at(Timestamp::parse(&case.at).map_err(text)?)
    .up_to(Duration::try_from_secs_f64(case.observed_s).map_err(text)?);
    let mut codes = Vec::new();
    // The numbers of the intents in the question.
    let mut sent = Vec::new();
    let mut at = 0.0;
    for (number, recorded) in case.intent.iter().enumerate() {
        if recorded.at_seconds - at > PAUSE_MIN_S {
            at = recorded.at_seconds;
        }
        match intent(&cluster, recorded)? {
            Ok(mut intent) => {
                intent.after = Duration::try_from_secs_f64(at).map_err(text)?;
                question.intents.push(intent);
                sent.push(number);
                codes.push(None);
            }
            Err(code) => codes.push(Some(code)),
        }
    }
    let forecast = cluster.forecast(&question).map_err(text)?;
    for (at, number) in sent.into_iter().enumerate() {
        let requests = forecast
            .timeline
            .iter()
            .filter(|step| step.why == Why::Intent(at));
        codes[number] = requests.map(|step| step.code).max();
    }
    let ids = case.ids();
    let uid = |object: &Value| Some(object["metadata"]["uid"].as_str()?.to_owned());
    let objects = case
        .before
        .iter()
        .filter_map(|object| Some((uid(object)?, object)));
    let objects: BTreeMap<String, &Value> = objects.collect();
    // Objects that the forecast does not name stay.
    let (mut ends, mut waits) = (case.unchanged(), BTreeMap::new());
    for fate in forecast.fates {
        let uid = fate.object.uid.to_string();
        if let (Some(object), Some(end)) = (objects.get(&uid), ends.get_mut(&uid)) {
            *end = self::end(object, &fate, &ids);
        }
        if let Fate::Terminating { waits_for } = fate.fate {
            waits.insert(uid, waits_for);
        }
    }
    Ok(Prediction {
        ends,
        waits,
        resources: resources(case, &cluster),
        codes,
        timeline: forecast.timeline,
    })
}

/// The controllers of the recorded control plane, with its flags. It had no cloud controller manager.
fn controllers(version: KubernetesVersion) -> Vec<Arc<dyn Controller>> {
    let mut controllers = default_controllers(version);
    controllers.retain(|controller| controller.info().name != "cloud-node-lifecycle-controller");
    let mut pod_gc = PodGc::new(version);
    pod_gc.terminated_pod_threshold = 2_000;
    let mut ttl = TtlAfterFinished::new(version);
    ttl.is_enabled = true;
    for controller in &mut controllers {
        if controller.info().name == "pod-garbage-collector-controller" {
            *controller = Arc::new(pod_gc);
        } else if controller.info().name == "ttl-after-finished-controller" {
            *controller = Arc::new(ttl);
        }
    }
    controllers
}

/// The recorded cluster has no cloud controller manager and no CSI sidecars, and nothing listens at
/// [`UNREACHABLE_URL`]. Four common nodes are ready; a dump has those of them that its pods are bound to.
fn assumptions(case: &Case) -> Assumptions {
    let webhooks = case
        .before
        .iter()
        .filter_map(|object| object["webhooks"].as_array());
    let unreachable = webhooks
        .flatten()
        .filter(|webhook| webhook["clientConfig"]["url"] == UNREACHABLE_URL)
        .filter_map(|webhook| webhook["name"].as_str());
    let absent = external_components().map(|component| (Arc::from(component), false));
    Assumptions {
        acting: absent.collect(),
        other_nodes_are_ready: true,
        unreachable_webhooks: unreachable.map(Arc::from).collect(),
        ..Assumptions::default()
    }
}

fn text(problem: impl ToString) -> String {
    problem.to_string()
}

/// The intent of a request, or the status code of one that is refused before it reaches an object.
fn intent(cluster: &Cluster, recorded: &RecordedIntent) -> Result<Result<Intent, u16>, String> {
    let options = recorded.options.clone().unwrap_or_default();
    let Ok(options) = options.validate() else {
        return Ok(Err(422));
    };
    if cluster
        .snapshot()
        .catalog
        .mapping(&recorded.api_version, &recorded.kind)
        .is_none()
    {
        return Ok(Err(404));
    }
    let kind = format!("{}/{}", recorded.api_version, recorded.kind).into();
    let namespace = recorded.namespace.as_str();
    let target = match recorded.verb.as_str() {
        "delete" => Target::Object(ObjectName {
            namespace: namespace.into(),
            kind,
            name: recorded.name.as_deref().unwrap_or_default().into(),
        }),
        "deletecollection" => Target::Labelled {
            kind,
            namespace: (!namespace.is_empty()).then(|| namespace.into()),
            selector: recorded
                .label_selector
                .as_deref()
                .unwrap_or_default()
                .parse()
                .map_err(text)?,
        },
        verb => return Err(format!("no intent has the verb {verb:?}")),
    };
    Ok(Ok(Intent {
        target,
        options,
        after: Duration::ZERO,
    }))
}

fn end(object: &Value, fate: &ObjectFate, ids: &BTreeMap<&str, &str>) -> End {
    let finalizers = match &fate.fate {
        Fate::Undetermined { .. } => return End::bare(State::Undetermined),
        Fate::Terminating { waits_for } => {
            let names: BTreeSet<&str> = waits_for
                .iter()
                .filter_map(kubegc_predict::Wait::finalizer)
                .collect();
            names.into_iter().map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    let Some(after) = &fate.after else {
        return End::bare(State::Deleted);
    };
    let lost: BTreeSet<String> = object["metadata"]["ownerReferences"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|reference| reference["uid"].as_str())
        .filter(|uid| {
            !after
                .owner_references
                .iter()
                .any(|kept| kept.uid == kubegc_core::Uid::new(uid))
        })
        .map(|uid| (*ids.get(uid).unwrap_or(&uid)).to_owned())
        .collect();
    End::alive(after.is_deleting(), lost, finalizers)
}

fn resources(case: &Case, cluster: &Cluster) -> BTreeMap<String, String> {
    let catalog = &cluster.snapshot().catalog;
    let resource = |object: &Value| {
        let kind = catalog.mapping(object["apiVersion"].as_str()?, object["kind"].as_str()?)?;
        let uid = object["metadata"]["uid"].as_str()?;
        Some((uid.to_owned(), catalog[kind].qualified_resource()))
    };
    case.before
        .iter()
        .chain(&case.after)
        .filter_map(resource)
        .collect()
}
