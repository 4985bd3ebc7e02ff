//! Closed pipes, colours, progress and notes of command line tools.

#![expect(clippy::print_stderr, reason = "a skipped test says so")]

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// The example `predict`. Without a dump it reads the bundled one.
fn predict() -> PathBuf {
    example("predict")
}

/// An example. `cargo test` builds it, except with `--test`.
fn example(name: &str) -> PathBuf {
    let tests = env::current_exe().expect("a test has a path");
    let target = tests.parent().and_then(Path::parent);
    let path = target
        .expect("tests are in target/PROFILE/deps")
        .join("examples")
        .join(name);
    assert!(
        path.exists(),
        "{} is missing: run `cargo build --examples`",
        path.display()
    );
    path
}

const QUESTION: [&str; 3] = ["deployment/storefront", "-n", "shop"];

/// Runs a command on a terminal; `None` where there is no `script`, which has one.
fn on_a_terminal(command: &str, no_color: &str) -> Option<Output> {
    let mut script = Command::new("script");
    let output = script
        .args(["--quiet", "--return", "--command", command, "/dev/null"])
        .env("NO_COLOR", no_color)
        .stdin(Stdio::null())
        .output();
    if output.is_err() {
        assert!(env::var_os("CI").is_none_or(|ci| ci.is_empty()), "no `script`");
        eprintln!("SKIPPED: `script` is not installed");
    }
    output.ok()
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let mut command = Command::new(predict());
    command.args(QUESTION);
    let whole = command.output().expect("it runs");
    assert!(
        whole.status.success(),
        "{}",
        String::from_utf8_lossy(&whole.stderr)
    );
    assert!(!whole.stdout.is_empty());

    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("it runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && errors.is_empty(),
        "{}: {errors}",
        output.status
    );
}

#[test]
fn colours_are_printed_on_terminals_without_no_color() {
    let piped = Command::new(predict()).args(QUESTION).output();
    assert!(!piped.expect("it runs").stdout.contains(&b'\x1b'));
    let command = format!("{} {}", predict().display(), QUESTION.join(" "));
    for (no_color, is_coloured) in [("", true), ("1", false)] {
        let Some(output) = on_a_terminal(&command, no_color) else {
            return;
        };
        assert!(output.status.success(), "{output:?}");
        assert_eq!(
            output.stdout.contains(&b'\x1b'),
            is_coloured,
            "NO_COLOR={no_color}"
        );
    }
}

#[test]
fn a_slow_read_shows_its_progress_on_stderr() {
    let items = r#"printf '{"kind":"List","apiVersion":"v1","items":['; sleep 1.2; head -c 20000000 /dev/zero | tr '\0' ' '; printf '{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a","uid":"1"}}]}'"#;
    let slow = format!("({items})");
    let predict = format!("{} - --pending", predict().display());
    let Some(output) = on_a_terminal(&format!("{slow} | {predict} >/dev/null"), "1") else {
        return;
    };
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && shown.contains(" MB "), "{output:?}");
    let Some(output) = on_a_terminal(&format!("{slow} | {predict} 2>/dev/null"), "1") else {
        return;
    };
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !shown.contains("MB"), "{output:?}");
}

/// Runs `predict --pending` on a directory of these files; whether it succeeds, and its standard error.
fn notes(files: &[(&str, &str)], arguments: &[&str]) -> (bool, String) {
    let directory = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        std::fs::write(directory.path().join(name), text).expect("a file");
    }
    let mut command = Command::new(predict());
    command.args(["--pending", "--dump", "."]).args(arguments);
    let output = command.current_dir(directory.path()).output().expect("it runs");
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn notes_are_counted_and_listed_on_request() {
    let object = |name: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"namespace":"shop","name":"{name}","uid":"1"}}}}"#
        )
    };
    let (one, two) = (object("a"), object("b"));
    let files = [
        ("a.json", &*one),
        ("b.json", &*one),
        ("c.json", &*one),
        ("d.json", &*two),
    ];
    assert_eq!(
        notes(&files, &[]),
        (
            true,
            "note: Repeated: 2 objects that occur several times with equal contents; --notes lists them\n\
             note: SharedUid: ./d.json, document 1: ConfigMap shop/b: metadata.uid: 1 is also the uid of v1 ConfigMap shop/a\n"
                .to_owned()
        )
    );
    assert_eq!(
        notes(&files[..3], &["--notes"]),
        (
            true,
            "note: Repeated: 2 objects that occur several times with equal contents:\n  \
             Repeated: ./b.json, document 1: ConfigMap shop/a\n  Repeated: ./c.json, document 1: ConfigMap shop/a\n"
                .to_owned()
        )
    );
}

#[test]
fn a_file_that_cannot_be_read_is_skipped_on_request() {
    let object =
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"a","uid":"1"}}"#;
    let files = [("a.json", object), ("b.json", "{")];
    let (is_read, errors) = notes(&files, &[]);
    assert!(!is_read);
    assert!(
        errors.starts_with("note: --lenient skips files that cannot be read\nerror: ./b.json"),
        "{errors}"
    );
    let (is_read, errors) = notes(&files, &["--lenient"]);
    assert!(is_read, "{errors}");
    assert!(
        errors.starts_with("note: Unread: ./b.json, document 1: "),
        "{errors}"
    );
}

