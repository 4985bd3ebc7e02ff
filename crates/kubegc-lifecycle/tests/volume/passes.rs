//! Passes that do not go well: what follows from each answer.

use kubegc_core::StoreError;
use kubegc_lifecycle::{
    object::{Act, Call, Live, Wire},
    volume::{
        Claim, FINALIZER_IN_TREE, Holder, Phase, Policy, Volume,
        reclaim::{Answer, Ending, Known, Pass, Plugin, Reason, Settings, Step},
    },
};

use crate::support::{claim, dynamic, in_phase, in_short, made_by_hand};

fn known(volume: Volume) -> Known {
    Known {
        volume,
        claim: Live::NotFound,
        users: Ok(Vec::new()),
    }
}

fn lost() -> Answer {
    Answer::Failed(StoreError::Unknown {
        message: "lost".to_owned(),
    })
}

/// Answers step by step and tells what was asked.
fn told(known: Known, answers: Vec<Answer>) -> Vec<String> {
    let mut pass = Pass::new(Settings::default(), known);
    let mut answers = answers.into_iter();
    let mut steps = Vec::new();
    let mut answer = None;
    loop {
        match pass.next(answer.take()) {
            Step::Done(ending) => {
                steps.push(match ending {
                    Ending::Deleted => "deleted".to_owned(),
                    Ending::Kept(reason) => format!("kept: {reason}"),
                    Ending::Failed(reason) => format!("failed: {reason}"),
                });
                assert_eq!(answers.next(), None, "an answer too many");
                return steps;
            }
            Step::ReadClaim(claim) => steps.push(format!("read claim {claim}")),
            Step::ReadVolume => steps.push("read volume".to_owned()),
            Step::FindPlugin(operation) => steps.push(format!("find {operation:?}")),
            Step::Perform(action) => {
                steps.extend(action.calls(Wire::AsUpstream).iter().map(in_short));
            }
        }
        answer = Some(answers.next().expect("an answer for each step"));
    }
}

#[track_caller]
fn check(known: Known, answers: Vec<Answer>, expected: &[&str]) {
    assert_eq!(told(known, answers), expected);
}

fn released() -> Volume {
    in_phase(dynamic(Policy::Delete), Phase::Released)
}

/// What comes before the plugin is asked.
fn until_plugin(volume: &Volume) -> Vec<Answer> {
    vec![
        Answer::Volume(volume.clone()),
        Answer::Failed(StoreError::NotFound),
        Answer::Plugin(Plugin::Known),
    ]
}

fn after(mut answers: Vec<Answer>, more: Vec<Answer>) -> Vec<Answer> {
    answers.extend(more);
    answers
}

const ASKED: [&str; 4] = [
    "read volume",
    "read claim shop/data",
    "find DeleteVolume",
    "DeleteVolume",
];

#[test]
fn t_5_7_the_plugin_decides_what_follows() {
    let before = || until_plugin(&released());
    let failed = |message: &str| {
        vec![
            format!("putstatus Failed {message:?}"),
            format!("Warning VolumeFailedDelete {message}"),
            format!("failed: its plugin failed: {message}"),
        ]
    };
    let message = || "disk is attached".to_owned();
    let cases = [
        (
            Answer::InUse { message: message() },
            vec![
                "Normal VolumeDelete disk is attached".to_owned(),
                "failed: what is behind it is in use: disk is attached".to_owned(),
            ],
        ),
        (
            Answer::PluginFailed { message: message() },
            failed("disk is attached"),
        ),
        (lost(), failed("unknown outcome: lost")),
        (
            Answer::Claim(claim()),
            failed("unknown outcome: the answer does not fit the question"),
        ),
    ];
    for (answer, rest) in cases {
        // Whether the event arrives means nothing.
        let steps = told(known(released()), after(before(), vec![answer, Answer::Done]));
        assert_eq!(steps[..4], ASKED);
        assert_eq!(steps[4..], rest);
    }
    let failed = in_phase(released(), Phase::Failed);
    let answers = after(
        until_plugin(&failed),
        vec![Answer::PluginFailed { message: message() }],
    );
    let steps = told(known(failed), answers);
    assert_eq!(steps[4..], ["failed: its plugin failed: disk is attached"]);
}

