//! Deep chains, wide fans, long circles, and input that no API server wrote: each gives a correct result or
//! a clear error, on a small stack.

use std::{
    io::{self, Read},
    thread,
};

use kubegc_core::{DeleteOptions, KubernetesVersion, PropagationPolicy, deletion::Propagation};
use kubegc_predict::{Assumptions, Cluster, Fate, Forecast, Intent, Missing};
use kubegc_snapshot::{Problem, Reader, Snapshot};

/// The bytes of stack for every case.
const STACK_BYTES: usize = 512 * 1024;

fn on_a_small_stack(case: impl FnOnce() + Send + 'static) {
    let running = thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(case)
        .expect("threads can be had");
    running.join().expect("the case holds");
}

/// A stream that is made as it is read.
struct Pieces<P> {
    pieces: P,
    current: Vec<u8>,
    at: usize,
}

impl<P: Iterator<Item = Vec<u8>>> Read for Pieces<P> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.current.len() {
            let Some(next) = self.pieces.next() else {
                return Ok(0);
            };
            (self.current, self.at) = (next, 0);
        }
        let count = buffer.len().min(self.current.len() - self.at);
        buffer[..count].copy_from_slice(&self.current[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

fn pieces<P: Iterator<Item = Vec<u8>>>(pieces: P) -> Pieces<P> {
    Pieces {
        pieces,
        current: Vec::new(),
        at: 0,
    }
}

/// A list of ConfigMaps, each with an owner by number or none.
fn dump(count: usize, owner: impl Fn(usize) -> Option<usize>) -> impl Read {
    let items = (0..count).map(move |number| {
        let comma = if number > 0 { "," } else { "" };
        format!("{comma}{}", config_map(number, owner(number))).into_bytes()
    });
    let head = br#"{"apiVersion":"v1","kind":"List","items":["#.to_vec();
    pieces(
        std::iter::once(head)
            .chain(items)
            .chain(std::iter::once(b"]}\n".to_vec())),
    )
}

fn config_map(number: usize, owner: Option<usize>) -> String {
    let owners = owner.map_or_else(String::new, |owner| {
        format!(
            r#","ownerReferences":[{{"apiVersion":"v1","kind":"ConfigMap","name":"map-{owner:07}","uid":"uid-{owner}","blockOwnerDeletion":true}}]"#
        )
    });
    format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"namespace":"shop","name":"map-{number:07}","uid":"uid-{number}","resourceVersion":"{}"{owners}}}}}"#,
        number + 1
    )
}

fn snapshot(input: impl Read) -> Snapshot {
    let mut reader = Reader::new(KubernetesVersion::LATEST).complete("configmaps");
    reader.read("dump", input).expect("the dump can be read");
    reader.finish().expect("the kinds are known")
}

fn cluster(input: impl Read) -> Cluster {
    Cluster::new(KubernetesVersion::LATEST, snapshot(input), Assumptions::default())
}

fn delete(name: &str, policy: PropagationPolicy) -> Intent {
    let options = DeleteOptions {
        propagation: Some(Propagation::Policy(policy)),
        ..DeleteOptions::default()
    };
    Intent::delete(name.parse().expect("a name in two or three parts"), options)
}

fn predict(cluster: &Cluster, policy: PropagationPolicy) -> Forecast {
    cluster
        .predict(&[delete("shop/ConfigMap/map-0000000", policy)])
        .expect("it is there")
}

fn counts(forecast: &Forecast) -> Vec<(&'static str, usize)> {
    forecast.counts().into_iter().collect()
}

#[test]
fn a_deep_chain_is_deleted_in_the_background() {
    on_a_small_stack(|| {
        const DEPTH: usize = 100_000;
        let cluster = cluster(dump(DEPTH, |number| number.checked_sub(1)));
        let forecast = predict(&cluster, PropagationPolicy::Background);
        assert_eq!(counts(&forecast), [("deleted", DEPTH)]);
        assert_eq!(forecast.timeline.len(), DEPTH);
        assert_eq!(cluster.closure_of(&[0]).removed.len(), DEPTH);
        // The last one's explanation leads through all others to the intent.
        let explanation = forecast.explain(&forecast.fates[DEPTH - 1].object);
        assert_eq!(explanation.statements.len(), 2 * DEPTH);
        assert!(
            explanation
                .to_string()
                .ends_with("you delete configmap/map-0000000 -n shop (Background)\n")
        );
    });
}

#[test]
fn a_deep_chain_is_deleted_in_the_foreground_from_its_end() {
    on_a_small_stack(|| {
        const DEPTH: usize = 10_000;
        let cluster = cluster(dump(DEPTH, |number| number.checked_sub(1)));
        let forecast = predict(&cluster, PropagationPolicy::Foreground);
        assert_eq!(counts(&forecast), [("deleted", DEPTH)]);
        let last = forecast.timeline.last().expect("there are writes");
        assert_eq!(&*last.object.name, "map-0000000");
    });
}