#[test]
fn a_document_of_an_archive_that_cannot_be_read_has_the_same_hint() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("b.json"), "{").expect("a file");
    let mut tar = Command::new("tar");
    let packed = tar
        .args(["czf", "dump.tgz", "b.json"])
        .current_dir(directory.path())
        .status();
    assert!(packed.expect("tar").success());
    let output = Command::new(predict())
        .args(["--pending", "--dump", "dump.tgz"])
        .current_dir(directory.path())
        .output();
    let output = output.expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    let expected = "note: --lenient skips files that cannot be read\nerror: dump.tgz:b.json";
    assert!(
        !output.status.success() && errors.starts_with(expected),
        "{errors}"
    );
}

/// Client libraries use the API server's default for the dependents of a Job, which keeps them. kubectl
/// requests their deletion.
#[test]
fn the_default_policy_is_that_of_kubectl() {
    let dump = r#"{"apiVersion":"v1","kind":"List","items":[
        {"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":"shop","name":"report","uid":"1"}},
        {"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"rows","uid":"2","ownerReferences":
            [{"apiVersion":"batch/v1","kind":"Job","name":"report","uid":"1"}]}}]}"#;
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("dump.json"), dump).expect("a file");
    for (cascade, expected) in [
        (&[][..], "Deleted: 2\n"),
        (
            &["--cascade", "unset"],
            "Released: 1\n  - configmap/rows -n shop: released from job/report\n",
        ),
    ] {
        let output = Command::new(predict())
            .args([
                "job/report",
                "-n",
                "shop",
                "--dump",
                "dump.json",
                "--complete",
                "all",
            ])
            .args(cascade)
            .current_dir(directory.path())
            .output();
        let output = output.expect("it runs");
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(shown.contains(expected), "{cascade:?}: {shown}");
    }
}

/// The exit code of an example, and its standard output.
fn exit(name: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(example(name))
        .args(arguments)
        .output()
        .expect("it runs");
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

#[test]
fn exit_codes_distinguish_the_reasons() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.to_str().expect("a path of text").to_owned()
    };
    let bad = file("bad.json", "{");
    let held = file(
        "held.json",
        r#"{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"shop","name":"held","uid":"1",
        "deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["example.com/hold"]},"type":"Opaque"}"#,
    );
    let config_map = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"a","uid":"1",
        "ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"web","uid":"2"}]}}"#;
    let unknown = file("unknown.json", config_map);
    for (code, name, arguments) in [
        (0, "predict", &["deploy/checkout", "-n", "shop"][..]),
        (1, "predict", &["--pending", "--dump", &bad]),
        (1, "predict", &["--pending", "--dump", "/no/such/dump"]),
        (1, "doctor", &[&bad]),
        (1, "node_forecast", &[&bad]),
        (2, "predict", &[]),
        (2, "predict", &["--wrong"]),
        (2, "predict", &["pods", "-l", "==", "-n", "shop"]),
        (2, "predict", &["--schema=pods"]),
        (2, "doctor", &["--complete", "pots", &held]),
        (3, "doctor", &["--check", &held]),
        (
            3,
            "cleanup_forecast",
            &["--check", "--complete", "all", "--dump", &held],
        ),
        (4, "predict", &["deploy/chekout", "-n", "shop"]),
        (4, "predict", &["deploi/checkout", "-n", "shop"]),
        (
            4,
            "predict",
            &["deploy/checkout", "-n", "shop", "--explain", "deploy/chekout"],
        ),
        (4, "cleanup_forecast", &["--gone-node", "no-such-node"]),
        (5, "predict", &["--check", "--pending", "--dump", &unknown]),
        (
            6,
            "predict",
            &["--check", "deploy/checkout", "-n", "shop", "--uid", "another"],
        ),
        (6, "node_forecast", &["--change", "imageGCLowThresholdPercent=99"]),
    ] {
        assert_eq!(exit(name, arguments).0, Some(code), "{name} {arguments:?}");
    }
    let (_, answer) = exit("predict", &["deploy/chekout", "-n", "shop", "-o", "json"]);
    assert!(
        answer.starts_with(
            r#"{"schema":"kubegc-answer/1","status":"notFound","error":"deployments.apps \"chekout\""#
        ),
        "{answer}"
    );
}

#[test]
fn questions_in_json_are_answered_and_schemas_are_printed() {
    let directory = tempfile::tempdir().expect("a directory");
    let question = directory.path().join("question.json");
    std::fs::write(
        &question,
        r#"{"schema":"kubegc-question/1","delete":[{"arguments":["deploy/checkout"]}]}"#,
    )
    .expect("a file");
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/data/shop");
    let question = question.to_str().expect("a path of text");
    let (code, answer) = exit("predict", &["--question", question, "--dump", data]);
    assert_eq!(code, Some(3), "a finalizer remains: {answer}");
    assert!(answer.contains(r#""name":"checkout""#), "{answer}");
    for (name, arguments, title) in [
        ("predict", &["--schema"][..], "kubegc-forecast/1"),
        ("predict", &["--schema", "question"], "kubegc-question/1"),
        ("doctor", &["--schema"], "kubegc-diagnosis/1"),
        ("node_forecast", &["--schema"], "kubegc-node-forecast/1"),
        (
            "node_forecast",
            &["--schema", "--change", "imageMinimumGCAge=1h"],
            "kubegc-node-comparison/1",
        ),
    ] {
        let (code, schema) = exit(name, arguments);
        assert!(
            code == Some(0) && schema.contains(&format!("\"title\": \"{title}")),
            "{name} {arguments:?}: {schema}"
        );
    }
}

#[test]
fn a_live_node_is_forecast_at_the_current_time() {
    let output = Command::new(example("node_forecast"))
        .args(["--now", "now"])
        .output();
    let output = output.expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}
