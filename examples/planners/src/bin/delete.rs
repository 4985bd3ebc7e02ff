//! What does a delete take with it?
use kubegc_core::{PartialObjectMetadata, PropagationPolicy::Foreground};
use kubegc_objects::{Owners, delete};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let objects: Vec<PartialObjectMetadata> = serde_json::from_str(include_str!("../../shop.json"))?;
    let owners = Owners::new(objects).complete();
    print!(
        "{}",
        delete(&owners, &["web".into()], Foreground, "1.36".parse()?)
    );
    Ok(())
}
