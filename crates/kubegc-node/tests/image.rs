//! Image runs step by step, and the table of records.

use kubegc_node::{
    Inventory,
    image::{Action, FreeSpace, Records, Response, Run, Step},
};

use crate::world::{at, empty, file_system, image, listed, record};

#[test]
fn responses_to_other_steps_are_ignored() {
    let node = Inventory {
        images: listed([image("a", 900), image("b", 900)]),
        image_records: ["a", "b"]
            .map(|id| record(id, Some(0), None))
            .into_iter()
            .collect(),
        ..empty()
    };
    let listing = Response::Listed {
        inventory: &node,
        at: at(900),
    };
    let measurement = || Response::Measured(Ok(file_system(1_000, 0)));
    let done = || Response::Removed(Ok(()));
    let mut run = Run::new(FreeSpace::default(), node.image_records.clone(), at(0), at(900));
    for wrong in [done(), measurement()] {
        assert_eq!(run.next(Some(wrong)), Step::List);
    }
    assert_eq!(run.next(Some(listing.clone())), Step::Measure);
    for wrong in [done(), listing.clone()] {
        assert_eq!(run.next(Some(wrong)), Step::Measure);
    }
    let first = run.next(Some(measurement()));
    assert!(matches!(&first, Step::Remove(Action { image, .. }) if &*image.id == "a"));
    for wrong in [listing, measurement()] {
        assert_eq!(run.next(Some(wrong)), first);
    }
    assert_eq!(run.next(Some(done())), Step::Done);
    assert_eq!(run.next(Some(done())), Step::Done);
    assert_eq!(run.finish().actions.len(), 1);
}

#[test]
fn records_are_a_sorted_table_of_which_the_later_of_equals_counts() {
    let records: Records = [
        record("b", Some(1), None),
        record("a", Some(2), None),
        record("b", Some(3), None),
    ]
    .into_iter()
    .collect();
    let keys: Vec<_> = records
        .iter()
        .map(|record| (&*record.key, record.first_detected))
        .collect();
    assert_eq!(keys, [("a", Some(at(2))), ("b", Some(at(3)))]);
    assert!(records.detected());
}
