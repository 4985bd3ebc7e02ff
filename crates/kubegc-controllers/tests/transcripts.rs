//! Scenes of `transcripts/*.txt`: a controller, a cluster and the transcript of its plan. The laws of all
//! controllers hold in each of them.
//!
//! A scene begins with `== title`. Then come lines until `----`, and after it the expected transcript, which
//! `UPDATE_EXPECT=1` rewrites. The lines are objects (see [`common::object`](crate::common::object)) and
//!
//! | line | meaning |
//! |---|---|
//! | `podgc 1.25 1.26 threshold=1` | a controller, its releases, and settings |
//! | `now 12:00` | the time |
//! | `strict` | requests carry all preconditions |
//! | `unlisted pods` | a list that is not complete |
//! | `deadline shop/p eviction 12:02` | a stored deadline of a key |
//! | `cloud n Yes No` | the provider's response about a node: whether it exists, whether it is shut down |
//! | `faults` | the ends after other responses than those of this state, without retries after errors |
//! | `missing` | the transcript has the effect of each missing fact |
//! | `races` | as upstream, a part of the plan leads to another end than the whole |

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use kubegc_controllers::*;
use kubegc_core::{
    KubernetesVersion, ObjectMeta, StoreError, Timestamp,
    record::{Body, Field, PersistentVolume, Record, Resource},
};
use serde_json::Value;

use crate::common::{
    World, at, cache_of, context, end_line, from_cache, hidden, key, keys, line, object, play, record,
};

/// A scene without its transcript.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    title: String,
    /// Controller, release and settings, as text and built.
    variants: Vec<(String, Arc<dyn Controller>)>,
    pub(crate) now: Timestamp,
    wire: Wire,
    unlisted: Vec<Resource>,
    deadlines: BTreeMap<Key, Deadlines>,
    cloud: BTreeMap<Key, CloudResponse>,
    has_faults: bool,
    has_missing: bool,
    races: bool,
    pub(crate) objects: Vec<Value>,
}

