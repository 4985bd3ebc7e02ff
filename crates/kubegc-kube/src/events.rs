//! Publishes the Events of the collector and of controllers, and limits how many.
//!
//! Upstream's Events are of the core group, with `source.component`; kube's recorder writes the newer form
//! with other fields. So they are posted as they are.

use std::{collections::BTreeMap, pin::pin, time::Duration};

use futures_util::future::{Either, select};
use http::Method;
use kube::Client;
use kubegc_core::{ApiResource, Clock, ObjectRef, Scope, StoreError, Timestamp, Uid};
use kubegc_objects::collector::InvalidNamespace;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    request::{HttpRequest, JSON, send},
    url,
};

/// Events that wait to be published. Upstream's broadcaster holds as many and drops the rest.
pub(crate) const WAITING_MAX: usize = 1000;
/// Time for which queued Events are still published after a run.
const PUBLISH_AT_END: Duration = Duration::from_secs(5);
/// Events of one object in a row.
const BURST: u32 = 25;
/// Time until one more is allowed.
const ONE_MORE_EVERY: Duration = Duration::from_secs(300);
/// Objects whose events are counted.
const OBJECTS_MAX: usize = 4096;

#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) object: ObjectRef,
    /// Whether the type is `Warning`; `Normal` otherwise.
    pub(crate) is_warning: bool,
    pub(crate) reason: String,
    pub(crate) message: String,
    /// The reporting component, as `source.component`.
    pub(crate) component: &'static str,
}

impl From<&InvalidNamespace> for Event {
    fn from(warning: &InvalidNamespace) -> Self {
        Self {
            object: warning.dependent.clone(),
            is_warning: true,
            reason: InvalidNamespace::REASON.to_owned(),
            message: warning.to_string(),
            component: InvalidNamespace::COMPONENT,
        }
    }
}

impl Event {
    /// The namespace of the Event: that of its object, or `default`.
    fn namespace(&self) -> &str {
        match &*self.object.namespace {
            "" => "default",
            namespace => namespace,
        }
    }

    /// The Event as JSON.
    ///
    /// # Upstream
    /// [`makeEvent`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/client-go/tools/record/event.go):
    /// the name is that of the object and the time in hexadecimal nanoseconds.
    fn document(&self, now: Timestamp) -> Value {
        let object = &self.object;
        let date = now.truncate_to_secs().to_string();
        let mut involved = json!({
            "kind": &*object.kind,
            "name": &*object.name,
            "uid": object.uid.to_string(),
            "apiVersion": &*object.api_version,
        });
        if !object.namespace.is_empty() {
            involved["namespace"] = (&*object.namespace).into();
        }
        json!({
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {
                "name": format!("{}.{:x}", object.name, now.as_nanos()),
                "namespace": self.namespace(),
            },
            "involvedObject": involved,
            "reason": self.reason,
            "message": self.message,
            "source": { "component": self.component },
            "firstTimestamp": date,
            "lastTimestamp": date,
            "count": 1,
            "type": if self.is_warning { "Warning" } else { "Normal" },
            "reportingComponent": self.component,
        })
    }
}

