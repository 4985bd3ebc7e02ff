//! Forecasts of a node: missing data, unknown use of images, times until a disk is full, comparisons of
//! policies.

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

use kubegc_core::{
    KubernetesVersion, Planner, RuntimeError, Timestamp, Uid,
    node_facts::{
        Container, ContainerImage, ContainerState, FileSystem, Image, PodIdentity, PodState, Pods, Sandbox,
        SandboxState,
    },
};
use kubegc_node::{
    Inventory, Policy, PolicySpec, Unlisted,
    image::{Action, Record, Records},
};
use kubegc_predict::node::{
    Assumption, Change, Due, Growth, NodeForecast, NodeFrame, RecordsKnown, WhatIf, node_forecast, what_if,
};
use kubegc_snapshot::NodeReader;

const NOW: Timestamp = Timestamp::from_secs(1_000_000);
const CAPACITY: u64 = 1_000_000;

fn ago(seconds: u64) -> Timestamp {
    NOW.saturating_sub(Duration::from_secs(seconds))
}

fn policy(version: &str, changes: &[&str]) -> Policy {
    let spec = changes.iter().fold(PolicySpec::default(), |spec, change| {
        change
            .parse::<Change>()
            .map(|change| change.apply(&spec))
            .unwrap_or_else(|error| panic!("{error}"))
    });
    let version: KubernetesVersion = version.parse().unwrap_or_else(|error| panic!("{error}"));
    Policy::new(&spec, version).unwrap_or_else(|error| panic!("{error}"))
}

fn pod(uid: &str) -> PodIdentity {
    PodIdentity {
        uid: Uid::new(uid),
        namespace: "shop".into(),
        name: uid.into(),
    }
}

fn container(id: &str, uid: &str, state: ContainerState, age_seconds: u64) -> Arc<Container> {
    let mut container = Container::new(id, pod(uid), "app", state, ago(age_seconds));
    container.sandbox_id = format!("sandbox of {uid}").into();
    container.image = ContainerImage {
        reference: "used".into(),
        id: "used".into(),
        runtime_handler: Arc::default(),
    };
    Arc::new(container)
}

fn sandbox(uid: &str, state: SandboxState) -> Arc<Sandbox> {
    Arc::new(Sandbox {
        id: format!("sandbox of {uid}").into(),
        pod: pod(uid),
        attempt: 0,
        state,
        created_at: ago(9_000),
        labels: Default::default(),
    })
}

fn image(id: &str, size_bytes: u64) -> Arc<Image> {
    Arc::new(Image {
        id: id.into(),
        size_bytes,
        tags: vec![format!("registry.example/shop/{id}:1").into()],
        ..Image::default()
    })
}

fn record(id: &str, used_seconds_ago: Option<u64>) -> Record {
    Record {
        key: id.into(),
        first_detected: Some(ago(90_000)),
        last_used: used_seconds_ago.map(ago),
        size_bytes: 0,
        pinned: false,
        runtime_handler: Arc::default(),
    }
}

fn disk(available: u64) -> FileSystem {
    FileSystem {
        capacity_bytes: Some(CAPACITY),
        available_bytes: Some(available),
        ..FileSystem::default()
    }
}

/// The forecast with the default policy of 1.36, if the disk does not grow.
fn forecast(node: &Inventory) -> NodeForecast {
    node_forecast(node, &policy("1.36", &[]), NodeFrame::at(NOW))
}

/// The node with this much space left.
fn with_available(available: u64) -> Inventory {
    Inventory {
        image_file_system: Ok(disk(available)),
        ..node()
    }
}

/// One running pod with two dead containers, one deleted pod, one image in use and three unused ones, on
/// a disk that is 90 percent full.
fn node() -> Inventory {
    Inventory {
        containers: Ok(vec![
            container("runs", "lives", ContainerState::Running, 100),
            container("dead-new", "lives", ContainerState::Exited, 200),
            container("dead-old", "lives", ContainerState::Exited, 300),
            container("left", "gone", ContainerState::Exited, 400),
        ]),
        sandboxes: Ok(vec![
            sandbox("lives", SandboxState::Ready),
            sandbox("gone", SandboxState::NotReady),
        ]),
        images: Ok(vec![
            image("used", 1),
            image("a", 60_000),
            image("b", 60_000),
            image("c", 60_000),
        ]),
        image_volumes: Ok(Vec::new()),
        image_file_system: Ok(disk(100_000)),
        log_entries: Ok(vec!["shop_gone_gone".into(), "shop_lives_lives".into()]),
        log_links: Ok(Vec::new()),
        pods: Pods {
            known: [(Uid::new("lives"), PodState::ACTIVE)].into(),
            sources_ready: true,
            synced: true,
        },
        image_records: Records::new(vec![
            record("used", Some(60)),
            record("a", Some(5_000)),
            record("b", Some(50_000)),
            record("c", None),
        ]),
        image_gc_began_at: ago(90_000),
        ..Inventory::default()
    }
}

