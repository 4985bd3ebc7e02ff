//! The parameters of a request, the options of a deletion, and the combinations that the API server refuses.

use std::time::Duration;

use bytes::Bytes;
use kubegc_core::{
    Behavior, FieldError, KubernetesVersion, Preconditions, ResourceVersion, Uid,
    deletion::DeleteOptionsSpec, version::behavior,
};
use kubegc_sim::Filter;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{
    body,
    problem::{self, Cause, Refusal},
    query::Query,
};

/// `resourceVersionMatch` is read.
const VERSION_MATCH_IS_READ: Behavior = Behavior::since(19, 0, "kubernetes #91505");
/// The API server knows `sendInitialEvents` and refuses it for lists.
const INITIAL_EVENTS_ARE_READ: Behavior = Behavior::since(27, 0, "feature gate WatchList exists");
/// A watch may begin with a list: the feature gate `WatchList`, alpha from 1.27, on in 1.32, off in 1.33, on
/// from 1.34.
const WATCH_LIST: Behavior = Behavior::since(34, 0, "feature gate WatchList is on again");
/// The gate became beta and on in 1.32.
const WATCH_LIST_FIRST: Behavior = Behavior::since(32, 0, "feature gate WatchList is beta");
/// It was turned off again, because encoders of lists that stream work better.
const WATCH_LIST_PAUSED: Behavior = Behavior::since(33, 0, "feature gate WatchList is off");
/// A list with an invalid `resourceVersion` gets 400; before, it gets 500, as a GET or a watch does:
/// `ValidateListOptions` in
/// [`interfaces.go`](https://github.com/kubernetes/kubernetes/blob/v1.33.0/staging/src/k8s.io/apiserver/pkg/storage/interfaces.go#L356).
const LIST_VERSIONS_ARE_CHECKED: Behavior = Behavior::since(33, 0, "kubernetes #130637, #130688");
/// Errors about keys and values of label selectors are those of a field.
const LABELS_HAVE_PATHS: Behavior = Behavior::since(21, 0, "apimachinery, labels/selector.go");
/// Errors about selectors name all operators.
const OPERATORS_ARE_SORTED: Behavior = Behavior::since(22, 0, "apimachinery, labels/selector.go");
/// `fieldValidation` is read.
const FIELD_VALIDATION_IS_READ: Behavior = Behavior::since(25, 0, "ServerSideFieldValidation");

/// The duration of a watch without a timeout.
///
/// # Upstream
/// `--min-request-timeout`, 1800 s. The real server adds a random part of up to as much again.
const WATCH_DEFAULT: Duration = Duration::from_secs(1800);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListOptions {
    pub(super) filter: Filter,
    /// 0: everything at once.
    pub(super) limit: usize,
    pub(super) continue_token: String,
    pub(super) resource_version: Wanted,
    /// Whether a version that is given is the only one that will do, not a minimum.
    pub(super) is_exact: bool,
    pub(super) bookmarks: bool,
    pub(super) timeout: Duration,
    pub(super) send_initial_events: Option<bool>,
}

/// The requested version of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// No version is given: the latest data.
    Latest,
    /// 0: any available version. Here that is the latest one.
    Any,
    At(u64),
}

impl Wanted {
    /// Reads `resourceVersion`.
    ///
    /// # Errors
    /// 500, as upstream, if it is not a number.
    pub(super) fn read(text: &str) -> Result<Self, Refusal> {
        Self::parse(text).map_err(problem::internal)
    }

    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "" => Ok(Self::Latest),
            "0" => Ok(Self::Any),
            _ => text.parse().map(Self::At).map_err(|_| {
                format!(
                    "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
                )
            }),
        }
    }

    /// Refuses a version that is not reached yet. The real server waits for it a few seconds first.
    pub(super) fn reached(self, current: u64) -> Result<Self, Refusal> {
        match self {
            Self::At(wanted) if wanted > current => Err(problem::too_large_resource_version(wanted, current)),
            other => Ok(other),
        }
    }
}

