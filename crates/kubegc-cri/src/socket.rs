//! Selects the connection of a call: a read opens a new one if the last one broke; a write uses the
//! connection of its listing, or is not sent.
//!
//! The process that listens on a socket may have become another runtime, with other containers. So a
//! connection is opened once and never reopened silently: its successor is another connection, with another
//! number.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use hyper_util::rt::TokioIo;
use tokio::{net::UnixStream, time::Instant};
use tonic::{
    Request, Response, Status,
    transport::{Channel, Uri},
};

use crate::{
    ConnectError, Endpoint, Options,
    bindings::{image_service_client::ImageServiceClient, runtime_service_client::RuntimeServiceClient},
    call::{Failure, Method, call},
};

/// A reason why a call was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreached {
    /// The socket cannot be opened.
    #[error(transparent)]
    Closed(ConnectError),
    /// It can, but the connection of the call no longer exists.
    #[error(
        "{}: the connection of the listing is closed, and another runtime may listen there now: list again",
        path.display()
    )]
    Disconnected {
        /// The path.
        path: PathBuf,
    },
}

/// A connection, opened by its first call and never reopened.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    /// Of the connections to its socket, which it is, counted from one.
    pub(crate) number: u64,
    pub(crate) runtime: RuntimeServiceClient<Channel>,
    pub(crate) images: ImageServiceClient<Channel>,
}

/// A runtime's socket, and the last connection to it.
#[derive(Debug)]
pub(crate) struct Socket {
    path: Arc<Path>,
    connect_timeout: Duration,
    message_bytes_max: usize,
    last: Mutex<Link>,
}

impl Socket {
    /// A socket that is not opened yet.
    pub(crate) fn new(endpoint: &Endpoint, options: &Options) -> Self {
        let path: Arc<Path> = endpoint.path().into();
        let (connect_timeout, message_bytes_max) = (options.connect_timeout, options.message_bytes_max);
        Self {
            last: Mutex::new(link(1, &path, connect_timeout, message_bytes_max)),
            path,
            connect_timeout,
            message_bytes_max,
        }
    }

    /// The last connection, whether it is opened yet, open or broken.
    pub(crate) fn link(&self) -> Link {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The connection after a closed one: a new one, unless another call has made it already.
    fn link_after(&self, closed: &Link) -> Link {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.number == closed.number {
            let number = closed.number.saturating_add(1);
            *last = link(number, &self.path, self.connect_timeout, self.message_bytes_max);
        }
        last.clone()
    }

    /// Calls a method that changes nothing. It uses a new connection if the last one broke before, because
    /// then nothing was sent yet. Returns the connection's number as well.
    pub(crate) async fn read<Q, A, F>(
        &self,
        method: Method,
        about: &str,
        timeout: Duration,
        message: Q,
        send: impl Fn(Link, Request<Q>) -> F,
    ) -> Result<(A, u64), Failure>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let began = Instant::now();
        let last = self.link();
        let over = |link: Link, timeout, message| {
            let number = link.number;
            let response = call(method, about, timeout, message, |request| send(link, request));
            async move { Ok((response.await?, number)) }
        };
        match over(last.clone(), timeout, message.clone()).await {
            Err(Failure {
                unreached: Some(Unreached::Disconnected { .. }),
                ..
            }) => {
                let left = timeout.saturating_sub(began.elapsed());
                over(self.link_after(&last), left, message).await
            }
            response => response,
        }
    }

    /// The failure of a call that is not sent because its connection is closed.
    pub(crate) fn closed(&self) -> Failure {
        let path = self.path.to_path_buf();
        Failure::unreached(Unreached::Disconnected { path })
    }
}

/// A connection that is not opened yet. If it cannot be opened, its next call tries again; once it was open,
/// no other is opened in its place.
fn link(number: u64, path: &Arc<Path>, timeout: Duration, message_bytes_max: usize) -> Link {
    let path = Arc::clone(path);
    let was_opened = Arc::new(AtomicBool::new(false));
    let open = move |_: Uri| {
        let (path, was_opened) = (Arc::clone(&path), Arc::clone(&was_opened));
        async move {
            let closed = |error| Err(Unreached::Closed(error));
            let path_buf = || path.to_path_buf();
            match tokio::time::timeout(timeout, UnixStream::connect(&*path)).await {
                // Opened to find out whether it can be, and closed again.
                Ok(Ok(_)) if was_opened.swap(true, Ordering::AcqRel) => {
                    Err(Unreached::Disconnected { path: path_buf() })
                }
                Ok(Ok(stream)) => Ok(TokioIo::new(stream)),
                Ok(Err(error)) => closed(ConnectError::opening(&path, &error)),
                Err(_) => closed(ConnectError::Timeout {
                    path: path_buf(),
                    waited: timeout,
                }),
            }
        }
    };
    // The address of a socket is its path; HTTP/2 wants a host all the same.
    let channel = tonic::transport::Endpoint::from_static("http://localhost")
        .connect_with_connector_lazy(tower::service_fn(open));
    Link {
        number,
        runtime: RuntimeServiceClient::new(channel.clone()).max_decoding_message_size(message_bytes_max),
        images: ImageServiceClient::new(channel).max_decoding_message_size(message_bytes_max),
    }
}

/// On which connection each kind of thing was last listed as a whole; zero where it never was.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) containers: AtomicU64,
    pub(crate) sandboxes: AtomicU64,
    pub(crate) images: AtomicU64,
}

/// Records the connection of a listing.
pub(crate) fn note(listed: &AtomicU64, number: u64) {
    listed.store(number, Ordering::Release);
}

/// Whether the last listing used the current connection to its socket, or there was none: then no decision
/// depends on a listing.
pub(crate) fn holds(listed: &AtomicU64, socket: &Socket) -> bool {
    let number = listed.load(Ordering::Acquire);
    number == 0 || number == socket.link().number
}