fn containers(forecast: &NodeForecast) -> Vec<&str> {
    forecast
        .containers
        .actions
        .iter()
        .map(|action| &*action.container.id)
        .collect()
}

fn images(forecast: &NodeForecast) -> Vec<&str> {
    let actions = forecast.images.iter().flat_map(|plan| &plan.actions);
    actions.map(|Action { image, .. }| &*image.id).collect()
}

#[test]
fn each_stage_starts_from_the_remains_of_the_one_before() {
    let forecast = forecast(&node());
    assert_eq!(containers(&forecast), ["left", "dead-old"]);
    // Its sandbox is removed in the same pass, since it has no containers by then.
    assert_eq!(forecast.sandboxes.actions.len(), 1);
    assert_eq!(forecast.logs.as_ref().map(|plan| plan.actions.len()), Some(1));
    // Never used before used long ago; 100 000 are wanted.
    assert_eq!(images(&forecast), ["c", "b"]);
    assert_eq!(forecast.image_bytes(), 120_000);
    assert_eq!(forecast.records, RecordsKnown::Given);
    assert_eq!(forecast.images_after_restart, None);
    assert_eq!(forecast.pressure.images.actions.len(), 3);
}

/// The node without these facts.
fn without(what: &str) -> Inventory {
    let mut node = node();
    match what {
        "nothing" => {}
        "everything" => node = Inventory::default(),
        "containers" => node.containers = Err(Unlisted::NotRequested),
        "sandboxes" => node.sandboxes = Err(Unlisted::NotRequested),
        "images" => node.images = Err(Unlisted::NotRequested),
        "disk" => node.image_file_system = Err(Unlisted::NotRequested),
        "logs" => node.log_entries = Err(Unlisted::NotRequested),
        "pods" => node.pods = Pods::default(),
        "sources" => node.pods.sources_ready = false,
        other => panic!("there is no fact {other}"),
    }
    node
}

#[test]
fn missing_listings_cause_no_removal() {
    // The hidden facts, and the numbers of removed containers, sandboxes, images and logs.
    for (what, expected) in [
        ("nothing", [2, 1, 2, 1]),
        ("everything", [0, 0, 0, 0]),
        ("containers", [0, 0, 0, 1]),
        ("sandboxes", [2, 0, 2, 1]),
        ("images", [2, 1, 0, 1]),
        ("disk", [2, 1, 0, 1]),
        ("logs", [2, 1, 2, 0]),
        // Without pods only limits count: the one beyond them, and no sandbox.
        ("pods", [1, 0, 2, 0]),
        ("sources", [1, 0, 2, 0]),
    ] {
        let forecast = forecast(&without(what));
        let logs = forecast.logs.as_ref().map_or(0, |plan| plan.actions.len());
        let found = [
            containers(&forecast).len(),
            forecast.sandboxes.actions.len(),
            images(&forecast).len(),
            logs,
        ];
        assert_eq!(found, expected, "without {what}");
    }
    let mut mounted = node();
    mounted.image_volumes = Err(Unlisted::Failed(RuntimeError::refused("no")));
    let failed = forecast(&mounted);
    assert!(
        images(&failed).is_empty(),
        "the request for mounted images failed, so any image may be mounted"
    );
    assert!(!failed.assumptions.contains(&Assumption::NoImageVolumes));
    mounted.image_volumes = Err(Unlisted::NotRequested);
    let forecast = forecast(&mounted);
    assert_eq!(
        images(&forecast).len(),
        2,
        "mounted images were not requested, and the forecast assumes that there are none"
    );
    assert!(forecast.assumptions.contains(&Assumption::NoImageVolumes));
}

