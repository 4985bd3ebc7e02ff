//! An action: a change of one object with its reason and its preconditions.

use std::{fmt, sync::Arc};

use kubegc_core::{
    DeleteOptions, ObjectMeta, PlannedAction, Preconditions, ResourceVersion, StoreError,
    record::{ObjectId, Record, Resource},
};

use crate::{
    End, EventRequest, FieldChange, Form, Found, Key, Reason, Request, Sent, Steps, Wire, Write,
    request::{preconditions, server_message_about},
    sequence::Port,
};

/// A change of one object by a controller.
///
/// An executor verifies [`reads`](Self::reads), then sends the requests in order, each only if the one before
/// succeeded. [`into_steps`](Self::into_steps) is that executor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Action {
    pub object: ObjectId,
    /// The other object that the action belongs to, such as the CronJob whose Job is deleted. In the plan of
    /// a [`BatchPlanner`](crate::BatchPlanner), later actions on it depend on this one.
    pub part_of: Option<Box<ObjectId>>,
    /// Uid and resourceVersion of the object in the decision, if known.
    pub precondition: Preconditions,
    pub reason: Reason,
    /// Live reads that upstream makes right before it acts. If one has another result, nothing is sent.
    pub reads: Vec<Read>,
    pub requests: Vec<Request>,
    pub on_error: OnError,
    /// Upstream's text before the error of the request, such as `unable to delete CSR "a": `.
    pub error_prefix: String,
    /// The Warning that upstream records after an error of a request: its reason, such as
    /// `DeletingNodeFailed`, and its message before the error.
    pub failure_event: Option<(&'static str, String)>,
}

impl Action {
    /// Creates an action without requests on the object of a record. Builder methods add them.
    pub fn new(resource: Resource, meta: &ObjectMeta, reason: Reason) -> Self {
        Self::of(ObjectId::new(resource, meta), Some(meta), reason)
    }

    pub(crate) fn of(object: ObjectId, meta: Option<&ObjectMeta>, reason: Reason) -> Self {
        Self {
            object,
            part_of: None,
            precondition: meta.map(preconditions).unwrap_or_default(),
            reason,
            reads: Vec::new(),
            requests: Vec::new(),
            on_error: OnError::Retry,
            error_prefix: String::new(),
            failure_event: None,
        }
    }

    #[must_use]
    pub fn after_reading(mut self, read: Read) -> Self {
        self.reads.push(read);
        self
    }

    #[must_use]
    pub const fn on_error(mut self, on_error: OnError) -> Self {
        self.on_error = on_error;
        self
    }

    #[must_use]
    pub fn error_prefix(mut self, prefix: String) -> Self {
        self.error_prefix = prefix;
        self
    }

    /// Adds the deletion of the object. Upstream's preconditions and `wire` determine
    /// `options.preconditions`.
    #[must_use]
    pub fn delete(mut self, wire: Wire, upstream: Sent, options: DeleteOptions) -> Self {
        let preconditions = self.sent(wire, upstream);
        self.requests.push(Request::Delete {
            object: self.object.clone(),
            options: DeleteOptions {
                preconditions,
                ..options
            },
        });
        self
    }

    /// Adds a write of the object. `form` is its form, `upstream` are upstream's preconditions.
    pub fn write(
        mut self,
        wire: Wire,
        upstream: Sent,
        form: Form,
        subresource: &'static str,
        changes: Vec<FieldChange>,
    ) -> Self {
        let update = Write::update(&self.object, subresource, self.sent(wire, upstream), changes);
        self.requests.push(Request::Write(Write { form, ..update }));
        self
    }

    #[must_use]
    pub fn event(mut self, is_warning: bool, reason: &str, message: impl Into<String>) -> Self {
        let event = EventRequest::new(&self.object, is_warning, reason, message);
        self.requests.push(Request::Event(event));
        self
    }

    fn sent(&self, wire: Wire, upstream: Sent) -> Preconditions {
        let mut sent = self.precondition.clone();
        // A write changes the version that later requests would expect.
        let is_written = |request: &Request| matches!(request, Request::Write(_));
        sent.resource_version
            .take_if(|_| self.requests.iter().any(is_written));
        wire.sent(sent, upstream)
    }

    pub fn is_deletion(&self) -> bool {
        self.requests.iter().any(Request::is_deletion)
    }

    /// Converts the action into steps. `verify` turns the reads off if nothing can have changed, as in a
    /// simulation.
    pub fn into_steps(self, verify: bool) -> Steps {
        let object = self.object.clone();
        Steps::of(&object, self, perform).verify(verify)
    }

