//! Which patches orphan the dependents of an object?
use kubegc_core::PartialObjectMetadata;
use kubegc_objects::{Owners, orphan};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let objects: Vec<PartialObjectMetadata> = serde_json::from_str(include_str!("../../shop.json"))?;
    let plan = orphan(&Owners::new(objects), &"web".into(), "1.36".parse()?);
    for action in &plan.actions {
        println!("{}", serde_json::to_string(action)?);
    }
    Ok(())
}