/// The text of a forecast in one line.
fn words(forecast: &NodeForecast) -> String {
    let text = forecast.to_string();
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

#[test]
fn a_missing_listing_is_unknown_and_neither_zero_nor_a_failure() {
    let cut_off = Inventory {
        containers: Err(Unlisted::Failed(RuntimeError::refused("cut off"))),
        ..node()
    };
    let in_use = Inventory {
        images: Ok(vec![image("used", 1)]),
        ..node()
    };
    let cases: [(Inventory, &[&str]); 5] = [
        (
            without("everything"),
            &[
                "Containers: unknown: not listed; give the output of `crictl ps -a -o json`",
                "Sandboxes: unknown: not listed; give the output of",
                "Images: unknown: no images given; give the output of `crictl images -o json`",
                "Under disk pressure: which containers and images are removed before any pod is evicted is unknown:",
            ],
        ),
        (
            without("images"),
            &["Images: unknown: no images given; give the output of `crictl images -o json`"],
        ),
        (
            cut_off,
            &[
                "Containers: unknown: cut off; give the output of",
                "Images: unknown: cut off; give the output of `crictl ps -a -o json`",
            ],
        ),
        (
            without("disk"),
            &["Images: unknown: no usage of the image file system given; give the output of"],
        ),
        (
            in_use,
            &["images are to be removed now, and none can be: 1 in use"],
        ),
    ];
    for (node, parts) in cases {
        let text = words(&forecast(&node));
        for part in parts {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(!text.contains("0 of 0"), "{text}");
    }
    let spec = PolicySpec {
        eviction_hard: [("memory.available".to_owned(), "100Mi".to_owned())].into(),
        ..PolicySpec::default()
    };
    let policy = Policy::new(&spec, KubernetesVersion::LATEST).unwrap_or_else(|error| panic!("{error}"));
    let text = words(&node_forecast(&node(), &policy, NodeFrame::at(NOW)));
    for part in [
        "pods are evicted never: no hard threshold of imagefs.available is configured",
        "No pod is evicted for disk pressure: no eviction threshold of a disk is configured.",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

/// The kubelet compares image ids, and CRI-O reports the image of this container by a digest.
#[test]
fn an_image_that_a_container_has_by_a_digest_is_named() {
    let forecast = |are_whole: bool| {
        let mut reader = NodeReader::new();
        if are_whole {
            reader = reader.containers_are_whole();
        }
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/broken/crio-imageref");
        reader.read_path(&data).unwrap_or_else(|error| panic!("{error}"));
        let node = reader.finish().unwrap_or_else(|error| panic!("{error}"));
        let now = Timestamp::parse("2026-03-01T12:00:00Z").expect("a time");
        node_forecast(&node.inventory, &policy("1.34", &[]), NodeFrame::at(now))
    };
    let whole = forecast(true);
    let in_use_by_digest = whole.in_use_by_digest.iter();
    let used: Vec<&str> = in_use_by_digest.map(|one| one.image.name()).collect();
    assert_eq!(used, ["r.example/hook:1"]);
    let text = words(&whole);
    assert!(
        text.contains(
            "image r.example/hook:1 is in use by container d/hook-1/hook as r.example/hook@sha256:"
        ),
        "{text}"
    );
    let partial = words(&forecast(false));
    assert!(
        partial.contains("Images: unknown: ") && !partial.contains("fails"),
        "{partial}"
    );
}

#[test]
fn a_release_that_is_newer_than_the_known_ones_is_an_assumption() {
    let newer = |version: &str| {
        let forecast = node_forecast(&node(), &policy(version, &[]), NodeFrame::at(NOW));
        let mut assumptions = forecast.assumptions.iter();
        let newer = assumptions.find(|one| matches!(one, Assumption::NewerVersion { .. }));
        newer.map(ToString::to_string)
    };
    assert_eq!(newer("1.37"), None);
    let text = newer("1.38").expect("1.38 is not known");
    assert_eq!(
        text,
        "kubegc knows Kubernetes up to 1.37: for 1.38.0, behaviour of the newest known release is used"
    );
}

#[test]
fn unknown_records_give_two_outcomes() {
    // Version, changes; the removals of a kubelet that has run for long, and of one that has just started.
    let cases: [(&str, &[&str], usize, usize); 6] = [
        ("1.36", &[], 2, 0),
        ("1.29", &[], 2, 0),
        // Up to 1.28 the first detection takes images for infinitely old.
        ("1.28", &[], 2, 2),
        ("1.20", &[], 2, 2),
        ("1.36", &["imageMaximumGCAge=1h"], 3, 0),
        ("1.36", &["imageGCHighThresholdPercent=95"], 0, 0),
    ];
    for (version, changes, old, restarted) in cases {
        let node = Inventory {
            image_records: Records::default(),
            // The state of a reader without other facts.
            image_gc_began_at: NOW,
            ..node()
        };
        let forecast = node_forecast(&node, &policy(version, changes), NodeFrame::at(NOW));
        let images_after_restart = forecast.images_after_restart.as_ref();
        let after = images_after_restart.map(|plan| plan.actions.len());
        let found = (forecast.records, images(&forecast).len(), after);
        assert_eq!(
            found,
            (RecordsKnown::AssumedOld, old, Some(restarted)),
            "{version} {changes:?}"
        );
        assert!(
            forecast
                .assumptions
                .contains(&Assumption::RecordsUnknown { images: 3 })
        );
    }
}

#[test]
fn records_that_were_given_and_are_empty_are_those_of_a_kubelet_that_just_started() {
    let node = Inventory {
        image_records: Records::new(Vec::new()),
        ..node()
    };
    let forecast = forecast(&node);
    assert_eq!(
        (forecast.records, images(&forecast).len()),
        (RecordsKnown::Given, 0)
    );
}

/// Whether images are removed, and whether pods are evicted, with this much available: by the planner, and by
/// the definition.
fn is_due(policy: &Policy, available: u64, evicted_below: u64) -> (bool, bool) {
    let plan = policy.image.plan(&with_available(available), NOW);
    (plan.summary.to_free_bytes.is_some(), available < evicted_below)
}

#[test]
fn times_are_those_of_a_disk_filled_step_by_step() {
    // High threshold, eviction in percent, available at first, bytes an hour.
    let cases = [
        (85, 10, 300_000, 1_000),
        (85, 15, 300_000, 7),
        (85, 10, 159_999, 1_000_000),
        (85, 10, 160_000, 1),
        (85, 10, 100_000, 500),
        (60, 5, 999_999, 123_456),
        (99, 20, 250_000, 3_600),
    ];
    for (high, eviction, available, growth) in cases {
        let changes = [
            format!("imageGCHighThresholdPercent={high}"),
            "imageGCLowThresholdPercent=50".to_owned(),
            format!("evictionHard.imagefs.available={eviction}%"),
        ];
        let policy = policy("1.36", &changes.each_ref().map(String::as_str));
        let frame = NodeFrame {
            now: NOW,
            growth_bytes_per_hour: growth,
        };
        let forecast = node_forecast(&with_available(available), &policy, frame);
        let Some(disk) = forecast.disk else {
            panic!("the disk is known");
        };
        let evicted_below = CAPACITY * eviction / 100;
        let at = |second: u64| available.saturating_sub(growth * second / 3_600);
        let (collection, pods) = (disk.collection, disk.eviction.unwrap_or(Due::Never));
        for (due, of) in [(collection, 0), (pods, 1)] {
            let is_due = |second: u64| <[bool; 2]>::from(is_due(&policy, at(second), evicted_below))[of];
            let what = format!("{of} of {high}%, {eviction}%, {available} available, {growth} an hour");
            match due {
                Due::Now => assert!(is_due(0), "{what}"),
                Due::At(time) => {
                    let seconds = time.since(NOW).as_secs();
                    assert!(is_due(seconds), "{what}: not yet at {seconds} s");
                    for step in 0..100 {
                        let earlier = (seconds - 1) * step / 99;
                        assert!(!is_due(earlier), "{what}: already at {earlier} s");
                    }
                }
                Due::Never | Due::NoGrowth => panic!("{what}: {due}"),
            }
        }
    }
}

#[test]
fn the_time_until_the_disk_is_full_counts_the_removed_bytes() {
    let after = |bytes: u64, bytes_per_hour: u64| {
        Due::At(NOW.saturating_add(Duration::from_secs((bytes * 3_600).div_ceil(bytes_per_hour))))
    };
    // Available, bytes an hour; the time of the first image collection, and of the next one after 120 000
    // became free. Images are removed with 159 999 available or less.
    let cases = [
        (100_000, 0, Due::Now, Some(Due::NoGrowth)),
        (100_000, 10_000, Due::Now, Some(after(60_001, 10_000))),
        (300_000, 0, Due::NoGrowth, None),
        // Below the threshold nothing is removed, so there is no second time.
        (209_999, 10_000, after(50_000, 10_000), None),
    ];
    for (available, growth_bytes_per_hour, collection, again) in cases {
        let frame = NodeFrame {
            now: NOW,
            growth_bytes_per_hour,
        };
        let disk = node_forecast(&with_available(available), &policy("1.36", &[]), frame).disk;
        let found = disk.map(|disk| (disk.collection, disk.again));
        assert_eq!(found, Some((collection, again)), "{available}");
    }
}

#[test]
fn a_disabled_loop_collects_nothing_and_is_reported() {
    let policy = policy("1.36", &["imageGCHighThresholdPercent=100"]);
    let forecast = node_forecast(&node(), &policy, NodeFrame::at(NOW));
    assert_eq!(
        (
            forecast.images.is_none(),
            forecast.disk.map(|disk| disk.collection)
        ),
        (true, Some(Due::Never))
    );
    assert!(forecast.to_string().contains("image garbage collection is off"));
    assert_eq!(
        forecast.pressure.images.actions.len(),
        3,
        "disk pressure removes images all the same"
    );
}

fn names(containers: &[Arc<Container>]) -> Vec<&str> {
    containers.iter().map(|container| &*container.id).collect()
}

fn ids(images: &[Arc<Image>]) -> Vec<&str> {
    images.iter().map(|image| &*image.id).collect()
}

#[test]
fn what_if_reports_the_differences_and_nothing_else() {
    // Changes; containers and images that only the change removes, and that only the present removes.
    type Ids = &'static [&'static str];
    let cases: [(&[&str], Ids, Ids, Ids, Ids); 6] = [
        (&[], &[], &[], &[], &[]),
        (&["imageGCLowThresholdPercent=70"], &[], &["a"], &[], &[]),
        (&["imageGCHighThresholdPercent=95"], &[], &[], &[], &["b", "c"]),
        (
            &["maximum-dead-containers-per-container=0"],
            &["dead-new"],
            &[],
            &[],
            &[],
        ),
        (
            &["maximum-dead-containers-per-container=-1"],
            &[],
            &[],
            &["dead-old"],
            &[],
        ),
        (
            &["imageMaximumGCAge=1h", "minimum-container-ttl-duration=1h"],
            &[],
            &["a"],
            &["dead-old", "left"],
            &[],
        ),
    ];
    for (changes, containers_lost, images_lost, containers_spared, images_spared) in cases {
        let (present, changed) = (policy("1.36", &[]), policy("1.36", changes));
        let compared = what_if(&node(), &present, &changed, NodeFrame::at(NOW));
        assert_eq!(names(&compared.containers_lost), containers_lost, "{changes:?}");
        assert_eq!(
            names(&compared.containers_spared),
            containers_spared,
            "{changes:?}"
        );
        assert_eq!(ids(&compared.images_lost), images_lost, "{changes:?}");
        assert_eq!(ids(&compared.images_spared), images_spared, "{changes:?}");
        // In the opposite direction, the removed objects are kept.
        let back: WhatIf = what_if(&node(), &changed, &present, NodeFrame::at(NOW));
        assert_eq!(
            (
                &back.containers_lost,
                &back.images_lost,
                &back.containers_spared,
                &back.images_spared
            ),
            (
                &compared.containers_spared,
                &compared.images_spared,
                &compared.containers_lost,
                &compared.images_lost
            )
        );
    }
}

#[test]
fn texts_fit_120_columns_and_do_not_depend_on_the_order_of_listings() {
    let long = "x".repeat(300);
    let mut node = node();
    let Ok(images) = &mut node.images else {
        panic!("listed");
    };
    images.push(image(&long, 40_000));
    images.push(Arc::new(Image {
        id: "sha256:0123456789abcdef0123456789abcdef".into(),
        size_bytes: 10,
        ..Image::default()
    }));
    let Ok(containers) = &mut node.containers else {
        panic!("listed");
    };
    containers.push(container(&long, &long, ContainerState::Unknown, 500));
    let frame = NodeFrame {
        now: NOW,
        growth_bytes_per_hour: 10_000,
    };
    let compare = |node: &Inventory| {
        what_if(
            node,
            &policy("1.36", &[]),
            &policy("1.36", &["imageMaximumGCAge=1h"]),
            frame,
        )
    };
    let compared = compare(&node);
    let text = format!("{}\n{compared}", compared.present);
    for line in text.lines() {
        assert!(line.chars().count() <= 120, "{line}");
        assert_eq!(line.trim_end(), line);
    }
    let stopped = "is stopped first, within 2 s";
    // Long messages are wrapped: missing facts, and upstream's message for too little space.
    let unknown = Inventory {
        image_records: Records::default(),
        image_file_system: Ok(disk(10)),
        ..node.clone()
    };
    let policy_wants_more = policy("1.36", &["imageGCLowThresholdPercent=50"]);
    let forecast = node_forecast(&unknown, &policy_wants_more, frame).to_string();
    assert!(
        forecast.contains("image garbage collection fails: ") && forecast.contains("just started"),
        "{forecast}"
    );
    assert!(
        forecast.lines().all(|line| line.chars().count() <= 120),
        "{forecast}"
    );
    assert!(
        text.contains("shop/xxx") && text.contains("…") && text.contains(stopped),
        "{text}"
    );
    let mut turned = node.clone();
    turned.images = turned.images.map(|list| list.into_iter().rev().collect());
    turned.containers = turned.containers.map(|list| list.into_iter().rev().collect());
    turned.sandboxes = turned.sandboxes.map(|list| list.into_iter().rev().collect());
    assert_eq!(compare(&turned), compared);
    assert_eq!(compare(&turned).to_json(), compared.to_json());
}

#[test]
fn json_contains_the_whole_forecast() {
    let json = forecast(&node()).to_json();
    let texts = |path: &str| -> BTreeSet<String> {
        let list = json
            .pointer(path)
            .and_then(|list| list.as_array())
            .cloned()
            .unwrap_or_default();
        list.iter()
            .map(|entry| entry["id"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert_eq!(
        texts("/containers/removed"),
        ["left", "dead-old"].map(str::to_owned).into()
    );
    assert_eq!(texts("/images/removed"), ["b", "c"].map(str::to_owned).into());
    assert_eq!(json["disk"]["collection"], "now");
    assert_eq!(
        json["settings"].as_array().map(Vec::len),
        Some(1),
        "eviction begins where collection does"
    );
}

#[test]
fn changes_and_growths_are_read_or_refused() {
    for (text, good) in [
        ("imageGCHighThresholdPercent=70", true),
        ("image-gc-high-threshold=70", true),
        ("imageGCHighThresholdPercent=70%", false),
        ("imageGCHighThresholdPercent", false),
        ("imageMinimumGCAge=2m", true),
        ("imageMinimumGCAge=2", false),
        ("featureGates.ImageMaximumGCAge=false", true),
        ("featureGates.ImageMaximumGCAge=off", false),
        ("evictionHard.imagefs.available=5%", true),
        ("evictionSoftGracePeriod.imagefs.available=2m", true),
        ("evictionSoftGracePeriod.imagefs.available=soon", false),
        ("evictionHardly.imagefs.available=5%", false),
        ("eviction-hard.imagefs.available=5%", false),
        ("evictionHard=5%", false),
        ("podLogsDir=/logs", false),
        ("", false),
        ("=", false),
        (".=", false),
    ] {
        let change = text.parse::<Change>();
        assert_eq!(change.is_ok(), good, "{text}");
        assert!(change.is_err() || change.is_ok_and(|change| change.to_string() == text));
    }
    let unknown = "imageMaximumAge=168h".parse::<Change>().expect_err("no setting");
    assert_eq!(
        unknown.to_string(),
        concat!(
            r#"change: Unsupported value: "imageMaximumAge": supported values: "#,
            r#""imageGCHighThresholdPercent", "imageGCLowThresholdPercent", "imageMinimumGCAge", "#,
            r#""imageMaximumGCAge", "minimum-container-ttl-duration", "#,
            r#""maximum-dead-containers-per-container", "maximum-dead-containers", "#,
            r#""featureGates.<gate>", "evictionHard.<signal>", "#,
            r#""evictionSoft.<signal>", "evictionSoftGracePeriod.<signal>", "#,
            r#""evictionMinimumReclaim.<signal>""#,
        )
    );
    for (text, bytes_per_hour) in [
        ("2GB/h", Some(2_000_000_000)),
        ("2G/h", Some(2_000_000_000)),
        ("1.5 GiB/h", Some(3 << 29)),
        ("48MB/d", Some(2_000_000)),
        ("1kB/min", Some(60_000)),
        ("0/h", Some(0)),
        ("18446744073709551615B/h", Some(u64::MAX)),
        ("18446744073709551615B/min", None),
        ("18446744073709551616B/h", None),
        ("2GB", None),
        ("GB/h", None),
        (".5GB/h", None),
        ("1.2.3GB/h", None),
        ("1.0000000001GB/h", None),
        ("-1GB/h", None),
        ("2BB/h", None),
        ("2GB/week", None),
        ("/", None),
    ] {
        let read = text.parse::<Growth>().ok().map(|growth| growth.bytes_per_hour);
        assert_eq!(read, bytes_per_hour, "{text}");
    }
}