    /// Sends the requests in order, each only if the one before succeeded.
    pub(crate) async fn send(&self, port: &Port) -> Result<(), StoreError> {
        port.set_reason(self.reason.clone());
        for request in &self.requests {
            let is_event = matches!(request, Request::Event(_));
            let response = port.send(request.clone()).await;
            let Some(error) = response.error().filter(|_| !is_event) else {
                continue;
            };
            if let Some((reason, prefix)) = &self.failure_event {
                let message = format!("{prefix}{}", server_message_about(&self.object, &error));
                port.event(EventRequest::new(&self.object, true, reason, message))
                    .await;
            }
            return Err(error);
        }
        Ok(())
    }
}

impl PlannedAction for Action {
    type Object = ObjectId;

    fn object(&self) -> ObjectId {
        self.object.clone()
    }

    fn is_deletion(&self) -> bool {
        self.is_deletion()
    }

    fn blocks(&self) -> Option<ObjectId> {
        self.part_of.as_deref().cloned()
    }
}

impl fmt::Display for Action {
    /// Such as `delete job.batch/report -n shop: it finished 100s ago, ...`. Events are omitted if there are
    /// other requests.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_event = |request: &Request| matches!(request, Request::Event(_));
        let shows_events = self.requests.iter().all(is_event);
        let shown = self
            .requests
            .iter()
            .filter(|request| shows_events || !is_event(request));
        let shown: Vec<String> = shown.map(Request::to_string).collect();
        match shown.as_slice() {
            [] => write!(f, "{}", self.object)?,
            shown => f.write_str(&shown.join(", then "))?,
        }
        write!(f, ": {}", self.reason)
    }
}

/// A live read that an action depends on, of its object or another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Read {
    /// The object exists at this version.
    Unchanged {
        object: ObjectId,
        /// The version; empty if any version is valid.
        resource_version: ResourceVersion,
    },
    /// No object of this name exists.
    Absent { resource: Resource, key: Key },
}

impl Read {
    pub fn unchanged(resource: Resource, record: &Record) -> Self {
        Self::Unchanged {
            object: record.id(resource),
            resource_version: record.meta.resource_version.clone(),
        }
    }
}

/// Upstream's handling of an error of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnError {
    /// It retries the key with backoff.
    Retry,
    /// It retries the key with backoff; NotFound counts as success.
    RetryUnlessNotFound,
    /// It logs the error. The next sync, resync or change reconciles the key again.
    Report,
    /// It logs the error; NotFound counts as success.
    ReportUnlessNotFound,
    /// It logs the error; NotFound and Conflict count as success.
    ReportUnlessNotFoundOrConflict,
}

impl OnError {
    /// The end of work that failed with this error. `prefix` is upstream's text before it.
    pub fn end(self, error: StoreError, prefix: &str) -> End {
        let is_gone = error == StoreError::NotFound;
        let is_conflict = matches!(error, StoreError::Conflict { .. });
        match self {
            Self::RetryUnlessNotFound | Self::ReportUnlessNotFound if is_gone => End::Done,
            Self::ReportUnlessNotFoundOrConflict if is_gone || is_conflict => End::Done,
            _ => {
                let is_retried = matches!(self, Self::Retry | Self::RetryUnlessNotFound);
                End::failed_with(format!("{prefix}{error}"), error, is_retried)
            }
        }
    }
}

async fn perform(action: Arc<Action>, port: Port) -> Result<End, End> {
    let fail = |error| action.on_error.end(error, &action.error_prefix);
    if port.verifies() {
        require_unchanged(&action.reads, &port, fail).await?;
    }
    action.send(&port).await.map_err(fail).map(|()| End::Done)
}

/// Reads the objects that work depends on.
///
/// # Errors
/// The end of the work: objects differ from what is expected, or a read failed otherwise than by NotFound.
pub(crate) async fn require_unchanged(
    reads: &[Read],
    port: &Port,
    fail: impl Fn(StoreError) -> End,
) -> Result<(), End> {
    let mut all = Vec::new();
    for read in reads {
        let (resource, key) = match read {
            Read::Unchanged { object, .. } => (object.resource, Key::from(object)),
            Read::Absent { resource, key } => (*resource, key.clone()),
        };
        let record = match port.get(resource, key.clone()).await {
            Ok(record) => Some(record),
            Err(StoreError::NotFound) => None,
            Err(error) => return Err(fail(error)),
        };
        let holds = match read {
            Read::Absent { .. } => record.is_none(),
            Read::Unchanged {
                object,
                resource_version,
            } => record.as_ref().is_some_and(|Record { meta, .. }| {
                let is_version = resource_version.is_empty() || meta.resource_version == *resource_version;
                meta.uid == object.uid && is_version
            }),
        };
        if !holds {
            all.push(Found {
                resource,
                key,
                record,
            });
        }
    }
    match all.is_empty() {
        true => Ok(()),
        false => Err(End::Stale(all)),
    }
}
