//! Records of the objects that controllers read.

use std::collections::BTreeSet;

use kubegc_core::{
    ObjectMeta,
    record::{
        Body, ClaimRef, Condition, Field, IntOrPercent, Job, Node, ObjectId, PersistentVolumeSource, Pod,
        PodVolume, Record, Resource, Taint, VolumeSource,
    },
};

fn condition(condition_type: &str, status: &str) -> Condition {
    Condition::new(condition_type, status)
}

#[test]
fn unread_fields_give_no_result() {
    let pod = Pod {
        phase: Field::Unread,
        ..Pod::default()
    };
    let node = Node {
        conditions: Field::Unread,
        taints: Field::Unread,
        ..Node::default()
    };
    let job = Job {
        conditions: Field::Unread,
        ..Job::default()
    };
    assert_eq!(
        (pod.has_final_phase(), node.is_ready(), node.has_taint("a")),
        (None, None, None)
    );
    assert_eq!(job.finished(), None);
    assert_eq!(Field::<i32>::Unread.map(|number| number + 1), Field::Unread);
    assert_eq!(Field::from(1).map(|number| number + 1), Field::Known(2));
    assert!(Field::<i32>::Unread.is_unread() && !Field::from(1).is_unread());
    assert_eq!(
        (Field::from(1).known(), Field::<i32>::Unread.known()),
        (Some(&1), None)
    );
    assert_eq!(Field::default(), Field::Known(0));
}

#[test]
fn a_pod_has_a_final_phase_when_it_has_ended() {
    for (phase, is_final) in [
        ("", false),
        ("Pending", false),
        ("Running", false),
        ("Unknown", false),
        ("Succeeded", true),
        ("Failed", true),
    ] {
        let pod = Pod {
            phase: Field::Known(phase.into()),
            ..Pod::default()
        };
        assert_eq!(pod.has_final_phase(), Some(is_final), "{phase}");
    }
}

#[test]
fn a_node_is_ready_by_its_condition() {
    for (conditions, is_ready) in [
        (vec![], false),
        (vec![condition("Ready", "True")], true),
        (vec![condition("Ready", "False")], false),
        (vec![condition("Ready", "Unknown")], false),
        (vec![condition("DiskPressure", "True")], false),
        (
            vec![condition("DiskPressure", "False"), condition("Ready", "True")],
            true,
        ),
    ] {
        let node = Node {
            conditions: Field::Known(conditions.clone()),
            ..Node::default()
        };
        assert_eq!(node.is_ready(), Some(is_ready), "{conditions:?}");
    }
    let node = Node {
        taints: Field::Known(vec![Taint::new("a", "NoExecute")]),
        ..Node::default()
    };
    assert_eq!(
        (node.has_taint("a"), node.has_taint("b")),
        (Some(true), Some(false))
    );
    let taint = Taint {
        value: "v".into(),
        ..Taint::new("a", "NoExecute")
    };
    assert!(taint.matches(&Taint::new("a", "NoExecute")));
    assert!(!taint.matches(&Taint::new("a", "NoSchedule")) && !taint.matches(&Taint::new("b", "NoExecute")));
}

#[test]
fn a_job_is_finished_by_its_first_true_end_condition() {
    for (conditions, end) in [
        (vec![], None),
        (vec![condition("Suspended", "True")], None),
        (
            vec![condition("Complete", "False"), condition("Failed", "True")],
            Some("Failed"),
        ),
        (
            vec![condition("Complete", "True"), condition("Failed", "True")],
            Some("Complete"),
        ),
    ] {
        let job = Job {
            conditions: Field::Known(conditions),
            ..Job::default()
        };
        let finished = job.finished().expect("its conditions are known");
        assert_eq!(finished.map(|condition| &*condition.condition_type), end);
    }
}

#[test]
fn a_volume_names_its_claim() {
    let volume = |source| PodVolume {
        name: "data".into(),
        source,
    };
    for (source, claim) in [
        (VolumeSource::Claim("c".into()), Some("c")),
        (VolumeSource::Ephemeral, Some("web-0-data")),
        (VolumeSource::Other, None),
    ] {
        assert_eq!(volume(source).claim_name("web-0").as_deref(), claim);
    }
    let csi = PersistentVolumeSource::Csi {
        driver: "d.csi".into(),
        handle: "h".into(),
    };
    let host_path = PersistentVolumeSource::HostPath { path: "/a".into() };
    assert_eq!(csi.csi_name().as_deref(), Some("kubernetes.io/csi/d.csi^h"));
    assert_eq!(
        (host_path.csi_name(), PersistentVolumeSource::None.csi_name()),
        (None, None)
    );
    let fields = [
        csi,
        host_path,
        PersistentVolumeSource::Other("nfs"),
        PersistentVolumeSource::None,
    ];
    assert_eq!(
        fields.map(|source| source.field()),
        ["csi", "hostPath", "nfs", ""]
    );
    let claim = ClaimRef {
        namespace: "shop".into(),
        name: "c".into(),
        uid: "u".into(),
    };
    assert_eq!(claim.to_string(), "shop/c");
}

#[test]
fn a_percentage_is_rounded_in_the_given_direction() {
    for (percent, total, down, up) in [
        (25, 4, 1, 1),
        (25, 10, 2, 3),
        (1, 10, 0, 1),
        (100, 7, 7, 7),
        (0, 7, 0, 0),
        (33, -10, -4, -3),
        (i32::MAX, i32::MAX, i32::MAX, i32::MAX),
    ] {
        let share = IntOrPercent::Percent(percent);
        assert_eq!(
            (share.of(total, false), share.of(total, true)),
            (down, up),
            "{percent} % of {total}"
        );
    }
    assert_eq!(IntOrPercent::Int(3).of(10, true), 3);
}

#[test]
fn resources_are_found_by_group_and_kind() {
    let mut plurals = BTreeSet::new();
    for &resource in Resource::ALL {
        assert_eq!(
            Resource::of_kind(resource.group(), resource.kind()),
            Some(resource)
        );
        assert_eq!(Resource::of_kind("x.dev", resource.kind()), None);
        assert_eq!(Resource::of_kind(resource.group(), resource.plural()), None);
        assert!(plurals.insert((resource.group(), resource.plural())));
    }
    let id = |namespace| ObjectId::new(Resource::Jobs, &ObjectMeta::new(namespace, "a", "u"));
    assert_eq!(id("shop").to_string(), "job.batch/a -n shop");
    assert_eq!(id("").to_string(), "job.batch/a");
}

#[test]
fn a_record_has_the_fields_of_its_kind_only() {
    let meta = ObjectMeta::new("shop", "a", "u");
    let mut record = Record::new(meta.clone(), Body::Job(Job::default()));
    assert!(record.job().is_some() && record.pod().is_none() && record.has_whole_meta);
    assert_eq!(record.id(Resource::Jobs), ObjectId::new(Resource::Jobs, &meta));
    let shared = record.clone();
    *record.body_mut() = Body::Pod(Pod::default());
    assert!(record.pod().is_some() && shared.job().is_some());
    let metadata_only = Record::metadata_only(meta.clone());
    assert!(
        metadata_only.has_whole_meta && metadata_only.job().is_none() && *metadata_only.body == Body::Unread
    );
    assert!(!Record::unreadable(meta).has_whole_meta);
}
