//! Reports of forecasts as text, each of a small dump.

use std::time::Duration;

use kubegc_core::{DeleteOptions, PropagationPolicy, Timestamp};
use kubegc_fixtures::check_transcript;
use kubegc_predict::{Assumptions, Detail, Intent, Question, Selection};

use crate::common;

/// The first line of an input is the release, the kinds that are complete, and arguments of the examples
/// `predict` and `cleanup_forecast`. The dump follows.
fn report(input: &str) -> String {
    let (line, dump) = input.split_once('\n').expect("a dump");
    let (declared, arguments) = line.split_once(" |").expect("arguments");
    let (release, complete) = declared.split_once(' ').expect("a complete kind");
    let mut selection = Selection::default();
    let mut options = DeleteOptions::policy(PropagationPolicy::Background);
    let mut assumptions = Assumptions::default();
    let (mut now, mut horizon, mut without, mut explained) = (None, None, Vec::new(), None);
    let mut words = arguments.split_whitespace();
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("a value");
        match word {
            "-n" => selection.namespace = Some(value().into()),
            "-l" => selection.selector = Some(value().parse().expect("a selector")),
            "--cascade" => {
                options = match value() {
                    "foreground" => DeleteOptions::policy(PropagationPolicy::Foreground),
                    _ => DeleteOptions::default(),
                }
            }
            "--pods-never-end" => assumptions.pods_end = false,
            "--release" => assumptions.acting = [(value().into(), true)].into(),
            "--now" => now = Some(Timestamp::parse(value()).expect("a time")),
            "--hours" => {
                horizon = Some(Duration::from_secs(
                    3_600 * value().parse::<u64>().expect("a number"),
                ))
            }
            "--without" => without.push(value()),
            "--explain" => explained = Some(value()),
            _ => selection.arguments.push(word.to_owned()),
        }
    }
    // A text without a final line break may be cut off.
    let cluster = common::of_dump(release, &format!("{dump}\n"), &[complete], assumptions);
    let mut question = Question::new(cluster.version());
    (question.now, question.horizon) = (now, horizon);
    for name in without {
        question = question.without(name);
    }
    if !selection.arguments.is_empty() {
        let targets = selection
            .targets(&cluster)
            .expect("they are in the dump")
            .into_iter();
        question.intents.extend(targets.map(|target| Intent {
            target,
            options: options.clone(),
            after: Duration::ZERO,
        }));
    }
    let forecast = cluster.forecast(&question).expect("the objects are in the dump");
    let mut text = forecast.to_text(Detail {
        steps: horizon.is_none(),
        ..Detail::default()
    });
    if let Some(name) = explained {
        let mut fates = forecast.fates.iter();
        let fate = fates.find(|fate| fate.object.short().split(' ').next() == Some(name));
        let object = &fate.expect("it is affected").object;
        text.truncate(text.find('\n').unwrap_or(text.len()) + 1);
        text.push_str(&forecast.explain(object).to_string());
    }
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn each_report_names_what_happens_and_why() {
    check_transcript("tests/predict/forecasts.txt", report);
}
