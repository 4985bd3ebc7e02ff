//! Responses of a runtime, complete or not, and their meaning for the client.
//!
//! The inputs of `responses.txt` are responses and calls. Each line of calls is about a runtime with all
//! responses of its input and those after `with`. A result is followed by the warnings, and `$` is the path of
//! the socket. `-` is an empty text.
//!
//! | line | meaning |
//! |---|---|
//! | `version NAME VERSION API`, `serves SERVICE` | the response to `Version`; a runtime without the other service |
//! | `container ID`, `sandbox ID`, `image ID` | an entry of a listing; options add and clear fields |
//! | `status ID STATE`, `silent ID` | the status of a container, and a response without one |
//! | `runtime-status READY` | the response to `Status` |
//! | `fail METHOD CODE TEXT`, `vanish METHOD` | an error instead of a response |
//! | `call connect`, `call METHOD ARGUMENTS` | calls on one connection, separated by `, ` |

use kubegc_core::{Runtime, RuntimeError};
use kubegc_cri::{CriRuntime, Options};
use kubegc_fixtures::{Logs, check_transcript};
use tonic::Code;

use crate::{
    convert::spec,
    server::{Fault, Rule, Server, Serves},
    tables::{Reported, Tables, container, image, sandbox, version},
    wire,
    words::Words,
};

#[test]
fn responses_have_these_meanings() {
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made");
    check_transcript("tests/scripted/responses.txt", |input| {
        let is_call = |line: &&str| line.starts_with("call ");
        let (calls, responses): (Vec<&str>, Vec<&str>) = input.lines().partition(is_call);
        let outcomes = calls.iter().map(|line| tokio.block_on(outcome(&responses, line)));
        outcomes.collect::<Vec<_>>().join("\n")
    });
}

/// Adds a response to the tables.
fn add(tables: &mut Tables, fact: &Words<'_>) {
    let id = fact.text(1);
    match fact.0[0] {
        "version" => {
            tables.version = version(id, fact.text(2), fact.text(3));
            if fact.has("no-version") {
                tables.version.version.clear();
            }
        }
        "container" => {
            let mut container = container(id);
            container.state = fact.number("state").unwrap_or(container.state);
            container.created_at = fact.number("created").unwrap_or(container.created_at);
            if fact.has("no-sandbox") {
                container.pod_sandbox_id.clear();
            }
            if fact.has("no-image") {
                container.image_ref.clear();
            }
            if fact.has("no-metadata") {
                container.metadata = None;
            }
            tables.containers.push(container);
        }
        "sandbox" => {
            let mut sandbox = sandbox(id);
            sandbox.state = fact.number("state").unwrap_or(sandbox.state);
            if fact.has("no-metadata") {
                sandbox.metadata = None;
            }
            if fact.has("empty-metadata") {
                sandbox.metadata = Some(wire::PodSandboxMetadata::default());
            }
            if let Some(uid) = fact.option("label") {
                let labels = [("uid", uid), ("name", "web-0"), ("namespace", "shop")];
                sandbox.labels = labels
                    .map(|(key, value)| (format!("io.kubernetes.pod.{key}"), value.to_owned()))
                    .into();
            }
            tables.sandboxes.push(sandbox);
        }
        "image" => tables.images.push(wire::Image {
            pinned: fact.has("pinned"),
            repo_tags: fact.option("tag").into_iter().map(str::to_owned).collect(),
            spec: fact.option("handler").map(|handler| spec("", handler)),
            ..image(id)
        }),
        "silent" => drop(tables.statuses.insert(id.to_owned(), None)),
        "status" => {
            let mounts = fact.option("mounts").into_iter().flat_map(|all| all.split(','));
            let mount = |image: &str| wire::Mount {
                container_path: "/data".to_owned(),
                image: (image != "none").then(|| spec(image, "kata")),
            };
            let status = wire::ContainerStatus {
                id: id.to_owned(),
                state: fact.number_at(2),
                mounts: mounts.map(mount).collect(),
                log_path: fact.option("log").unwrap_or_default().to_owned(),
                ..wire::ContainerStatus::default()
            };
            tables.statuses.insert(id.to_owned(), Some(status));
        }
        "runtime-status" => {
            let ready: bool = fact.number_at(1);
            let conditions = [("NetworkReady", !ready), ("RuntimeReady", ready)];
            let conditions = conditions.map(|(kind, status)| wire::RuntimeCondition {
                r#type: kind.to_owned(),
                status,
                reason: "NetworkPluginNotReady".to_owned(),
                message: "no network".to_owned(),
            });
            let config = fact.option("config").into_iter();
            tables.status = wire::StatusResponse {
                status: Some(wire::RuntimeStatus {
                    conditions: conditions.to_vec(),
                }),
                info: config
                    .map(|config| ("config".to_owned(), config.to_owned()))
                    .collect(),
            };
        }
        other => panic!("there is no response {other}"),
    }
}