/// The controller of a name, a release and settings.
fn controller(name: &str, release: KubernetesVersion, settings: &[(&str, &str)]) -> Arc<dyn Controller> {
    let setting = |key: &str| {
        settings
            .iter()
            .find(|(known, _)| *known == key)
            .map(|(_, value)| *value)
    };
    let seconds = |key: &str| setting(key).map(|value| Duration::from_secs(value.parse().expect("seconds")));
    macro_rules! built {
        ($type:ident) => {
            Arc::new($type::new(release))
        };
        ($type:ident, $($setting:literal => |$built:ident, $value:ident| $change:expr),+) => {{
            let mut built = $type::new(release);
            $(if let Some($value) = setting($setting) {
                let $built = &mut built;
                $change;
            })+
            Arc::new(built)
        }};
    }
    match name {
        "apiserverleases" => Arc::new(apiserverleases::RULE.at(release)),
        "cloudnodelifecycle" => built!(CloudNodeLifecycle, "grace" => |built, _value| {
            built.uninitialized_grace = seconds("grace").expect("a number");
        }),
        "cronjob" if setting("second").is_some() => {
            let mut cron_jobs = CronJobHistory::new(release);
            cron_jobs.groups_by_uid = false;
            Arc::new(cron_jobs)
        }
        "cronjob" => built!(CronJobHistory),
        "csrcleaner" => built!(CsrCleaner),
        "daemonset" => Arc::new(controllerrevisions::DAEMON_SETS.at(release)),
        "deployment" => Arc::new(deployment::RULE.at(release)),
        "endpoints" => Arc::new(services::ENDPOINTS.at(release)),
        "endpointslice" => Arc::new(services::ENDPOINT_SLICES.at(release)),
        "endpointslicemirroring" => Arc::new(services::MIRRORED_SLICES.at(release)),
        "externalprovisioner" => {
            let mut provisioner = ExternalProvisioner::new("csi.example.com");
            provisioner.has_finalizer = setting("finalizer") != Some("false");
            Arc::new(provisioner)
        }
        "job" => Arc::new(job::RULE.at(release)),
        "legacytokens" => match seconds("period") {
            Some(period) => Arc::new(
                LegacyTokenCleaner::new(release)
                    .with_clean_up_period(period)
                    .expect("a period"),
            ),
            None => built!(LegacyTokenCleaner),
        },
        "nodelifecycle" => built!(NodeLifecycle, "partial" => |built, _value| {
            built.stops_without_ready_nodes = false;
        }),
        "persistentvolume" => built!(PersistentVolumeBinder,
            "of-release" => |built, _value| built.storage = Storage::of_release(release),
            "migration" => |built, value| {
                let migration = match value {
                    "off" => Migration::Off,
                    driver => Migration::On { driver: driver.into() },
                };
                built.storage.migrations.insert("kubernetes.io/aws-ebs".into(), migration);
            },
            "plugin" => |built, value| {
                let plugin = match value {
                    "in-tree" => Plugin::InTree,
                    "external" => Plugin::External,
                    message => Plugin::Missing { message: message.to_owned() },
                };
                built.storage.plugins = [("kubernetes.io/aws-ebs", plugin.clone()), ("", plugin)]
                    .map(|(name, plugin)| (name.into(), plugin))
                    .into();
            }
        ),
        "podcertificaterequests" => built!(PodCertificateRequestCleaner),
        "podgc" => built!(PodGc,
            "threshold" => |built, value| built.terminated_pod_threshold = value.parse().expect("a number"),
            "quarantine" => |built, _value| built.quarantine = seconds("quarantine").expect("a number"),
            "condition" => |built, _value| built.adds_condition = false
        ),
        "podgroup" => Arc::new(protection::POD_GROUPS.at(release)),
        "pvcprotection" => built!(PvcProtection),
        "pvprotection" => Arc::new(protection::PERSISTENT_VOLUMES.at(release)),
        "replicaset" => Arc::new(replicaset::RULE.at(release)),
        "resourceclaim" => Arc::new(resourceclaim::RULE.at(release)),
        "serviceaccounttokens" => Arc::new(tokens::SERVICE_ACCOUNT_TOKENS.at(release)),
        "ipallocator" => Arc::new(services::IP_ADDRESSES.at(release)),
        "servicecidr" => Arc::new(protection::SERVICE_CIDRS.at(release)),
        "statefulset" => Arc::new(statefulset::RULE.at(release)),
        "statefulsethistory" => Arc::new(controllerrevisions::STATEFUL_SETS.at(release)),
        "tainteviction" => Arc::new(nodes::TAINT_EVICTION.at(release)),
        "tokencleaner" => built!(TokenCleaner, "disabled" => |built, _value| built.is_enabled = false),
        "ttlafterfinished" => built!(TtlAfterFinished),
        "volumeattachment" => Arc::new(volumeattachment::RULE.at(release)),
        "volumeattributesclass" => Arc::new(protection::VOLUME_ATTRIBUTES_CLASSES.at(release)),
        other => panic!("there is no controller {other}"),
    }
}

fn cloud(text: &str) -> Cloud {
    match text {
        "Yes" => Cloud::Yes,
        "No" => Cloud::No,
        "NotImplemented" => Cloud::NotImplemented,
        message => Cloud::Failed(message.into()),
    }
}

