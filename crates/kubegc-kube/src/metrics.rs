//! Metrics: those of upstream that can be measured here, under upstream's names, and some of kubegc.
//!
//! They are sent to the recorder that the program installs for the `metrics` crate.
//!
//! | metric | labels | as upstream's |
//! |---|---|---|
//! | `garbagecollector_controller_resources_sync_error_total` | | in part: failed discoveries; upstream also counts failures inside the collector |
//! | `rest_client_requests_total` | `code` (`<error>` without a response), `method` | yes, without `host`, which a client does not expose |
//! | `kubegc_collector_calls_total` | `request`, `reason`, `outcome` | no: the collector's own calls by their purpose |
//! | `kubegc_collector_attempts_total` | `conclusion` | no: how the attempts of both worker queues ended |
//! | `kubegc_collector_watch_errors_total` | `group`, `resource` | no: lists and watches that failed |
//! | `kubegc_collector_warnings_total` | `result` | no: warning Events `published`, `dropped` by the limit, or `failed` |
//! | `kubegc_collector_leading` | | no: 1 while this instance collects |
//! | `running_managed_controllers` | `name`, `manager` (`kubegc`) | yes: 1 while the controller runs here |
//! | `workqueue_work_duration_seconds` | `name` | in part: of each task of a key; `name` is the controller's |
//! | `workqueue_retries_total` | `name` | yes, but `name` is the controller's, which often differs from its queue's |
//! | `pod_gc_collector_force_delete_pods_total`, `pod_gc_collector_force_delete_pod_errors_total` | `namespace`, `reason` | in part: a pod whose status cannot be written is not counted |
//! | `taint_eviction_controller_pod_deletions_total` | | yes |
//! | `kubegc_controllers_requests_total` | `controller`, `request`, `outcome` | no: the controllers' writes |
//! | `kubegc_controllers_watch_errors_total` | `group`, `resource` | no: lists and watches that failed |
//! | `kubegc_controllers_events_total` | `result` | no: Events `published`, `dropped` by the limit, or `failed` |
//!
//! Left out, since the collector does not expose them: `workqueue_depth`, `workqueue_adds_total`,
//! `workqueue_retries_total` and the other metrics of the work queues.

use std::sync::Arc;

use http::Method;
use kubegc_controllers::Controller;
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};

/// Describes the metrics to the recorder. Called once a run; repeated calls change nothing.
pub fn describe() {
    describe_all();
}

/// Declares the name of each metric, and describes it.
macro_rules! metrics {
    ($($describe:ident $unit:ident $name:ident $metric:literal $description:literal,)+) => {
        $(pub(crate) const $name: &str = $metric;)+

        fn describe_all() {
            $($describe!($name, Unit::$unit, $description);)+
        }
    };
}

metrics! {
    describe_counter Count SYNC_ERRORS "garbagecollector_controller_resources_sync_error_total"
        "Number of garbage collector resources sync errors",
    describe_counter Count REQUESTS "rest_client_requests_total"
        "Number of HTTP requests, partitioned by status code and method.",
    describe_counter Count CALLS "kubegc_collector_calls_total"
        "Calls of the collector by request, reason and outcome.",
    describe_counter Count ATTEMPTS "kubegc_collector_attempts_total"
        "Attempts of the collector by conclusion.",
    describe_counter Count WATCH_ERRORS "kubegc_collector_watch_errors_total"
        "Lists and watches that failed, by resource.",
    describe_counter Count WARNINGS "kubegc_collector_warnings_total"
        "Warning Events by result.",
    describe_gauge Count LEADING "kubegc_collector_leading"
        "1 while this instance collects, 0 while it waits to lead.",
    describe_gauge Count RUNNING "running_managed_controllers"
        "1 while a controller runs in this instance.",
    describe_histogram Seconds WORK_DURATION "workqueue_work_duration_seconds"
        "Duration of a task of a controller.",
    describe_counter Count RETRIES "workqueue_retries_total"
        "Tasks after which the key is retried or continued later, by controller.",
    describe_counter Count FORCE_DELETED_PODS "pod_gc_collector_force_delete_pods_total"
        "Pods that podgc deletes without a grace period.",
    describe_counter Count FORCE_DELETE_ERRORS "pod_gc_collector_force_delete_pod_errors_total"
        "Deletions by podgc that failed.",
    describe_counter Count TAINT_DELETIONS "taint_eviction_controller_pod_deletions_total"
        "Pods that were deleted because of a taint of their node.",
    describe_counter Count CONTROLLER_REQUESTS "kubegc_controllers_requests_total"
        "Writes of controllers by controller, request and outcome.",
    describe_counter Count CONTROLLER_WATCH_ERRORS "kubegc_controllers_watch_errors_total"
        "Lists and watches of controllers that failed, by resource.",
    describe_counter Count CONTROLLER_EVENTS "kubegc_controllers_events_total"
        "Events of controllers by result.",
}

pub(crate) fn request(code: &str, method: &Method) {
    counter!(REQUESTS, "code" => code.to_owned(), "method" => method.as_str().to_owned()).increment(1);
}

pub(crate) fn sync_error() {
    counter!(SYNC_ERRORS).increment(1);
}

pub(crate) fn warning(result: &'static str) {
    counter!(WARNINGS, "result" => result).increment(1);
}

pub(crate) fn leading(leads: bool) {
    gauge!(LEADING).set(if leads { 1.0 } else { 0.0 });
}

pub(crate) fn controller_event(result: &'static str) {
    counter!(CONTROLLER_EVENTS, "result" => result).increment(1);
}

pub(crate) fn running(controllers: &[Arc<dyn Controller>], runs: bool) {
    for controller in controllers {
        let labels = [("name", controller.info().name), ("manager", "kubegc")];
        gauge!(RUNNING, &labels).set(if runs { 1.0 } else { 0.0 });
    }
}