impl ListOptions {
    /// Reads the options of a list, a watch, or the deletion of a collection.
    pub(super) fn read(query: &Query, is_watch: bool, version: KubernetesVersion) -> Result<Self, Refusal> {
        let limit = query.number("limit")?.unwrap_or(0);
        let timeout_s = query.number("timeoutSeconds")?.unwrap_or(0);
        let unreadable = |error: FieldError| {
            let problem = match error {
                FieldError::Invalid { problem, .. } => problem,
                error => error.to_string(),
            };
            let problem = match version.has(LABELS_HAVE_PATHS) {
                true => problem,
                false => without_path(&problem).unwrap_or(problem),
            };
            problem::bad_request(match version.has(OPERATORS_ARE_SORTED) {
                true => problem.replace("'=', '!=', '==', 'in', notin'", "in, notin, =, ==, !=, gt, lt"),
                false => problem,
            })
        };
        let filter = Filter {
            labels: query.text("labelSelector").parse().map_err(unreadable)?,
            fields: query.text("fieldSelector").parse().map_err(unreadable)?,
        };
        let causes = unfit(query, is_watch, version);
        if !causes.is_empty() {
            return Err(problem::invalid_options("ListOptions", causes));
        }
        Ok(Self {
            filter,
            limit: usize::try_from(limit).unwrap_or(0),
            continue_token: query.text("continue").to_owned(),
            resource_version: match Wanted::parse(query.text("resourceVersion")) {
                Ok(wanted) => wanted,
                Err(why) if !is_watch && version.has(LIST_VERSIONS_ARE_CHECKED) => {
                    return Err(problem::bad_request(format!("invalid resource version: {why}")));
                }
                Err(why) => return Err(problem::internal(why)),
            },
            is_exact: match query.text("resourceVersionMatch") {
                "Exact" if version.has(VERSION_MATCH_IS_READ) => true,
                "NotOlderThan" if version.has(VERSION_MATCH_IS_READ) => false,
                // Unset: exact in a list with a limit, and a minimum elsewhere.
                _ => limit > 0,
            },
            bookmarks: query.flag("allowWatchBookmarks") == Some(true),
            timeout: match u64::try_from(timeout_s) {
                Ok(seconds @ 1..) => Duration::from_secs(seconds),
                _ => WATCH_DEFAULT,
            },
            send_initial_events: match is_watch && has_watch_list(version) {
                true => query
                    .flag("sendInitialEvents")
                    .or_else(|| lists_by_default(query)),
                false => None,
            },
        })
    }
}

/// An error about a key or a value of a label selector as releases without paths print it.
fn without_path(problem: &str) -> Option<String> {
    if let Some((before, rest)) = problem.split_once("<nil>: Invalid value: ") {
        return Some(format!("{before}invalid label key {rest}"));
    }
    let (before, rest) = problem.split_once("values[")?;
    let (key, rest) = rest.split_once("][")?.1.split_once("]: Invalid value: ")?;
    let (value, why) = rest.split_once("\": ")?;
    Some(format!(
        "{before}invalid label value: {value}\": at key: {key:?}: {why}"
    ))
}

/// A watch of the latest or of any version begins with a list.
///
/// # Upstream
/// `SetListOptionsDefaults` in
/// [`defaults.go`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apimachinery/pkg/apis/meta/internalversion/defaults.go).
fn lists_by_default(query: &Query) -> Option<bool> {
    let is_any = matches!(query.text("resourceVersion"), "" | "0");
    (is_any && query.text("resourceVersionMatch").is_empty()).then_some(true)
}

/// Whether the feature gate `WatchList` is on by default.
///
/// # Upstream
/// [`kube_features.go`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/apiserver/pkg/features/kube_features.go#L469).
fn has_watch_list(version: KubernetesVersion) -> bool {
    version.has(WATCH_LIST) || (version.has(WATCH_LIST_FIRST) && !version.has(WATCH_LIST_PAUSED))
}

/// The invalid combinations of options of a list or a watch.
///
/// # Upstream
/// `ValidateListOptions` in `apimachinery/pkg/apis/internalversion/validation`; read in 1.20.2 for lists, in
/// 1.32 for watches.
fn unfit(query: &Query, is_watch: bool, version: KubernetesVersion) -> Vec<Cause> {
    const FIELD: &str = "resourceVersionMatch";
    const INITIAL: &str = "sendInitialEvents";
    if !version.has(VERSION_MATCH_IS_READ) {
        return Vec::new();
    }
    let wanted = query.text(FIELD);
    let has_match = !wanted.is_empty();
    let (at, continues) = (query.text("resourceVersion"), !query.text("continue").is_empty());
    let initial = query.first(INITIAL).is_some();
    let supports = |values: &[&str]| {
        let cause = Cause::not_supported(FIELD, &format!("{wanted:?}"), values);
        (has_match && !values.contains(&wanted), cause)
    };
    let forbid = |is_unfit: bool, field, why: &str| (is_unfit, Cause::forbidden(field, why));
    let continued = "resourceVersionMatch is forbidden when continue is provided";
    let rules = if is_watch {
        let unmatched = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        let gated = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        let alone = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        [
            forbid(initial && wanted != "NotOlderThan", FIELD, unmatched),
            forbid(initial && !has_watch_list(version), INITIAL, gated),
            forbid(has_match && !initial, FIELD, alone),
            supports(&["NotOlderThan"]),
            forbid(continues, FIELD, continued),
        ]
    } else {
        let alone = "resourceVersionMatch is forbidden unless resourceVersion is provided";
        let exact = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
        let is_read = version.has(INITIAL_EVENTS_ARE_READ);
        [
            forbid(has_match && at.is_empty(), FIELD, alone),
            forbid(has_match && continues, FIELD, continued),
            forbid(wanted == "Exact" && at == "0", FIELD, exact),
            supports(&["Exact", "NotOlderThan", ""]),
            forbid(
                initial && is_read,
                INITIAL,
                "sendInitialEvents is forbidden for list",
            ),
        ]
    };
    let unfit = rules.into_iter().filter(|(is_unfit, _)| *is_unfit);
    unfit.map(|(_, cause)| cause).collect()
}

