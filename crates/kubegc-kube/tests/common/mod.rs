//! Runs in the background, and a client over scripted responses, which records its requests.

use std::{
    collections::BTreeSet,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use kubegc_core::{ApiResource, KubernetesVersion, Scope, store::Address};
use kubegc_kube::{Error, KubeStore};
use kubegc_testkit::Cluster;
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle};
use tower_service::Service;

/// A simulated cluster of a version without a collector of its own.
pub(crate) fn cluster(version: &str) -> Cluster {
    Cluster::builder()
        .version(version.parse().expect("known"))
        .namespace("shop")
        .namespace("yard")
        .without_collector()
        .build()
        .expect("valid")
}

pub(crate) fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// A run in a task of its own, which ends with a summary.
pub(crate) struct Running<T> {
    stop: watch::Sender<bool>,
    task: JoinHandle<Result<T, Error>>,
}

impl<T: Send + 'static> Running<T> {
    /// Starts a run that gets the future of its stop.
    pub(crate) fn start<F>(run: impl FnOnce(BoxFuture<'static, ()>) -> F) -> Self
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let (stop, mut stopped) = watch::channel(false);
        let stopped = async move {
            // A test that fails drops the sender.
            let _stopped = stopped.wait_for(|&stop| stop).await;
        };
        let task = tokio::spawn(run(stopped.boxed()));
        Self { stop, task }
    }

    pub(crate) async fn end(self) -> T {
        self.stop.send_replace(true);
        self.task.await.expect("no panic").expect("a summary")
    }
}

/// A recorded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordedRequest {
    /// Method, path and query.
    pub(crate) line: String,
    pub(crate) accept: String,
    pub(crate) content_type: String,
    pub(crate) body: String,
}

/// A scripted response.
#[derive(Clone, Debug)]
pub(crate) struct ScriptedResponse {
    pub(crate) code: u16,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) body: String,
}

pub(crate) fn respond(code: u16, body: &Value) -> ScriptedResponse {
    ScriptedResponse {
        code,
        headers: Vec::new(),
        body: body.to_string(),
    }
}

pub(crate) fn status(code: u16) -> ScriptedResponse {
    respond(
        code,
        &json!({"kind": "Status", "code": code, "message": format!("code {code}")}),
    )
}

type Handler = dyn Fn(&RecordedRequest) -> Option<ScriptedResponse> + Send + Sync;

/// A service whose responses are computed by a function; `None` breaks the connection.
#[derive(Clone)]
pub(crate) struct Script {
    handler: Arc<Handler>,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl Script {
    pub(crate) fn new(
        handler: impl Fn(&RecordedRequest) -> Option<ScriptedResponse> + Send + Sync + 'static,
    ) -> Self {
        Self {
            handler: Arc::new(handler),
            requests: Arc::default(),
        }
    }

    /// Returns these responses in turn, then always the last one.
    pub(crate) fn of(responses: Vec<ScriptedResponse>) -> Self {
        let next = Mutex::new(0);
        Self::new(move |_| {
            let mut next = next.lock().expect("one thread");
            let response = responses.get(*next).or(responses.last()).cloned();
            *next += 1;
            response
        })
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    pub(crate) fn store(&self) -> KubeStore {
        KubeStore::new(self.client(), KubernetesVersion::LATEST)
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().expect("one thread").clone()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.line).collect()
    }
}

impl Service<Request<Body>> for Script {
    type Response = Response<http_body_util::Full<Bytes>>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let script = self.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.expect("whole").to_bytes();
            let header = |name: &str| {
                let value = parts.headers.get(name);
                value.map_or_else(String::new, |value| value.to_str().expect("text").to_owned())
            };
            let recorded = RecordedRequest {
                line: format!("{} {}", parts.method, parts.uri),
                accept: header("accept"),
                content_type: header("content-type"),
                body: String::from_utf8(body.to_vec()).expect("text"),
            };
            script.requests.lock().expect("one thread").push(recorded.clone());
            let Some(scripted) = (script.handler)(&recorded) else {
                return Err(std::io::Error::other("the connection broke"));
            };
            let mut response =
                Response::builder().status(StatusCode::from_u16(scripted.code).expect("a code"));
            for (name, value) in scripted.headers {
                response = response.header(name, value);
            }
            Ok(response
                .body(http_body_util::Full::new(Bytes::from(scripted.body)))
                .expect("valid"))
        }
        .boxed()
    }
}

pub(crate) fn pods() -> ApiResource {
    ApiResource::new("v1", "Pod", "pods", Scope::Namespaced)
}

pub(crate) fn pod<'a>(resource: &'a ApiResource, name: &'a str) -> Address<'a> {
    Address {
        resource,
        namespace: "shop",
        name,
    }
}

pub(crate) fn meta(name: &str, uid: &str, version: &str) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": {"namespace": "shop", "name": name, "uid": uid, "resourceVersion": version}})
}
