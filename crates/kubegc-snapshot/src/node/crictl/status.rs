//! The output of `crictl inspect` for one container.

use std::sync::Arc;

use kubegc_core::node_facts::ContainerStatus;
use serde_json::Value;

use super::{containers, short};
use crate::{
    Place,
    node::{
        fields::Entry,
        finding::{NodeProblem, Notes},
    },
};

/// Reads the id and the status of a container; the reason if they cannot be read.
pub(crate) fn read(
    value: &Value,
    place: &Place,
    notes: &mut Notes,
) -> Result<(Arc<str>, ContainerStatus), String> {
    let Some(Value::Object(map)) = value.get("status") else {
        notes.note(
            NodeProblem::MissingField,
            Some(place),
            "",
            "status",
            "missing, or no map",
        );
        return Err(format!("{place}: status: missing"));
    };
    let mut entry = Entry::new(map, place, "status", notes);
    entry.call(format!("container {}", short(entry.peek(&["id"]).unwrap_or("?"))));
    let id = entry.shared(&["id"]);
    if id.is_empty() {
        entry.missing(&["id"]);
    }
    let state = containers::state(&mut entry);
    let log_path = entry.shared(&["logPath"]);
    let mut image_volumes = Vec::new();
    for (index, mount) in entry.list(&["mounts"]).unwrap_or_default().iter().enumerate() {
        let image = match mount.get("image") {
            None | Some(Value::Null) if mount.is_object() => continue,
            image => image.and_then(|image| image.get("image")).and_then(Value::as_str),
        };
        match image {
            Some(image) if !image.is_empty() => image_volumes.push(image.into()),
            Some(_) => {}
            None => entry.wrong(
                NodeProblem::BadField,
                &[&format!("mounts[{index}]"), "image", "image"],
                "missing, or no string",
            ),
        }
    }
    match (state, entry.flaw()) {
        (Some(state), None) => Ok((
            id,
            ContainerStatus {
                state,
                log_path,
                image_volumes,
            },
        )),
        (_, flaw) => Err(format!("{place}: {}", flaw.unwrap_or("status"))),
    }
}