impl Scene {
    fn read(title: &str, lines: &str) -> Self {
        let mut scene = Self {
            title: title.to_owned(),
            variants: Vec::new(),
            now: at("12:00"),
            wire: Wire::AsUpstream,
            unlisted: Vec::new(),
            deadlines: BTreeMap::new(),
            cloud: BTreeMap::new(),
            has_faults: false,
            has_missing: false,
            races: false,
            objects: Vec::new(),
        };
        for text in lines
            .lines()
            .filter(|text| !text.is_empty() && !text.starts_with('#'))
        {
            let words: Vec<&str> = text.split_whitespace().collect();
            match words[..] {
                ["now", time] => scene.now = at(time),
                ["strict"] => scene.wire = Wire::Strict,
                ["faults"] => scene.has_faults = true,
                ["missing"] => scene.has_missing = true,
                ["races"] => scene.races = true,
                ["unlisted", plural] => {
                    let mut all = Resource::ALL.iter().copied();
                    let resource = all.find(|resource| resource.plural() == plural);
                    scene.unlisted.push(resource.expect("a resource"));
                }
                ["deadline", of, name, time] => {
                    let deadlines = scene.deadlines.entry(key(of)).or_default();
                    deadlines.insert(name.into(), at(time));
                }
                ["cloud", node, exists, is_shut_down] => {
                    let response = CloudResponse {
                        node_uid: kubegc_fixtures::uid("Node", node).as_str().into(),
                        exists: cloud(exists),
                        is_shut_down: cloud(is_shut_down),
                    };
                    scene.cloud.insert(Key::cluster(node), response);
                }
                [version, ..] if version == "v1" || version.contains('/') => scene.objects.push(object(text)),
                [name, ..] => {
                    let settings: Vec<_> = words.iter().filter_map(|word| word.split_once('=')).collect();
                    let suffix: String = settings
                        .iter()
                        .map(|(key, value)| format!(" {key}={value}"))
                        .collect();
                    for release in words[1..].iter().filter(|word| !word.contains('=')) {
                        let version = release.parse().expect("a release in range");
                        let built = controller(name, version, &settings);
                        scene.variants.push((format!("{name} {release}{suffix}"), built));
                    }
                }
                [] => {}
            }
        }
        scene
    }

    pub(crate) fn records(&self) -> Vec<(Resource, Record)> {
        self.objects.iter().cloned().map(record).collect()
    }

    pub(crate) fn controllers(&self) -> impl Iterator<Item = &Arc<dyn Controller>> {
        self.variants.iter().map(|(_, controller)| controller)
    }

    pub(crate) fn cache(&self, controller: &dyn Controller, records: &[(Resource, Record)]) -> Cache {
        let mut cache = cache_of(controller, records);
        for resource in &self.unlisted {
            cache.set_listed(*resource, Err(StoreError::Unlisted));
        }
        cache
    }

    fn plan(&self, controller: &Arc<dyn Controller>, cache: &Cache, now: Timestamp) -> Plan {
        let planner = BatchPlanner::from(Arc::clone(controller)).wire(self.wire);
        planner.plan_with(cache, now, |key| (self.deadlines.get(key), self.cloud.get(key)))
    }

    /// The transcript of a variant.
    fn transcript(&self, controller: &Arc<dyn Controller>) -> String {
        let records = self.records();
        let cache = self.cache(&**controller, &records);
        let plan = self.plan(controller, &cache, self.now);
        let mut text = lines(&plan).join("\n") + "\n";
        if self.has_faults {
            for fault in self.faults(&**controller, &cache) {
                writeln!(text, "{fault}").expect("a string");
            }
        }
        if self.has_missing {
            let unknown = |plan: &Plan| -> BTreeSet<String> {
                let kept = plan.kept.iter();
                let kept = kept.filter(|kept| matches!(kept.reason, Judgement::Unknown(_)));
                kept.map(|kept| kept.object.to_string()).collect()
            };
            let known = unknown(&plan);
            let mut effects: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for (fact, cache) in self.missing(&**controller, &records) {
                for object in unknown(&self.plan(controller, &cache, self.now)).difference(&known) {
                    effects.entry(object.clone()).or_default().push(fact.clone());
                }
            }
            for (object, facts) in effects {
                writeln!(text, "unknown {object} without {}", facts.join(", ")).expect("a string");
            }
        }
        text
    }

