//! Faults of requests, by rules first and then at random, from a seed.
//!
//! Only requests of clients get faults; those of the cluster's own control plane do not.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use http::{HeaderValue, Response, StatusCode, header};
use kubegc_sim::rng::Rng;
use serde_json::json;

use crate::http::{Call, Verb};

/// A fault of a request.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The request gets an error response, as from an API server or a proxy before it, and is not performed.
    Refuse {
        /// HTTP status, 400 to 599.
        code: u16,
        /// Seconds after which the client shall retry (`Retry-After`).
        retry_after_seconds: Option<u32>,
    },
    /// The connection breaks before the request arrives: it is not performed.
    Disconnect,
    /// The request is performed, and the connection breaks before the response arrives.
    LoseResponse,
    /// It arrives late, by the cluster's clock.
    Delay(Duration),
    /// A watch ends, as API servers end them now and then. Other requests are not affected.
    EndWatch {
        /// After how many events.
        after_events: u32,
    },
    /// The connection of a watch breaks. Other requests are not affected.
    BreakWatch {
        /// After how many events.
        after_events: u32,
    },
    /// A watch gets the error that its version is too old (410), and ends. Other requests are not affected.
    ExpireWatch {
        /// After how many events.
        after_events: u32,
    },
}

impl Fault {
    /// A response with this status; 429 and 503 have a `Retry-After` of one second. A status that is not an
    /// error becomes 500.
    #[must_use]
    pub const fn status(code: u16) -> Self {
        let retry_after_seconds = if matches!(code, 429 | 503) { Some(1) } else { None };
        let code = if matches!(code, 400..=599) { code } else { 500 };
        Self::Refuse {
            code,
            retry_after_seconds,
        }
    }

    /// The name of the fault in counts and audits.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Refuse { .. } => "refused",
            Self::Disconnect => "disconnected",
            Self::LoseResponse => "response lost",
            Self::Delay(_) => "delayed",
            Self::EndWatch { .. } => "watch ended",
            Self::BreakWatch { .. } => "watch broken",
            Self::ExpireWatch { .. } => "watch expired",
        }
    }

    const fn is_about_watches(&self) -> bool {
        matches!(
            self,
            Self::EndWatch { .. } | Self::BreakWatch { .. } | Self::ExpireWatch { .. }
        )
    }
}

/// The requests that get a fault, the time and the fault. Default: the next request, once.
///
/// # Examples
/// ```
/// use kubegc_testkit::{Fault, Rule, http::Verb};
/// let rule = Rule::new(Fault::status(409)).on(Verb::Update).resource("deployments").client("my-operator").times(3);
/// assert_eq!(rule.to_string(), "3 times: refused (409) on update of deployments by my-operator");
/// ```
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    fault: Fault,
    verbs: Vec<Verb>,
    resource: Option<Arc<str>>,
    subresource: Option<Arc<str>>,
    namespace: Option<Arc<str>>,
    name: Option<Arc<str>>,
    client: Option<Arc<str>>,
    skip: u32,
    times: u32,
}

impl Rule {
    /// The next request gets this fault.
    pub const fn new(fault: Fault) -> Self {
        Self {
            fault,
            verbs: Vec::new(),
            resource: None,
            subresource: None,
            namespace: None,
            name: None,
            client: None,
            skip: 0,
            times: 1,
        }
    }

    /// Only requests with this verb. If repeated: with one of these.
    pub fn on(mut self, verb: Verb) -> Self {
        self.verbs.push(verb);
        self
    }

    /// Only writes: creations, updates, patches and deletions.
    pub fn on_writes(mut self) -> Self {
        self.verbs.extend([
            Verb::Create,
            Verb::Update,
            Verb::Patch,
            Verb::Delete,
            Verb::DeleteCollection,
        ]);
        self
    }

    /// Only requests for this resource, by its plural name.
    pub fn resource(mut self, plural: &str) -> Self {
        self.resource = Some(plural.into());
        self
    }

    /// Only requests for this subresource, such as `status`.
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.into());
        self
    }

    /// Only requests in this namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only requests that name this object.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Only requests of this client.
    pub fn client(mut self, client: &str) -> Self {
        self.client = Some(client.into());
        self
    }

    /// Number of matching requests without a fault before the first one. Default: none.
    pub const fn skip(mut self, requests: u32) -> Self {
        self.skip = requests;
        self
    }

    /// Number of requests that get the fault. Default: one.
    pub const fn times(mut self, requests: u32) -> Self {
        self.times = requests;
        self
    }

    /// All matching requests get the fault, until the rules are cleared.
    pub const fn always(mut self) -> Self {
        self.times = u32::MAX;
        self
    }

    fn is_about(&self, client: &str, call: &Call) -> bool {
        let fits =
            |wanted: &Option<Arc<str>>, text: &str| wanted.as_deref().is_none_or(|wanted| wanted == text);
        (self.verbs.is_empty() || self.verbs.contains(&call.verb))
            && fits(&self.resource, &call.resource)
            && fits(&self.subresource, &call.subresource)
            && fits(&self.namespace, &call.namespace)
            && fits(&self.name, &call.name)
            && self
                .client
                .as_deref()
                .is_none_or(|wanted| is_client(client, wanted))
            && (!self.fault.is_about_watches() || call.verb == Verb::Watch)
    }
}

