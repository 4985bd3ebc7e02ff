//! The forecast of the same node under another policy.

use std::{collections::BTreeMap, sync::Arc};

use kubegc_core::node_facts::{Container, Image};
use kubegc_node::{Inventory, Policy, image};

use super::{NodeForecast, NodeFrame, node_forecast};

/// Two forecasts of one node under two policies, and their differences.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhatIf {
    /// Under the present policy.
    pub present: NodeForecast,
    /// Under the changed policy.
    pub changed: NodeForecast,
    /// Containers that only the changed policy removes, by id.
    pub containers_lost: Vec<Arc<Container>>,
    /// Containers that only the present policy removes, by id.
    pub containers_spared: Vec<Arc<Container>>,
    /// Images that only the changed policy removes, by id.
    pub images_lost: Vec<Arc<Image>>,
    /// Images that only the present policy removes, by id.
    pub images_spared: Vec<Arc<Image>>,
}

/// Compares two policies on one node.
pub fn what_if(inventory: &Inventory, present: &Policy, changed: &Policy, frame: NodeFrame) -> WhatIf {
    let present = node_forecast(inventory, present, frame);
    let changed = node_forecast(inventory, changed, frame);
    let containers = |forecast: &NodeForecast| -> BTreeMap<Arc<str>, Arc<Container>> {
        let removed = forecast.containers.actions.iter().map(|action| &action.container);
        let by_id = removed.map(|container| (Arc::clone(&container.id), Arc::clone(container)));
        by_id.collect()
    };
    let images = |forecast: &NodeForecast| -> BTreeMap<[Arc<str>; 2], Arc<Image>> {
        let removed = forecast.images.iter().flat_map(|plan| &plan.actions);
        let by_id = removed.map(|image::Action { image, .. }| {
            (
                [&image.id, &image.runtime_handler].map(Arc::clone),
                Arc::clone(image),
            )
        });
        by_id.collect()
    };
    let [present_containers, changed_containers] = [&present, &changed].map(containers);
    let [present_images, changed_images] = [&present, &changed].map(images);
    WhatIf {
        containers_lost: only(&changed_containers, &present_containers),
        containers_spared: only(&present_containers, &changed_containers),
        images_lost: only(&changed_images, &present_images),
        images_spared: only(&present_images, &changed_images),
        present,
        changed,
    }
}

/// The items of the first whose keys the second does not have.
fn only<K: Ord, T>(of: &BTreeMap<K, Arc<T>>, other: &BTreeMap<K, Arc<T>>) -> Vec<Arc<T>> {
    let only = of.iter().filter(|(key, _)| !other.contains_key(*key));
    only.map(|(_, item)| Arc::clone(item)).collect()
}
