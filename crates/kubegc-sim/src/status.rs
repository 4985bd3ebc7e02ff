//! Statuses of errors: code, reason, message and causes, in the API server's own words.

use std::{fmt, fmt::Write, sync::Arc, time::Duration};

use kubegc_core::{
    ApiResource, Behavior, FieldError, KubernetesVersion, ResourceVersion, StoreError, Uid, version::behavior,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The body of a response without an object: `metav1.Status`.
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Status {
    /// HTTP status.
    pub code: u16,
    /// Machine-readable reason such as `NotFound`; empty on success.
    pub reason: &'static str,
    /// The message; empty on success.
    pub message: String,
    pub details: Option<Details>,
    /// The version of an object that was deleted, in releases that return it.
    pub resource_version: Option<ResourceVersion>,
    /// The token with which a client may continue a list that cannot be finished at its first revision.
    pub continue_token: Option<String>,
    /// The configuration that refused the request; none if it breaks a rule of the API server itself.
    /// Not a part of the response.
    pub refused_by: Option<RefusedBy>,
}

/// A configuration or writer that makes the API server refuse requests which keep its own rules.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RefusedBy {
    /// The admission webhook of this name.
    Webhook(Arc<str>),
    /// A ValidatingAdmissionPolicy.
    Policy { policy: Arc<str>, binding: Arc<str> },
    /// The conversion webhook of the CustomResourceDefinition of this name.
    Conversion(Arc<str>),
    /// The authorization of the user of this name.
    Authorization(Arc<str>),
    /// The ResourceQuota of this name.
    Quota(Arc<str>),
    /// An expected resourceVersion: another writer changed the object first.
    Conflict,
}

/// The object of a [`Status`].
#[non_exhaustive]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    #[serde(skip_serializing_if = "is_empty")]
    pub name: Arc<str>,
    #[serde(skip_serializing_if = "is_empty")]
    pub group: Arc<str>,
    /// The *resource* in most responses (`configmaps`), the kind in those about invalid objects and
    /// preconditions.
    #[serde(skip_serializing_if = "is_empty")]
    pub kind: Arc<str>,
    /// Uid of an object that was deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<Uid>,
    /// The single problems of an invalid object.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// The delay in seconds before a retry, if a retry may help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

/// One problem of a refused request.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Cause {
    /// Machine-readable reason such as `FieldValueInvalid`.
    #[serde(skip_serializing_if = "is_empty")]
    pub reason: &'static str,
    #[serde(skip_serializing_if = "is_empty")]
    pub field: String,
    #[serde(skip_serializing_if = "is_empty")]
    pub message: String,
}

fn is_empty(text: &impl AsRef<str>) -> bool {
    text.as_ref().is_empty()
}

impl Status {
    /// A status without an object.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            ..Self::default()
        }
    }

    /// The same refusal, by a webhook or policy.
    pub(crate) fn by(mut self: Box<Self>, refused_by: RefusedBy) -> Box<Self> {
        self.refused_by = Some(refused_by);
        self
    }

    /// The same status, about an object.
    #[must_use]
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = Some(details);
        self
    }

    /// Whether the request succeeded.
    pub const fn is_success(&self) -> bool {
        self.code < 300
    }

    /// The single problems, if the server reported them.
    pub fn causes(&self) -> &[Cause] {
        self.details
            .as_ref()
            .map_or(&[], |details| details.causes.as_slice())
    }

    /// The status of an error as an error of an object store.
    pub fn to_error(&self) -> StoreError {
        let seconds = self
            .details
            .as_ref()
            .and_then(|details| details.retry_after_seconds);
        let retry_after = seconds.map(|seconds| Duration::from_secs(seconds.into()));
        StoreError::from_status(self.code, self.message.as_str(), retry_after)
    }

    /// The response in its JSON form on the wire.
    pub fn to_json(&self) -> Value {
        let version = self.resource_version.as_ref().map_or("", ResourceVersion::as_str);
        let metadata = texts(&[
            ("resourceVersion", version),
            ("continue", self.continue_token.as_deref().unwrap_or_default()),
        ]);
        let mut fields = texts(&[
            ("kind", "Status"),
            ("apiVersion", "v1"),
            ("status", if self.is_success() { "Success" } else { "Failure" }),
            ("message", &self.message),
            ("reason", self.reason),
        ]);
        fields.insert("metadata".to_owned(), metadata.into());
        if let Some(details) = &self.details {
            fields.insert("details".to_owned(), json!(details));
        }
        if !self.is_success() || self.code == 201 {
            fields.insert("code".to_owned(), self.code.into());
        }
        Value::Object(fields)
    }
}

/// The fields whose texts are not empty.
fn texts(fields: &[(&str, &str)]) -> Map<String, Value> {
    let given = fields.iter().filter(|(_, text)| !text.is_empty());
    given
        .map(|(key, text)| ((*key).to_owned(), (*text).into()))
        .collect()
}

