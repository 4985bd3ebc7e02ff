//! A client over scripted answers, and what was asked through it.

pub(crate) mod logs;

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::{Client, client::Body};
use kubegc_core::{ApiResource, KubernetesVersion, Scope, store::Address};
use kubegc_kube::KubeStore;
use serde_json::{Value, json};
use tower_service::Service;

/// One request as it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Method, path and query.
    pub(crate) line: String,
    pub(crate) accept: String,
    pub(crate) content_type: String,
    pub(crate) body: String,
}

/// One scripted answer.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) code: u16,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) body: String,
}

pub(crate) fn said(code: u16, body: &Value) -> Said {
    Said {
        code,
        headers: Vec::new(),
        body: body.to_string(),
    }
}

pub(crate) fn status(code: u16) -> Said {
    said(
        code,
        &json!({"kind": "Status", "code": code, "message": format!("said {code}")}),
    )
}

type Answer = dyn Fn(&Asked) -> Option<Said> + Send + Sync;

/// A service that answers as a function says; `None` is a connection that breaks.
#[derive(Clone)]
pub(crate) struct Script {
    answer: Arc<Answer>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Script {
    pub(crate) fn new(answer: impl Fn(&Asked) -> Option<Said> + Send + Sync + 'static) -> Self {
        Self {
            answer: Arc::new(answer),
            asked: Arc::default(),
        }
    }

    /// Answers one after the other; the last one for ever.
    pub(crate) fn of(answers: Vec<Said>) -> Self {
        let next = Mutex::new(0);
        Self::new(move |_| {
            let mut next = next.lock().expect("one thread");
            let answer = answers.get(*next).or(answers.last()).cloned();
            *next += 1;
            answer
        })
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    pub(crate) fn store(&self) -> KubeStore {
        KubeStore::new(self.client(), KubernetesVersion::LATEST)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("one thread").clone()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.line).collect()
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
            let asked = Asked {
                line: format!("{} {}", parts.method, parts.uri),
                accept: header("accept"),
                content_type: header("content-type"),
                body: String::from_utf8(body.to_vec()).expect("text"),
            };
            script.asked.lock().expect("one thread").push(asked.clone());
            let Some(said) = (script.answer)(&asked) else {
                return Err(std::io::Error::other("the connection broke"));
            };
            let mut response = Response::builder().status(StatusCode::from_u16(said.code).expect("a code"));
            for (name, value) in said.headers {
                response = response.header(name, value);
            }
            Ok(response
                .body(http_body_util::Full::new(Bytes::from(said.body)))
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
