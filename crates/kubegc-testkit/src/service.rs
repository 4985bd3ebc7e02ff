//! The path of a client's request: faults first, then the server, then the audit.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http::{HeaderValue, Request, Response, header};
use http_body_util::BodyExt;
#[cfg(feature = "kube")]
use kube::Client;
use kubegc_core::{Clock, Timestamp};
use kubegc_sim::ApiServer;

use crate::{
    Cluster,
    audit::{Entry, of_client},
    body::{self, ResponseBody, broken},
    cluster::Inner,
    fault::{self, Fault},
    http::{ApiResponse, BYTES_MAX, Call, LogRequest, read_call, refused, refused_by_node, respond_as},
    nodes::log::{self, LogHandler, NodeError},
};

/// A transport error, in the form that HTTP clients expect.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A client's connection to a [`Cluster`]: a `tower::Service` that takes requests with any body and performs
/// them in memory. Made by [`Cluster::service`].
#[derive(Clone, derive_more::Debug)]
pub struct ClusterService {
    #[debug(skip)]
    inner: Arc<Inner>,
    client: Option<Arc<str>>,
}

impl Cluster {
    /// A client of this cluster, in namespace `default`. No sockets: requests are performed in memory.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as every `kube::Client`.
    #[cfg(feature = "kube")]
    pub fn client(&self) -> Client {
        self.client_in("default")
    }

    /// A client whose default namespace is this one.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as every `kube::Client`.
    #[cfg(feature = "kube")]
    pub fn client_in(&self, namespace: &str) -> Client {
        Client::new(ClusterService::new(self, None), namespace)
    }

    /// A client that audits and faults know by this name.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as every `kube::Client`.
    #[cfg(feature = "kube")]
    pub fn client_as(&self, name: &str) -> Client {
        Client::new(self.service(name), "default")
    }

    /// A service for an HTTP client that audits and faults know by this name: for a `kube::Client` of any
    /// version over `http` 1, and for any other client over `tower`.
    ///
    /// ```
    /// # use kubegc_testkit::Cluster;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let cluster = Cluster::new();
    /// // The `kube` here may be another version than that of the feature `kube`.
    /// let client = kube::Client::new(cluster.service("my-operator"), "default");
    /// # let _ = client; }
    /// ```
    pub fn service(&self, name: &str) -> ClusterService {
        ClusterService::new(self, Some(name.into()))
    }
}

impl ClusterService {
    pub(crate) fn new(cluster: &Cluster, client: Option<Arc<str>>) -> Self {
        Self {
            inner: Arc::clone(&cluster.inner),
            client,
        }
    }

    /// Begins a request. It is in flight until the future is done or dropped.
    pub(crate) fn begin<B>(
        &self,
        request: Request<B>,
    ) -> impl Future<Output = Result<Response<ResponseBody>, BoxError>> + Send + use<B>
    where
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let in_flight = InFlight::begin(&self.inner);
        let client = self.client.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = collect(body).await.map_err(Into::into)?;
            let mut request = Request::from_parts(parts, body);
            if let Some(client) = &client
                && let Ok(value) = HeaderValue::from_str(client)
            {
                let headers = request.headers_mut();
                headers.entry(header::USER_AGENT).or_insert(value);
            }
            in_flight.perform(client.as_deref(), &request).await
        }
    }
}

impl<B> tower_service::Service<Request<B>> for ClusterService
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        Box::pin(self.begin(request))
    }
}

/// Reads a body, up to the first frame beyond the limit: the server refuses a body that is too large.
async fn collect<B: http_body::Body<Data = Bytes>>(body: B) -> Result<Bytes, B::Error> {
    let mut body = std::pin::pin!(body);
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            read.extend_from_slice(&data);
        }
        if read.len() > BYTES_MAX {
            break;
        }
    }
    Ok(read.freeze())
}

struct InFlight {
    inner: Arc<Inner>,
    number: u64,
}

impl InFlight {
    fn begin(inner: &Arc<Inner>) -> Self {
        let number = {
            let mut state = inner.state.lock();
            let number = state.number();
            state.requests.insert(number, None);
            number
        };
        inner.pulse.beat();
        Self {
            inner: Arc::clone(inner),
            number,
        }
    }

    fn hold(&self, until: Option<Timestamp>) {
        self.inner.state.lock().requests.insert(self.number, until);
        self.inner.pulse.beat();
    }