    /// The caches of this scene that lack one fact, and the fact.
    fn missing(&self, controller: &dyn Controller, records: &[(Resource, Record)]) -> Vec<(String, Cache)> {
        let mut all = Vec::new();
        for resource in controller.info().resources {
            for keeps_known in [true, false] {
                let mut less = self.cache(controller, records);
                less.set_listed(*resource, Err(StoreError::Unlisted));
                let word = if keeps_known { "other" } else { "all" };
                if !keeps_known {
                    less.replace(*resource, Vec::new());
                    less.set_listed(*resource, Err(StoreError::Unlisted));
                }
                all.push((format!("{word} {}", resource.plural()), less));
            }
        }
        for (position, (_, found)) in records.iter().enumerate() {
            for (fact, changed) in incomplete(&self.objects[position], found) {
                let mut records = records.to_vec();
                records[position].1 = changed;
                let name = &self.objects[position]["kind"]
                    .as_str()
                    .unwrap_or_default()
                    .to_lowercase();
                all.push((
                    format!("{fact} of {name}/{}", found.meta.name),
                    self.cache(controller, &records),
                ));
            }
        }
        all
    }

    /// Reconciles all keys once and carries out the decisions.
    fn run_once(&self, controller: &dyn Controller, world: &mut World) {
        for key in keys(controller, &world.cache) {
            let decision = self.decide(controller, &world.cache, &key);
            let actions = decision.actions.into_iter().map(|action| action.into_steps(true));
            for steps in actions.chain(decision.steps) {
                steps.run(|request, _| match request.is_write() {
                    true => world.write(request, self.now),
                    false => from_cache(&world.cache)(request),
                });
            }
        }
    }

    fn decide(&self, controller: &dyn Controller, cache: &Cache, key: &Key) -> Decision {
        let cx = context(cache, self.now, self.wire);
        let cx = Context {
            deadlines: self.deadlines.get(key).unwrap_or(cx.deadlines),
            cloud: self.cloud.get(key),
            ..cx
        };
        controller.reconcile(&cx, key)
    }

    /// The ends of the decisions if one response is another one. The usual end after an error, a retry, is
    /// left out.
    fn faults(&self, controller: &dyn Controller, cache: &Cache) -> Vec<String> {
        let mut all = Vec::new();
        for key in keys(controller, cache) {
            let decision = self.decide(controller, cache, &key);
            let actions = decision.actions.into_iter().map(|action| action.into_steps(true));
            for steps in actions.chain(decision.steps) {
                let usual = play(&steps, from_cache(cache));
                let mut found = BTreeSet::new();
                for position in 0..usual.len() - 1 {
                    let mut ends: Vec<(String, Vec<&str>)> = Vec::new();
                    let mut request = None;
                    for at in 0..15 {
                        let (mut respond, mut number, mut fits) = (from_cache(cache), 0, true);
                        let (mut usual, mut name) = (None, "");
                        let lines = play(&steps, |sent| {
                            let response = if number == position {
                                request = Some(line(sent));
                                let (other, response) = others(sent, &respond(sent))[at].clone();
                                name = other;
                                if let Some(Response::Failed(error)) = &response {
                                    usual = Some(end_line(End::failed(error.clone())));
                                }
                                response
                            } else {
                                Some(respond(sent))
                            };
                            number += 1;
                            fits &= response.is_some();
                            response.unwrap_or_else(|| from_cache(cache)(sent))
                        });
                        let end = lines[position + 1..].join("; ");
                        match ends.iter_mut().find(|(known, _)| *known == end) {
                            _ if !fits || usual.as_ref() == Some(&end) => {}
                            Some((_, names)) => names.push(name),
                            None => ends.push((end, vec![name])),
                        }
                    }
                    let request = request.unwrap_or_default();
                    for (end, names) in ends {
                        let fault = format!("{} to {request}: {end}", names.join(", "));
                        if found.insert(fault.clone()) {
                            all.push(fault);
                        }
                    }
                }
            }
        }
        all
    }
}