#[test]
fn the_volume_is_deleted_only_after_its_finalizer_is_gone() {
    let before = || after(until_plugin(&released()), vec![Answer::Done]);
    let full = [
        ASKED[0],
        ASKED[1],
        ASKED[2],
        ASKED[3],
        "read volume",
        "put -kubernetes.io/pv-controller",
        "delete disk",
        "deleted",
    ];
    let read = || Answer::Volume(released());
    let answers = after(before(), vec![read(), Answer::Done, Answer::Done]);
    check(known(released()), answers, &full);
    let gone = Answer::Failed(StoreError::NotFound);
    let answers = after(before(), vec![read(), Answer::Done, gone.clone()]);
    check(known(released()), answers, &full);

    let refused = after(before(), vec![read(), lost(), Answer::Done]);
    let steps = told(known(released()), refused);
    assert_eq!(
        steps[6..],
        [
            "putstatus Failed \"unknown outcome: lost\"",
            "Warning VolumeFailedDelete unknown outcome: lost",
            "failed: its plugin failed: unknown outcome: lost",
        ]
    );
    let answers = after(before(), vec![read(), Answer::Done, lost()]);
    let steps = told(known(released()), answers);
    assert_eq!(
        steps[7..],
        ["failed: could not be written: unknown outcome: lost"]
    );

    // Somebody else has taken the finalizer away.
    let mut bare = released();
    bare.meta.finalizers.retain(|name| **name != *FINALIZER_IN_TREE);
    let answers = after(before(), vec![Answer::Volume(bare), Answer::Done]);
    let steps = told(known(released()), answers);
    assert_eq!(steps[5..], ["delete disk", "deleted"]);
    let steps = told(known(released()), after(before(), vec![gone]));
    assert_eq!(steps[5..], ["deleted"]);
    let mut next = released();
    next.meta.uid = "uid-next".into();
    let steps = told(known(released()), after(before(), vec![Answer::Volume(next)]));
    assert_eq!(steps[5..], ["kept: it has changed since it was listed"]);
}

#[test]
fn a_failed_write_ends_the_pass() {
    let mut unfit = dynamic(Policy::Delete);
    unfit.meta.finalizers.clear();
    let failed = "failed: could not be written: unknown outcome: lost";
    check(
        known(unfit),
        vec![lost()],
        &["put +kubernetes.io/pv-controller", failed],
    );
    let gone = Answer::Failed(StoreError::NotFound);
    check(
        known(dynamic(Policy::Delete)),
        vec![gone.clone(), lost()],
        &["read claim shop/data", "putstatus Released \"\"", failed],
    );
    check(
        known(dynamic(Policy::Delete)),
        vec![lost()],
        &[
            "read claim shop/data",
            "failed: could not be read: unknown outcome: lost",
        ],
    );
    let mut elsewhere = known(made_by_hand(Policy::Retain));
    elsewhere.claim = Live::Found(claim().bound_to("other"));
    check(elsewhere.clone(), vec![lost()], &["put ReleaseClaimRef", failed]);
    check(
        elsewhere,
        vec![Answer::Done, lost()],
        &["put ReleaseClaimRef", "putstatus Available \"\"", failed],
    );
}

#[test]
fn l_5_6_a_recycler_that_fails_says_so() {
    let volume = in_phase(made_by_hand(Policy::Recycle), Phase::Released);
    let before = || until_plugin(&volume);
    let message = "no space".to_owned();
    let answers = after(before(), vec![Answer::PluginFailed { message }, Answer::Done]);
    let steps = told(known(volume.clone()), answers);
    assert_eq!(
        steps[3..],
        [
            "RecycleVolume",
            "putstatus Failed \"Recycle failed: no space\"",
            "Warning VolumeFailedRecycle Recycle failed: no space",
            "failed: its plugin failed: Recycle failed: no space",
        ]
    );
    // The event is lost, and nothing hangs on it.
    let answers = after(before(), vec![Answer::Done, lost(), Answer::Done, Answer::Done]);
    let steps = told(known(volume.clone()), answers);
    assert_eq!(
        steps[3..],
        [
            "RecycleVolume",
            "Normal VolumeRecycled Volume recycled",
            "put ReleaseClaimRef",
            "putstatus Available \"\"",
            "kept: it was emptied",
        ]
    );
}