/// Checks the parameters that every write takes. `kind` is how upstream names them: `CreateOptions` and so
/// on.
///
/// # Upstream
/// `ValidateCreateOptions` and its siblings in `apimachinery/pkg/apis/meta/v1/validation`, 1.20.2.
pub(super) fn write_options(query: &Query, kind: &str, version: KubernetesVersion) -> Result<(), Refusal> {
    let mut causes = Vec::new();
    let dry_run: Vec<&str> = query.all("dryRun").collect();
    if dry_run.iter().any(|value| *value != "All") {
        let shown: Vec<String> = dry_run.iter().map(|value| format!("{value:?}")).collect();
        let shown = match version.has(behavior::VALUES_ARE_JSON) {
            true => format!("[{}]", shown.join(",")),
            false => format!("[]string{{{}}}", shown.join(", ")),
        };
        causes.push(Cause::not_supported("dryRun", &shown, &["All"]));
    }
    let manager = query.text("fieldManager");
    if manager.len() > FIELD_MANAGER_MAX {
        causes.push(Cause::too_long(version, "fieldManager", FIELD_MANAGER_MAX));
    }
    for (position, odd) in manager.chars().enumerate().filter(|(_, char)| char.is_control()) {
        let why = format!("invalid character U+{:04X} (at position {position})", odd as u32);
        causes.push(Cause::invalid("fieldManager", &format!("{manager:?}"), &why));
    }
    let validation = query.text("fieldValidation");
    if version.has(FIELD_VALIDATION_IS_READ) && !matches!(validation, "" | "Ignore" | "Warn" | "Strict") {
        let supported = ["", "Ignore", "Strict", "Warn"];
        causes.push(Cause::not_supported(
            "fieldValidation",
            &format!("{validation:?}"),
            &supported,
        ));
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(problem::invalid_options(kind, causes))
    }
}

/// Whether unknown fields are refused (true) or warned of (false); `None` where they are ignored.
pub(super) fn field_validation(query: &Query, version: KubernetesVersion) -> Option<bool> {
    match query.text("fieldValidation") {
        _ if !version.has(FIELD_VALIDATION_IS_READ) => None,
        "Ignore" => None,
        directive => Some(directive == "Strict"),
    }
}

const FIELD_MANAGER_MAX: usize = 128;

/// Checks the options of a server-side apply, and of a patch that is none.
///
/// # Upstream
/// `ValidatePatchOptions` in `apimachinery/pkg/apis/meta/v1/validation`, 1.20.2.
pub(super) fn apply_options(query: &Query, is_apply: bool) -> Result<(), Refusal> {
    let cause = if is_apply && query.text("fieldManager").is_empty() {
        Cause::required("fieldManager", "is required for apply patch")
    } else if !is_apply && query.first("force").is_some() {
        Cause::forbidden("force", "may not be specified for non-apply patch")
    } else {
        return Ok(());
    };
    Err(problem::invalid_options("PatchOptions", vec![cause]))
}

/// Options that cannot be read are a bad request; before, they are an internal error.
const BAD_OPTIONS_ARE_BAD_REQUESTS: Behavior = Behavior::since(35, 0, "kubernetes #133358");

/// The options of a deletion: from the body if there is one, else from the query. They are not checked yet.
///
/// # Errors
/// 400 for a query that cannot be read; 415, 400 or 500 if the body is nothing of the kind.
///
/// # Upstream
/// `DeleteResource` in `apiserver/pkg/endpoints/handlers/delete.go`, 1.20.2 and
/// [1.35.0](https://github.com/kubernetes/kubernetes/blob/v1.35.0/staging/src/k8s.io/apiserver/pkg/endpoints/handlers/delete.go#L111).
pub(super) fn delete_options(
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
    let preconditions: Option<Map<String, Value>> = field(body, "preconditions")?;
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
