//! Fields of resource claims.

use kubegc_core::json::Text;
use kubegc_core::{
    Uid,
    record::{Consumer, ResourceClaim},
};

use super::{SPEC, STATUS, reading::Reading, spec_of, status_of};
use crate::body::Body;

pub(super) fn resource_claim(reading: &mut Reading<'_>, body: &Body<'_>) -> ResourceClaim {
    let spec = spec_of(reading, body);
    let status = status_of(reading, body);
    ResourceClaim {
        reserved_for: reading.field(status, |reading, status| {
            let path = STATUS.field("reservedFor");
            reading.list(&status.reserved_for, path, |reading, entry, path| {
                let api_group = reading.text_or_empty(&entry.api_group, path.field("apiGroup"));
                let resource = reading.text_or_empty(&entry.resource, path.field("resource"));
                let name = reading.text_or_empty(&entry.name, path.field("name"));
                let uid = reading.value(&entry.uid, path.field("uid"));
                Ok(Consumer {
                    api_group: api_group?,
                    resource: resource?,
                    name: name?,
                    uid: Uid::new(uid?.map_or("", Text::as_str)),
                })
            })
        }),
        is_allocated: field!(reading, status.allocation => is_there("allocation")),
        allocation_mode: field!(reading, spec.allocation_mode => text_or_empty("allocationMode")),
    }
}
