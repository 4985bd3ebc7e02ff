//! Certificate requests of pods: one age, inclusive.

use kubegc_core::{ObjectMeta, Planner, Preconditions, ResourceVersion, StoreError, Timestamp, Uid};
use kubegc_lifecycle::{
    certificate::pod_request::{Action, Facts, Reason, Settings},
    object::{Act, Call, Failure, Wire},
};
use proptest::{collection::vec, option, prelude::*};

use crate::{MINUTE, at, shifted};

fn meta(created: Option<i64>) -> ObjectMeta {
    let mut meta = ObjectMeta::new("shop", "pcr", "uid-1");
    meta.creation_timestamp = created.map(at);
    meta
}

fn verdict(settings: &Settings, meta: ObjectMeta, now: Timestamp) -> Result<(), Reason> {
    let plan = settings.plan(&Facts { requests: vec![meta] }, now);
    match (&*plan.actions, &*plan.kept) {
        ([_], []) => Ok(()),
        ([], [kept]) => Err(kept.reason.clone()),
        other => panic!("one request, one verdict: {other:?}"),
    }
}

#[test]
fn l4_9_half_an_hour_to_the_nanosecond() {
    let settings = Settings::default();
    let since = at(30 * MINUTE);
    let not_due = Err(Reason::NotDue { from: since });
    for (nanos, expected) in [(-1, not_due), (0, Ok(())), (1, Ok(()))] {
        let now = shifted(30 * MINUTE, nanos);
        assert_eq!(verdict(&settings, meta(Some(0)), now), expected, "{nanos} ns");
    }
}

#[test]
fn l4_9_the_uid_is_expected_and_gone_is_done() {
    let mut meta = meta(Some(0));
    meta.resource_version = ResourceVersion::new("3");
    let plan = Settings::default().plan(&Facts { requests: vec![meta] }, at(31 * MINUTE));
    let uid = Preconditions::uid(Uid::new("uid-1"));
    let both = Preconditions {
        resource_version: Some(ResourceVersion::new("3")),
        ..uid.clone()
    };
    for (wire, expected) in [(Wire::AsUpstream, uid), (Wire::Strict, both)] {
        let calls = plan.actions[0].calls(wire);
        let [Call::Delete { object, options }] = &*calls else {
            panic!("one call: {calls:?}");
        };
        assert_eq!(object.to_string(), "PodCertificateRequest shop/pcr");
        assert_eq!(options.preconditions, expected);
        assert_eq!((options.propagation, options.grace_period_seconds), (None, None));
    }
    assert_eq!(Action::failure(&StoreError::NotFound), Failure::Ignored);
    let message = "uid".to_owned();
    assert_eq!(Action::failure(&StoreError::Conflict { message }), Failure::Told);
}

#[test]
fn what_stays_says_why() {
    let settings = Settings::default();
    let mut deleting = meta(Some(0));
    deleting.deletion_timestamp = Some(at(1));
    let far = at(1_000_000);
    assert_eq!(verdict(&settings, deleting, far), Err(Reason::Deleting));
    assert_eq!(verdict(&settings, meta(None), far), Err(Reason::AgeNotKnown));
    let mut nameless = meta(Some(0));
    nameless.uid = Uid::new("");
    assert_eq!(verdict(&settings, nameless, far), Err(Reason::UidNotKnown));
    let old = Settings::new("1.33".parse().expect("a release in range"));
    assert_eq!(verdict(&old, meta(Some(0)), far), Err(Reason::Disabled));
    let new = Settings::new("1.34".parse().expect("a release in range"));
    assert_eq!(verdict(&new, meta(Some(0)), far), Ok(()));
    let end = Timestamp::from_nanos(i64::MAX);
    let mut late = meta(None);
    late.creation_timestamp = Some(end);
    assert_eq!(verdict(&settings, late, end), Err(Reason::NeverDue));
    let twice = Facts {
        requests: vec![meta(Some(0)), meta(Some(1))],
    };
    let plan = settings.plan(&twice, far);
    assert!(plan.actions.is_empty());
    assert_eq!(plan.kept[0].reason, Reason::ListedTwice);
}

proptest! {
    #[test]
    fn laws(requests in vec((0..6_u8, option::weighted(0.9, 0..5_000_i64)), 0..8), now in 0..8_000_i64) {
        let requests: Vec<ObjectMeta> = requests
            .into_iter()
            .map(|(name, created)| ObjectMeta { name: name.to_string().into(), ..meta(created) })
            .collect();
        let facts = Facts { requests };
        let settings = Settings::default();
        let plan = settings.plan(&facts, at(now));
        let mut turned = facts.clone();
        turned.requests.reverse();
        prop_assert_eq!(settings.plan(&turned, at(now)), plan.clone());

        // The same, said naively: of each name that is listed in one form only.
        let mut alike = facts.requests.clone();
        alike.sort_by(|a, b| (&a.name, a.creation_timestamp).cmp(&(&b.name, b.creation_timestamp)));
        alike.dedup();
        let due = alike.iter().filter(|one| {
            let once = alike.iter().filter(|other| other.name == one.name).count() == 1;
            once && one.creation_timestamp.is_some_and(|at| at.as_secs() + 1_800 <= now)
        });
        let due: Vec<_> = due.map(|meta| meta.name.clone()).collect();
        let deleted: Vec<_> = plan.actions.iter().map(|action| action.object().name.clone()).collect();
        prop_assert_eq!(&deleted, &due);

        let mut after = facts.clone();
        after.requests.retain(|meta| !deleted.contains(&meta.name));
        prop_assert_eq!(settings.plan(&after, at(now)).actions, []);

        if let Some(next_at) = plan.next_at {
            let before = Timestamp::from_nanos(next_at.as_nanos() - 1);
            prop_assert_eq!(settings.plan(&facts, before), plan.clone());
            prop_assert_ne!(settings.plan(&facts, next_at), plan);
        } else {
            prop_assert_eq!(settings.plan(&facts, Timestamp::from_nanos(i64::MAX)), plan);
        }
    }
}
