//! Hosts in other languages ask through the C ABI.

use std::{
    env,
    ffi::OsStr,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

const DIRECTORY: &str = env!("CARGO_MANIFEST_DIR");

/// The directory of this test, in which cargo has built the library, too.
fn directory() -> PathBuf {
    let tests = env::current_exe().expect("a test has a path");
    tests
        .parent()
        .expect("tests are in target/PROFILE/deps")
        .to_owned()
}

fn question(dump: Value) -> Value {
    json!({
        "schema": "kubegc-question/1", "dump": dump, "complete": ["all"],
        "delete": [{"arguments": ["configmap/owner"], "namespace": "shop"}],
    })
}

fn dump() -> Value {
    json!([
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "shop", "name": "owner", "uid": "u1"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": "key", "uid": "u2",
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "u1"}]}},
    ])
}

/// Whether a program can be run. Where `CI` is set, it must.
fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        assert!(
            env::var_os("CI").is_none_or(|ci| ci.is_empty()),
            "{program} is not installed"
        );
        eprintln!("SKIPPED: {program} is not installed");
    }
    found
}

/// The answer that a caller prints.
fn asked(program: &str, arguments: &[&OsStr], question: &Value) -> Value {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin
        .write_all(question.to_string().as_bytes())
        .expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn python_asks() {
    if !is_installed("python3") {
        return;
    }
    let name = format!(
        "{}kubegc_c_abi{}",
        env::consts::DLL_PREFIX,
        env::consts::DLL_SUFFIX
    );
    let library = directory().join(name);
    let caller = Path::new(DIRECTORY).join("caller.py");
    let arguments = [caller.as_os_str(), library.as_os_str()];
    let answer = asked("python3", &arguments, &question(dump()));
    assert_eq!(answer["forecast"]["summary"], json!({"deleted": 2}), "{answer}");
    let wrong = asked("python3", &arguments, &question(json!("{")));
    assert_eq!(wrong["status"], "unreadable", "{wrong}");

    let file = directory().join("c_abi_dump.json");
    std::fs::write(&file, dump().to_string()).expect("a file");
    let of_file = asked(
        "python3",
        &[arguments[0], arguments[1], file.as_os_str()],
        &question(Value::Null),
    );
    assert_eq!(of_file["forecast"]["summary"], json!({"deleted": 2}), "{of_file}");
}

/// `KUBEGC_WASM` is the module: `cargo build -p kubegc-c-abi --target wasm32-unknown-unknown` builds it.
#[test]
fn a_page_asks() {
    let Some(module) = env::var_os("KUBEGC_WASM") else {
        eprintln!("SKIPPED: KUBEGC_WASM is not set");
        return;
    };
    if !is_installed("node") {
        return;
    }
    let caller = Path::new(DIRECTORY).join("caller.mjs");
    let answer = asked("node", &[caller.as_os_str(), &module], &question(dump()));
    assert_eq!(answer["forecast"]["summary"], json!({"deleted": 2}), "{answer}");
}