/// Publishes Events until the channel is closed, and counts the outcomes. Failures are only
/// traced.
pub(crate) async fn publish(
    client: &Client,
    clock: &dyn Clock,
    mut events: mpsc::Receiver<Event>,
    count: fn(&'static str),
) {
    let mut limit = Limit::default();
    while let Some(event) = events.recv().await {
        let now = clock.now();
        if !limit.admits(&event.object.uid, now) {
            count("dropped");
            continue;
        }
        match post(client, &event, now).await {
            Ok(()) => count("published"),
            Err(error) => {
                count("failed");
                tracing::warn!(object = %event.object, reason = event.reason, %error, "an Event could not be published");
            }
        }
    }
}

/// Runs work and publishes its Events meanwhile, and for a short time afterwards. The work must drop the
/// sender of the Events.
pub(crate) async fn publish_during<T>(
    work: impl Future<Output = T>,
    publishing: impl Future<Output = ()>,
) -> T {
    match select(pin!(work), pin!(publishing)).await {
        Either::Left((result, publishing)) => {
            if tokio::time::timeout(PUBLISH_AT_END, publishing).await.is_err() {
                tracing::warn!("some Events were not published before the end");
            }
            result
        }
        Either::Right(((), work)) => work.await,
    }
}

async fn post(client: &Client, event: &Event, now: Timestamp) -> Result<(), StoreError> {
    let events = ApiResource::new("v1", "Event", "events", Scope::Namespaced);
    let url = url::collection(&events, Some(event.namespace()))?;
    let document = event.document(now).to_string().into_bytes();
    let request = HttpRequest::new(Method::POST, &url, JSON).content(JSON, document);
    send(client, request).await.map(drop)
}

/// Limits the published events of each object: a burst, then one at intervals.
///
/// # Upstream
/// [`EventSourceObjectSpamFilter`](https://github.com/kubernetes/kubernetes/blob/v1.34.0/staging/src/k8s.io/client-go/tools/record/events_cache.go).
/// Events are not aggregated, and equal events are not counted: each is one object.
#[derive(Debug, Default)]
struct Limit(BTreeMap<Uid, (u32, Timestamp)>);

impl Limit {
    fn admits(&mut self, object: &Uid, now: Timestamp) -> bool {
        if self.0.len() >= OBJECTS_MAX && !self.0.contains_key(object) {
            self.0.clear();
        }
        let (left, since) = self.0.entry(object.clone()).or_insert((BURST, now));
        let more = now.since(*since).as_secs() / ONE_MORE_EVERY.as_secs();
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        if more > 0 {
            *left = left.saturating_add(more).min(BURST);
            *since = since.saturating_add(ONE_MORE_EVERY.saturating_mul(more));
        }
        let admits = *left > 0;
        *left = left.saturating_sub(1);
        admits
    }
}

#[cfg(test)]
mod tests {
    use kubegc_core::OwnerReference;

    use super::*;

    fn warning(namespace: &str) -> InvalidNamespace {
        let reference = OwnerReference {
            api_version: "v1".into(),
            kind: "Pod".into(),
            name: "owner".into(),
            uid: Uid::new("o1"),
            controller: None,
            block_owner_deletion: None,
        };
        InvalidNamespace::new(ObjectRef::new("v1", "Secret", namespace, "key", "d1"), reference)
    }

    #[test]
    fn g_27_an_event_has_upstreams_fields() {
        let now = Timestamp::from_nanos(1_772_366_405_000_000_255);
        for (namespace, event_namespace) in [("shop", "shop"), ("", "default")] {
            let event = Event::from(&warning(namespace)).document(now);
            assert_eq!(event["metadata"]["name"], "key.1898b5dadddc72ff");
            assert_eq!(event["metadata"]["namespace"], event_namespace);
            assert_eq!(
                event["involvedObject"]["namespace"].as_str().unwrap_or_default(),
                namespace
            );
            assert_eq!(event["involvedObject"]["uid"], "d1");
            assert_eq!(event["source"]["component"], "garbage-collector-controller");
            assert_eq!(event["type"], "Warning");
            assert_eq!(event["reason"], "OwnerRefInvalidNamespace");
            assert_eq!(event["firstTimestamp"], "2026-03-01T12:00:05Z");
            let message = format!(
                "ownerRef [v1/Pod, namespace: {namespace}, name: owner, uid: o1] does not exist in namespace {namespace:?}"
            );
            assert_eq!(event["message"], message);
        }
    }

    #[test]
    fn an_object_gets_a_burst_and_then_one_event_every_five_minutes() {
        let mut limit = Limit::default();
        let at = Timestamp::from_secs;
        let (one, other) = (Uid::new("one"), Uid::new("other"));
        let burst = (0..40).filter(|_| limit.admits(&one, at(0))).count();
        assert_eq!(burst, 25);
        assert!(limit.admits(&other, at(0)));
        assert!(!limit.admits(&one, at(299)));
        assert!(limit.admits(&one, at(300)));
        assert!(!limit.admits(&one, at(301)));
    }
}