/// The fault of a line, if it is one.
fn fault(fact: &Words<'_>) -> Option<Rule> {
    let fault = match fact.0[0] {
        "vanish" => Fault::Vanish,
        "fail" => {
            let code = match fact.0[2] {
                "Unimplemented" => Code::Unimplemented,
                _ => Code::Unknown,
            };
            Fault::Fail(code, fact.0[3..].join(" ").leak())
        }
        _ => return None,
    };
    Some(Rule::always(fact.0[1].to_owned().leak(), fault))
}

/// The results of the calls of a line, and the warnings.
async fn outcome(responses: &[&str], line: &str) -> String {
    let (calls, more) = line.split_once(" with ").unwrap_or((line, ""));
    let (mut tables, mut serves, mut rules) = (Tables::default(), Serves::Both, Vec::new());
    let more = more.split("; ").filter(|response| !response.is_empty());
    for response in responses.iter().copied().chain(more) {
        let response = Words::new(response);
        match (response.0[0], fault(&response)) {
            (_, Some(rule)) => rules.push(rule),
            ("serves", None) if response.has("images") => serves = Serves::ImagesOnly,
            ("serves", None) => serves = Serves::RuntimeOnly,
            _ => add(&mut tables, &response),
        }
    }
    let server = Server::serving(serves, Reported::new(tables));
    server.script(rules);
    let (logs, _guard) = Logs::capture();
    let runtime = match CriRuntime::connect(&server.endpoint(), Options::default()).await {
        Ok(runtime) => runtime,
        Err(error) => {
            let path = server.path().display().to_string();
            return error.to_string().replace(&path, "$");
        }
    };
    let mut results = Vec::new();
    for call in calls.trim_start_matches("call ").split(", ") {
        results.push(match result(&runtime, &Words::new(call)).await {
            Ok(result) => result,
            Err(error @ RuntimeError::Refused { .. }) => format!("refused: {error}"),
            Err(error @ RuntimeError::Unknown { .. }) => format!("unknown: {error}"),
            Err(error) => error.to_string(),
        });
    }
    results.extend(logs.lines());
    results.join(" | ")
}

async fn result(runtime: &CriRuntime, call: &Words<'_>) -> Result<String, RuntimeError> {
    let joined = |shown: Vec<String>| shown.join(", ");
    match call.0[0] {
        "connect" => Ok(runtime.version().to_string()),
        "ListContainers" => {
            let all = runtime.containers().await?;
            let shown = all.iter().map(|one| format!("{} {:?}", one.id, one.state));
            Ok(joined(shown.collect()))
        }
        "ListPodSandbox" => {
            let all = runtime.sandboxes().await?;
            let shown = all.iter().map(|one| format!("{} {:?}", one.id, one.state));
            Ok(joined(shown.collect()))
        }
        "ListImages" => {
            let all = runtime.images().await?;
            let shown = all
                .iter()
                .map(|one| format!("{} {:?}", one.id, one.runtime_handler));
            Ok(joined(shown.collect()))
        }
        "RemoveImage" => {
            runtime.remove_image(call.text(1), call.text(2)).await?;
            Ok("removed".to_owned())
        }
        "ContainerStatus" => {
            let status = runtime.container_status(call.text(1)).await?;
            Ok(status.map_or("no status".to_owned(), |status| {
                let (log, images) = (status.log_path, status.image_volumes);
                format!("{:?}, log {log:?}, images {images:?}", status.state)
            }))
        }
        "ImageStatus" => {
            let id = runtime.image_id(call.text(1)).await?;
            Ok(id.map_or("no image".to_owned(), |id| id.to_string()))
        }
        _ => {
            let status = runtime.status().await?;
            let mut shown = vec![format!(
                "ready {}, sandbox image {:?}",
                status.is_ready(),
                status.sandbox_image
            )];
            for condition in &status.conditions {
                let (kind, status, message) = (&condition.kind, condition.status, &condition.message);
                shown.push(format!("{kind} {status} {message}"));
            }
            Ok(joined(shown))
        }
    }
}
