//! Decides which figures are told: upstream's, by upstream's names, as far as they are known here, and a few of our own.
//!
//! They go to whatever recorder the program has installed for the `metrics` crate; without one nothing happens.
//!
//! | metric | labels | as upstream's |
//! |---|---|---|
//! | `garbagecollector_controller_resources_sync_error_total` | | in part: discovery failed; what upstream counts beside it happens inside the collector |
//! | `rest_client_requests_total` | `code` (`<error>` without an answer), `method` | yes, without `host`, which a client does not tell |
//! | `kubegc_collector_calls_total` | `request`, `reason`, `answer` | ours: the collector's own calls by what they were for |
//! | `kubegc_collector_attempts_total` | `conclusion` | ours: how the attempts of both worker queues ended |
//! | `kubegc_collector_watch_errors_total` | `group`, `resource` | ours: lists and watches that failed |
//! | `kubegc_collector_warnings_total` | `result` | ours: warning Events `published`, `dropped` by the limit, or `failed` |
//! | `kubegc_collector_leading` | | ours: 1 while this instance collects |
//!
//! Left out, since the collector does not tell them and they are not made up: `workqueue_depth`, `workqueue_adds_total`, `workqueue_retries_total` and the other
//! figures of the work queues.

use http::Method;
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

pub(crate) const SYNC_ERRORS: &str = "garbagecollector_controller_resources_sync_error_total";
pub(crate) const REQUESTS: &str = "rest_client_requests_total";
pub(crate) const CALLS: &str = "kubegc_collector_calls_total";
pub(crate) const ATTEMPTS: &str = "kubegc_collector_attempts_total";
pub(crate) const WATCH_ERRORS: &str = "kubegc_collector_watch_errors_total";
pub(crate) const WARNINGS: &str = "kubegc_collector_warnings_total";
pub(crate) const LEADING: &str = "kubegc_collector_leading";

/// Tells the recorder what the metrics mean. Called once a run; more often does no harm.
pub fn describe() {
    describe_counter!(
        SYNC_ERRORS,
        Unit::Count,
        "Number of garbage collector resources sync errors"
    );
    describe_counter!(
        REQUESTS,
        Unit::Count,
        "Number of HTTP requests, partitioned by status code and method."
    );
    describe_counter!(
        CALLS,
        Unit::Count,
        "Calls of the collector by request, reason and answer."
    );
    describe_counter!(
        ATTEMPTS,
        Unit::Count,
        "Attempts of the collector by how they ended."
    );
    describe_counter!(
        WATCH_ERRORS,
        Unit::Count,
        "Lists and watches that failed, by resource."
    );
    describe_counter!(WARNINGS, Unit::Count, "Warning Events by what became of them.");
    describe_gauge!(
        LEADING,
        Unit::Count,
        "1 while this instance collects, 0 while it waits to lead."
    );
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
