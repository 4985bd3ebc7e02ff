//! The options of a DELETE request, from the body or from the query.

use bytes::Bytes;
use kubegc_core::{
    Behavior, KubernetesVersion, Preconditions, ResourceVersion, Uid, deletion::DeleteOptionsSpec,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    body,
    call::Verb,
    problem::{self, Refusal},
    query::Query,
};

/// Options that cannot be read are a bad request; before, they are an internal error.
const BAD_OPTIONS_ARE_BAD_REQUESTS: Behavior = Behavior::since(35, 0, "kubernetes #133358");

/// Whether a write is a dry run. A deletion requests it in its body, or, without a body, in the query.
pub(super) fn asks_for_dry_run(
    verb: Verb,
    query: &Query,
    request: &http::Request<Bytes>,
    version: KubernetesVersion,
) -> bool {
    match verb {
        Verb::Delete | Verb::DeleteCollection => {
            body::within_bounds(request).is_ok()
                && options(query, request, version).is_ok_and(|options| !options.dry_run.is_empty())
        }
        _ => query.all("dryRun").next().is_some(),
    }
}

/// The options of a deletion: from the body if there is one, else from the query. They are not checked yet.
///
/// # Errors
/// 400 for a query that cannot be read; 415, 400 or 500 if the body is nothing of the kind.
///
/// # Upstream
/// `DeleteResource` in `apiserver/pkg/endpoints/handlers/delete.go`, 1.20.2 and
/// [1.35.0](https://github.com/kubernetes/kubernetes/blob/v1.35.0/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/delete.go#L111).
pub(super) fn options(
    query: &Query,
    request: &http::Request<Bytes>,
    version: KubernetesVersion,
) -> Result<DeleteOptionsSpec, Refusal> {
    if request.body().is_empty() {
        return Ok(DeleteOptionsSpec {
            propagation_policy: query.first("propagationPolicy").map(str::to_owned),
            orphan_dependents: query.flag("orphanDependents"),
            preconditions: None,
            grace_period_seconds: query.number("gracePeriodSeconds")?,
            dry_run: query.all("dryRun").map(str::to_owned).collect(),
        });
    }
    let refuse = |why: String| match version.has(BAD_OPTIONS_ARE_BAD_REQUESTS) {
        true => problem::bad_request(why),
        false => problem::internal(why),
    };
    let body = body::document(request, ("meta.k8s.io/v1", "DeleteOptions"))?;
    let body = body.map_err(|why| refuse(why.problem))?;
    let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        (_, "" | "DeleteOptions") => {}
        ("v1" | "meta.k8s.io/v1", kind) if OTHER_META_KINDS.split(' ').any(|other| other == kind) => {
            let why = "decoded object cannot be converted to DeleteOptions";
            return Err(refuse(why.to_owned()));
        }
        (api_version, kind) => {
            return Err(refuse(format!(
                "no kind {kind:?} is registered for version {api_version:?} in scheme \
                 \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\""
            )));
        }
    }
    read(&body).map_err(|field| {
        refuse(format!(
            "v1.DeleteOptions.{field}: another type is expected, error found in #10 byte of ...|{field}|..."
        ))
    })
}

/// The kinds that can be decoded where the options of a deletion are expected.
///
/// # Upstream
/// `AddToGroupVersion` in `apimachinery/pkg/apis/meta/v1/register.go`, 1.20.2.
const OTHER_META_KINDS: &str =
    "CreateOptions ExportOptions GetOptions ListOptions PatchOptions UpdateOptions";

/// The error names the invalid field.
fn read(body: &Value) -> Result<DeleteOptionsSpec, &'static str> {
    if !matches!(
        body.get("preconditions"),
        None | Some(Value::Null | Value::Object(_))
    ) {
        return Err("preconditions");
    }
    let preconditions = body.get("preconditions").and_then(Value::as_object);
    let uid: Option<String> = field(body, "preconditions.uid")?;
    let version: Option<String> = field(body, "preconditions.resourceVersion")?;
    Ok(DeleteOptionsSpec {
        propagation_policy: field(body, "propagationPolicy")?,
        orphan_dependents: field(body, "orphanDependents")?,
        preconditions: preconditions.map(|_| Preconditions {
            uid: uid.as_deref().map(Uid::new),
            resource_version: version.as_deref().map(ResourceVersion::new),
        }),
        grace_period_seconds: field(body, "gracePeriodSeconds")?,
        dry_run: field(body, "dryRun")?.unwrap_or_default(),
    })
}

/// The value at a path, if it is not null.
fn field<T: DeserializeOwned>(body: &Value, path: &'static str) -> Result<Option<T>, &'static str> {
    let mut value = body;
    for key in path.split('.') {
        value = &value[key];
    }
    Option::deserialize(value).map_err(|_| path)
}
