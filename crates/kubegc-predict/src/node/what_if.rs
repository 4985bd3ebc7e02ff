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
    let (containers_lost, containers_spared) = difference(&containers(&present), &containers(&changed));
    let (images_lost, images_spared) = difference(&images(&present), &images(&changed));
    WhatIf {
        present,
        changed,
        containers_lost,
        containers_spared,
        images_lost,
        images_spared,
    }
}

type ById<T> = BTreeMap<(Arc<str>, Arc<str>), Arc<T>>;

fn containers(forecast: &NodeForecast) -> ById<Container> {
    let actions = forecast.containers.actions.iter();
    let removed = actions.map(|action| {
        let container = &action.container;
        ((Arc::clone(&container.id), Arc::default()), Arc::clone(container))
    });
    removed.collect()
}

fn images(forecast: &NodeForecast) -> ById<Image> {
    let actions = forecast.images.iter().flat_map(|plan| &plan.actions);
    let removed = actions.map(|image::Action { image, .. }| {
        let key = (Arc::clone(&image.id), Arc::clone(&image.runtime_handler));
        (key, Arc::clone(image))
    });
    removed.collect()
}

/// The items that are only in the second, and those that are only in the first.
fn difference<T>(present: &ById<T>, changed: &ById<T>) -> (Vec<Arc<T>>, Vec<Arc<T>>) {
    let only = |of: &ById<T>, other: &ById<T>| {
        let only = of.iter().filter(|(id, _)| !other.contains_key(*id));
        only.map(|(_, item)| Arc::clone(item)).collect()
    };
    (only(changed, present), only(present, changed))
}
