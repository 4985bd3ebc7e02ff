//! Lists and watches one resource, with retries.
//!
//! A [`Reflector`] says what is requested next, and a driver performs it over a [`Source`]: the metadata of
//! the objects, or the whole objects.
//!
//! # Upstream
//! [`ListAndWatch`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/client-go/tools/cache/reflector.go)
//! of client-go's `Reflector`. Without jitter and periodic resyncs.

use std::{future::poll_fn, task::Poll, time::Duration};

use async_trait::async_trait;

use crate::{Clock, ResourceVersion, StoreError, Timestamp, WatchStream, backoff::Backoff, store::WatchItem};

/// The list and the watch of one resource. `T` is the object.
#[async_trait]
pub trait Source<T: 'static>: Send + Sync {
    /// All objects, at the version `at_least` or a newer one; at any version if that is empty.
    async fn list(&self, at_least: &ResourceVersion) -> Result<Listed<T>, StoreError>;

    /// The changes since a version. [`StoreError::Invalid`] in the stream: an object cannot be read.
    async fn watch(&self, since: &ResourceVersion) -> Result<Box<dyn WatchStream<T>>, StoreError>;

    /// The version of an object; empty if it has none.
    fn version_of<'t>(&self, object: &'t T) -> &'t ResourceVersion;
}

/// All objects of a resource at one version.
pub struct Listed<T> {
    pub items: Vec<T>,
    /// The version from which a watch continues.
    pub resource_version: ResourceVersion,
    /// The watch from that version; `None` if it is opened after the objects are delivered.
    pub stream: Option<Box<dyn WatchStream<T>>>,
}

/// How a reflector reads and retries.
#[derive(Debug)]
pub struct Pace {
    /// Delays of lists and watches that failed.
    pub backoff: Backoff,
    /// Delay before a watch is opened again that ended without an event; `None` counts it as a failure.
    pub reopen_after: Option<Duration>,
    /// Maximum number of events that are taken from a watch at once; at least 1.
    pub events_at_once: usize,
}

/// Keeps the place of the list and watch of one resource.
///
/// # Guarantees
/// - A watch that ended is opened again at the last version, at once if it had delivered an event.
/// - A new list is requested only if the version expired, the resource was not found, an object could not be
///   read, or no version is known. It is at least as new as everything delivered before.
#[derive(Debug)]
pub struct Reflector {
    pace: Pace,
    /// The version up to which everything was delivered; empty if none is known.
    version: ResourceVersion,
    /// Whether no watch can continue at the version.
    needs_list: bool,
    /// Whether a list is in progress, and not waiting for its time.
    is_listing: bool,
    /// Whether the open watch has delivered an event.
    has_delivered: bool,
}

/// The next request of a [`Reflector`].
#[must_use = "a request must be performed"]
pub struct Request<T> {
    at: Option<Timestamp>,
    operation: Operation<T>,
}

enum Operation<T> {
    List(ResourceVersion),
    Watch(ResourceVersion),
    Read {
        stream: Box<dyn WatchStream<T>>,
        at_most: usize,
    },
}

/// The response to a [`Request`].
#[must_use = "the reflector must handle it"]
pub struct Response<T>(Outcome<T>);

enum Outcome<T> {
    Listed(Result<Listed<T>, StoreError>),
    Opened(Result<Box<dyn WatchStream<T>>, StoreError>),
    Read {
        events: Vec<WatchItem<T>>,
        /// The version of the last event that has one.
        version: ResourceVersion,
        ended: Option<Result<(), StoreError>>,
        stream: Box<dyn WatchStream<T>>,
    },
}

/// The objects and events of a response, and the next request.
#[must_use = "the next request must be performed"]
pub struct Progress<T> {
    pub listed: Option<Result<Vec<T>, StoreError>>,
    /// The events of a watch, in their order.
    pub events: Vec<WatchItem<T>>,
    /// The error of a list or a watch that is retried; not that of an expired version.
    pub failed: Option<StoreError>,
    pub next: Request<T>,
}

impl Reflector {
    /// A reflector that has not listed.
    pub fn new(pace: Pace) -> Self {
        Self {
            pace,
            version: ResourceVersion::default(),
            needs_list: false,
            is_listing: false,
            has_delivered: false,
        }
    }

    /// Lists at once, at any version. Responses to earlier requests must no longer be handled.
    pub fn start<T>(&mut self) -> Request<T> {
        self.version = ResourceVersion::default();
        self.list(None)
    }

    /// The number of failures in a row.
    pub const fn failures(&self) -> u32 {
        self.pace.backoff.failures()
    }

    /// Returns whether a list is in progress, and not waiting for its time.
    pub const fn is_listing(&self) -> bool {
        self.is_listing
    }

