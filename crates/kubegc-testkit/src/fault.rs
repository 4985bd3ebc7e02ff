//! Faults of requests, by rules first and then at random, from a seed.
//!
//! Only requests of clients get faults; those of the cluster's own control plane do not.

use std::{collections::BTreeMap, fmt, time::Duration};

use kubegc_core::{RequestAttributes, RequestMatcher};
use kubegc_sim::{
    Details, Status,
    fault::script::{Script, Turn},
    status::qualified,
};

use crate::http::{Call, Verb, attributes};

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
    EndWatch { after_events: u32 },
    /// The connection of a watch breaks. Other requests are not affected.
    BreakWatch { after_events: u32 },
    /// A watch gets the error that its version is too old (410), and ends. Other requests are not affected.
    ExpireWatch { after_events: u32 },
}

impl Fault {
    /// A response with this status; 429 and 503 have a `Retry-After` of one second. A status that is not an
    /// error becomes 500.
    pub const fn status(code: u16) -> Self {
        let retry_after_seconds = if matches!(code, 429 | 503) { Some(1) } else { None };
        let code = if matches!(code, 400..=599) { code } else { 500 };
        Self::Refuse {
            code,
            retry_after_seconds,
        }
    }

    /// The name of the fault in counts and audits.
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

    /// Of a fault of watches: after how many events it ends the watch.
    pub(crate) const fn events_before_end(&self) -> Option<u32> {
        match self {
            Self::EndWatch { after_events }
            | Self::BreakWatch { after_events }
            | Self::ExpireWatch { after_events } => Some(*after_events),
            _ => None,
        }
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
pub struct Rule(pub(crate) Turn<RequestMatcher, Fault>);

impl Rule {
    /// The next request gets this fault.
    pub fn new(fault: Fault) -> Self {
        Self(Turn {
            matching: RequestMatcher::new(),
            skip: 0,
            times: 1,
            fault,
        })
    }

    /// Only requests with this verb. If repeated: with one of these.
    pub fn on(mut self, verb: Verb) -> Self {
        self.0.matching.verbs.push(word(verb).into());
        self
    }

    /// Only writes: creations, updates, patches and deletions.
    pub fn on_writes(self) -> Self {
        use Verb::{Create, Delete, DeleteCollection, Patch, Update};
        let writes = [Create, Update, Patch, Delete, DeleteCollection];
        writes.into_iter().fold(self, Self::on)
    }

    /// Only requests for this resource, by its plural name, and for its subresources.
    pub fn resource(mut self, plural: &str) -> Self {
        let subresource = self.target().1.to_owned();
        self.0.matching.resources = vec![("*".into(), format!("{plural}/{subresource}").into())];
        self
    }

    /// Only requests for this subresource, such as `status`.
    pub fn subresource(mut self, subresource: &str) -> Self {
        let plural = self.target().0.to_owned();
        self.0.matching.resources = vec![("*".into(), format!("{plural}/{subresource}").into())];
        self
    }

    fn target(&self) -> (&str, &str) {
        let named = self.0.matching.resources.first();
        named
            .and_then(|(_, resource)| resource.split_once('/'))
            .unwrap_or(("*", "*"))
    }

    pub fn namespace(mut self, namespace: &str) -> Self {
        self.0.matching.namespace = Some(namespace.into());
        self
    }

    pub fn name(mut self, name: &str) -> Self {
        self.0.matching.name = Some(name.into());
        self
    }

    pub fn client(mut self, client: &str) -> Self {
        self.0.matching.user = Some(client.into());
        self
    }

    /// Number of matching requests without a fault before the first one. Default: none.
    pub const fn skip(mut self, requests: u32) -> Self {
        self.0.skip = requests;
        self
    }

    /// Number of requests that get the fault. Default: one.
    pub const fn times(mut self, requests: u32) -> Self {
        self.0.times = requests;
        self
    }

    /// All matching requests get the fault, until the rules are cleared.
    pub const fn always(self) -> Self {
        self.times(u32::MAX)
    }
}

/// The verb that rules match.
const fn word(verb: Verb) -> &'static str {
    match verb {
        Verb::NonResource => "request",
        Verb::Unknown => "unknown",
        verb => verb.as_str(),
    }
}

/// Whether a client has this name: `kubectl` matches the user agent `kubectl/v1.30.0`.
pub(crate) fn is_client(client: &str, name: &str) -> bool {
    RequestMatcher::new().user(name).matches_user(client)
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.times {
            u32::MAX => f.write_str("always")?,
            1 => f.write_str("once")?,
            times => write!(f, "{times} times")?,
        }
        if self.0.skip > 0 {
            write!(f, ", after {}", self.0.skip)?;
        }
        write!(f, ": {}", self.0.fault.word())?;
        if let Fault::Refuse { code, .. } = self.0.fault {
            write!(f, " ({code})")?;
        }
        write!(f, " on {}", self.0.matching)
    }
}

/// The faults of clients' requests, and the number of each that was injected.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(crate) script: Script<RequestMatcher, Fault>,
    /// The client whose requests get drawn faults; `None` for all.
    pub(crate) drawn_for: Option<String>,
    pub(crate) counts: BTreeMap<&'static str, u64>,
}

impl Faults {
    /// The fault of this request. The first rule that applies counts, and later ones do not count the
    /// request.
    pub(crate) fn take(&mut self, client: &str, call: &Call) -> Option<Fault> {
        let request = RequestAttributes {
            verb: word(call.verb),
            path: None,
            ..attributes(client, call, "")
        };
        let affects = |fault: &Fault| fault.events_before_end().is_none() || call.verb == Verb::Watch;
        let matches =
            |turn: &Turn<RequestMatcher, Fault>| affects(&turn.fault) && turn.matching.matches(&request);
        let draws = self.drawn_for.as_ref().is_none_or(|name| is_client(client, name));
        let fault = self.script.next(matches, draws, affects)?;
        *self.counts.entry(fault.word()).or_default() += 1;
        Some(fault)
    }
}

pub(crate) fn refusal(call: &Call, code: u16, retry_after_seconds: Option<u32>) -> Status {
    let mut details = Details::new(&call.name, &call.group, &call.resource);
    details.retry_after_seconds = retry_after_seconds;
    let (resource, name) = (qualified(&call.resource, &call.group), &call.name);
    let injected = format!("injected by the test: {code}");
    let (reason, message) = match code {
        400 => ("BadRequest", injected),
        401 => ("Unauthorized", injected),
        403 => (
            "Forbidden",
            format!("{resource} {name:?} is forbidden: injected by the test"),
        ),
        404 => ("NotFound", format!("{resource} {name:?} not found")),
        405 => ("MethodNotAllowed", injected),
        406 => ("NotAcceptable", injected),
        409 => (
            "Conflict",
            format!(
                "Operation cannot be fulfilled on {resource} {name:?}: the object has been modified; \
                 please apply your changes to the latest version and try again"
            ),
        ),
        410 => ("Expired", WATCH_EXPIRED.to_owned()),
        413 => ("RequestEntityTooLarge", injected),
        415 => ("UnsupportedMediaType", injected),
        422 => ("Invalid", injected),
        429 => (
            "TooManyRequests",
            "Too many requests, please try again later.".to_owned(),
        ),
        500 => ("InternalError", injected),
        503 => ("ServiceUnavailable", injected),
        504 => ("Timeout", injected),
        _ => ("", injected),
    };
    Status::new(code, reason, message).with_details(details)
}

/// The message of a status that makes a client relist.
pub(crate) const WATCH_EXPIRED: &str = "The resourceVersion for the provided watch is too old.";