type Plan = kubegc_core::Plan<Action, kubegc_core::record::ObjectId, Judgement, ()>;

fn volume(record: &mut Record) -> Option<&mut PersistentVolume> {
    match record.body_mut() {
        Body::PersistentVolume(volume) => Some(volume),
        _ => None,
    }
}

/// Responses instead of success, each if it fits the request.
fn others(request: &Request, response: &Response) -> [(&'static str, Option<Response>); 15] {
    let is_outside = matches!(
        request,
        Request::Operate { .. } | Request::FindPlugin { .. } | Request::QueryGuard { .. }
    );
    let is_event = matches!(request, Request::Event(_));
    let failed = |error| (!is_outside && !is_event).then_some(Response::Failed(error));
    let text = ToOwned::to_owned;
    let unknown = |message: &str| StoreError::Unknown {
        message: text(message),
    };
    let operated = |operated| {
        let is_operation = matches!(request, Request::Operate { .. });
        is_operation.then_some(Response::Operation(operated))
    };
    let plugin = |plugin| matches!(request, Request::FindPlugin { .. }).then_some(Response::Plugin(plugin));
    let guard = |guard| matches!(request, Request::QueryGuard { .. }).then_some(Response::Guard(guard));
    let changed = |change: fn(&mut Record) -> Option<()>| match response.clone() {
        Response::Object(mut record) => change(&mut record).map(|()| Response::Object(record)),
        _ => None,
    };
    let message = text("changed");
    let newer = |record: &mut Record| {
        record.meta.resource_version = "2".into();
        Some(())
    };
    let another = |record: &mut Record| {
        record.meta.uid = "another".into();
        Some(())
    };
    let unclaimed = |record: &mut Record| {
        volume(record)?.claim_ref = None.into();
        Some(())
    };
    let of_other_policy = |record: &mut Record| {
        volume(record)?.reclaim_policy = Field::Known("Other".into());
        Some(())
    };
    let [attached, used] = ["it is attached", "it is in use"].map(text);
    [
        ("404", failed(StoreError::NotFound)),
        ("409", failed(StoreError::Conflict { message })),
        ("a timeout", failed(unknown("timeout"))),
        ("a newer version", changed(newer)),
        ("another object", changed(another)),
        ("an unclaimed volume", changed(unclaimed)),
        ("another reclaim policy", changed(of_other_policy)),
        ("a loss", is_event.then(|| Response::Failed(unknown("lost")))),
        ("a failure", operated(Operated::Failed { message: attached })),
        ("a use", operated(Operated::InUse { message: used })),
        ("success", operated(Operated::Done)),
        ("an external plugin", plugin(Plugin::External)),
        ("an unknown plugin", plugin(Plugin::Unknown)),
        ("a refusal", guard(Guard::Forbids)),
        ("no answer", guard(Guard::Unknown)),
    ]
}

/// The object without one of its facts, for each fact.
fn incomplete(object: &Value, found: &Record) -> Vec<(String, Record)> {
    let bare = ObjectMeta::new(&found.meta.namespace, &found.meta.name, "");
    let mut unversioned = found.clone();
    unversioned.meta.resource_version = "".into();
    let mut all = vec![
        ("the body".to_owned(), Record::metadata_only(found.meta.clone())),
        ("the metadata".to_owned(), Record::unreadable(bare)),
        ("the version".to_owned(), unversioned),
    ];
    let mut paths = Vec::new();
    for (key, value) in object.as_object().expect("an object") {
        match value {
            Value::Object(fields) if matches!(key.as_str(), "spec" | "status") => {
                paths.extend(fields.keys().map(|field| vec![key.as_str(), field.as_str()]));
            }
            _ if key == "metadata" => paths.push(vec!["metadata", "annotations"]),
            _ if matches!(key.as_str(), "apiVersion" | "kind") => {}
            _ => paths.push(vec![key.as_str()]),
        }
    }
    for path in paths {
        let mut less = object.clone();
        let field = path.iter().fold(&mut less, |field, key| &mut field[*key]);
        if !field.is_null() && field.get("hidden").is_none() {
            *field = hidden(field);
            all.push((path.join("."), record(less).1));
        }
    }
    all
}

/// A plan as text: requests with the reason of their action, then kept and unknown objects.
fn lines(plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for Action { requests, reason, .. } in &plan.actions {
        lines.extend(requests.iter().map(line));
        if let Some(last) = lines.last_mut() {
            write!(last, " | {}: {reason}", reason.code()).expect("a string");
        }
    }
    lines.extend(plan.kept.iter().map(|kept| match &kept.reason {
        Judgement::Kept(reason) => format!("keep {} | {}: {reason}", kept.object, reason.code()),
        Judgement::Unknown(missing) => format!("unknown {} | {missing}", kept.object),
    }));
    lines.extend(plan.next_at.map(|at| format!("next at {at}")));
    lines
}

/// The requests of a plan without their options.
fn requests(plan: &Plan) -> Vec<String> {
    plan.actions
        .iter()
        .flat_map(|action| &action.requests)
        .map(ToString::to_string)
        .collect()
}

/// A file, and its scenes with their text before and after `----`.
type File = (PathBuf, Vec<(Scene, String, String)>);

fn files() -> Vec<File> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut paths: Vec<_> = fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("a file").path())
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("text");
        let scenes = text
            .split("\n== ")
            .map(|scene| scene.trim_start_matches("== "))
            .map(|scene| {
                let (title, rest) = scene.split_once('\n').expect("a title");
                let (setup, expected) = rest.split_once("----\n").unwrap_or((rest, ""));
                let expected = expected.trim_end().to_owned();
                (Scene::read(title, setup), setup.trim_end().to_owned(), expected)
            });
        let scenes = scenes.collect();
        (path, scenes)
    };
    paths.into_iter().map(read).collect()
}

