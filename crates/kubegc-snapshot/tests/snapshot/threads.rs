//! Several files on several threads: the same as one file after another.

use std::{fs, path::PathBuf, thread};

use kubegc_snapshot::{Problem, Reader, Snapshot, SnapshotError};
use proptest::prelude::*;

use crate::common::{bytes, data, findings, reader};
use crate::pack::{gzip, tar};

/// A reader whose files are read by this many threads and the caller's.
fn on_threads(count: usize) -> Reader {
    reader().on_threads(move |read_files| {
        thread::scope(|scope| {
            for _ in 0..count {
                scope.spawn(read_files);
            }
        });
    })
}

/// All that a snapshot has, or what the reading failed with.
fn outcome(
    mut reader: Reader,
    read: impl FnOnce(&mut Reader) -> Result<(), SnapshotError>,
) -> Result<String, String> {
    let read = read(&mut reader).map_err(|error| error.full_text());
    match (read, reader.finish()) {
        (Ok(()), Ok(snapshot)) => Ok(everything(&snapshot)),
        (Ok(()), Err(error)) => Err(error.full_text()),
        (Err(error), Err(_)) => Err(error),
        (Err(error), Ok(_)) => panic!("{error}, and there is a snapshot"),
    }
}

fn everything(snapshot: &Snapshot) -> String {
    let objects: Vec<String> = snapshot.objects().map(|object| format!("{object:#?}")).collect();
    format!(
        "{}\n{:#?}\n{:?}\n{:?}\n{:?} {}",
        objects.join("\n"),
        snapshot.findings,
        snapshot.finding_counts,
        snapshot.completeness,
        snapshot.detected_version(),
        snapshot.version(),
    )
}

/// Texts of one file each: objects, other states of them, parts of lists, oddities and damage.
fn texts() -> Vec<String> {
    let stream = String::from_utf8(bytes("stream.json")).expect("text");
    let objects: Vec<&str> = stream.lines().collect();
    let mut texts: Vec<String> = objects.iter().map(|&object| object.to_owned()).collect();
    texts.extend([
        objects[4].replace("\"103\"", "\"120\"").replace("Running", "Failed"),
        objects[5].replace("example.com/hold", "example.com/other"),
        objects[2].replace("\"101\"", "\"x\""),
        objects[7].replace("000008", "000007"),
        String::from_utf8(bytes("list.yaml")).expect("text"),
        r#"{"apiVersion":"v1","kind":"PodList","metadata":{"resourceVersion":"9","continue":"c"},"items":[
            {"metadata":{"namespace":"shop","name":"p1","uid":"p1","labels":{"b":"1","a":"2"},"deletionTimestamp":"2026-03-02T08:30:00Z",
             "finalizers":["example.com/hold","z"],"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"r"}]},
             "spec":{"nodeName":"node-2"},"status":{"phase":"Running"}}]}"#.into(),
        r#"{"apiVersion":"v1","kind":"PodList","metadata":{"resourceVersion":"9"},"items":[
            {"metadata":{"namespace":"shop","name":"p2","uid":"p1","labels":{"a":"2","b":"1"},"finalizers":["z"]}},7]}"#.into(),
        r#"{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"PodList","items":[
            {"metadata":{"namespace":"shop","name":"p3","uid":"p3"}}]},{"metadata":{"name":"x"}}]}"#.into(),
        r#"{"serverVersion":{"major":"1","minor":"27","gitVersion":"v1.27.4"}}"#.into(),
        r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","uid":"n"},"status":{"nodeInfo":{"kubeletVersion":"v1.26.1"}}}"#.into(),
        r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","name":"m","labels":{"z":"a","b":7}}}"#.into(),
        r#"{"just":"data"}"#.into(),
        "error: the server was unavailable\n".into(),
        "apiVersion: v1\nkind: Secret\nmetadata: {namespace: shop, name: s}".into(),
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"cut"#.into(),
        String::new(),
    ]);
    texts
}

