//! Passes that do not go well: what follows from each answer.

use kubegc_core::StoreError;
use kubegc_lifecycle::{
    object::{Act, Live, Wire},
    volume::{
        Claim, FINALIZER_IN_TREE, Phase, Policy, Volume,
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
    vec![Answer::Volume(volume.clone()), Answer::Plugin(Plugin::Known)]
}

fn after(mut answers: Vec<Answer>, more: Vec<Answer>) -> Vec<Answer> {
    answers.extend(more);
    answers
}

const ASKED: [&str; 3] = ["read volume", "find DeleteVolume", "DeleteVolume"];

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
        assert_eq!(steps[..3], ASKED);
        assert_eq!(steps[3..], rest);
    }
    let failed = in_phase(released(), Phase::Failed);
    let answers = after(
        until_plugin(&failed),
        vec![Answer::PluginFailed { message: message() }],
    );
    let steps = told(known(failed), answers);
    assert_eq!(steps[3..], ["failed: its plugin failed: disk is attached"]);
}

#[test]
fn the_volume_is_deleted_only_after_its_finalizer_is_gone() {
    let before = || after(until_plugin(&released()), vec![Answer::Done]);
    let full = [
        ASKED[0],
        ASKED[1],
        ASKED[2],
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
        steps[5..],
        [
            "putstatus Failed \"unknown outcome: lost\"",
            "Warning VolumeFailedDelete unknown outcome: lost",
            "failed: its plugin failed: unknown outcome: lost",
        ]
    );
    let answers = after(before(), vec![read(), Answer::Done, lost()]);
    let steps = told(known(released()), answers);
    assert_eq!(
        steps[6..],
        ["failed: could not be written: unknown outcome: lost"]
    );

    // Somebody else has taken the finalizer away.
    let mut bare = released();
    bare.meta.finalizers.retain(|name| **name != *FINALIZER_IN_TREE);
    let answers = after(before(), vec![Answer::Volume(bare), Answer::Done]);
    let steps = told(known(released()), answers);
    assert_eq!(steps[4..], ["delete disk", "deleted"]);
    let steps = told(known(released()), after(before(), vec![gone]));
    assert_eq!(steps[4..], ["deleted"]);
    let mut next = released();
    next.meta.uid = "uid-next".into();
    let steps = told(known(released()), after(before(), vec![Answer::Volume(next)]));
    assert_eq!(steps[4..], ["kept: it has changed since it was listed"]);
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
        steps[2..],
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
        steps[2..],
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
