//! Steps whose next request depends on the last response, as a state machine without I/O.
//!
//! A controller writes such steps as one `async fn` over a [`Port`], in the order of upstream's code.
//! [`Sequence`] turns it into `next(response) -> step`: the caller performs each request on an API server, on
//! a simulation, or from a recording.

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use derive_more::TryIntoError;
use kubegc_core::{
    DeleteOptions, ObjectMeta, SharedMeta, StoreError,
    record::{ObjectId, Record, Resource},
};
use parking_lot::Mutex;

use crate::{
    CloudResponse, EventRequest, FieldChange, Guard, Key, Missing, Operated, Operation, Plugin, Reason,
    Request, Response, Sent, Wire, Write, request::server_message_about,
};

/// The channel of a sequence for requests.
#[derive(Clone, Debug)]
pub struct Port {
    exchange: Arc<Mutex<Exchange>>,
    verifies: bool,
}

#[derive(Debug, Default)]
struct Exchange {
    reason: Option<Reason>,
    request: Option<Request>,
    response: Option<Response>,
}

impl Port {
    /// Whether live reads that only verify the cache are made. If not, they are skipped.
    pub const fn verifies(&self) -> bool {
        self.verifies
    }

    /// Sets the reason of the following requests.
    pub fn set_reason(&self, reason: Reason) {
        self.exchange.lock().reason = Some(reason);
    }

    /// Sends a request and waits for its response.
    pub async fn send(&self, request: Request) -> Response {
        {
            let mut exchange = self.exchange.lock();
            exchange.request = Some(request);
            exchange.response = None;
        }
        poll_fn(|_| match self.exchange.lock().response.take() {
            Some(response) => Poll::Ready(response),
            None => Poll::Pending,
        })
        .await
    }

    /// The content of the response to a request that has one.
    pub(crate) async fn request<T>(&self, request: Request) -> Result<T, StoreError>
    where
        T: TryFrom<Response, Error = TryIntoError<Response>>,
    {
        let content = self.send(request).await.try_into();
        content.map_err(|error: TryIntoError<Response>| failure(error.input))
    }

    /// Reads one object.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it does not exist, and other errors of the API server.
    pub async fn get(&self, resource: Resource, key: Key) -> Result<Record, StoreError> {
        let record: Box<Record> = self.request(Request::Get { resource, key }).await?;
        Ok(*record)
    }

    /// Reads the object of this name.
    pub(crate) async fn reread(&self, object: &ObjectId) -> Result<Record, StoreError> {
        self.get(object.resource, Key::from(object)).await
    }

    pub async fn list(&self, resource: Resource, namespace: &Arc<str>) -> Result<Vec<Record>, StoreError> {
        let namespace = Arc::clone(namespace);
        self.request(Request::List { resource, namespace }).await
    }

    pub async fn delete(&self, object: ObjectId, options: DeleteOptions) -> Result<(), StoreError> {
        done(self.send(Request::Delete { object, options }).await)
    }

    /// Changes an object. Returns its metadata after the write, if the response contains it.
    pub async fn write(&self, write: Write) -> Result<Option<SharedMeta>, StoreError> {
        match self.send(Request::Write(write)).await {
            Response::Written(meta) => Ok(meta),
            Response::Done => Ok(None),
            other => Err(failure(other)),
        }
    }

    /// Updates an object from the version that `meta` has, which becomes the one that the update leaves.
    pub(crate) async fn update(
        &self,
        object: &ObjectId,
        meta: &mut ObjectMeta,
        wire: Wire,
        subresource: &'static str,
        changes: Vec<FieldChange>,
    ) -> Result<(), StoreError> {
        let precondition = wire.preconditions(meta, Sent::ResourceVersion);
        let write = Write::update(object, subresource, precondition, changes);
        let written = self.write(write).await?;
        meta.resource_version = written
            .map(|meta| meta.resource_version.clone())
            .unwrap_or_default();
        Ok(())
    }

    /// Records an Event. Its failure has no effect.
    pub async fn event(&self, event: EventRequest) {
        self.send(Request::Event(event)).await;
    }

    pub async fn find_plugin(&self, volume: ObjectId, operation: Operation) -> Plugin {
        let found = self.request(Request::FindPlugin { volume, operation }).await;
        found.unwrap_or_default()
    }

    pub async fn query_guard(&self, volume: ObjectId) -> Guard {
        self.request(Request::QueryGuard { volume })
            .await
            .unwrap_or_default()
    }