/// All scenes.
pub(crate) fn scenes() -> Vec<Scene> {
    files()
        .into_iter()
        .flat_map(|(_, scenes)| scenes)
        .map(|(scene, ..)| scene)
        .collect()
}

#[test]
fn transcripts() {
    let updates = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut problems = Vec::new();
    for (path, scenes) in files() {
        let mut text = Vec::new();
        for (scene, setup, expected) in &scenes {
            let mut groups: Vec<(Vec<&str>, String)> = Vec::new();
            for (name, controller) in &scene.variants {
                let transcript = scene.transcript(controller);
                match groups.iter_mut().find(|(_, known)| *known == transcript) {
                    Some((names, _)) => names.push(name.as_str()),
                    None => groups.push((vec![name.as_str()], transcript)),
                }
            }
            let is_one = groups.len() == 1;
            let groups = groups.into_iter().map(|(names, transcript)| match is_one {
                true => transcript,
                false => format!("[{}]\n{transcript}", names.join(", ")),
            });
            let found = groups.collect::<String>().trim_end().to_owned();
            if found != *expected {
                problems.push(format!("{}: {}\n{found}\n", path.display(), scene.title));
            }
            text.push(format!("== {}\n{setup}\n----\n{found}\n", scene.title));
        }
        if updates {
            fs::write(path, text.join("\n")).expect("a file that can be written");
        }
    }
    assert!(updates || problems.is_empty(), "{}", problems.join("\n"));
}

