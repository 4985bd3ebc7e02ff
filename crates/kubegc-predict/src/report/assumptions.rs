//! The JSON form of assumptions.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_control_plane::finalizers::external_components;
use kubegc_controllers::Cloud;
use serde::{Deserialize, Serialize};

use crate::{Assumptions, Instance};

/// Assumptions about everything outside of the control plane. `schemas/question.json` describes each field.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct AssumptionsDocument {
    pods_end: bool,
    finalizers_released: Vec<Arc<str>>,
    acting: BTreeMap<Arc<str>, bool>,
    unreachable_webhooks: Vec<Arc<str>>,
    unavailable_apis: Vec<Arc<str>>,
    storage_is_deleted: bool,
    external_controllers_run: bool,
    other_nodes_are_ready: bool,
    cloud: Vec<InstanceDocument>,
}

/// The cloud provider's responses for a node. There may be none.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct InstanceDocument {
    node: Arc<str>,
    exists: Option<bool>,
    is_shutdown: Option<bool>,
}

impl Default for AssumptionsDocument {
    fn default() -> Self {
        Self::from(&Assumptions::default())
    }
}

impl From<&Assumptions> for AssumptionsDocument {
    fn from(assumptions: &Assumptions) -> Self {
        let response = |response: &Cloud| match response {
            Cloud::Yes => Some(true),
            Cloud::No => Some(false),
            Cloud::NotImplemented | Cloud::Failed(_) => None,
        };
        let cloud = assumptions.cloud.iter().map(|(node, instance)| InstanceDocument {
            node: Arc::clone(node),
            exists: response(&instance.exists),
            is_shutdown: response(&instance.is_shutdown),
        });
        Self {
            pods_end: assumptions.pods_end,
            finalizers_released: Vec::new(),
            acting: assumptions.acting.clone(),
            unreachable_webhooks: assumptions.unreachable_webhooks.clone(),
            unavailable_apis: assumptions.unavailable_apis.clone(),
            storage_is_deleted: assumptions.storage_is_deleted,
            external_controllers_run: external_components()
                .any(|component| assumptions.acting.get(component) != Some(&false)),
            other_nodes_are_ready: assumptions.other_nodes_are_ready,
            cloud: cloud.collect(),
        }
    }
}

impl From<AssumptionsDocument> for Assumptions {
    fn from(document: AssumptionsDocument) -> Self {
        let response = |response, unknown| match response {
            Some(true) => Cloud::Yes,
            Some(false) => Cloud::No,
            None => unknown,
        };
        let cloud = document.cloud.into_iter().map(|instance| {
            let unknown = Instance::default();
            let known = Instance {
                exists: response(instance.exists, unknown.exists),
                is_shutdown: response(instance.is_shutdown, unknown.is_shutdown),
            };
            (instance.node, known)
        });
        let absent = external_components().filter(|_| !document.external_controllers_run);
        let absent = absent.map(|component| (Arc::from(component), false));
        let released = document.finalizers_released.into_iter().map(|name| (name, true));
        Self {
            pods_end: document.pods_end,
            acting: absent.chain(document.acting).chain(released).collect(),
            unreachable_webhooks: document.unreachable_webhooks,
            unavailable_apis: document.unavailable_apis,
            storage_is_deleted: document.storage_is_deleted,
            other_nodes_are_ready: document.other_nodes_are_ready,
            cloud: cloud.collect(),
            ..Self::default()
        }
    }
}