#[test]
fn what_a_write_answers_is_taken() {
    let mut written = released();
    written.meta.resource_version = "8".into();
    let gone = Answer::Failed(StoreError::NotFound);
    let mut pass = Pass::new(Settings::default(), known(dynamic(Policy::Delete)));
    for answer in [None, Some(gone), Some(Answer::Volume(written.clone()))] {
        assert!(!matches!(pass.next(answer), Step::Done(_)));
    }
    assert_eq!(pass.volume(), &written);
}

#[test]
fn a_step_is_given_again_until_it_is_answered() {
    let mut known = known(released());
    known.claim = Live::Found(Claim::new("shop", "data", "uid-new"));
    let mut pass = Pass::new(Settings::default(), known);
    let first = pass.next(None);
    assert_eq!(pass.next(None), first);
    assert_eq!(pass.clone().next(None), first);
    let end = pass.next(Some(lost()));
    assert_eq!(
        end,
        Step::Done(Ending::Failed(Reason::ReadFailed {
            message: "unknown outcome: lost".to_owned()
        }))
    );
    assert_eq!(pass.next(Some(Answer::Done)), end);
    assert_eq!(pass.next(None), end);
}

#[test]
fn l_5_3_the_claim_is_read_again_right_before() {
    let not = "kept: it is not released any more";
    let gone = || Answer::Failed(StoreError::NotFound);
    let cases = [
        (Answer::Claim(claim().bound_to("disk")), Some(not)),
        (Answer::Claim(claim()), Some(not)),
        (lost(), Some("failed: could not be read: unknown outcome: lost")),
        (
            Answer::Claim(Claim::new("shop", "data", "")),
            Some("kept: its uid or version, or the uid of its claim, is not known"),
        ),
        (
            Answer::Done,
            Some("failed: could not be read: unknown outcome: the answer does not fit the question"),
        ),
        (gone(), None),
        (
            Answer::Claim(Claim::new("shop", "data", "uid-new").bound_to("disk")),
            None,
        ),
        (Answer::Claim(claim().bound_to("other")), None),
    ];
    for policy in [Policy::Delete, Policy::Recycle] {
        for phase in [Phase::Released, Phase::Failed] {
            for (answer, kept) in cases.clone() {
                let volume = in_phase(dynamic(policy.clone()), phase.clone());
                let mut pass = Pass::new(Settings::default(), known(volume.clone()));
                assert_eq!(pass.next(None), Step::ReadVolume);
                assert!(matches!(
                    pass.next(Some(Answer::Volume(volume))),
                    Step::ReadClaim(_)
                ));
                let step = pass.next(Some(answer));
                match kept {
                    None => assert!(matches!(step, Step::FindPlugin(_)), "{step:?}"),
                    Some(kept) => {
                        let Step::Done(Ending::Kept(reason) | Ending::Failed(reason)) = step else {
                            panic!("{kept}: {step:?}")
                        };
                        assert_eq!(
                            kept.split_once(": ").map(|(_, why)| why.to_owned()),
                            Some(reason.to_string())
                        );
                    }
                }
            }
        }
    }
    // Listed as bound elsewhere, and not read yet either.
    let mut elsewhere = known(dynamic(Policy::Delete));
    elsewhere.claim = Live::Found(claim().bound_to("other"));
    check(
        elsewhere,
        vec![
            Answer::Done,
            Answer::Volume(released()),
            Answer::Claim(claim().bound_to("disk")),
        ],
        &[
            "putstatus Released \"\"",
            "read volume",
            "read claim shop/data",
            not,
        ],
    );
}