/// Calls a check with every variant of every scene, and panics with all problems.
fn for_each(check: impl Fn(&Scene, &Arc<dyn Controller>, &[(Resource, Record)]) -> Option<String>) {
    let mut problems = Vec::new();
    for scene in scenes() {
        let records = scene.records();
        for (name, controller) in &scene.variants {
            if let Some(problem) = check(&scene, controller, &records) {
                problems.push(format!("{}, {name}: {problem}", scene.title));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn the_order_of_objects_has_no_effect() {
    for_each(|scene, controller, records| {
        let plan =
            |records: &[_]| lines(&scene.plan(controller, &scene.cache(&**controller, records), scene.now));
        let reversed: Vec<_> = records.iter().rev().cloned().collect();
        (plan(records) != plan(&reversed)).then(|| plan(&reversed).join("\n"))
    });
}

/// Whatever facts are missing, no object is deleted or written that would not be with all facts.
#[test]
fn a_missing_fact_causes_no_request() {
    for_each(|scene, controller, records| {
        let all = requests(&scene.plan(controller, &scene.cache(&**controller, records), scene.now));
        let missing = scene.missing(&**controller, records);
        missing.iter().find_map(|(fact, cache)| {
            let mut less = requests(&scene.plan(controller, cache, scene.now));
            less.retain(|request| !all.contains(request) && !request.starts_with("record event"));
            (!less.is_empty()).then(|| format!("without {fact}: {less:?}"))
        })
    });
}

/// All objects of a cache.
fn state(cache: &Cache) -> Vec<Record> {
    let resources: Vec<Resource> = cache.resources().collect();
    resources
        .iter()
        .flat_map(|resource| cache.records(*resource).cloned())
        .collect()
}

/// Executing any part of a plan and planning again leads to the same end as executing all of it, and the
/// controller then changes nothing.
#[test]
fn every_prefix_of_a_plan_leads_to_its_end() {
    for_each(|scene, controller, records| {
        if scene.races {
            return None;
        }
        let start = scene.cache(&**controller, records);
        let plan = scene.plan(controller, &start, scene.now);
        let planned: Vec<&Request> = plan.actions.iter().flat_map(|action| &action.requests).collect();
        let end = |executed: &[&Request]| {
            let mut world = World::new(start.clone(), &scene.objects);
            for request in executed {
                world.write(request, scene.now);
            }
            for _ in 0..20 {
                let before = state(&world.cache);
                scene.run_once(&**controller, &mut world);
                let records = state(&world.cache);
                if records == before {
                    let left = records.iter().map(|record| {
                        let meta = &record.meta;
                        format!("{}/{} {:?}", meta.namespace, meta.name, meta.finalizers)
                    });
                    return left.collect();
                }
            }
            vec!["it never ends".to_owned()]
        };
        let whole = end(&[]);
        if whole == ["it never ends"] {
            return Some(whole.concat());
        }
        (1..=planned.len()).find_map(|count| {
            let (part, left) = (&planned[..count], end(&planned[..count]));
            (left != whole).then(|| format!("after {:?}: {left:?} instead of {whole:?}", part.last()))
        })
    });
}

/// Until the next time of a plan its requests are the same, and then another decision is made.
#[test]
fn a_plan_holds_until_its_next_time() {
    for_each(|scene, controller, records| {
        let cache = scene.cache(&**controller, records);
        let plan = |now| scene.plan(controller, &cache, now);
        let first = plan(scene.now);
        let next_at = first.next_at?;
        let before = plan(Timestamp::from_nanos(next_at.as_nanos() - 1));
        if requests(&before) != requests(&first) {
            return Some(format!("{:?} before {next_at}", requests(&before)));
        }
        let then = plan(next_at);
        (lines(&then) == lines(&first)).then(|| format!("nothing happens at {next_at}"))
    });
}

#[test]
fn the_ends_of_time_cause_no_panic() {
    for_each(|scene, controller, records| {
        let cache = scene.cache(&**controller, records);
        for nanos in [i64::MIN, -1, 0, i64::MAX - 1, i64::MAX] {
            let _plan = scene.plan(controller, &cache, Timestamp::from_nanos(nanos));
        }
        None
    });
}
