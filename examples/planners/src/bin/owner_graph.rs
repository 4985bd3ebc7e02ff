//! What depends on an object, and what keeps it?
use kubegc_core::PartialObjectMetadata;
use kubegc_objects::Owners;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let objects: Vec<PartialObjectMetadata> = serde_json::from_str(include_str!("../../shop.json"))?;
    let owners = Owners::new(objects).complete();
    for object in owners.descendants(&"web".into()) {
        let why = owners
            .why_kept(&object.metadata.uid)
            .expect("it is one of the objects");
        println!("{}: {why}", object.object_ref());
    }
    Ok(())
}
