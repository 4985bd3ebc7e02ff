//! Selects the connection of a request: a read opens a new one if the last one broke; a write uses the
//! connection of the listings that it depends on, or is not sent.
//!
//! After a connection broke, another runtime with other containers may listen on the socket. So a connection
//! is opened once and never reopened: its successor is another connection with the next number.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use hyper_util::rt::TokioIo;
use kubegc_core::RuntimeError;
use prost::Message;
use tokio::{net::UnixStream, time::Instant};
use tonic::{
    client::Grpc,
    transport::{Channel, Uri},
};

use crate::{
    ConnectError, Endpoint, Options,
    call::{Failure, Method, NotSent, call},
};

/// A connection to a socket. It is opened by its first request and never reopened.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// The number of the connection, counted from one for each socket.
    pub(crate) number: u64,
    pub(crate) client: Grpc<Channel>,
}

/// A runtime's socket, and the current connection to it.
#[derive(Debug)]
pub(crate) struct Socket {
    path: Arc<Path>,
    options: Arc<Options>,
    last: Mutex<Connection>,
}

impl Socket {
    /// Creates a socket without opening it.
    pub(crate) fn new(endpoint: &Endpoint, options: &Arc<Options>) -> Self {
        let path: Arc<Path> = endpoint.path().into();
        Self {
            last: Mutex::new(new_connection(1, &path, options)),
            path,
            options: Arc::clone(options),
        }
    }

    /// The current connection. It can be unopened, open or broken.
    pub(crate) fn connection(&self) -> Connection {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The connection after a closed one. It is created unless another request has created it already.
    fn connection_after(&self, closed: &Connection) -> Connection {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.number == closed.number {
            let number = closed.number.saturating_add(1);
            *last = new_connection(number, &self.path, &self.options);
        }
        last.clone()
    }

    /// Sends a read. If the current connection is closed, so that nothing was sent, it uses a new connection.
    /// Returns the response and the number of the connection.
    pub(crate) async fn read<Q, A>(
        &self,
        method: Method,
        object: &str,
        message: Q,
    ) -> Result<(A, u64), RuntimeError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let (began, timeout) = (Instant::now(), self.options.request_timeout);
        let last = self.connection();
        let send_on = async |connection: Connection, timeout, message| {
            let response = call(&connection.client, method, object, timeout, message).await?;
            Ok((response, connection.number))
        };
        let response = match send_on(last.clone(), timeout, message.clone()).await {
            Err(Failure {
                not_sent: Some(NotSent::Disconnected { .. }),
                ..
            }) => {
                let remaining = timeout.saturating_sub(began.elapsed());
                send_on(self.connection_after(&last), remaining, message).await
            }
            response => response,
        };
        response.map_err(|failure| failure.of_read(method))
    }

    /// The failure of a request that is not sent because its connection is closed.
    pub(crate) fn closed(&self) -> Failure {
        let path = self.path.to_path_buf();
        Failure::not_sent(NotSent::Disconnected { path })
    }
}

/// Creates a connection without opening it. If opening it fails, the next request tries again. Once it was
/// open, it is not reopened.
fn new_connection(number: u64, path: &Arc<Path>, options: &Options) -> Connection {
    let (path, timeout) = (Arc::clone(path), options.connect_timeout);
    let was_opened = Arc::new(AtomicBool::new(false));
    let open = move |_: Uri| {
        let (path, was_opened) = (Arc::clone(&path), Arc::clone(&was_opened));
        async move {
            let closed = |error| Err(NotSent::Closed(error));
            let path_buf = || path.to_path_buf();
            match tokio::time::timeout(timeout, UnixStream::connect(&*path)).await {
                // The socket can be opened, so the error is `Disconnected`. The new stream is dropped.
                Ok(Ok(_)) if was_opened.swap(true, Ordering::AcqRel) => {
                    Err(NotSent::Disconnected { path: path_buf() })
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
    // The connector ignores this address, but HTTP/2 requires a host.
    let channel = tonic::transport::Endpoint::from_static("http://localhost")
        .connect_with_connector_lazy(tower::service_fn(open));
    Connection {
        number,
        client: Grpc::new(channel).max_decoding_message_size(options.message_bytes_max),
    }
}

/// A kind of object that is listed, with its socket.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) socket: Arc<Socket>,
    /// The number of the connection of the last listing; zero: never listed.
    listed_on: AtomicU64,
}

impl Listing {
    pub(crate) fn new(socket: &Arc<Socket>) -> Arc<Self> {
        Arc::new(Self {
            socket: Arc::clone(socket),
            listed_on: AtomicU64::new(0),
        })
    }

    /// Records the connection of a listing.
    pub(crate) fn record(&self, number: u64) {
        self.listed_on.store(number, Ordering::Release);
    }

    /// Returns whether the last listing used the current connection to its socket. Also `true` without a
    /// listing, because then no write depends on one.
    pub(crate) fn is_current(&self) -> bool {
        let number = self.listed_on.load(Ordering::Acquire);
        number == 0 || number == self.socket.connection().number
    }
}