impl Details {
    /// About an object, by its name and by the group and resource of its kind.
    pub fn new(name: &str, group: &str, kind: &str) -> Self {
        Self {
            name: name.into(),
            group: group.into(),
            kind: kind.into(),
            ..Self::default()
        }
    }

    /// The same, with the single problems of the object.
    #[must_use]
    pub fn with_causes(mut self, causes: Vec<Cause>) -> Self {
        self.causes = causes;
        self
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if !self.reason.is_empty() {
            write!(f, " {}", self.reason)?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

/// Limits of one are in the singular.
const ONE_IS_SINGULAR: Behavior = Behavior::since(34, 0, "TooLong and TooMany of 1.34");

/// A number of bytes or items.
fn counted(version: KubernetesVersion, count: usize, noun: &str) -> String {
    match count == 1 && version.has(ONE_IS_SINGULAR) {
        true => format!("{count} {noun}"),
        false => format!("{count} {noun}s"),
    }
}

impl Cause {
    /// A problem with a field; empty if it is not about one.
    pub fn new(reason: &'static str, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            reason,
            field: field.into(),
            message: message.into(),
        }
    }

    /// A value of the right type that is not allowed; `shown` is the value as the server prints it, empty for
    /// one that it does not print.
    pub fn invalid(field: impl Into<String>, shown: &str, problem: &str) -> Self {
        let message = match (shown, problem) {
            ("", rest) | (rest, "") => format!("Invalid value: {rest}"),
            (shown, problem) => format!("Invalid value: {shown}: {problem}"),
        };
        Self::new("FieldValueInvalid", field, message)
    }

    /// A change that is not allowed.
    pub fn forbidden(field: impl Into<String>, problem: &str) -> Self {
        Self::new("FieldValueForbidden", field, format!("Forbidden: {problem}"))
    }

    /// A required field is missing.
    pub fn required(field: impl Into<String>, problem: &str) -> Self {
        let message = match problem {
            "" => "Required value".to_owned(),
            problem => format!("Required value: {problem}"),
        };
        Self::new("FieldValueRequired", field, message)
    }

    /// A value that is not one of the allowed values; `shown` is the value as the server prints it.
    pub fn not_supported(field: impl Into<String>, shown: &str, supported: &[impl AsRef<str>]) -> Self {
        let supported: Vec<String> = supported.iter().map(|one| quoted(one.as_ref())).collect();
        let mut message = format!("Unsupported value: {shown}");
        if !supported.is_empty() {
            message += &format!(": supported values: {}", supported.join(", "));
        }
        Self::new("FieldValueNotSupported", field, message)
    }

    /// A value that is longer than `max` bytes.
    pub fn too_long(version: KubernetesVersion, field: impl Into<String>, max: usize) -> Self {
        let message = match version.has(behavior::TOO_LONG_MAY_NOT_BE) {
            true => format!("Too long: may not be more than {}", counted(version, max, "byte")),
            false => format!("Too long: must have at most {max} bytes"),
        };
        Self::new("FieldValueTooLong", field, message)
    }

    /// A list or map with more than `max` entries.
    pub(crate) fn too_many(
        version: KubernetesVersion,
        field: impl Into<String>,
        count: usize,
        max: usize,
    ) -> Self {
        let most = counted(version, max, "item");
        let message = format!("Too many: {count}: must have at most {most}");
        Self::new("FieldValueTooMany", field, message)
    }

    /// A value that another field or item already has.
    pub(crate) fn duplicate(field: impl Into<String>, shown: &str) -> Self {
        Self::new("FieldValueDuplicate", field, format!("Duplicate value: {shown}"))
    }

    fn from_field_error(error: &FieldError) -> Self {
        let text = error.to_string();
        let body = text
            .strip_prefix(error.field())
            .and_then(|text| text.strip_prefix(": "));
        let reason = match error {
            FieldError::NotSupported { .. } => "FieldValueNotSupported",
            FieldError::Required { .. } => "FieldValueRequired",
            FieldError::Forbidden { .. } => "FieldValueForbidden",
            _ => "FieldValueInvalid",
        };
        Self::new(reason, error.field(), body.unwrap_or(&text))
    }
}

/// An error that is returned to the client.
pub type Refusal = Box<Status>;

/// The result of a request, or of a part of it.
pub(crate) type Result<T, E = Refusal> = std::result::Result<T, E>;

/// The problem of a body that cannot be read.
impl From<FieldError> for Refusal {
    fn from(error: FieldError) -> Self {
        bad_request(error.to_string())
    }
}

/// A response without an object.
pub fn refusal(
    code: u16,
    reason: &'static str,
    message: impl Into<String>,
    details: impl Into<Option<Details>>,
) -> Refusal {
    Box::new(Status {
        details: details.into(),
        ..Status::new(code, reason, message)
    })
}

/// The group in the names of stored objects of a resource, where several groups serve it.
///
/// # Upstream
/// `DefaultQualifiedResource` of the stores in `pkg/registry`, 1.20.2.
fn storage_group(resource: &ApiResource) -> Arc<str> {
    match (&*resource.group, &*resource.resource) {
        ("extensions", "ingresses") => "networking.k8s.io".into(),
        _ => Arc::clone(&resource.group),
    }
}

/// The internal forms of kinds are no longer registered in the group `extensions`.
const GROUPS_ARE_SERVED_ONES: Behavior = Behavior::since_about(22, "extensions/v1beta1 is not served");

/// The group of the kind in errors about invalid objects: the alphabetically first one in which the kind's
/// internal form is registered.
///
/// # Upstream
/// `objectMetaAndKind` in `apiserver/pkg/registry/rest/create.go`, and `pkg/apis/extensions/register.go`,
/// 1.20.2.
fn internal_group(resource: &ApiResource, version: KubernetesVersion) -> Arc<str> {
    match (&*resource.group, &*resource.kind) {
        ("events.k8s.io", "Event" | "events") => "".into(),
        ("networking.k8s.io", "Ingress" | "NetworkPolicy") | ("policy", "PodSecurityPolicy")
            if !version.has(GROUPS_ARE_SERVED_ONES) =>
        {
            "extensions".into()
        }
        _ => Arc::clone(&resource.group),
    }
}

/// `name.group`, or the name alone in the core group.
pub fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

/// The object of an error of the storage layer.
fn stored(resource: &ApiResource, name: &str) -> (String, Details) {
    let details = Details {
        group: storage_group(resource),
        ..about(resource, name)
    };
    (qualified(&resource.resource, &details.group), details)
}

fn about(resource: &ApiResource, name: &str) -> Details {
    Details::new(name, &resource.group, &resource.resource)
}

/// A finished deletion, for resources whose response has no object.
pub(crate) fn deleted(resource: &ApiResource, name: &str, uid: &Uid) -> Refusal {
    let (_, mut details) = stored(resource, name);
    details.uid = Some(uid.clone());
    refusal(200, "", "", details)
}

/// The server failed with a known problem.
pub(crate) fn internal_error(problem: &str) -> Refusal {
    let details = Details::default().with_causes(vec![Cause::new("", "", problem)]);
    let message = format!("Internal error occurred: {problem}");
    refusal(500, "InternalError", message, details)
}

/// The URL is not served.
pub fn unserved() -> Refusal {
    let message = "the server could not find the requested resource";
    refusal(404, "NotFound", message, Details::default())
}

/// There is no such object.
pub(crate) fn not_found(resource: &ApiResource, name: &str) -> Refusal {
    let (subject, details) = stored(resource, name);
    let message = format!("{subject} {} not found", quoted(name));
    refusal(404, "NotFound", message, details)
}

/// The name is taken, possibly by a terminating object. `suffix` ends the message.
pub(crate) fn already_exists(resource: &ApiResource, name: &str, deleting: bool, suffix: &str) -> Refusal {
    let prefix = if deleting { "object is being deleted: " } else { "" };
    let (subject, details) = stored(resource, name);
    let message = format!("{prefix}{subject} {} already exists{suffix}", quoted(name));
    refusal(409, "AlreadyExists", message, details)
}

fn conflict_on(subject: &str, details: Details, why: &str) -> Refusal {
    let name = quoted(&details.name);
    let message = format!("Operation cannot be fulfilled on {subject} {name}: {why}");
    refusal(409, "Conflict", message, details)
}

/// The stored object does not meet the precondition.
pub(crate) fn conflict(resource: &ApiResource, name: &str, why: &str) -> Refusal {
    let (subject, details) = stored(resource, name);
    conflict_on(&subject, details, why)
}

/// The same as [`conflict`], found before the deletion began: names the kind, not the resource.
pub(crate) fn kind_conflict(
    version: KubernetesVersion,
    resource: &ApiResource,
    name: &str,
    why: &str,
) -> Refusal {
    let group = internal_group(resource, version);
    let details = Details::new(name, &group, &resource.kind);
    conflict_on(&qualified(&resource.kind, &group), details, why)
}

/// The object would not be valid.
pub(crate) fn invalid(
    version: KubernetesVersion,
    resource: &ApiResource,
    name: &str,
    causes: Vec<Cause>,
) -> Refusal {
    let details = Details::new(name, &internal_group(resource, version), &resource.kind);
    invalid_kind(details, causes, resource.custom)
}

/// `pointers_differ`: see [`aggregate`].
fn invalid_kind(details: Details, causes: Vec<Cause>, pointers_differ: bool) -> Refusal {
    let message = format!(
        "{} {} is invalid: {}",
        qualified(&details.kind, &details.group),
        quoted(&details.name),
        aggregate(&causes, pointers_differ)
    );
    refusal(422, "Invalid", message, details.with_causes(causes))
}

/// The options of a deletion are inconsistent.
pub(crate) fn invalid_delete_options(version: KubernetesVersion, errors: &[FieldError]) -> Refusal {
    let causes = errors.iter().map(|error| match error {
        FieldError::NotSupported {
            field,
            value,
            supported,
        } if field == "dryRun" => {
            let shown = match version.has(behavior::VALUES_ARE_JSON) {
                true => format!("[{}]", quoted(value)),
                false => format!("[]string{{{}}}", quoted(value)),
            };
            Cause::not_supported("dryRun", &shown, supported)
        }
        error => Cause::from_field_error(error),
    });
    invalid_options("DeleteOptions", causes.collect())
}

/// Options of a request are inconsistent.
pub fn invalid_options(kind: &str, causes: Vec<Cause>) -> Refusal {
    invalid_kind(Details::new("", "meta.k8s.io", kind), causes, false)
}

/// The request is malformed.
pub fn bad_request(message: impl Into<String>) -> Refusal {
    refusal(400, "BadRequest", message, None)
}

/// The body is not an object of this kind.
///
/// # Upstream
/// `transformDecodeError` in `apiserver/pkg/endpoints/handlers/rest.go`, 1.20.2.
pub(crate) fn cannot_be_handled(resource: &ApiResource, sent: &str, problem: &str) -> Refusal {
    sent_cannot_be_handled(&resource.version, sent, &resource.kind, problem)
}

/// The body, an object of a version and kind, is not of another kind.
pub(crate) fn sent_cannot_be_handled(version: &str, sent: &str, kind: &str, problem: &str) -> Refusal {
    let version = quoted(version);
    bad_request(format!(
        "{sent} in version {version} cannot be handled as a {kind}: {problem}"
    ))
}

/// An object of this version and kind cannot be converted to a kind of the group.
pub(crate) fn unknown_conversion(version: &str, sent: &str, group: &str, kind: &str) -> String {
    let package = match group.split('.').next().unwrap_or_default() {
        "" | "events" => "core",
        package => package,
    };
    format!("converting ({version}.{sent}) to ({package}.{kind}): unknown conversion")
}

/// The server failed with an unknown problem.
pub fn internal(message: impl Into<String>) -> Refusal {
    refusal(500, "", message, None)
}

/// The request is not allowed.
pub(crate) fn forbidden(resource: &ApiResource, name: &str, why: &str, causes: Vec<Cause>) -> Refusal {
    let subject = resource.qualified_resource();
    let message = match name {
        "" => format!("{subject} is forbidden: {why}"),
        name => format!("{subject} {} is forbidden: {why}", quoted(name)),
    };
    let details = about(resource, name).with_causes(causes);
    refusal(403, "Forbidden", message, details)
}

/// The resource does not support this request.
pub(crate) fn method_not_allowed(resource: &ApiResource, message: Option<&str>) -> Refusal {
    let message = message.unwrap_or("the server does not allow this method on the requested resource");
    let details = about(resource, "");
    refusal(405, "MethodNotAllowed", message, details)
}

/// The patched object cannot be decoded.
pub(crate) fn invalid_patch(patch: &str, problem: &str) -> Refusal {
    let causes = vec![Cause::invalid("patch", &quoted(patch), problem)];
    invalid_kind(Details::default(), causes, false)
}

/// The operations of a JSON patch do not apply to the object.
pub(crate) fn rejected_patch() -> Refusal {
    let message = "the server rejected our request due to an error in our request";
    refusal(422, "Invalid", message, Details::default())
}

/// Joins problems as upstream does: equal messages once, more than one in brackets.
///
/// Where every decoding of the object creates new pointers (custom resources), messages that print one are
/// never equal.
fn aggregate(causes: &[Cause], pointers_differ: bool) -> String {
    let mut texts: Vec<String> = Vec::new();
    for cause in causes {
        let text = format!("{}: {}", cause.field, cause.message);
        if (pointers_differ && text.contains(POINTER)) || !texts.contains(&text) {
            texts.push(text);
        }
    }
    joined(&texts)
}

/// Several problems in one text: more than one in brackets.
pub(crate) fn joined(problems: &[String]) -> String {
    match problems {
        [only] => only.clone(),
        _ => format!("[{}]", problems.join(", ")),
    }
}

/// Replaces an address that the server prints.
pub(crate) const POINTER: &str = "<ptr>";

/// A string as Go's `%q` prints it.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || c == '\u{7f}' => {
                // Writing to a String does not fail.
                let _infallible = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
