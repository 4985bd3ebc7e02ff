//! Logs, counts and publishes what controllers report.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use kubegc_controllers::{
    End, EventRequest, Request,
    driver::{Performed, Report, Resources},
};
use kubegc_core::{ObjectRef, StoreError, record::Resource};
use metrics::{counter, histogram};
use tokio::sync::mpsc;

use super::ControllersSummary;
use crate::{collect::is_logged, events::Event, metrics as names};

pub(super) struct Reporter {
    summary: Arc<Mutex<ControllersSummary>>,
    events: Option<mpsc::Sender<Event>>,
    /// The built-in kinds, for the apiVersion of the objects of Events.
    builtin: Resources,
    failures: BTreeMap<Resource, u32>,
}

impl Reporter {
    pub(super) fn new(
        summary: Arc<Mutex<ControllersSummary>>,
        events: Option<mpsc::Sender<Event>>,
        builtin: Resources,
    ) -> Self {
        Self {
            summary,
            events,
            builtin,
            failures: BTreeMap::new(),
        }
    }

    pub(super) fn report(&mut self, report: Report) {
        match report {
            Report::Performed(performed) => self.performed(&performed),
            Report::Ended {
                controller,
                object,
                took,
                end,
                ..
            } => {
                histogram!(names::WORK_DURATION, "name" => controller).record(took.as_secs_f64());
                let is_retried = match &end {
                    End::Failed { is_retried, .. } => *is_retried,
                    End::RequeueAfter { .. } => true,
                    _ => false,
                };
                if is_retried {
                    counter!(names::RETRIES, "name" => controller).increment(1);
                }
                match end {
                    // The object is reconciled again in its new version.
                    End::Failed {
                        error: StoreError::Conflict { .. },
                        ..
                    } => tracing::debug!(controller, %object, "a task {end}"),
                    End::Failed { .. } => tracing::warn!(controller, %object, "a task {end}"),
                    end => tracing::debug!(controller, %object, "a task ended: {end}"),
                }
            }
            Report::WatchFailed { resource, error } => {
                let labels = [("group", resource.group()), ("resource", resource.plural())];
                counter!(names::CONTROLLER_WATCH_ERRORS, &labels).increment(1);
                let failures = self.failures.entry(resource).or_default();
                *failures = failures.saturating_add(1);
                let resource = resource.plural();
                if is_logged(*failures) {
                    tracing::warn!(
                        resource,
                        failures,
                        "{resource} cannot be listed or watched: {error}"
                    );
                } else {
                    tracing::debug!(
                        resource,
                        failures,
                        "{resource} cannot be listed or watched: {error}"
                    );
                }
            }
            Report::DiscoveryFailed(error) => tracing::warn!(%error, "discovery failed"),
            _ => {}
        }
    }

    fn performed(&self, performed: &Performed) {
        let (controller, request) = (performed.controller, &performed.request);
        if !matches!(request, Request::Event(_)) {
            let outcome = performed.result.as_ref().err().map_or("applied", error_name);
            let labels = [
                ("controller", controller),
                ("request", request_name(request)),
                ("outcome", outcome),
            ];
            counter!(names::CONTROLLER_REQUESTS, &labels).increment(1);
            count_as_upstream(performed);
            let done = {
                let mut summary = self.summary.lock().unwrap_or_else(PoisonError::into_inner);
                let (done, count) = match performed.result {
                    Ok(()) => ("written", &mut summary.writes),
                    Err(_) => ("not written", &mut summary.writes_failed),
                };
                *count = count.saturating_add(1);
                done
            };
            tracing::info!(controller, object = %performed.object, reason = performed.reason.code(), "{done}: {performed}");
        }
        if let (Request::Event(event), Some(events)) = (request, &self.events)
            && events.try_send(self.event(controller, event)).is_err()
        {
            names::controller_event("dropped");
        }
    }

    fn event(&self, controller: &'static str, event: &EventRequest) -> Event {
        let EventRequest { object, .. } = event;
        let api_version = match self.builtin.find(object.resource) {
            Ok(resource) => resource.api_version(),
            Err(_) => object.resource.group().to_owned(),
        };
        Event {
            object: ObjectRef {
                api_version: api_version.into(),
                kind: object.resource.kind().into(),
                namespace: Arc::clone(&object.namespace),
                name: Arc::clone(&object.name),
                uid: object.uid.clone(),
            },
            is_warning: event.is_warning,
            reason: event.reason.to_string(),
            message: event.message.clone(),
            component: match controller {
                "persistentvolume-binder-controller" => "persistentvolume-controller",
                controller => controller,
            },
        }
    }
}

fn count_as_upstream(performed: &Performed) {
    let Request::Delete { object, .. } = &performed.request else {
        return;
    };
    match (performed.controller, &performed.result) {
        ("pod-garbage-collector-controller", result) => {
            let reason = match performed.reason.code() {
                "OutOfService" => "out-of-service",
                "Orphaned" => "orphaned",
                "Terminated" => "terminated",
                _ => "unscheduled",
            };
            let labels = [
                ("namespace", object.namespace.to_string()),
                ("reason", reason.to_owned()),
            ];
            counter!(names::FORCE_DELETED_PODS, &labels).increment(1);
            if result.is_err() {
                counter!(names::FORCE_DELETE_ERRORS, &labels).increment(1);
            }
        }
        ("taint-eviction-controller", Ok(())) => counter!(names::TAINT_DELETIONS).increment(1),
        _ => {}
    }
}

const fn request_name(request: &Request) -> &'static str {
    match request {
        Request::Delete { .. } | Request::DeleteContent { .. } => "delete",
        Request::DeleteCollection { .. } => "deletecollection",
        Request::Write(_) => "write",
        Request::Operate { .. } => "operate",
        _ => "other",
    }
}

const fn error_name(error: &StoreError) -> &'static str {
    match error {
        StoreError::NotFound => "not_found",
        StoreError::Conflict { .. } => "conflict",
        StoreError::UnsupportedMediaType => "unsupported_media_type",
        StoreError::Invalid { .. } => "invalid",
        StoreError::NoMapping { .. } => "no_mapping",
        StoreError::Refused { .. } => "refused",
        StoreError::Unknown { .. } => "unknown",
        _ => "other",
    }
}
