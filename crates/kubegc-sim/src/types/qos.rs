//! The quality of service of a pod, by the resources of its containers.
//!
//! # Upstream
//! `GetPodQOS` in `pkg/apis/core/helper/qos/qos.go`, 1.20.2.

use std::collections::BTreeMap;

use kubegc_core::Quantity;
use serde_json::Value;

use crate::StoredObject;

pub(crate) fn class(pod: &StoredObject) -> &'static str {
    let lists =
        ["containers", "initContainers"].map(|list| pod.at(&["spec", list]).and_then(Value::as_array));
    let containers: Vec<&Value> = lists.into_iter().flatten().flatten().collect();
    let mut totals = [BTreeMap::<&str, Quantity>::new(), BTreeMap::new()];
    let mut guaranteed = true;
    for container in containers {
        let mut limited = 0;
        for (kind, total) in ["requests", "limits"].into_iter().zip(&mut totals) {
            let resources = container
                .get("resources")
                .and_then(|resources| resources.get(kind)?.as_object());
            for (name, amount) in resources.into_iter().flatten() {
                let amount = amount.as_str().and_then(Quantity::parse);
                let Some(amount) = amount.filter(|amount| {
                    matches!(&**name, "cpu" | "memory") && *amount > Quantity::decimal_si(0)
                }) else {
                    continue;
                };
                limited += usize::from(kind == "limits");
                let sum = total.get(name.as_str()).map_or(amount, |sum| sum.plus(amount));
                total.insert(name, sum);
            }
        }
        guaranteed &= limited == 2;
    }
    let [requests, limits] = totals;
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}
