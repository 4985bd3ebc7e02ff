//! Which images does a kubelet remove to free 1 GB?
use kubegc_core::{Planner, Timestamp, node_facts::Image};
use kubegc_node::{Inventory, image::FreeSpace};

fn main() {
    let images =
        [("sha256:old", 700_000_000), ("sha256:new", 900_000_000)].map(|(id, size)| Image::new(id, size));
    let mut inventory = Inventory::new().with_images(images);
    let planner = FreeSpace::default().free(1_000_000_000);
    // An image must have been detected two minutes ago. The records of one plan are those of the next.
    inventory.image_records = planner.plan(&inventory, Timestamp::EPOCH).summary.records;
    print!("{}", planner.plan(&inventory, Timestamp::from_secs(600)));
}