/// A file or a directory of one path: names and contents.
fn files() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    let text = prop::sample::select(texts());
    let file = (0_usize..4, text).prop_map(|(form, text)| match form {
        0 => (".json", text.into_bytes()),
        1 => (".txt", text.into_bytes()),
        2 => (".json.gz", gzip(text.as_bytes())),
        _ => (".tar", tar(&[("a.yaml", text.as_bytes()), ("b.png", b"")])),
    });
    let named = |files: Vec<(&'static str, Vec<u8>)>| {
        let named = files.into_iter().enumerate();
        named
            .map(|(at, (ending, bytes))| (format!("{at}{ending}"), bytes))
            .collect()
    };
    prop::collection::vec(file, 1..4).prop_map(named)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn threads_do_not_change_the_result(
        inputs in prop::collection::vec(files(), 1..6), threads in 0_usize..4, lenient in any::<bool>(), detect in any::<bool>(),
    ) {
        let root = tempfile::tempdir().expect("a directory");
        let mut paths = Vec::new();
        for (at, files) in inputs.iter().enumerate() {
            let directory = root.path().join(format!("directory-{at}"));
            fs::create_dir(&directory).expect("a directory");
            for (name, bytes) in files {
                fs::write(directory.join(name), bytes).expect("a file");
            }
            match &files[..] {
                [(name, _)] => paths.push(directory.join(name)),
                _ => paths.push(directory),
            }
        }
        let with = |reader: Reader| reader.lenient(lenient).detect_version(detect).complete("all");
        let read_all = |reader: &mut Reader| reader.read_paths(&paths);
        let alone = outcome(with(reader()), |reader| paths.iter().try_for_each(|path| reader.read_path(path)));
        prop_assert_eq!(&outcome(with(on_threads(threads)), read_all), &alone);
    }
}

#[test]
fn the_files_of_one_directory_are_divided() {
    let root = tempfile::tempdir().expect("a directory");
    let padding = vec![b'\n'; 1 << 20];
    for (at, text) in texts().into_iter().enumerate() {
        let file = root.path().join(format!("{at:02}.json"));
        fs::write(file, [text.as_bytes(), &padding].concat()).expect("a file");
    }
    let read = |reader: &mut Reader| reader.read_path(root.path());
    let alone = outcome(reader().lenient(true), read);
    assert!(alone.is_ok(), "{alone:?}");
    assert_eq!(outcome(on_threads(3).lenient(true), read), alone);
    // The first file that is refused is named, whichever thread comes to it first.
    let refused = outcome(reader(), read);
    assert!(refused.is_err());
    assert_eq!(outcome(on_threads(3), read), refused);
    // Threads may end without having taken anything.
    assert_eq!(outcome(on_threads(0).lenient(true), read), alone);
}

#[test]
fn known_layouts_are_recognised_on_threads() {
    let paths: Vec<PathBuf> = ["must-gather", "cluster-info", "list.json"].map(data).into();
    let read = |reader: &mut Reader| reader.read_paths(&paths);
    let alone = outcome(reader().complete("pods"), read);
    assert!(alone.is_ok(), "{alone:?}");
    assert_eq!(outcome(on_threads(2).complete("pods"), read), alone);
}

#[test]
fn no_path_is_read_if_one_does_not_exist() {
    let mut reader = on_threads(2);
    let paths = [data("list.json"), data("absent.json")];
    let error = reader.read_paths(&paths).expect_err("one does not exist");
    assert!(error.to_string().contains("absent.json"), "{error}");
    reader.finish().expect_err("nothing was read");
}

#[test]
fn findings_are_counted_beyond_those_that_are_listed() {
    let root = tempfile::tempdir().expect("a directory");
    let object = |at: usize| {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"a","name":"{at}","resourceVersion":"1"}}}}"#
        )
    };
    let paths = [0, 700].map(|from| {
        let objects: Vec<String> = (from..from + 700).map(object).collect();
        let path = root.path().join(format!("{from}.json"));
        fs::write(&path, objects.join("\n")).expect("a file");
        path
    });
    let read = |mut reader: Reader| {
        reader.read_paths(&paths).expect("objects");
        reader.finish().expect("a snapshot")
    };
    let (alone, divided) = (read(reader()), read(on_threads(2)));
    assert_eq!(divided.finding_counts.get(&Problem::NoUid), Some(&1_400));
    let listed = findings(&alone);
    let without_uid = listed.iter().filter(|finding| finding.starts_with("NoUid: "));
    assert_eq!(without_uid.count(), 1_000);
    assert_eq!(findings(&divided), listed);
    assert_eq!(divided.completeness, alone.completeness);
}
