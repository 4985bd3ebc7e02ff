//! File systems: the runtime's usage, the kubelet's measurements, and the facts that planners get; and
//! statuses of containers.

use kubegc_snapshot::NodeReader;

use crate::common::{container, debug, findings, ps, read, show, unlisted};

#[test]
fn every_form_of_imagefsinfo_reports_the_usage_of_images() {
    let one = r#"{"timestamp":"1772366396000000000","fsId":{"mountpoint":"/run"},"usedBytes":{"value":"700"},"inodesUsed":{"value":"9"}}"#;
    for text in [
        format!(r#"{{"status":{{"imageFilesystems":[{one}],"containerFilesystems":[]}}}}"#),
        format!(r#"{{"status":{{"imageFilesystems":[{one}]}}}}"#),
        format!(r#"{{"imageFilesystems":[{one}],"containerFilesystems":null}}"#),
        format!(r#"{{"status":{one}}}"#),
        one.to_owned(),
    ] {
        let node = read(NodeReader::new(), &[&text]);
        let usage = node.usage.expect("reported");
        assert_eq!(usage.images.len(), 1, "{text}");
        assert_eq!(
            (&*usage.images[0].mountpoint, usage.images[0].used_bytes),
            ("/run", Some(700)),
            "{text}"
        );
        assert_eq!(usage.images[0].inodes_used, Some(9), "{text}");
        assert_eq!(
            usage.images[0].at.map(|at| at.as_secs()),
            Some(1_772_366_396),
            "{text}"
        );
        // No capacity: the runtime does not know it.
        let file_system = node.inventory.image_file_system.expect("reported");
        assert_eq!(
            (file_system.used_bytes, file_system.capacity_bytes),
            (Some(700), None),
            "{text}"
        );
    }
    let single_usage = r#"{"usedBytes":700,"inodesUsed":null}"#;
    let node = read(NodeReader::new(), &[single_usage]);
    let usage = node.usage.expect("reported");
    assert_eq!(
        (
            usage.images[0].used_bytes,
            usage.images[0].inodes_used,
            usage.images[0].at
        ),
        (Some(700), None, None)
    );
}

#[test]
fn a_flawed_imagefsinfo_is_unknown() {
    for (text, reason) in [
        (
            r#"{"status":{"imageFilesystems":7}}"#,
            "status.imageFilesystems: expected a list, found a number",
        ),
        (
            r#"{"imageFilesystems":[7]}"#,
            "imageFilesystems[0]: expected a map, found a number",
        ),
        (
            r#"{"status":{"imageFilesystems":[{"usedBytes":{"value":"-1"}}]}}"#,
            "status.imageFilesystems[0].usedBytes.value: -1 is out of range",
        ),
        (
            r#"{"usedBytes":"many"}"#,
            "usedBytes: \"many\" is not a whole number",
        ),
    ] {
        let node = read(NodeReader::new(), &[text]);
        assert_eq!(node.usage, None, "{text}");
        let error = node.inventory.image_file_system.clone().expect_err("unknown");
        assert_eq!(unlisted(&error), format!("failed: f0, document 1: {reason}"));
        assert_eq!(findings(&node), [format!("BadField: f0, document 1: {reason}")]);
    }
}

const STATS: &str = r#"{"node":{"nodeName":"n1","memory":{"availableBytes":50},
    "fs":{"time":"2026-03-01T11:59:54Z","availableBytes":30,"capacityBytes":200,"usedBytes":170,"inodesFree":3,"inodes":20},
    "runtime":{"imageFs":{"availableBytes":10,"capacityBytes":100,"usedBytes":60,"inodesFree":1,"inodes":10},
               "containerFs":{"availableBytes":11,"capacityBytes":100,"usedBytes":5}},
    "rlimit":{"maxpid":1000,"curproc":70}},"pods":[{"podRef":{}}]}"#;

#[test]
fn the_kubelets_stats_report_capacity_and_free_space() {
    let node = read(NodeReader::new(), &[STATS, r#"{"usedBytes":"700"}"#]);
    let stats = node.stats.clone().expect("reported");
    assert_eq!(&*stats.node_name, "n1");
    assert_eq!(
        (stats.memory_available_bytes, stats.pids_max, stats.pids_used),
        (Some(50), Some(1000), Some(70))
    );
    assert_eq!(
        stats.at.map(|at| at.to_string()),
        Some("2026-03-01T11:59:54Z".to_owned())
    );
    assert_eq!(
        debug(&stats.node_fs),
        "Some(FileSystem { capacity_bytes: Some(200), available_bytes: Some(30), used_bytes: Some(170), inodes: Some(20), inodes_free: Some(3) })"
    );
    assert_eq!(
        debug(&stats.container_fs),
        "Some(FileSystem { capacity_bytes: Some(100), available_bytes: Some(11), used_bytes: Some(5), inodes: None, inodes_free: None })"
    );
    // The kubelet's measurements take precedence over the runtime's report.
    assert_eq!(node.inventory.image_file_system.ok(), stats.image_fs);
    assert_eq!(stats.image_fs.and_then(|fs| fs.used_bytes), Some(60));
    assert_eq!(node.findings, []);

    let without_available = r#"{"node":{"runtime":{"imageFs":{"capacityBytes":100,"availableBytes":null}}}}"#;
    let node = read(NodeReader::new(), &[without_available, r#"{"usedBytes":"70"}"#]);
    assert_eq!(
        debug(&node.inventory.image_file_system),
        "Ok(FileSystem { capacity_bytes: Some(100), available_bytes: None, used_bytes: Some(70), inodes: None, inodes_free: None })"
    );
    let node = read(NodeReader::new(), &[r#"{"node":{"runtime":null}}"#]);
    assert_eq!(debug(&node.inventory.image_file_system), "Err(NotRequested)");
}

#[test]
fn unusual_stats_are_reported_and_flawed_ones_unknown() {
    let image_fs = |fields: &str| format!(r#"{{"node":{{"runtime":{{"imageFs":{{{fields}}}}}}}}}"#);
    for (fields, finding, known) in [
        (
            r#""availableBytes":101,"capacityBytes":100"#,
            "Implausible: f0, document 1: node.runtime.imageFs.availableBytes: 101 is more than capacityBytes, 100",
            true,
        ),
        (
            r#""inodesFree":11,"inodes":10"#,
            "Implausible: f0, document 1: node.runtime.imageFs.inodesFree: 11 is more than inodes, 10",
            true,
        ),
        (
            r#""availableBytes":0,"capacityBytes":0"#,
            "Implausible: f0, document 1: node.runtime.imageFs.capacityBytes: no capacity at all",
            true,
        ),
        (
            r#""capacityBytes":-100"#,
            "BadField: f0, document 1: node.runtime.imageFs.capacityBytes: -100 is out of range",
            false,
        ),
        (
            r#""capacityBytes":1.5"#,
            "BadField: f0, document 1: node.runtime.imageFs.capacityBytes: expected a whole number, found a number",
            false,
        ),
    ] {
        let node = read(NodeReader::new(), &[&image_fs(fields)]);
        assert_eq!(findings(&node), [finding]);
        assert_eq!(node.inventory.image_file_system.is_ok(), known, "{fields}");
        assert_eq!(node.stats.is_some(), known, "{fields}");
    }
    let node = read(NodeReader::new(), &[r#"{"node":[]}"#, r#"{"usedBytes":"70"}"#]);
    // A failed measurement is not a missing one: the runtime's report does not replace it.
    assert_eq!(
        debug(&node.inventory.image_file_system),
        "Err(Failed(Unknown { message: \"f0, document 1: node: expected a map, found a list\" }))"
    );
}

#[test]
fn image_volumes_are_known_once_every_container_was_inspected() {
    let status = |id: &str, mounts: &str| {
        format!(
            r#"{{"status":{{"id":"{id}","state":"CONTAINER_EXITED","logPath":"/log/{id}","mounts":{mounts}}},"info":{{"pid":0}}}}"#
        )
    };
    let listing = ps(&[container(&[]), container(&[("id", "\"c2\"")])]);
    let first = status(
        "c1",
        r#"[{"containerPath":"/a"},{"image":{"image":"sha256:9"}},{"image":null}]"#,
    );
    let second = status("c2", r#"[{"image":{"image":"sha256:8"}}]"#);

    let both = format!("[{first},{second}]");
    for documents in [vec![&*listing, &*first, &*second], vec![&*listing, &*both]] {
        let node = read(NodeReader::new(), &documents);
        assert_eq!(
            show(&node.inventory.image_volumes, ToString::to_string),
            "sha256:8 sha256:9"
        );
        assert_eq!(
            node.statuses.get("c1").map(|status| &*status.log_path),
            Some("/log/c1")
        );
        assert_eq!(findings(&node), [""; 0]);
    }
    let node = read(NodeReader::new(), &[&listing, &first]);
    assert_eq!(
        show(&node.inventory.image_volumes, ToString::to_string),
        "not requested"
    );
    let node = read(NodeReader::new().no_image_volumes(), &[&listing]);
    assert_eq!(show(&node.inventory.image_volumes, ToString::to_string), "");
    // A status that cannot be read, or that differs, leaves it unknown.
    for (odd, reason) in [
        (
            status("c2", r#"[{"image":{"image":7}}]"#),
            "failed: f2, document 1: status.mounts[0].image.image: missing, or no string",
        ),
        (
            status("c1", "[]"),
            "failed: f2, document 1: another document has other data of this container",
        ),
        (status("", "[]"), "failed: f2, document 1: status.id: missing"),
        (
            status("c2", "[7]"),
            "failed: f2, document 1: status.mounts[0].image.image: missing, or no string",
        ),
    ] {
        let node = read(NodeReader::new(), &[&listing, &first, &odd]);
        assert_eq!(show(&node.inventory.image_volumes, ToString::to_string), reason);
        assert_eq!(node.findings.len(), 1, "{odd}");
    }
}