    async fn perform(
        &self,
        client: Option<&str>,
        request: &Request<Bytes>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let inner = &self.inner;
        let (fault, now) = inner.shared.with(|server| {
            let call = read_call(server, request);
            let client = client_name(client, &call);
            (inner.state.lock().faults.take(&client, &call), server.now())
        });
        if let Some(Fault::Delay(by)) = fault {
            let until = now.saturating_add(by);
            self.hold(Some(until));
            inner.clock.sleep_until(until).await;
            self.hold(None);
        }
        let performed = inner.shared.with(|server| {
            let call = read_call(server, request);
            let client = client_name(client, &call);
            inner.respond(server, &client, &call, request, fault)
        });
        Ok(match performed? {
            Performed::Response(response) => response,
            Performed::Log(handler, request) => serve_log(inner, &handler, &request.0, request.1),
        })
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.inner.state.lock().requests.remove(&self.number);
        self.inner.pulse.beat();
    }
}

enum Performed {
    Response(Response<ResponseBody>),
    /// A closure serves the log, without the server's lock, so that it may use the cluster. The entry lacks
    /// the code of the response.
    Log(LogHandler, Box<(LogRequest, Entry)>),
}

fn serve_log(
    inner: &Inner,
    handler: &LogHandler,
    request: &LogRequest,
    mut entry: Entry,
) -> Response<ResponseBody> {
    let response = match handler(request) {
        Ok(log) => {
            let mut log = log.select(request, inner.clock.clone());
            let mut response = Response::new(match log.whole() {
                Some(text) => body::whole(text),
                None => body::streamed(stream::unfold(log, |mut log| async move {
                    let part = log.next().await?;
                    Some((Ok(part), log))
                })),
            });
            let content_type = HeaderValue::from_static("text/plain");
            response.headers_mut().insert(header::CONTENT_TYPE, content_type);
            response
        }
        Err(NodeError { code, message }) => refused_by_node(code, &message).map(body::whole),
    };
    entry.code = Some(response.status().as_u16());
    inner.note(&mut inner.state.lock(), entry);
    response
}

/// The name that the cluster knows a client by: the one that it was given, or the first word of its user
/// agent.
fn client_name(given: Option<&str>, call: &Call) -> String {
    let first_word = || call.user_agent.split_whitespace().next();
    given.or_else(first_word).unwrap_or("client").to_owned()
}

impl Inner {
    /// Performs a request, unless a fault prevents it, and records it.
    fn respond(
        self: &Arc<Self>,
        server: &mut ApiServer,
        client: &str,
        call: &Call,
        request: &Request<Bytes>,
        fault: Option<Fault>,
    ) -> Result<Performed, io::Error> {
        let word = fault.as_ref().map(Fault::word);
        let entry = |server: &ApiServer, code, body: &[u8]| Entry {
            at: server.now(),
            revision: server.revision(),
            fault: word,
            ..of_client(client, call, request.body(), code, body)
        };
        let note = |server: &ApiServer, code, body: &[u8]| {
            let entry = entry(server, code, body);
            let mut state = self.state.lock();
            state.is_settled &= !entry.is_write();
            self.note(&mut state, entry);
        };
        let response = match &fault {
            Some(Fault::Disconnect) => {
                note(server, None, &[]);
                return Err(broken());
            }
            Some(Fault::Refuse {
                code,
                retry_after_seconds,
            }) => ApiResponse::Whole(refused(fault::refusal(call, *code, *retry_after_seconds))),
            _ => {
                let rules = Arc::clone(&self.state.lock().access);
                // A user agent is a name with a version.
                let user = client.split('/').next().unwrap_or(client);
                respond_as(server, call, request, user, &rules)
            }
        };
        if fault == Some(Fault::LoseResponse) {
            let body = match &response {
                ApiResponse::Whole(response) => response.body(),
                ApiResponse::Node(_) | ApiResponse::Stream { .. } => &[][..],
            };
            note(server, None, body);
            return Err(broken());
        }
        Ok(Performed::Response(match response {
            ApiResponse::Whole(response) => {
                note(server, Some(response.status().as_u16()), response.body());
                response.map(body::whole)
            }
            ApiResponse::Node(call) => {
                let handler = log::find(&self.state.lock().nodes, &call.request.target);
                if let Some(handler) = handler {
                    return Ok(Performed::Log(
                        handler,
                        Box::new((call.request, entry(server, None, &[]))),
                    ));
                }
                note(server, Some(call.unreachable.status().as_u16()), &[]);
                call.unreachable.map(body::whole)
            }
            ApiResponse::Stream { head, watch } => {
                note(server, Some(head.status().as_u16()), &[]);
                let what = match &*call.namespace {
                    "" => call.resource.clone(),
                    namespace => format!("{} in {namespace}", call.resource),
                };
                head.map(|()| body::watched(self, client, &what, watch, fault))
            }
        }))
    }
}