#[test]
fn a_claim_that_was_read_in_the_pass_is_not_read_again() {
    let unfit = || {
        let mut volume = dynamic(Policy::Delete);
        volume.meta.finalizers.clear();
        volume
    };
    let gone = || Answer::Failed(StoreError::NotFound);
    // The longest way: nine steps.
    let answers = vec![
        Answer::Done,
        gone(),
        Answer::Done,
        Answer::Volume(released()),
        Answer::Plugin(Plugin::Known),
        Answer::Done,
        Answer::Volume(released()),
        Answer::Done,
        Answer::Done,
    ];
    check(
        known(unfit()),
        answers,
        &[
            "put +kubernetes.io/pv-controller",
            "read claim shop/data",
            "putstatus Released \"\"",
            "read volume",
            "find DeleteVolume",
            "DeleteVolume",
            "read volume",
            "put -kubernetes.io/pv-controller",
            "delete disk",
            "deleted",
        ],
    );
}

#[test]
fn what_is_not_known_of_a_volume_ends_the_pass() {
    type Edit = fn(&mut Volume);
    let cases: [(Edit, &str); 3] = [
        (
            |volume| volume.phase = Phase::Unknown,
            "kept: its phase is not known",
        ),
        (
            |volume| volume.claim_ref = Holder::Unknown,
            "kept: whose it is is not known",
        ),
        (
            |volume| volume.annotations = None,
            "kept: its annotations are not known",
        ),
    ];
    for (edit, kept) in cases {
        for phase in [Phase::Pending, Phase::Bound, Phase::Released] {
            let mut volume = in_phase(dynamic(Policy::Delete), phase);
            edit(&mut volume);
            check(known(volume), vec![], &[kept]);
        }
        let mut partial = released();
        edit(&mut partial);
        check(
            known(released()),
            vec![Answer::Volume(partial.clone())],
            &["read volume", kept],
        );
        let written = vec![
            Answer::Failed(StoreError::NotFound),
            Answer::Volume(partial.clone()),
        ];
        let steps = ["read claim shop/data", "putstatus Released \"\"", kept];
        check(known(dynamic(Policy::Delete)), written, &steps);
        let mut unfit = dynamic(Policy::Delete);
        unfit.meta.finalizers.clear();
        let steps = ["put +kubernetes.io/pv-controller", kept];
        check(known(unfit), vec![Answer::Volume(partial)], &steps);
    }
}

#[test]
fn what_has_no_uid_or_version_is_not_written() {
    type Edit = fn(&mut Volume);
    let edits: [Edit; 2] = [
        |volume| volume.meta.uid = "".into(),
        |volume| volume.meta.resource_version = "".into(),
    ];
    let kept = "kept: its uid or version, or the uid of its claim, is not known";
    for edit in edits {
        let mut volume = dynamic(Policy::Delete);
        edit(&mut volume);
        let gone = Answer::Failed(StoreError::NotFound);
        check(known(volume.clone()), vec![gone], &["read claim shop/data", kept]);
        let volume = in_phase(volume, Phase::Released);
        check(
            known(volume.clone()),
            until_plugin(&volume),
            &["read volume", "read claim shop/data", "find DeleteVolume", kept],
        );
    }
}

#[test]
fn the_plugin_is_asked_for_what_was_read_last() {
    let mut live = released();
    live.meta.resource_version = "8".into();
    let mut pass = Pass::new(Settings::default(), known(released()));
    let mut answers = until_plugin(&live).into_iter();
    let mut step = pass.next(None);
    for answer in &mut answers {
        step = pass.next(Some(answer));
    }
    let Step::Perform(action) = step else {
        panic!("the plugin is asked: {step:?}")
    };
    let [Call::Outside { expect, .. }] = &action.calls(Wire::AsUpstream)[..] else {
        panic!("one call: {action:?}")
    };
    assert_eq!(
        (expect, &expect.resource_version),
        (action.expect(), &Some("8".into()))
    );
    assert_eq!(expect.uid, Some("uid-disk".into()));
}
