//! The options of a DELETE request, from the body or from the query.

use bytes::Bytes;
use kubegc_core::{
    Behavior, KubernetesVersion, Preconditions, ResourceVersion, Uid, deletion::DeleteOptionsSpec,
};
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
        let grace = query.number("gracePeriodSeconds").map_err(|text| {
            problem::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
        })?;
        return Ok(DeleteOptionsSpec {
            propagation_policy: query.first("propagationPolicy").map(str::to_owned),
            orphan_dependents: query.flag("orphanDependents"),
            preconditions: None,
            grace_period_seconds: grace,
            dry_run: query.all("dryRun").map(str::to_owned).collect(),
        });
    }
    let refuse = |why: String| {
        if version.has(BAD_OPTIONS_ARE_BAD_REQUESTS) {
            problem::bad_request(why)
        } else {
            problem::internal(why)
        }
    };
    let body = body::document(request, ("meta.k8s.io/v1", "DeleteOptions"))?;
    let body = body.map_err(|why| refuse(why.problem))?;
    let text = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        (_, "" | "DeleteOptions") => {}
        ("v1" | "meta.k8s.io/v1", kind) if OTHER_META_KINDS.contains(&kind) => {
            return Err(refuse(
                "decoded object cannot be converted to DeleteOptions".to_owned(),
            ));
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
const OTHER_META_KINDS: [&str; 6] = [
    "CreateOptions",
    "ExportOptions",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "UpdateOptions",
];

/// The error names the invalid field.
fn read(body: &Value) -> Result<DeleteOptionsSpec, &'static str> {
    let at = |value: &Value, key: &str| value.get(key).cloned().unwrap_or(Value::Null);
    let text = |value: Value, field: &'static str| match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        _ => Err(field),
    };
    let preconditions = match at(body, "preconditions") {
        Value::Null => None,
        object @ Value::Object(_) => Some(Preconditions {
            uid: text(at(&object, "uid"), "preconditions.uid")?.map(|uid| Uid::new(&uid)),
            resource_version: text(at(&object, "resourceVersion"), "preconditions.resourceVersion")?
                .map(|version| ResourceVersion::new(&version)),
        }),
        _ => return Err("preconditions"),
    };
    Ok(DeleteOptionsSpec {
        propagation_policy: text(at(body, "propagationPolicy"), "propagationPolicy")?,
        orphan_dependents: match at(body, "orphanDependents") {
            Value::Null => None,
            Value::Bool(flag) => Some(flag),
            _ => return Err("orphanDependents"),
        },
        preconditions,
        grace_period_seconds: match at(body, "gracePeriodSeconds") {
            Value::Null => None,
            number => Some(number.as_i64().ok_or("gracePeriodSeconds")?),
        },
        dry_run: match at(body, "dryRun") {
            Value::Null => Vec::new(),
            Value::Array(items) => items
                .into_iter()
                .map(|item| text(item, "dryRun")?.ok_or("dryRun"))
                .collect::<Result<_, _>>()?,
            _ => return Err("dryRun"),
        },
    })
}
