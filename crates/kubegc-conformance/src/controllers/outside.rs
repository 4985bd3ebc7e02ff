//! The systems outside of the API server: the cloud provider and the volume plugin of a case.

use kubegc_controllers::{Cloud, CloudResponse, Operated, Operation, Plugin, Request, Response};
use kubegc_core::{StoreError, record::ObjectId};
use serde_json::Value;

use super::server::text;

/// Upstream's conclusion from the responses of the case's cloud provider.
///
/// # Upstream
/// `ensureNodeExistsByProviderID` and `shutdownInCloudProvider` in `node_lifecycle_controller.go`,
/// `GetInstanceProviderID` in `cloud.go`.
pub(super) fn cloud_response(case: &Value, node: &ObjectId, provider_id: &str) -> CloudResponse {
    let answer = |name: &str, question: &str| {
        let answers = &case["cloud"][name];
        match (
            text(answers, &format!("{question}_error")),
            answers[question].as_bool(),
        ) {
            ("", Some(true)) => Cloud::Yes,
            ("", _) => Cloud::No,
            ("NotImplemented", _) => Cloud::NotImplemented,
            (error, _) => Cloud::Failed(error.into()),
        }
    };
    let name = &*node.name;
    let id_error = text(&case["cloud"][name], "instance_id_error");
    let [exists, is_shut_down] = if case["instances_v2"] == true {
        ["exists", "shutdown"].map(|question| answer(name, question))
    } else if !provider_id.is_empty() || id_error.is_empty() {
        ["exists", "shutdown"].map(|question| answer(name, question))
    } else if id_error == "InstanceNotFound" {
        [Cloud::No, Cloud::No]
    } else {
        [Cloud::Failed(id_error.into()), Cloud::Failed(id_error.into())]
    };
    // Before 1.21 the second query does not look up the id.
    let is_not_queried =
        case["version"] == "1.20.2" && case["instances_v2"] != true && provider_id.is_empty();
    CloudResponse {
        node_uid: node.uid.clone(),
        exists,
        is_shut_down: if is_not_queried { Cloud::No } else { is_shut_down },
    }
}

pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// The one plugin of the recordings, `kubernetes.io/mock`, which supports volumes with a `hostPath`.
///
/// # Upstream
/// `findDeletablePlugin` and `doDeleteVolume` in `pv_controller.go`.
pub(super) fn plugin(case: &Value, request: &Request) -> Response {
    let volume = &case["volume"];
    let is_older = case["version"] != "latest";
    let missing = |message: String| Response::Plugin(Plugin::Missing { message });
    let outcome = text(case, "plugin_outcome");
    match request {
        Request::FindPlugin {
            operation: Operation::DeleteVolume,
            ..
        } => {
            let [getting, creating] = if is_older {
                ["Error", "Failed"]
            } else {
                ["error", "failed"]
            };
            match text(&volume["metadata"]["annotations"], PROVISIONED_BY) {
                "" if volume["spec"]["hostPath"].is_null() => missing(format!(
                    "{getting} getting deleter volume plugin for volume \"pv\": no volume plugin matched"
                )),
                "" | "kubernetes.io/mock" if outcome == "no deleter" => missing(format!(
                    "{creating} to create deleter for volume \"pv\": no deleter today"
                )),
                "" | "kubernetes.io/mock" => Response::Plugin(Plugin::InTree),
                name if name.starts_with("kubernetes.io/") => {
                    missing(format!("no volume plugin matched name: {name}"))
                }
                _ => Response::Plugin(Plugin::External),
            }
        }
        Request::FindPlugin { .. } if volume["spec"]["hostPath"].is_null() => missing(String::new()),
        Request::FindPlugin { .. } => Response::Plugin(Plugin::InTree),
        Request::Operate { operation, .. } => Response::Operation(match (operation, outcome) {
            (_, "ok") => Operated::Done,
            (Operation::DeleteVolume, "in use") => Operated::InUse {
                message: "still in use".to_owned(),
            },
            (Operation::DeleteVolume, _) => Operated::Failed {
                message: "disk on fire".to_owned(),
            },
            (Operation::RecycleVolume, _) => Operated::Failed {
                message: "cannot scrub".to_owned(),
            },
        }),
        _ => Response::Failed(StoreError::NotSupported { operation: "this" }),
    }
}
