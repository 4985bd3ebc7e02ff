//! Sends CRI requests with a deadline, and maps failures to [`RuntimeError`].

use std::{error::Error as _, fmt, path::PathBuf, time::Duration};

use kubegc_core::RuntimeError;
use prost::Message;
use tonic::{Code, Request, Status, client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel};
use tonic_prost::ProstCodec;
use tracing::Instrument;

use crate::ConnectError;

/// A CRI method.
#[derive(Clone, Copy)]
pub(crate) struct Method {
    pub(crate) service: &'static str,
    pub(crate) name: &'static str,
}

impl Method {
    /// A method of the service of containers and sandboxes.
    pub(crate) const fn of_runtime(name: &'static str) -> Self {
        let service = "runtime.v1.RuntimeService";
        Self { service, name }
    }

    /// A method of the service of images.
    pub(crate) const fn of_images(name: &'static str) -> Self {
        let service = "runtime.v1.ImageService";
        Self { service, name }
    }
}

/// The reason why a request was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotSent {
    /// The socket cannot be opened.
    #[error(transparent)]
    Closed(ConnectError),
    /// The socket can be opened, but the connection of the request is closed.
    #[error(
        "{}: the connection of the listing is closed, and another runtime may listen there now: list again",
        path.display()
    )]
    Disconnected { path: PathBuf },
}

/// A request that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The gRPC status code: the runtime's, or that of a failure of the transport.
    pub(crate) code: Code,
    pub(crate) message: String,
    /// Whether there is no response: the failure was detected here, and not reported by the runtime.
    pub(crate) no_response: bool,
    /// The reason why the request was not sent; `None` if it was, or may have been sent.
    pub(crate) not_sent: Option<NotSent>,
}

/// Sends a request. Its deadline is sent to the runtime, and enforced here too. `object` is the id or the
/// reference for the log, or empty.
pub(crate) async fn call<Q, A>(
    client: &Grpc<Channel>,
    method: Method,
    object: &str,
    timeout: Duration,
    message: Q,
) -> Result<A, Failure>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let mut client = client.clone();
    let mut request = Request::new(message);
    request.set_timeout(timeout);
    let sent = async {
        let path = format!("/{}/{}", method.service, method.name);
        let path = PathAndQuery::try_from(path).map_err(|error| Status::internal(error.to_string()))?;
        let ready = client.ready().await;
        ready.map_err(|error| Status::unknown(format!("Service was not ready: {error}")))?;
        client.unary(request, path, ProstCodec::<Q, A>::default()).await
    };
    let span = tracing::debug_span!("cri", method = method.name, object);
    async {
        let response = match tokio::time::timeout(timeout, sent).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(Failure::from(&status)),
            Err(_) => Err(Failure::deadline("")),
        };
        match &response {
            Ok(_) => tracing::debug!("succeeded"),
            Err(failure) => tracing::debug!(%failure, "failed"),
        }
        response
    }
    .instrument(span)
    .await
}

impl Failure {
    /// A failure that was detected here.
    const fn without_response(code: Code, message: String, not_sent: Option<NotSent>) -> Self {
        Self {
            code,
            message,
            no_response: true,
            not_sent,
        }
    }

    /// The deadline was exceeded. `prefix` is the start of the message.
    pub(crate) fn deadline(prefix: &str) -> Self {
        let message = format!("{prefix}context deadline exceeded");
        Self::without_response(Code::DeadlineExceeded, message, None)
    }

    pub(crate) fn not_sent(reason: NotSent) -> Self {
        let message = format!("connection error: {reason}");
        Self::without_response(Code::Unavailable, message, Some(reason))
    }

    /// The error of a read: nothing changed.
    pub(crate) fn of_read(self, method: Method) -> RuntimeError {
        match self.code {
            Code::NotFound => RuntimeError::NotFound,
            Code::Unimplemented => RuntimeError::NotSupported {
                operation: method.name,
            },
            _ => RuntimeError::refused(self.to_string()),
        }
    }

    /// The error of a write. If it was not sent, nothing changed. An error response does not show whether the
    /// write was performed in part, for any code: the runtime also forwards errors of the services that it
    /// calls.
    pub(crate) fn of_write(self, method: Method) -> RuntimeError {
        let is_sent = self.not_sent.is_none();
        match self.of_read(method) {
            RuntimeError::Refused { message } if is_sent => RuntimeError::Unknown { message },
            error => error,
        }
    }
}

impl From<&Status> for Failure {
    /// A status with a source was created here, not by the runtime: there is no response.
    fn from(status: &Status) -> Self {
        let mut message = status.message().to_owned();
        let Some(mut source) = status.source() else {
            return Self {
                code: status.code(),
                message,
                no_response: false,
                not_sent: None,
            };
        };
        // Terminates: the chain of sources is finite.
        loop {
            if source.is::<tonic::TimeoutExpired>() {
                return Self::deadline("");
            }
            if let Some(reason) = source.downcast_ref::<NotSent>() {
                return Self::not_sent(reason.clone());
            }
            message = source.to_string();
            match source.source() {
                Some(cause) => source = cause,
                None => break,
            }
        }
        Self::without_response(Code::Unavailable, format!("connection lost: {message}"), None)
    }
}

impl fmt::Display for Failure {
    /// The text with the code's name in Go, as the kubelet logs it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.code {
            Code::Ok => "OK".to_owned(),
            Code::Cancelled => "Canceled".to_owned(),
            code => format!("{code:?}"),
        };
        write!(f, "rpc error: code = {name} desc = {}", self.message)
    }
}
