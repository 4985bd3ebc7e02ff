//! Tests of the cache and its indexes.

use kubegc_core::ObjectMeta;

use super::*;

static BY_OWNER: Index = Index::new(Resource::ConfigMaps, |record, keys| {
    let owner = record.meta.labels.get("owner");
    keys.extend(owner.map(|owner| Key::new(Arc::clone(&record.meta.namespace), Arc::clone(owner))));
});

fn record(name: &str, owner: &str) -> Record {
    let mut meta = ObjectMeta::new("shop", name, name);
    meta.labels.insert("owner".into(), owner.into());
    Record::metadata_only(meta)
}

fn names(cache: &Cache, owner: &str) -> Vec<String> {
    let keys = cache.indexed(&BY_OWNER, &Key::new("shop", owner));
    keys.iter().map(|key| key.name.to_string()).collect()
}

#[test]
fn an_index_follows_changes_whether_or_not_it_is_registered() {
    for indexes in [vec![], vec![&BY_OWNER]] {
        let mut cache = Cache::new([Resource::ConfigMaps], indexes);
        cache.replace(Resource::ConfigMaps, vec![record("b", "x"), record("a", "x")]);
        assert_eq!(names(&cache, "x"), ["a", "b"]);
        cache.put(
            Resource::ConfigMaps,
            &Key::new("shop", "a"),
            Some(record("a", "y")),
        );
        cache.put(
            Resource::ConfigMaps,
            &Key::new("shop", "c"),
            Some(record("c", "x")),
        );
        let clone = cache.clone();
        cache.put(Resource::ConfigMaps, &Key::new("shop", "b"), None);
        assert_eq!(
            (names(&cache, "x"), names(&cache, "y")),
            (vec!["c".into()], vec!["a".into()])
        );
        assert_eq!(names(&clone, "x"), ["b", "c"]);
        let all: Vec<_> = cache
            .keys(Resource::ConfigMaps)
            .map(|key| key.to_string())
            .collect();
        assert_eq!(all, ["shop/a", "shop/c"]);
    }
}

#[test]
fn an_object_that_is_listed_twice_with_different_contents_is_unknown() {
    let mut cache = Cache::new([Resource::ConfigMaps], []);
    cache.replace(
        Resource::ConfigMaps,
        vec![
            record("a", "x"),
            record("a", "y"),
            record("b", "x"),
            record("b", "x"),
        ],
    );
    let a = cache
        .get(Resource::ConfigMaps, &Key::new("shop", "a"))
        .expect("a name");
    assert!(!a.has_whole_meta && a.meta.uid.is_empty());
    assert!(
        cache
            .get(Resource::ConfigMaps, &Key::new("shop", "b"))
            .is_some_and(|b| b.has_whole_meta)
    );
}

#[test]
fn a_failed_list_can_be_complete_in_some_namespaces() {
    let mut cache = Cache::new([Resource::ConfigMaps], []);
    cache.set_listed_in(Resource::ConfigMaps, ["shop".into()].into());
    cache.set_listed(Resource::ConfigMaps, Err(StoreError::Unlisted));
    assert_eq!(cache.require_in(Resource::ConfigMaps, "shop"), Ok(()));
    for missing in [
        cache.require_in(Resource::ConfigMaps, "blog"),
        cache.require(Resource::ConfigMaps),
    ] {
        assert_eq!(
            missing,
            Err(Missing::list(Resource::ConfigMaps, &StoreError::Unlisted))
        );
    }
    cache.set_listed(Resource::ConfigMaps, Ok(()));
    assert_eq!(cache.require_in(Resource::ConfigMaps, "blog"), Ok(()));
}