    /// Handles the response to the last request.
    pub fn handle<T>(&mut self, now: Timestamp, response: Response<T>) -> Progress<T> {
        let (mut listed, mut events, mut failed) = (None, Vec::new(), None);
        let next = match response.0 {
            Outcome::Listed(Ok(list)) => {
                self.is_listing = false;
                self.needs_list = false;
                self.version = list.resource_version;
                listed = Some(Ok(list.items));
                match list.stream {
                    Some(stream) => self.opened(stream),
                    None => self.watch(None),
                }
            }
            Outcome::Listed(Err(error)) => {
                self.is_listing = false;
                listed = Some(Err(error.clone()));
                self.retry(now, error, &mut failed)
            }
            Outcome::Opened(Ok(stream)) => self.opened(stream),
            Outcome::Opened(Err(error)) => self.retry(now, error, &mut failed),
            Outcome::Read {
                events: read,
                version,
                ended,
                stream,
            } => {
                if !read.is_empty() {
                    self.delivered(version);
                }
                events = read;
                match ended {
                    None => self.read(stream),
                    Some(Ok(())) => {
                        let at = (!self.has_delivered).then(|| match self.pace.reopen_after {
                            Some(delay) => now.saturating_add(delay),
                            None => self.pace.backoff.failed(now),
                        });
                        self.watch_or_list(at)
                    }
                    Some(Err(error)) => {
                        // The watch has delivered an object, which cannot be read.
                        if matches!(error, StoreError::Invalid { .. }) {
                            self.pace.backoff.succeeded();
                        }
                        self.retry(now, error, &mut failed)
                    }
                }
            }
        };
        Progress {
            listed,
            events,
            failed,
            next,
        }
    }

    fn delivered(&mut self, version: ResourceVersion) {
        self.has_delivered = true;
        self.pace.backoff.succeeded();
        if !version.is_empty() {
            self.version = version;
        }
    }

    /// Requests again after a failure.
    fn retry<T>(&mut self, now: Timestamp, error: StoreError, failed: &mut Option<StoreError>) -> Request<T> {
        let is_first = self.pace.backoff.is_fresh(now);
        let at = self.pace.backoff.failed(now);
        if error == StoreError::Expired {
            // An expired version is not a failure, unless the new list expires at once.
            self.needs_list = true;
            return self.list((!is_first).then_some(at));
        }
        // A resource that is served again may be another one of the same name. The next list names the object
        // that could not be read, until it can be.
        self.needs_list |= matches!(
            error,
            StoreError::NotFound | StoreError::NoMapping { .. } | StoreError::Invalid { .. }
        );
        *failed = Some(error);
        self.watch_or_list(Some(at))
    }

    fn watch_or_list<T>(&mut self, at: Option<Timestamp>) -> Request<T> {
        if self.needs_list || self.version.is_empty() {
            self.list(at)
        } else {
            self.watch(at)
        }
    }

    fn list<T>(&mut self, at: Option<Timestamp>) -> Request<T> {
        self.is_listing = at.is_none();
        let operation = Operation::List(self.version.clone());
        Request { at, operation }
    }

    fn watch<T>(&self, at: Option<Timestamp>) -> Request<T> {
        let operation = Operation::Watch(self.version.clone());
        Request { at, operation }
    }

    fn opened<T>(&mut self, stream: Box<dyn WatchStream<T>>) -> Request<T> {
        self.has_delivered = false;
        self.read(stream)
    }

    fn read<T>(&self, stream: Box<dyn WatchStream<T>>) -> Request<T> {
        let at_most = self.pace.events_at_once;
        Request {
            at: None,
            operation: Operation::Read { stream, at_most },
        }
    }
}

impl<T: Send + 'static> Request<T> {
    /// Waits until the time of the request, and performs it.
    pub async fn perform<S, C>(self, source: &S, clock: &C) -> Response<T>
    where
        S: Source<T> + ?Sized,
        C: Clock + ?Sized,
    {
        if let Some(at) = self.at {
            clock.sleep_until(at).await;
        }
        Response(match self.operation {
            Operation::List(at_least) => Outcome::Listed(source.list(&at_least).await),
            Operation::Watch(since) => Outcome::Opened(source.watch(&since).await),
            Operation::Read { stream, at_most } => read(source, stream, at_most).await,
        })
    }
}

/// Waits for an event, and returns it with those that are already available.
async fn read<T, S>(source: &S, mut stream: Box<dyn WatchStream<T>>, at_most: usize) -> Outcome<T>
where
    T: Send + 'static,
    S: Source<T> + ?Sized,
{
    let mut events = Vec::new();
    let mut version = ResourceVersion::default();
    let mut next = stream.next().await;
    let ended = loop {
        match next {
            Some(Ok(event)) => {
                let latest = match &event {
                    WatchItem::Applied(object) | WatchItem::Deleted(object) => source.version_of(object),
                    WatchItem::Bookmark(latest) => latest,
                };
                if !latest.is_empty() {
                    version = latest.clone();
                }
                events.push(event);
            }
            Some(Err(error)) => break Some(Err(error)),
            None => break Some(Ok(())),
        }
        if events.len() >= at_most {
            break None;
        }
        let mut available = stream.next();
        let polled = poll_fn(|context| Poll::Ready(available.as_mut().poll(context))).await;
        match polled {
            Poll::Ready(polled) => next = polled,
            Poll::Pending => break None,
        }
    };
    Outcome::Read {
        events,
        version,
        ended,
        stream,
    }
}
