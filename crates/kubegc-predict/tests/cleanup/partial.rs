//! A forecast of a partial dump never contradicts the whole cluster, and of a whole dump nothing is
//! undetermined.

use std::collections::{BTreeMap, BTreeSet};

use kubegc_core::Timestamp;
use kubegc_fixtures::Fixture;
use kubegc_predict::{Fate, Finding, Forecast};
use proptest::prelude::*;
use serde_json::Value;

use crate::{
    agreement::{HORIZON, Part, controllers, fixture, forecast_removals, part},
    fixture::{cluster, cluster_with_all, predict, question},
};

/// All kinds that a controller reads, with the name that declares each complete.
const KINDS: [(&str, &str); 12] = [
    ("Pod", "pods"),
    ("Node", "nodes"),
    ("Job", "jobs"),
    ("CronJob", "cronjobs"),
    ("CertificateSigningRequest", "certificatesigningrequests"),
    ("Secret", "secrets"),
    ("PersistentVolumeClaim", "persistentvolumeclaims"),
    ("PersistentVolume", "persistentvolumes"),
    ("StatefulSet", "statefulsets"),
    ("ServiceAccount", "serviceaccounts"),
    ("Namespace", "namespaces"),
    ("ConfigMap", "configmaps"),
];

/// The part of an object that the dump lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Nothing,
    Status,
    Spec,
    Both,
    Created,
    Everything,
}

fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        6 => Just(Loss::Nothing),
        1 => Just(Loss::Status),
        1 => Just(Loss::Spec),
        1 => Just(Loss::Both),
        1 => Just(Loss::Created),
        1 => Just(Loss::Everything),
    ]
}

/// A fixture after losses, and the kinds that are declared complete: those of which no object is missing.
fn dumped(fixture: &Fixture, losses: &[Loss]) -> (Fixture, Vec<&'static str>) {
    let mut left = Fixture::default();
    let mut incomplete = BTreeSet::new();
    for (object, loss) in fixture.objects.iter().zip(losses.iter().cycle()) {
        let mut object = object.clone();
        let remove = |object: &mut Value, field: &str| {
            object.as_object_mut().unwrap().remove(field);
        };
        match loss {
            Loss::Nothing => {}
            // An object that waits for a dependent that is not in the dump has a finding
            // (`UnseenDependents`).
            Loss::Everything if object["metadata"].get("ownerReferences").is_some() => {}
            Loss::Status => remove(&mut object, "status"),
            Loss::Spec => remove(&mut object, "spec"),
            Loss::Both => {
                remove(&mut object, "spec");
                remove(&mut object, "status");
            }
            Loss::Created => remove(&mut object["metadata"], "creationTimestamp"),
            Loss::Everything => {
                incomplete.insert(object["kind"].as_str().unwrap().to_owned());
                continue;
            }
        }
        left.objects.push(object);
    }
    let complete = KINDS.iter().filter(|(kind, _)| !incomplete.contains(*kind));
    (left, complete.map(|(_, plural)| *plural).collect())
}

fn name(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str();
    let parts = [text("namespace"), object["kind"].as_str(), text("name")];
    parts.into_iter().flatten().collect::<Vec<_>>().join("/")
}

/// The objects that are deleted for certain.
fn certain(forecast: &Forecast) -> BTreeSet<String> {
    let collected = forecast.removals();
    collected.map(|removed| removed.object.short()).collect()
}

/// The objects that may be deleted.
fn open(forecast: &Forecast) -> BTreeSet<String> {
    let fates = forecast.fates.iter();
    let undecided = fates.filter(|fate| matches!(fate.fate, Fate::Undetermined { .. }));
    let of_fates = undecided.map(|fate| fate.object.short());
    let of_mechanisms = forecast.undetermined.iter().map(|undecided| {
        let object = &undecided.object;
        match &*object.namespace {
            "" => format!("{}/{}", object.resource.kind(), object.name),
            namespace => format!("{namespace}/{}/{}", object.resource.kind(), object.name),
        }
    });
    of_fates.chain(of_mechanisms).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn of_a_complete_dump_nothing_is_undetermined(parts in prop::collection::vec(part(), 0..7)) {
        let mut question = question().up_to(HORIZON);
        question.controllers = controllers();
        // The plugin of a volume without a provisioner is never known.
        let parts: Vec<Part> = parts.into_iter().filter(|part| !part.has_unknown_plugin()).collect();
        let forecast = predict(&cluster(&fixture(&parts)), &question);
        prop_assert_eq!(open(&forecast), BTreeSet::new());
    }

    #[test]
    fn a_determined_outcome_of_a_partial_dump_holds_for_the_complete_one(
        parts in prop::collection::vec(part(), 0..7),
        losses in prop::collection::vec(loss(), 1..24),
    ) {
        let fixture = fixture(&parts);
        let happens: BTreeMap<String, Timestamp> =
            forecast_removals(&fixture).into_iter().map(|(at, object)| (object, at)).collect();
        let mut question = question().up_to(HORIZON);
        question.controllers = controllers();
        let (left, complete) = dumped(&fixture, &losses);
        let forecast = predict(&cluster_with_all(&left, &complete), &question);
        let open = open(&forecast);
        let certain = certain(&forecast);
        for object in &certain {
            prop_assert!(happens.contains_key(object), "{} is not deleted", object);
        }
        let may_be_of_set = forecast.findings.iter().any(|finding| matches!(finding, Finding::UnseenSets { .. }));
        for name in left.objects.iter().map(name) {
            if may_be_of_set && name.contains("/data-set-") {
                continue;
            }
            let is_reported = certain.contains(&name) || open.contains(&name);
            prop_assert!(is_reported || !happens.contains_key(&name), "{} is removed at {:?}", name, happens[&name]);
        }
    }
}
