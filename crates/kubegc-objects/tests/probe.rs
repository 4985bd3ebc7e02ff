//! Seven objects that simpler collectors handle wrong: a second owner, a dependent with a finalizer, an owner
//! with a finalizer, a wrong kind, an owner that never existed.

use kubegc_core::PropagationPolicy::Foreground;

use crate::common::{
    cluster::{CONFIG_MAP, HOLD, KINDS, Object, delete, server, version},
    world::World,
};

#[derive(Debug, PartialEq, Eq)]
enum End {
    Removed,
    /// It remains, with these owners.
    Kept(Vec<String>),
    /// It is terminating, with these finalizers.
    Held(Vec<String>),
}

#[test]
fn the_seven_objects_end_as_in_a_real_cluster() {
    let new = |name| Object::new(CONFIG_MAP, "red", name);
    let (a, b) = (new("a"), new("b"));
    let mut wrong = a.reference();
    wrong.kind = "Secret".into();
    let objects = [
        new("two-owners").owned_by(&a).owned_by(&b),
        new("child-with-finalizer").blocking(&a).with_finalizer(HOLD),
        new("wrong-kind-ref").with(wrong),
        new("dangling").owned_by(&new("never-was")),
        new("owner-with-finalizer").with_finalizer(HOLD),
        a,
        b,
    ];
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let expected = [
        End::Kept(texts(&["b"])),
        End::Held(texts(&[HOLD])),
        End::Removed,
        End::Removed,
        End::Held(texts(&[HOLD])),
        End::Held(texts(&["foregroundDeletion"])),
        End::Kept(Vec::new()),
    ];
    for release in ["1.20.2", "1.28", "1.36"] {
        let mut server = server(version(release), &KINDS);
        objects.iter().for_each(|object| object.insert(&mut server));
        let mut world = World::new(version(release), server);
        world.settle();
        delete(&mut world.server, &objects[5], Some(Foreground));
        delete(&mut world.server, &objects[4], None);
        world.settle();
        for (object, expected) in objects.iter().zip(&expected) {
            let end = object.live(&world.server).map_or(End::Removed, |meta| {
                if meta.is_deleting() {
                    End::Held(meta.finalizers.iter().map(ToString::to_string).collect())
                } else {
                    End::Kept(
                        meta.owner_references
                            .iter()
                            .map(|owner| owner.name.to_string())
                            .collect(),
                    )
                }
            });
            assert_eq!(end, *expected, "{} in {release}", object.meta.name);
        }
    }
}