    pub(crate) async fn operate(&self, volume: ObjectId, operation: Operation) -> Operated {
        match self.send(Request::Operate { volume, operation }).await {
            Response::Operation(operated) => operated,
            Response::Done => Operated::Done,
            other => Operated::Failed {
                message: failure(other).to_string(),
            },
        }
    }
}

/// The error of a response that is not the expected one.
pub(crate) fn failure(response: Response) -> StoreError {
    match response {
        Response::Failed(error) => error,
        _ => StoreError::Unknown {
            message: "the response does not belong to the request".to_owned(),
        },
    }
}

/// The result of a response without content.
pub(crate) fn done(response: Response) -> Result<(), StoreError> {
    match response {
        Response::Done | Response::Written(_) => Ok(()),
        other => Err(failure(other)),
    }
}

/// Steps that are not started. Clones start independently.
#[derive(Clone, derive_more::Debug)]
pub struct Steps {
    object: ObjectId,
    verifies: bool,
    #[debug(skip)]
    begin: Arc<dyn Fn(Port) -> Work + Send + Sync>,
}

type Work = Pin<Box<dyn Future<Output = End> + Send>>;

impl Steps {
    /// Creates steps for an object. `begin` must await only the port.
    pub fn new<F>(object: ObjectId, begin: impl Fn(Port) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output: Into<End>> + Send + 'static,
    {
        Self {
            object,
            verifies: true,
            begin: Arc::new(move |port| {
                let work = begin(port);
                Box::pin(async move { work.await.into() })
            }),
        }
    }

    /// Steps that share work between their clones.
    pub(crate) fn of<W, F>(object: &ObjectId, work: W, begin: fn(Arc<W>, Port) -> F) -> Self
    where
        W: Send + Sync + 'static,
        F: Future<Output: Into<End>> + Send + 'static,
    {
        let work = Arc::new(work);
        Self::new(object.clone(), move |port| begin(Arc::clone(&work), port))
    }

    /// Sets whether reads that only verify the cache are made. They are unnecessary if nothing can have
    /// changed, as in a simulation.
    #[must_use]
    pub const fn verify(mut self, verifies: bool) -> Self {
        self.verifies = verifies;
        self
    }

    pub const fn object(&self) -> &ObjectId {
        &self.object
    }

    pub fn begin(&self) -> Sequence {
        let port = Port {
            exchange: Arc::default(),
            verifies: self.verifies,
        };
        Sequence {
            work: Some((self.begin)(port.clone())),
            port,
            end: None,
        }
    }

    /// Runs the steps to their end. `perform` performs each request, which has a reason if it is not a read
    /// before a decision.
    pub fn run(&self, mut perform: impl FnMut(&Request, Option<Reason>) -> Response) -> End {
        let (mut sequence, mut response) = (self.begin(), None);
        // Steps end on their own; the bound only guards against a controller whose steps do not.
        for _ in 0..1_000_000 {
            match sequence.next(response.take()) {
                Step::Perform { request, reason } => response = Some(perform(&request, reason)),
                Step::End(end) => return end,
            }
        }
        End::failed_by("the steps do not end".to_owned(), false)
    }
}

/// Steps in progress.
///
/// # Examples
/// ```
/// use kubegc_controllers::{End, Key, Response, Step, Steps};
/// use kubegc_core::{ObjectMeta, record::{ObjectId, Record, Resource}};
///
/// let pod = ObjectId::new(Resource::Pods, &ObjectMeta::new("shop", "web-0", "u-1"));
/// let steps = Steps::new(pod, |port| async move {
///     match port.get(Resource::Nodes, Key::cluster("a")).await {
///         Ok(_) => End::Done,
///         Err(error) => End::failed(error),
///     }
/// });
/// let mut sequence = steps.begin();
/// let Step::Perform { request, .. } = sequence.next(None) else { panic!("it reads the node") };
/// assert_eq!(request.to_string(), "get node/a");
/// let node = Record::metadata_only(ObjectMeta::new("", "a", "u-2"));
/// assert!(matches!(sequence.next(Some(Response::Object(Box::new(node)))), Step::End(End::Done)));
/// ```
#[derive(derive_more::Debug)]
pub struct Sequence {
    #[debug(skip)]
    work: Option<Work>,
    port: Port,
    end: Option<End>,
}

/// The next step of a [`Sequence`].
#[derive(Clone, Debug)]
pub enum Step {
    /// Perform this request, and hand the response to [`Sequence::next`].
    Perform {
        request: Request,
        /// The reason; `None` for reads before a decision.
        reason: Option<Reason>,
    },
    End(End),
}

impl Sequence {
    /// Processes the response to the last request and returns the next step. The first call has no response.
    /// After the end it returns the end again.
    pub fn next(&mut self, response: Option<Response>) -> Step {
        let Some(work) = &mut self.work else {
            return Step::End(self.end.clone().unwrap_or(End::Done));
        };
        self.port.exchange.lock().response = response;
        let mut context = Context::from_waker(Waker::noop());
        let end = match work.as_mut().poll(&mut context) {
            Poll::Ready(end) => end,
            Poll::Pending => {
                let mut exchange = self.port.exchange.lock();
                let reason = exchange.reason.clone();
                match exchange.request.take() {
                    Some(request) => return Step::Perform { request, reason },
                    // Without a response to the last request the sequence cannot continue.
                    None => End::failed(StoreError::Unknown {
                        message: "the response is missing".to_owned(),
                    }),
                }
            }
        };
        self.work = None;
        self.end = Some(end.clone());
        Step::End(end)
    }
}

/// The end of a task.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub enum End {
    /// Success, or a state in which only a change makes upstream retry.
    #[display("done")]
    Done,
    /// The object is kept, for a reason that live reads showed.
    #[display("kept: {_0}")]
    Kept(Reason),
    /// A fact is missing, so the object is kept.
    #[display("cannot decide: {_0}")]
    Unknown(Missing),
    /// The state that the decision depends on has changed. The cache is updated, and the key is reconciled
    /// again.
    #[display("something has changed, so it is reconciled again")]
    Stale(Vec<Found>),
    /// The key is reconciled again at once, with this response.
    #[display("the cloud provider has responded")]
    Cloud(CloudResponse),
    /// The key is reconciled again after this time.
    #[display("requeued after {}s: {reason}", after.as_secs_f64())]
    RequeueAfter { after: Duration, reason: Reason },
    #[display("failed: {message}")]
    Failed {
        error: StoreError,
        /// The message that upstream logs or returns; the text of the error if upstream adds nothing.
        message: String,
        /// Whether upstream retries the key with backoff. Otherwise the next sync or change reconciles it
        /// again.
        is_retried: bool,
    },
}