#[test]
fn an_undetermined_owner_makes_the_whole_chain_undetermined() {
    on_a_small_stack(|| {
        const DEPTH: usize = 20_000;
        let mut reader = Reader::new(KubernetesVersion::LATEST);
        reader
            .read(
                "dump",
                dump(DEPTH, |number| Some(number.checked_sub(1).unwrap_or(DEPTH))),
            )
            .expect("it can be read");
        let snapshot = reader.finish().expect("nothing is declared");
        let cluster = Cluster::new(KubernetesVersion::LATEST, snapshot, Assumptions::default());
        let pending = cluster.pending();
        assert_eq!(counts(pending), [("undetermined", DEPTH)]);
        for fate in &pending.fates {
            let Fate::Undetermined { missing, .. } = &fate.fate else {
                continue;
            };
            assert!(matches!(&missing[..], [Missing::Owner { owner, .. }] if *owner.name == *"map-0020000"));
        }
    });
}

#[test]
fn many_dependents_are_deleted_with_their_owner_or_orphaned() {
    const WIDTH: usize = 20_000;
    for (policy, expected) in [
        (PropagationPolicy::Background, vec![("deleted", WIDTH + 1)]),
        (PropagationPolicy::Foreground, vec![("deleted", WIDTH + 1)]),
        (
            PropagationPolicy::Orphan,
            vec![("deleted", 1), ("released", WIDTH)],
        ),
    ] {
        on_a_small_stack(move || {
            let cluster = cluster(dump(WIDTH + 1, |number| (number > 0).then_some(0)));
            assert_eq!(counts(&predict(&cluster, policy)), expected, "{policy}");
        });
    }
}

#[test]
fn a_long_cycle_is_deleted_as_a_whole() {
    for policy in [PropagationPolicy::Background, PropagationPolicy::Foreground] {
        on_a_small_stack(move || {
            const LENGTH: usize = 2_000;
            let cluster = cluster(dump(LENGTH, |number| Some((number + LENGTH - 1) % LENGTH)));
            assert!(cluster.pending().timeline.is_empty());
            assert_eq!(
                counts(&predict(&cluster, policy)),
                [("deleted", LENGTH)],
                "{policy}"
            );
        });
    }
}

#[test]
fn one_uid_of_two_objects_is_a_finding() {
    on_a_small_stack(|| {
        let text = format!(
            "{}\n{}\n{}",
            config_map(0, None),
            config_map(1, Some(0)),
            config_map(2, None)
        );
        let text = text.replace("uid-2", "uid-0");
        let cluster = cluster(text.as_bytes());
        assert_eq!(
            cluster.snapshot().finding_counts.get(&Problem::SharedUid),
            Some(&1)
        );
        // The dependent names the first of the two by name and uid; the other one's name is no owner of
        // anything.
        let second = delete("shop/ConfigMap/map-0000002", PropagationPolicy::Background);
        let forecast = cluster.predict(&[second]);
        let forecast = forecast.expect("it is there");
        let word = |name: &str| {
            let fate = forecast.fates.iter().find(|fate| *fate.object.name == *name);
            fate.map_or("not reached", |fate| fate.fate.word())
        };
        assert_eq!(word("map-0000002"), "deleted");
        assert_ne!(word("map-0000000"), "deleted");
        assert_ne!(word("map-0000001"), "deleted");
    });
}

#[test]
fn an_object_without_uid_makes_references_to_its_kind_undetermined() {
    on_a_small_stack(|| {
        let text = format!(
            "{}\n{}",
            config_map(0, None).replace("uid-0", ""),
            config_map(1, Some(7))
        );
        let cluster = cluster(text.as_bytes());
        assert_eq!(cluster.snapshot().finding_counts.get(&Problem::NoUid), Some(&1));
        // Declared complete or not: the owner may be the one without uid, or it may not exist.
        assert_eq!(counts(cluster.pending()), [("undetermined", 1)]);
        let forecast = predict(&cluster, PropagationPolicy::Background);
        assert!(
            forecast.fates.iter().all(|fate| fate.fate.word() != "kept"),
            "{}",
            forecast.to_text(Default::default())
        );
    });
}

#[test]
fn unknown_kinds_are_undetermined() {
    on_a_small_stack(|| {
        let gadget = config_map(1, Some(0)).replace(
            r#""apiVersion":"v1","kind":"ConfigMap","metadata""#,
            r#""apiVersion":"example.org/v1","kind":"Gadget","metadata""#,
        );
        // One of them is in no namespace, so nothing can be inferred from them.
        let other = gadget
            .replace(r#""namespace":"shop","#, "")
            .replace("0000001", "0000002")
            .replace("uid-1", "uid-2");
        let text = format!("{}\n{gadget}\n{other}", config_map(0, None));
        let unknown = cluster(text.as_bytes());
        let forecast = predict(&unknown, PropagationPolicy::Background);
        assert_eq!(counts(&forecast), [("deleted", 1), ("undetermined", 2)]);
        let delete = [delete("shop/Gadget/map-0000001", PropagationPolicy::Background)];
        assert!(unknown.predict(&delete).is_err());
        // Where they agree, the scope is certain: the collector deletes them, and they can be named.
        let text = format!("{}\n{gadget}", config_map(0, None));
        let inferred = cluster(text.as_bytes());
        let forecast = predict(&inferred, PropagationPolicy::Background);
        assert_eq!(counts(&forecast), [("deleted", 2)]);
        assert!(inferred.predict(&delete).is_ok());
    });
}
