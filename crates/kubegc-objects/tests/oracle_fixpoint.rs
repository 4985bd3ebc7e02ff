//! All graphs of up to four objects in two namespaces: background deletion has the outcome of the oracle.

use kubegc_core::PropagationPolicy::Background;

use crate::common::{
    cluster::{CONFIG_MAP, HOLD, Object, delete, server},
    latest,
    oracle::{self, fixpoint},
    world::World,
};

/// The sets of at most two other objects that can be owners, as bits.
fn owner_sets(count: usize, own: usize) -> Vec<u8> {
    (0..1u8 << count)
        .filter(|set| set & (1 << own) == 0 && set.count_ones() <= 2)
        .collect()
}

/// Every graph once: the deleted object is the first, in the first namespace. Other choices are renamings.
#[test]
fn every_graph_of_four_objects_ends_as_the_oracle_predicts() {
    let empty = server(latest(), &[CONFIG_MAP]);
    let mut graphs = 0u32;
    for count in 1..=4usize {
        let sets: Vec<Vec<u8>> = (0..count).map(|own| owner_sets(count, own)).collect();
        let choices: usize = sets.iter().map(Vec::len).product();
        for namespaces in (0..1u8 << count).filter(|namespaces| namespaces & 1 == 0) {
            for choice in 0..choices {
                graphs += 1;
                let objects = graph(count, namespaces, choice, &sets, graphs);
                let mut server = empty.clone();
                objects.iter().for_each(|object| object.insert(&mut server));
                delete(&mut server, &objects[0], Some(Background));
                let mut world = World::new(latest(), server);
                world.settle();
                let end = oracle::remains(&objects, &world.server);
                assert_eq!(end, fixpoint(&objects, 0), "{objects:#?}");
            }
        }
    }
    assert_eq!(graphs, 1 + 2 * 4 + 4 * 64 + 8 * 2401);
}

fn graph(count: usize, namespaces: u8, mut choice: usize, sets: &[Vec<u8>], number: u32) -> Vec<Object> {
    let namespace = |at: usize| {
        if namespaces & (1 << at) == 0 {
            "red"
        } else {
            "blue"
        }
    };
    let bare: Vec<Object> = (0..count)
        .map(|at| Object::new(CONFIG_MAP, namespace(at), ["a", "b", "c", "d"][at]))
        .collect();
    let own = |at: usize| {
        let set = sets[at][choice % sets[at].len()];
        choice /= sets[at].len();
        let mut object = bare[at].clone();
        for owner in (0..count).filter(|owner| set & (1 << owner) != 0) {
            object = object.blocking(&bare[owner]);
        }
        // One object in eleven has a finalizer, in rotation.
        if (number as usize + at * 3).is_multiple_of(11) {
            object.with_finalizer(HOLD)
        } else {
            object
        }
    };
    (0..count).map(own).collect()
}