impl From<Missing> for End {
    fn from(missing: Missing) -> Self {
        Self::Unknown(missing)
    }
}

impl From<StoreError> for End {
    fn from(error: StoreError) -> Self {
        Self::failed(error)
    }
}

/// Work that `?` may have ended early.
impl From<Result<Self, Self>> for End {
    fn from(end: Result<Self, Self>) -> Self {
        end.unwrap_or_else(|end| end)
    }
}

impl End {
    /// A request failed, and upstream retries the key with backoff.
    pub fn failed(error: StoreError) -> Self {
        Self::failed_with(error.to_string(), error, true)
    }

    /// A request failed, and upstream only logs it.
    pub fn reported(error: StoreError) -> Self {
        Self::failed_with(error.to_string(), error, false)
    }

    /// A request failed with upstream's message.
    pub(crate) const fn failed_with(message: String, error: StoreError, is_retried: bool) -> Self {
        Self::Failed {
            error,
            message,
            is_retried,
        }
    }

    pub(crate) fn failed_by(message: String, is_retried: bool) -> Self {
        let error = StoreError::Unknown {
            message: message.clone(),
        };
        Self::failed_with(message, error, is_retried)
    }

    /// A request about an object failed. The message is that of the server, after a prefix.
    pub(crate) fn failed_about(object: &ObjectId, prefix: &str, error: StoreError, is_retried: bool) -> Self {
        let message = format!("{prefix}{}", server_message_about(object, &error));
        Self::failed_with(message, error, is_retried)
    }

    /// A live read found another state of an object than the decision depends on.
    pub(crate) fn stale(object: &ObjectId, found: Record) -> Self {
        Self::Stale(vec![Found {
            resource: object.resource,
            key: Key::from(object),
            record: Some(found),
        }])
    }
}

/// The outcome of a live read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub resource: Resource,
    pub key: Key,
    /// The object; `None` if it does not exist.
    pub record: Option<Record>,
}
