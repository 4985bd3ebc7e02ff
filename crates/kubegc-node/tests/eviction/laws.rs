//! Laws of syncs and runs, for all thresholds and measurements.

use kubegc_node::eviction::{Amount, Threshold};

use super::*;

fn a_value() -> impl Strategy<Value = String> {
    prop_oneof![
        (1_u32..100).prop_map(|percent| format!("{percent}%")),
        (1_u32..2_000).prop_map(|amount| amount.to_string())
    ]
}

fn entries<V: Strategy>(value: V) -> impl Strategy<Value = BTreeMap<String, V::Value>> {
    // Signals that every version knows.
    let names: Vec<String> = Signal::ALL
        .iter()
        .filter(|signal| !signal.is_container_fs())
        .map(|signal| signal.to_string())
        .collect();
    prop::collection::btree_map(prop::sample::select(names), value, 0..5)
}

prop_compose! {
    fn some_thresholds()(
        hard in entries(a_value()),
        soft in entries((a_value(), 0_i64..3)),
        reclaim in entries(a_value()),
        minor in 13_u16..=37,
    ) -> Thresholds {
        let spec = PolicySpec {
            eviction_hard: hard,
            eviction_soft: soft.iter().map(|(signal, (value, _))| (signal.clone(), value.clone())).collect(),
            eviction_soft_grace_period: soft.iter().map(|(signal, (_, grace))| (signal.clone(), GoDuration::from_secs(*grace))).collect(),
            eviction_minimum_reclaim: reclaim,
            ..PolicySpec::default()
        };
        Thresholds::new(&spec, semantics(minor)).expect("valid thresholds")
    }
}

prop_compose! {
    fn some_observations()(
        observed in prop::collection::btree_map(
            prop::sample::select(Signal::ALL.to_vec()),
            (0_u64..1_500, 0_u64..1_500, prop::option::of(0_i64..5)),
            0..9,
        ),
    ) -> Observations {
        observed
            .into_iter()
            .map(|(signal, (available, capacity, seconds))| {
                (signal, Observation { available, capacity, at: seconds.map(at) })
            })
            .collect()
    }
}

/// A restatement of a shortage, from the numbers of the texts alone.
fn is_short(threshold: &Threshold, observations: &Observations, with_reclaim: bool) -> bool {
    let Some(observation) = observations
        .get(&threshold.signal)
        .filter(|observation| observation.capacity > 0)
    else {
        return false;
    };
    let amount = |amount: Amount| {
        let text = amount.to_string();
        match text.strip_suffix('%') {
            Some(percent) => {
                let share = percent.parse::<f32>().expect("a number") / 100.0;
                (observation.capacity as f64 * f64::from(share)) as u64
            }
            None => {
                let units = [("Ki", 1_024), ("k", 1_000), ("", 1)];
                let (number, unit) = units
                    .iter()
                    .find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, unit)))
                    .expect("the last suffix fits");
                number.parse::<u64>().expect("a number") * unit
            }
        }
    };
    let reclaim = threshold
        .minimum_reclaim
        .filter(|_| with_reclaim)
        .map_or(0, amount);
    amount(threshold.value) + reclaim > observation.available
}

proptest! {
    #[test]
    fn no_pod_is_evicted_exactly_if_no_threshold_is_met(
        thresholds in some_thresholds(),
        layout in prop::sample::select(LAYOUTS.to_vec()),
        signal in prop::sample::select(Signal::ALL.to_vec()),
        after in some_observations(),
    ) {
        let functions = reclaim_functions(signal, layout, thresholds.semantics()).unwrap_or_default();
        let (decision, _) = thresholds.decide(layout, signal, Ok((after.clone(), at(1_000))));
        let enforced = thresholds.semantics().version.minor() >= 22;
        let short: Vec<_> = thresholds
            .effective(layout)
            .into_iter()
            .filter(|threshold| is_short(threshold, &after, enforced))
            .collect();
        match decision {
            Decision::NoEviction => prop_assert!(!functions.is_empty() && short.is_empty()),
            Decision::EvictPod { reason: EvictionReason::NothingToCollect, still_met } => {
                prop_assert!(functions.is_empty() && still_met.is_empty());
            }
            Decision::EvictPod { reason, still_met } => {
                let met: Vec<_> = still_met.iter().map(|met| met.threshold).collect();
                prop_assert_eq!(met, short);
                for met in &still_met {
                    prop_assert_eq!(met.by_minimum_reclaim, !is_short(&met.threshold, &after, false));
                }
                let related = still_met.iter().any(|met| met.related);
                prop_assert_eq!(reason, if related { EvictionReason::NotEnough } else { EvictionReason::UnrelatedThreshold });
            }
        }
    }

    #[test]
    fn every_threshold_is_answered_or_kept_and_syncs_repeat_nothing(
        thresholds in some_thresholds(),
        layout in prop::sample::select(LAYOUTS.to_vec()),
        syncs in prop::collection::vec(some_observations(), 1..5),
    ) {
        let mut facts = Pressure { layout, ..Pressure::default() };
        for (now, observations) in syncs.into_iter().enumerate() {
            let now = at(i64::try_from(now).expect("few"));
            facts.observations = observations;
            let plan = thresholds.plan(&facts, now);
            prop_assert_eq!(&plan, &thresholds.plan(&facts, now));
            let effective = thresholds.effective(layout);
            // A hard threshold and a soft one without grace period can be equal: one response is for both.
            let trigger = plan.summary.trigger.as_ref().filter(|trigger| !trigger.functions.is_empty());
            let is_answered = |threshold: &&Threshold| trigger.is_some_and(|trigger| trigger.threshold == **threshold);
            let answered = effective.iter().filter(is_answered).count();
            prop_assert_eq!(plan.kept.len() + answered, effective.len());
            let functions = plan.summary.trigger.as_ref().map_or(&[][..], |trigger| trigger.functions);
            let ran: Vec<Function> = plan.actions.iter().map(|action| action.function).collect();
            prop_assert_eq!(ran, functions);
            if let Some(trigger) = &plan.summary.trigger {
                // Only a signal that is short now, or was and lacks its minimum reclaim, forces anything.
                prop_assert!(is_short(&trigger.threshold, &facts.observations, true));
                prop_assert!(plan.summary.conditions.contains(
                    &trigger.threshold.signal.condition(thresholds.semantics()).expect("a resource")
                ));
            }
            // The same measurement, if it has a time, leads to nothing a second time.
            facts.history = plan.summary.history;
            let again = thresholds.plan(&facts, now);
            let timed = again.summary.trigger.is_none_or(|trigger| {
                facts.observations.get(&trigger.threshold.signal).is_some_and(|observation| observation.at.is_none())
            });
            prop_assert!(timed);
        }
    }
}