/// Whether a client has this name: `kubectl` matches the user agent `kubectl/v1.30.0`.
pub(crate) fn is_client(client: &str, name: &str) -> bool {
    client
        .strip_prefix(name)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.times {
            u32::MAX => f.write_str("always")?,
            1 => f.write_str("once")?,
            times => write!(f, "{times} times")?,
        }
        if self.skip > 0 {
            write!(f, ", after {}", self.skip)?;
        }
        write!(f, ": {}", self.fault.word())?;
        if let Fault::Refuse { code, .. } = self.fault {
            write!(f, " ({code})")?;
        }
        let verbs: Vec<&str> = self.verbs.iter().map(|verb| verb.as_str()).collect();
        write!(
            f,
            " on {}",
            if verbs.is_empty() {
                "any request".to_owned()
            } else {
                verbs.join(" or ")
            }
        )?;
        for (word, text) in [
            (" of ", &self.resource),
            ("/", &self.subresource),
            (" in ", &self.namespace),
            (" named ", &self.name),
            (" by ", &self.client),
        ] {
            if let Some(text) = text {
                write!(f, "{word}{text}")?;
            }
        }
        Ok(())
    }
}

/// The rules, their progress, and the number of injected faults.
#[derive(Debug, Default)]
pub(crate) struct Script {
    rules: Vec<(Rule, u32)>,
    draw: Option<Draw>,
    injected: BTreeMap<&'static str, u64>,
}

#[derive(Debug)]
struct Draw {
    rng: Rng,
    per_mille: u16,
    faults: Vec<Fault>,
}

impl Script {
    pub(crate) fn add(&mut self, rule: Rule) {
        self.rules.push((rule, 0));
    }

    pub(crate) fn draw(&mut self, seed: u64, per_mille: u16, faults: Vec<Fault>) {
        self.draw = Some(Draw {
            rng: Rng::new(seed),
            per_mille,
            faults,
        });
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
        self.draw = None;
    }

    pub(crate) const fn injected(&self) -> &BTreeMap<&'static str, u64> {
        &self.injected
    }

    /// The fault of this request. The first rule that applies counts, and later ones do not count the
    /// request.
    pub(crate) fn take(&mut self, client: &str, call: &Call) -> Option<Fault> {
        let fault = self.by_rule(client, call).or_else(|| self.by_draw(call))?;
        *self.injected.entry(fault.word()).or_default() += 1;
        Some(fault)
    }

    fn by_rule(&mut self, client: &str, call: &Call) -> Option<Fault> {
        for (rule, seen) in &mut self.rules {
            if !rule.is_about(client, call) {
                continue;
            }
            let before = *seen;
            *seen = seen.saturating_add(1);
            if before >= rule.skip && (rule.times == u32::MAX || before - rule.skip < rule.times) {
                return Some(rule.fault.clone());
            }
        }
        None
    }

    fn by_draw(&mut self, call: &Call) -> Option<Fault> {
        let draw = self.draw.as_mut()?;
        if draw.faults.is_empty() || !draw.rng.chance(draw.per_mille) {
            return None;
        }
        let drawn = draw.rng.below(draw.faults.len() as u64);
        let fault = draw.faults.get(usize::try_from(drawn).unwrap_or(0))?;
        (!fault.is_about_watches() || call.verb == Verb::Watch).then(|| fault.clone())
    }
}

/// The response of a server that refuses.
pub(crate) fn refusal(call: &Call, code: u16, retry_after_seconds: Option<u32>) -> Response<bytes::Bytes> {
    let mut details = serde_json::Map::new();
    for (key, text) in [
        ("name", &call.name),
        ("group", &call.group),
        ("kind", &call.resource),
    ] {
        if !text.is_empty() {
            details.insert(key.to_owned(), (&**text).into());
        }
    }
    if let Some(seconds) = retry_after_seconds {
        details.insert("retryAfterSeconds".to_owned(), seconds.into());
    }
    let body = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message(call, code),
        "reason": reason(code),
        "details": details,
        "code": code,
    });
    let mut response = Response::new(body.to_string().into());
    // Rules are made of codes between 400 and 599.
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = retry_after_seconds {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The `reason` of a status with a code.
const fn reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        406 => "NotAcceptable",
        409 => "Conflict",
        410 => "Expired",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    }
}

fn message(call: &Call, code: u16) -> String {
    let resource = if call.group.is_empty() {
        call.resource.to_string()
    } else {
        format!("{}.{}", call.resource, call.group)
    };
    match code {
        403 => format!("{resource} {:?} is forbidden: injected by the test", call.name),
        404 => format!("{resource} {:?} not found", call.name),
        409 => format!(
            "Operation cannot be fulfilled on {resource} {:?}: the object has been modified; please apply your changes to the latest version \
             and try again",
            call.name
        ),
        410 => "The resourceVersion for the provided watch is too old.".to_owned(),
        429 => "Too many requests, please try again later.".to_owned(),
        _ => format!("injected by the test: {code}"),
    }
}
