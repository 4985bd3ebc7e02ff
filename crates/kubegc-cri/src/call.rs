//! Classifies a runtime's responses into failures that a collector can handle, and sets the deadline of every
//! call.

use std::{error::Error as _, fmt, time::Duration};

use kubegc_core::RuntimeError;
use tonic::{Code, Request, Response, Status};
use tracing::Instrument;

use crate::socket::Unreached;

/// A method of CRI, as far as its failures are concerned.
#[derive(Clone, Copy)]
pub(crate) struct Method {
    /// The name.
    pub(crate) name: &'static str,
    /// Whether it changes anything.
    pub(crate) writes: bool,
}

impl Method {
    /// A method that changes nothing.
    pub(crate) const fn reads(name: &'static str) -> Self {
        Self { name, writes: false }
    }

    /// A method that changes something.
    pub(crate) const fn writes(name: &'static str) -> Self {
        Self { name, writes: true }
    }
}

/// A call that failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The code: the runtime's, or the code for a transport failure.
    pub(crate) code: Code,
    /// The message.
    pub(crate) message: String,
    /// Whether this was detected here and not reported by the runtime: the connection is broken.
    pub(crate) lost: bool,
    /// The reason why the runtime was not reached; `None` if it was, or may have been.
    pub(crate) unreached: Option<Unreached>,
}

/// Calls a method. The runtime receives the deadline, and it is enforced here too.
pub(crate) async fn call<Q, A, F>(
    method: Method,
    about: &str,
    timeout: Duration,
    message: Q,
    send: impl FnOnce(Request<Q>) -> F,
) -> Result<A, Failure>
where
    F: Future<Output = Result<Response<A>, Status>>,
{
    let mut request = Request::new(message);
    request.set_timeout(timeout);
    let sent = send(request);
    let span = tracing::debug_span!("cri", method = method.name, about);
    async {
        let response = match tokio::time::timeout(timeout, sent).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(Failure::from(&status)),
            Err(_) => Err(Failure::deadline("")),
        };
        match &response {
            Ok(_) => tracing::debug!("answered"),
            Err(failure) => tracing::debug!(%failure, "failed"),
        }
        response
    }
    .instrument(span)
    .await
}

impl Failure {
    /// The deadline passed. `what` is the prefix of the message.
    pub(crate) fn deadline(what: &str) -> Self {
        Self {
            code: Code::DeadlineExceeded,
            message: format!("{what}context deadline exceeded"),
            lost: true,
            unreached: None,
        }
    }

    /// The call was not sent.
    pub(crate) fn unreached(why: Unreached) -> Self {
        Self {
            code: Code::Unavailable,
            message: format!("connection error: {why}"),
            lost: true,
            unreached: Some(why),
        }
    }

    /// The failure as a collector's error.
    ///
    /// A failed read never has an unknown outcome. A write that was not sent did nothing. An error response
    /// of a runtime may come from a half-finished operation, whatever its code: the runtime also forwards the
    /// errors of the services that it calls.
    pub(crate) fn of(self, method: Method) -> RuntimeError {
        let nothing_done = !method.writes || self.unreached.is_some();
        match self.code {
            Code::NotFound => RuntimeError::NotFound,
            Code::Unimplemented => RuntimeError::NotSupported {
                operation: method.name,
            },
            _ if nothing_done => RuntimeError::refused(self.to_string()),
            _ => RuntimeError::unknown(self.to_string()),
        }
    }
}

impl From<&Status> for Failure {
    /// A status with a source was made here, not by the runtime: the connection is broken.
    fn from(status: &Status) -> Self {
        let mut message = status.message().to_owned();
        let Some(mut source) = status.source() else {
            return Self {
                code: status.code(),
                message,
                lost: false,
                unreached: None,
            };
        };
        // Ends: each error is made before the one that it is the source of.
        loop {
            if source.is::<tonic::TimeoutExpired>() {
                return Self::deadline("");
            }
            if let Some(why) = source.downcast_ref::<Unreached>() {
                return Self::unreached(why.clone());
            }
            message = source.to_string();
            match source.source() {
                Some(cause) => source = cause,
                None => break,
            }
        }
        Self {
            code: Code::Unavailable,
            message: format!("connection lost: {message}"),
            lost: true,
            unreached: None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rpc error: code = {} desc = {}", name(self.code), self.message)
    }
}

/// The name of a code in Go, which logs contain.
const fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

#[cfg(test)]
mod tests {
    use kubegc_core::RuntimeError;
    use tonic::{Code, Status};

    use super::{Failure, Method};
    use crate::socket::Unreached;

    const READ: Method = Method::reads("ListImages");
    const WRITE: Method = Method::writes("RemoveImage");

    #[test]
    fn codes_are_sorted_by_the_possible_effects() {
        let refused = |name: &str| RuntimeError::refused(format!("rpc error: code = {name} desc = why"));
        let unknown = |name: &str| RuntimeError::unknown(format!("rpc error: code = {name} desc = why"));
        for (code, name) in [
            (Code::Cancelled, "Canceled"),
            (Code::Unknown, "Unknown"),
            (Code::DeadlineExceeded, "DeadlineExceeded"),
            (Code::AlreadyExists, "AlreadyExists"),
            (Code::ResourceExhausted, "ResourceExhausted"),
            (Code::FailedPrecondition, "FailedPrecondition"),
            (Code::Aborted, "Aborted"),
            (Code::OutOfRange, "OutOfRange"),
            (Code::Internal, "Internal"),
            (Code::Unavailable, "Unavailable"),
            (Code::DataLoss, "DataLoss"),
            (Code::Ok, "OK"),
            (Code::InvalidArgument, "InvalidArgument"),
            (Code::PermissionDenied, "PermissionDenied"),
            (Code::Unauthenticated, "Unauthenticated"),
        ] {
            assert_eq!(of(code, READ), refused(name));
            assert_eq!(of(code, WRITE), unknown(name));
        }
        for method in [READ, WRITE] {
            let path = "/run/a.sock".into();
            assert_eq!(
                Failure::unreached(Unreached::Disconnected { path }).of(method),
                RuntimeError::refused(
                    "rpc error: code = Unavailable desc = connection error: /run/a.sock: the connection of the listing is closed, \
                     and another runtime may listen there now: list again"
                )
            );
        }
        for method in [READ, WRITE] {
            assert_eq!(of(Code::NotFound, method), RuntimeError::NotFound);
            let operation = method.name;
            assert_eq!(
                of(Code::Unimplemented, method),
                RuntimeError::NotSupported { operation }
            );
        }
    }

    fn of(code: Code, method: Method) -> RuntimeError {
        Failure::from(&Status::new(code, "why")).of(method)
    }
}
