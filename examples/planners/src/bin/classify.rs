//! What does the collector decide about one object?
use kubegc_core::PartialObjectMetadata;
use kubegc_objects::classify;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let objects: Vec<PartialObjectMetadata> = serde_json::from_str(include_str!("../../shop.json"))?;
    for object in &objects {
        let class = classify(&object.metadata, |owner| {
            let mut named = objects.iter().filter(|other| other.metadata.name == owner.name);
            named
                .find(|other| other.kind == owner.kind)
                .map(|other| &other.metadata)
        });
        println!("{}: {:?}, {class}", object.object_ref(), class.verdict(false));
    }
    Ok(())
}
