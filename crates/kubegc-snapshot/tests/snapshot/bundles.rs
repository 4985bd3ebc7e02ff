//! Layouts whose files say by their path what they hold: Velero backups, support bundles, Insights archives.

use crate::{
    common::{findings, read, reader, render},
    packed::{gzip, tar},
};
use kubegc_snapshot::{Problem, Snapshot};

/// The same members as an archive and as a folder; both must give the same.
pub(crate) fn both(members: &[(&str, &str)]) -> Snapshot {
    let packed: Vec<(&str, &[u8])> = members
        .iter()
        .map(|(path, text)| (*path, text.as_bytes()))
        .collect();
    let of_archive =
        read("dump.tar.gz", &gzip(&tar(&packed))).unwrap_or_else(|error| panic!("{}", error.full_text()));
    let folder = tempfile::tempdir().expect("a folder");
    for (path, text) in members {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("in the folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    let mut of_folder = reader();
    of_folder
        .read_path(folder.path())
        .unwrap_or_else(|error| panic!("{}", error.full_text()));
    let of_folder = of_folder.finish().expect("read");
    assert_eq!(render(&of_archive), render(&of_folder));
    assert_eq!(of_archive.finding_counts, of_folder.finding_counts);
    of_archive
}

#[test]
fn a_velero_backup_is_the_cluster_at_its_time() {
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web","namespace":"shop","uid":"1"},"status":{"phase":"Running"}}"#;
    let volume = r#"{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"disk","uid":"2"},"spec":{},"status":{"phase":"Bound"}}"#;
    let backup = r#"{"apiVersion":"velero.io/v1","kind":"Backup","metadata":{"name":"nightly","namespace":"velero","uid":"3"}}"#;
    let snapshot = both(&[
        ("metadata/version", "1.1.0\n"),
        ("resources/pods/namespaces/shop/web.json", pod),
        ("resources/pods/v1-preferredversion/namespaces/shop/web.json", pod),
        ("resources/persistentvolumes/cluster/disk.json", volume),
        (
            "resources/persistentvolumes/v1-preferredversion/cluster/disk.json",
            volume,
        ),
        ("velero-backup.json", backup),
        ("nightly-resource-list.json.gz", "not read"),
        ("nightly-logs.gz", "not read"),
    ]);
    assert_eq!(
        render(&snapshot),
        "PersistentVolume/disk uid=2 rv=\nshop/Pod/web uid=1 rv= details=?/Running/?\nvelero/Backup/nightly uid=3 rv= resolved=no\n"
    );
    assert_eq!(snapshot.finding_counts[&Problem::PassedOver], 5);
    let skipped: Vec<String> = findings(&snapshot)
        .into_iter()
        .filter(|finding| finding.starts_with("PassedOver"))
        .collect();
    assert_eq!(
        skipped,
        [
            "PassedOver: dump.tar.gz: 1 file skipped: reports of a Velero backup",
            "PassedOver: dump.tar.gz: 2 files skipped: not JSON or YAML",
            "PassedOver: dump.tar.gz: 2 files skipped: other versions of the objects of a Velero backup",
        ]
    );
    assert!(
        snapshot
            .completeness
            .iter()
            .all(|(_, coverage)| !coverage.is_complete())
    );
}
