//! Settings of a kubelet: defaults, spellings, flags, and which of several sources counts.

use kubegc_node::{GoDuration, PolicySpec};
use kubegc_snapshot::NodeReader;

use crate::common::{findings, read};

/// The settings of one configuration; `None` where they are unknown.
fn policy(text: &str) -> (Option<PolicySpec>, Vec<String>) {
    let node = read(NodeReader::new(), &[text]);
    let found = findings(&node);
    (node.policy, found)
}

fn with(change: impl FnOnce(&mut PolicySpec)) -> PolicySpec {
    let mut spec = PolicySpec::default();
    change(&mut spec);
    spec
}

#[test]
fn n1_20_unset_fields_get_the_default() {
    let cases: [(&str, PolicySpec); 11] = [
        ("kind: KubeletConfiguration\n", PolicySpec::default()),
        ("{\"kind\":\"KubeletConfiguration\"}", PolicySpec::default()),
        (
            "kind: KubeletConfiguration\nimageGCHighThresholdPercent: null\nimageMinimumGCAge: null\nevictionHard: null\n",
            PolicySpec::default(),
        ),
        ("imageMinimumGCAge: 0s\n", PolicySpec::default()),
        ("podLogsDir: \"\"\n", PolicySpec::default()),
        (
            "imageGCHighThresholdPercent: 0\nimageGCLowThresholdPercent: 0\n",
            with(|spec| {
                spec.image_gc_high_threshold_percent = 0;
                spec.image_gc_low_threshold_percent = 0;
            }),
        ),
        (
            "imageMinimumGCAge: 1h30m\nimageMaximumGCAge: 168h0m0s\n",
            with(|spec| {
                spec.image_minimum_gc_age = GoDuration::from_secs(5_400);
                spec.image_maximum_gc_age = GoDuration::from_secs(604_800);
            }),
        ),
        // Any threshold given replaces all of the defaults.
        (
            "evictionHard:\n  memory.available: 1Gi\n",
            with(|spec| spec.eviction_hard = [("memory.available".to_owned(), "1Gi".to_owned())].into()),
        ),
        (
            "{\"kind\":\"KubeletConfiguration\",\"evictionHard\":{}}",
            with(|spec| spec.eviction_hard.clear()),
        ),
        (
            "evictionHard:\n  memory.available: 1Gi\nmergeDefaultEvictionSettings: true\n",
            with(|spec| {
                spec.eviction_hard
                    .insert("memory.available".to_owned(), "1Gi".to_owned());
            }),
        ),
        (
            "evictionSoft: {nodefs.available: 12%}\nevictionSoftGracePeriod: {nodefs.available: 1m30s}\n\
             evictionMinimumReclaim: {nodefs.available: 1Gi}\nfeatureGates: {ImageMaximumGCAge: true, Other: false}\npodLogsDir: /logs\n",
            with(|spec| {
                let signal = || "nodefs.available".to_owned();
                spec.eviction_soft = [(signal(), "12%".to_owned())].into();
                spec.eviction_soft_grace_period = [(signal(), GoDuration::from_secs(90))].into();
                spec.eviction_minimum_reclaim = [(signal(), "1Gi".to_owned())].into();
                spec.feature_gates = [
                    ("ImageMaximumGCAge".to_owned(), true),
                    ("Other".to_owned(), false),
                ]
                .into();
                spec.pod_logs_directory = "/logs".to_owned();
            }),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(policy(text), (Some(expected), vec![]), "{text}");
    }
}

#[test]
fn configurations_come_in_wrappers_and_another_spelling() {
    let expected = with(|spec| {
        spec.image_gc_high_threshold_percent = 70;
        spec.image_gc_low_threshold_percent = 60;
        spec.image_minimum_gc_age = GoDuration::from_secs(60);
        spec.image_maximum_gc_age = GoDuration::from_secs(3_600);
    });
    let usual = "\"imageGCHighThresholdPercent\":70,\"imageGCLowThresholdPercent\":60,\"imageMinimumGCAge\":\"1m\",\"imageMaximumGCAge\":\"1h\"";
    let other = "\"imageGcHighThresholdPercent\":70,\"imageGcLowThresholdPercent\":60,\"imageMinimumGcAge\":\"60s\",\"imageMaximumGcAge\":\"60m\"";
    for text in [
        format!("{{{usual}}}"),
        format!("{{{other}}}"),
        format!("{{{usual},{other}}}"),
        format!("{{\"kubeletconfig\":{{{usual}}}}}"),
        format!("{{\"kubeletConfig\":{{{other}}}}}"),
        format!(
            "{{\"kind\":\"KubeletConfiguration\",\"apiVersion\":\"kubelet.config.k8s.io/v1beta1\",{usual},\"maxPods\":{{}}}}"
        ),
    ] {
        assert_eq!(policy(&text), (Some(expected.clone()), vec![]), "{text}");
    }
}

#[test]
fn a_setting_that_a_kubelet_would_refuse_leaves_the_policy_unknown() {
    for (text, finding) in [
        (
            "imageGCHighThresholdPercent: \"85\"\n",
            "BadField: f0, document 1: imageGCHighThresholdPercent: expected a whole number, found a string",
        ),
        (
            "imageGCHighThresholdPercent: 99999999999\n",
            "BadField: f0, document 1: imageGCHighThresholdPercent: 99999999999 is out of range",
        ),
        (
            "imageMinimumGCAge: 2 minutes\n",
            "BadField: f0, document 1: imageMinimumGCAge: \"2 minutes\" is not a duration such as 2m0s",
        ),
        (
            "imageMinimumGCAge: 120\n",
            "BadField: f0, document 1: imageMinimumGCAge: expected a string, found a number",
        ),
        (
            "evictionHard: {memory.available: 7}\n",
            "BadField: f0, document 1: evictionHard.memory.available: expected a string, found a number",
        ),
        (
            "evictionSoftGracePeriod: {memory.available: soon}\n",
            "BadField: f0, document 1: evictionSoftGracePeriod.memory.available: \"soon\" is not a duration such as 2m0s",
        ),
        (
            "featureGates: {A: \"true\"}\n",
            "BadField: f0, document 1: featureGates.A: expected true or false, found a string",
        ),
        (
            "imageGCHighThresholdPercent: 80\nimageGcHighThresholdPercent: 81\n",
            "Contradiction: f0, document 1: imageGCHighThresholdPercent: imageGcHighThresholdPercent has another value",
        ),
        (
            "{\"kubeletconfig\":7}",
            "MissingField: f0, document 1: kubeletconfig: missing, or no map",
        ),
        (
            "kind: KubeletConfiguration\nimageGCHighThresholdPercent: 8",
            "NoFinalLineBreak: f0, document 1: may be cut off",
        ),
    ] {
        assert_eq!(policy(text), (None, vec![finding.to_owned()]), "{text}");
    }
}

#[test]
fn flags_are_read_as_a_kubelet_reads_them() {
    let cases: [(&str, PolicySpec); 9] = [
        ("", PolicySpec::default()),
        (
            "/usr/bin/kubelet --v 2 --config=/etc/k.yaml -x --unknown",
            PolicySpec::default(),
        ),
        (
            "--image-gc-high-threshold=90 --image-gc-low-threshold 70 --minimum-image-ttl-duration=5m",
            with(|spec| {
                spec.image_gc_high_threshold_percent = 90;
                spec.image_gc_low_threshold_percent = 70;
                spec.image_minimum_gc_age = GoDuration::from_secs(300);
            }),
        ),
        // Defaulting is for configurations: a flag can say zero.
        (
            "--minimum-image-ttl-duration=0",
            with(|spec| spec.image_minimum_gc_age = GoDuration::ZERO),
        ),
        (
            "--minimum-container-ttl-duration=1m --maximum-dead-containers-per-container 2 --maximum-dead-containers=-5",
            with(|spec| {
                spec.minimum_container_ttl = GoDuration::from_secs(60);
                spec.maximum_dead_containers_per_container = 2;
                spec.maximum_dead_containers = -5;
            }),
        ),
        (
            "--maximum_dead_containers=9 --maximum-dead-containers=7",
            with(|spec| spec.maximum_dead_containers = 7),
        ),
        (
            "--maximum-dead-containers=7 -- --maximum-dead-containers=9",
            with(|spec| spec.maximum_dead_containers = 7),
        ),
        (
            "--eviction-hard=memory.available<1Gi,nodefs.available<5% --eviction-hard=imagefs.available<6% --eviction-minimum-reclaim=memory.available=1Mi",
            with(|spec| {
                let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
                spec.eviction_hard = [
                    pair("memory.available", "1Gi"),
                    pair("nodefs.available", "5%"),
                    pair("imagefs.available", "6%"),
                ]
                .into();
                spec.eviction_minimum_reclaim = [pair("memory.available", "1Mi")].into();
            }),
        ),
        (
            "--eviction-hard= --eviction-soft=memory.available<2Gi --eviction-soft-grace-period=memory.available=30s --feature-gates=A=true,B=0",
            with(|spec| {
                spec.eviction_hard.clear();
                spec.eviction_soft = [("memory.available".to_owned(), "2Gi".to_owned())].into();
                spec.eviction_soft_grace_period =
                    [("memory.available".to_owned(), GoDuration::from_secs(30))].into();
                spec.feature_gates = [("A".to_owned(), true), ("B".to_owned(), false)].into();
            }),
        ),
    ];
    for (words, expected) in cases {
        let mut reader = NodeReader::new();
        reader.read_flags(words.split(' '));
        let node = reader.finish().expect("flags");
        assert_eq!(
            (node.policy.as_ref(), findings(&node)),
            (Some(&expected), vec![]),
            "{words}"
        );
    }
}

#[test]
fn flags_that_a_kubelet_would_refuse_leave_the_policy_unknown() {
    for (words, finding) in [
        (
            "--image-gc-high-threshold=high",
            "BadField: flags: --image-gc-high-threshold: \"high\" is not a whole number of 32 bits",
        ),
        (
            "--maximum-dead-containers",
            "BadField: flags: --maximum-dead-containers: needs a value",
        ),
        (
            "--minimum-container-ttl-duration 5",
            "BadField: flags: --minimum-container-ttl-duration: \"5\" is not a duration such as 2m0s",
        ),
        (
            "--eviction-hard=memory.available=1Gi",
            "BadField: flags: --eviction-hard: \"memory.available=1Gi\" has no <",
        ),
        (
            "--feature-gates=A=on",
            "BadField: flags: --feature-gates: A=\"on\" is neither true nor false",
        ),
    ] {
        let mut reader = NodeReader::new();
        reader.read_flags(words.split(' '));
        reader.read_flags(["--image-gc-high-threshold=90"]);
        let node = reader.finish().expect("flags");
        assert_eq!(
            (node.policy.as_ref(), findings(&node)),
            (None, vec![finding.to_owned()])
        );
    }
}

#[test]
fn flags_win_over_the_file_and_configz_over_both() {
    let file =
        "imageGCHighThresholdPercent: 70\nimageGCLowThresholdPercent: 60\nfeatureGates: {A: true, B: true}\n";
    let configz = r#"{"kubeletconfig":{"imageGCHighThresholdPercent":75,"imageGCLowThresholdPercent":65}}"#;
    let flags = [
        "--image-gc-high-threshold=72",
        "--maximum-dead-containers=3",
        "--feature-gates=B=false",
    ];
    let file_and_flags = with(|spec| {
        spec.image_gc_high_threshold_percent = 72;
        spec.image_gc_low_threshold_percent = 60;
        spec.maximum_dead_containers = 3;
        spec.feature_gates = [("A".to_owned(), true), ("B".to_owned(), false)].into();
    });
    let with_configz = with(|spec| {
        spec.image_gc_high_threshold_percent = 75;
        spec.image_gc_low_threshold_percent = 65;
        spec.maximum_dead_containers = 3;
    });
    let superseded = "Superseded: f0, document 1: configuration and flags differ from configz";
    for (documents, expected, found) in [
        (vec![file], file_and_flags, vec![]),
        (vec![file, configz], with_configz.clone(), vec![superseded]),
        (vec![configz], with_configz, vec![]),
    ] {
        let mut reader = NodeReader::new();
        reader.read_flags(flags);
        let node = read(reader, &documents);
        assert_eq!(
            (node.policy.clone(), findings(&node)),
            (Some(expected), found.into_iter().map(str::to_owned).collect())
        );
    }
    // Two files of one kind that differ: only configz shows which one counts.
    let other = "imageGCHighThresholdPercent: 71\n";
    assert_eq!(read(NodeReader::new(), &[file, other]).policy, None);
    assert!(read(NodeReader::new(), &[file, other, configz]).policy.is_some());
    assert!(read(NodeReader::new(), &[file, file]).policy.is_some());
}
