//! Which dead containers does a kubelet remove?
use kubegc_core::{Planner, Timestamp, node_facts::Container};
use kubegc_node::{Inventory, container::EvictUnits};

fn main() {
    let at = Timestamp::from_secs;
    let dead =
        ["a", "b", "c"].map(|id| Container::exited(id, ["shop", "web-0", "u1"], "app", at(id.len() as i64)));
    let inventory = Inventory::new().with_containers(dead);
    print!("{}", EvictUnits::default().plan(&inventory, at(60)));
}
