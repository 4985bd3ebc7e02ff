//! Times that a dump shows.

use std::time::Duration;

use kubegc_core::{
    ObjectMeta, Timestamp,
    record::{Body, Condition, Record},
};

use super::Facts;

impl Facts {
    /// The newest time in the dump, at which forecasts begin: dumps do not contain the time at which they
    /// were taken.
    pub(crate) fn newest_time(&self) -> Timestamp {
        *self.newest_time.get_or_init(|| {
            let times = self.snapshot.objects().filter_map(|view| {
                let record = view.record();
                let changed = conditions(&record).iter();
                let changed = changed.flat_map(|one| [one.last_transition_time, one.last_update_time]);
                let deleted = deletion_requested_at(&record.meta);
                let of_object = [deleted, record.meta.creation_timestamp];
                changed.chain(of_object).flatten().max()
            });
            times.max().unwrap_or(Timestamp::EPOCH)
        })
    }
}

/// The conditions in the status of an object, as far as they are known.
pub(crate) fn conditions(record: &Record) -> &[Condition] {
    let conditions = match &*record.body {
        Body::Job(job) => job.conditions.known(),
        Body::CertificateSigningRequest(request) => request.conditions.known(),
        Body::Node(node) => node.conditions.known(),
        Body::Namespace(namespace) => namespace.conditions.known(),
        _ => None,
    };
    conditions.map_or(&[], Vec::as_slice)
}

/// The time at which the deletion of a terminating object was requested: its deletion time without the grace
/// period.
pub(crate) fn deletion_requested_at(meta: &ObjectMeta) -> Option<Timestamp> {
    let grace = meta.deletion_grace_period_seconds.unwrap_or(0).max(0);
    let deletion = meta.deletion_timestamp?;
    Some(deletion.saturating_sub(Duration::from_secs(grace.unsigned_abs())))
}
