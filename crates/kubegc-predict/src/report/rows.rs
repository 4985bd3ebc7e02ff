//! The rows of a report: the objects, each with its fate, notes and assumptions; and the objects as a tree,
//! with dependents below their owners, content below its namespace, and equal siblings as one row.

use std::collections::{BTreeMap, BTreeSet};

use kubegc_control_plane::Refusals;
use kubegc_controllers::default_controllers;
use kubegc_core::{KubernetesVersion, ObjectRef, Uid};

use crate::{
    Fate, Finding, Forecast, ObjectFate, Outcomes,
    facts::deletion_requested_at,
    judge::{missing_fact, missing_text, own_reasons, sentence},
    words::{Name, counted, moment, names_of_kind, span},
};

/// The fate of an object as a row of a report.
pub(super) struct FateRow<'a> {
    pub(super) word: &'static str,
    pub(super) name: Name<'a>,
    /// What it waits for, what is missing, or what it is released from; empty if there is nothing to say. The
    /// fate is part of the text if it has it without the deletes, too.
    pub(super) text: String,
    /// Whether it has this fate without the deletes, too.
    pub(super) is_anyway: bool,
}

/// The objects, those of the intents first, and what controllers cannot decide.
pub(super) fn fate_rows(forecast: &Forecast) -> Vec<FateRow<'_>> {
    let targets: BTreeSet<Name<'_>> = forecast.targets.iter().map(Name::from).collect();
    let mut fates: Vec<&ObjectFate> = forecast.fates.iter().collect();
    fates.sort_by_key(|fate| fate.is_anyway || !targets.contains(&Name::from(&*fate.object)));
    let refusals = Refusals::of(&forecast.timeline);
    let rows = fates.into_iter().map(|fate| FateRow {
        word: fate.fate.word(),
        name: Name::from(&*fate.object),
        text: row_text(forecast, &refusals, fate),
        is_anyway: fate.is_anyway,
    });
    let outcomes = forecast.fates.iter().filter_map(|fate| match &fate.fate {
        Fate::Undetermined { outcomes, .. } => Some((&fate.object.uid, *outcomes)),
        _ => None,
    });
    let outcomes: BTreeMap<&Uid, Outcomes> = outcomes.collect();
    let of_controllers = forecast.undetermined.iter().map(|undetermined| {
        let object = &undetermined.object;
        let fact = missing_fact(&undetermined.missing, undetermined.missing.message_about(object));
        let outcomes = outcomes.get(&object.uid).map(|outcomes| format!("{outcomes}: "));
        let outcomes = outcomes.unwrap_or_default();
        FateRow {
            word: "undetermined",
            name: Name::from(object),
            text: format!("{outcomes}{}: {fact}", undetermined.controller),
            is_anyway: false,
        }
    });
    rows.chain(of_controllers).collect()
}

pub(super) fn is_deleted(fate: &ObjectFate) -> bool {
    matches!(fate.fate, Fate::Deleted { .. })
}

fn row_text(forecast: &Forecast, refusals: &Refusals<'_>, fate: &ObjectFate) -> String {
    let mut text = sentence(&fate.fate);
    match &fate.fate {
        Fate::Terminating { .. } => {
            // Only objects that were terminating in the dump.
            if let Some(since) = deletion_requested_at(&fate.before().meta()) {
                text.push_str(&format!("; terminating since {}", moment(since)));
                if since < forecast.began {
                    text.push_str(&format!(" ({})", span(forecast.began.since(since))));
                }
            }
        }
        Fate::Kept => {
            let mut refused = refusals.about(&fate.object.uid);
            if let Some(step) = refused.find(|step| step.object.uid == fate.object.uid)
                && let Some(refusal) = &step.failure
            {
                let request = if step.is_delete() { "delete" } else { "change" };
                text = format!("the {} may not {request} it: {refusal}", step.actor);
            }
        }
        Fate::Undetermined { missing, .. } => {
            text = missing_text(missing, &fate.object);
            // Those are listed by controller.
            let mut of_controllers = forecast.undetermined.iter();
            if text.is_empty() && !of_controllers.any(|one| one.object.uid == fate.object.uid) {
                text = own_reasons(missing, &fate.object);
            }
        }
        _ => {}
    }
    match (&fate.fate, fate.is_anyway, text.is_empty()) {
        (fate, true, true) => fate.word().to_owned(),
        (Fate::Undetermined { outcomes, .. }, false, false) => format!("{outcomes}: {text}"),
        (fate @ Fate::Undetermined { outcomes, .. }, true, false) => {
            format!("{} ({outcomes}): {text}", fate.word())
        }
        (fate, true, false) => format!("{}, {text}", fate.word()),
        (_, false, _) => text,
    }
}

/// The number of objects by fate, in the order of a summary. Objects about which a controller cannot decide
/// count as undetermined.
pub(super) fn counts(rows: &[FateRow<'_>]) -> Vec<(&'static str, usize)> {
    let words = ["deleted", "terminating", "undetermined", "released", "kept"];
    let counts = words.map(|word| {
        let of_word = rows.iter().filter(|row| row.word == word && !row.is_anyway);
        (word, of_word.map(|row| row.name).collect::<BTreeSet<_>>().len())
    });
    counts.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// The warnings and findings. Grouped findings name the first objects.
pub(super) fn notes(forecast: &Forecast, names_max: usize) -> Vec<String> {
    let warnings = forecast.warnings.iter();
    let warnings = warnings.map(|warning| format!("{}: {warning}", warning.dependent.short()));
    warnings.chain(grouped(&forecast.findings, names_max)).collect()
}

/// The assumptions, and the controllers that do not run.
pub(super) fn assumptions(forecast: &Forecast) -> Vec<String> {
    let assumptions = forecast.assumptions.to_string();
    let mut assumptions: Vec<String> = assumptions.split("; ").map(str::to_owned).collect();
    if forecast.horizon.is_some() {
        assumptions.push("all controllers start at the beginning".to_owned());
    }
    let defaults = default_controllers(KubernetesVersion::LATEST);
    let names = defaults.iter().map(|controller| controller.info().name);
    let disabled = names.filter(|name| !forecast.controllers.contains(name));
    let disabled: Vec<&str> = disabled.collect();
    let is_most = disabled.len() * 2 > defaults.len();
    assumptions.extend(match (&*disabled, &*forecast.controllers) {
        ([], _) => None,
        (_, []) => Some("only the garbage collector runs".to_owned()),
        (_, run) if is_most => Some(format!(
            "only the garbage collector and these controllers run: {}",
            run.join(", ")
        )),
        (disabled, _) => Some(format!("these controllers do not run: {}", disabled.join(", "))),
    });
    assumptions
}

/// Findings, with those about controllers that create objects again grouped.
fn grouped(findings: &[Finding], names_max: usize) -> Vec<String> {
    // By certainty, refusal, and kind of the controllers: the controllers, and the kinds of the objects.
    let mut recreated: BTreeMap<_, (BTreeSet<&ObjectRef>, Vec<&str>)> = BTreeMap::new();
    let mut others = Vec::new();
    for finding in findings {
        let (object, controller, is_certain, refusal) = match finding {
            Finding::CreatedAgain {
                object,
                controller,
                is_certain,
            } => (object, controller, *is_certain, None),
            Finding::NotCreatedAgain {
                object,
                controller,
                refusal,
            } => (object, controller, false, Some(&*refusal.message)),
            // The summary contains it.
            Finding::NothingSelected { .. } => continue,
            other => {
                others.push(other.to_string());
                continue;
            }
        };
        let key = (!is_certain, refusal, &controller.kind, controller.group());
        let (controllers, kinds) = recreated.entry(key).or_default();
        controllers.insert(controller);
        kinds.push(&*object.kind);
    }
    let recreated = recreated.iter();
    let recreated = recreated.map(|(&(is_uncertain, refusal, ..), (controllers, kinds))| {
        let are = match (refusal, is_uncertain, kinds.len()) {
            (None, true, _) => "may be",
            (None, false, 1) => "is",
            (None, false, _) => "are",
            (Some(_), _, 1) => "is not",
            (Some(_), ..) => "are not",
        };
        let names: Vec<Name<'_>> = controllers.iter().map(|one| Name::from(*one)).collect();
        // The API server creates the addresses of Services.
        let are_services = names.iter().all(|name| name.kind == "Service");
        let by = if are_services { "for" } else { "by" };
        let end = match refusal {
            Some(message) => format!(": the API server refuses it: {message}"),
            None if names.len() == 1 => ", which is kept".to_owned(),
            None => ", which are kept".to_owned(),
        };
        let (kinds, names) = (counted(kinds.iter().copied()), names_of_kind(&names, names_max));
        format!("{} {are} created again {by} {names}{end}", kinds.join(", "))
    });
    recreated.chain(others).collect()
}

/// Rows deeper than this are indented no further.
pub(super) const DEPTH_MAX: usize = 24;

/// One row: objects of one kind with the same owner row and the same fate.
#[derive(Debug)]
pub(super) struct Row<'f> {
    pub(super) objects: Vec<&'f ObjectFate>,
    pub(super) depth: usize,
    /// The position of the row that it is below, and why.
    pub(super) parent: Option<(usize, Relation)>,
}

impl<'f> Row<'f> {
    pub(super) fn names(&self) -> Vec<Name<'f>> {
        let objects = self.objects.iter();
        objects.map(|fate| Name::from(&*fate.object)).collect()
    }
}

/// The relation by which one object depends on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Relation {
    /// An owner reference with `blockOwnerDeletion`.
    BlockingReference,
    Reference,
    Namespace,
}

/// The first rows of the tree, depth first, and how many objects are in no row. Siblings that block the
/// deletion of their owner have rows of their own if `by_blocking`.
///
/// # Complexity
/// O(n log n) for n fates.
pub(super) fn rows(forecast: &Forecast, rows_max: usize, by_blocking: bool) -> (Vec<Row<'_>>, usize) {
    let fates = &forecast.fates;
    let targets: BTreeSet<Name<'_>> = forecast.targets.iter().map(Name::from).collect();
    let is_target = |at: usize| targets.contains(&Name::from(&*fates[at].object));
    let (roots, children) = relations(fates, by_blocking);
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut shown = vec![false; fates.len()];
    // Groups of siblings still to be written, the next one last.
    let mut pending = groups(fates, &is_target, &roots, None);
    let mut cut = 0;
    loop {
        let Some((members, parent)) = pending.pop() else {
            // The rest is in cycles: one object of a cycle is shown as if it had no owner.
            cut += shown[cut..].iter().take_while(|shown| **shown).count();
            if cut == shown.len() {
                break;
            }
            pending.push((vec![cut], None));
            continue;
        };
        let members: Vec<usize> = members.into_iter().filter(|&at| !shown[at]).collect();
        if members.is_empty() {
            continue;
        }
        if rows.len() == rows_max {
            break;
        }
        for &at in &members {
            shown[at] = true;
        }
        let below: Vec<_> = members
            .iter()
            .flat_map(|&at| children[at].iter().copied())
            .collect();
        pending.extend(groups(fates, &is_target, &below, Some(rows.len())));
        rows.push(Row {
            objects: members.iter().map(|&at| &fates[at]).collect(),
            depth: parent.map_or(0, |(above, _)| rows[above].depth + 1),
            parent,
        });
    }
    let hidden = shown.iter().filter(|shown| !**shown).count();
    (rows, hidden)
}

/// Objects of one row, with the row above them and their relation to its objects.
type Siblings = (Vec<usize>, Option<(usize, Relation)>);

/// Groups siblings by kind, fate and relation, the first group last.
fn groups(
    fates: &[ObjectFate],
    is_target: &impl Fn(usize) -> bool,
    siblings: &[(usize, Relation)],
    parent: Option<usize>,
) -> Vec<Siblings> {
    let mut groups = BTreeMap::<_, Vec<usize>>::new();
    for &(at, relation) in siblings {
        let (fate, is_target) = (&fates[at], is_target(at));
        let key = (
            !is_target,
            fate.is_anyway,
            if is_target { at } else { 0 },
            fate.object.group(),
            &*fate.object.kind,
            fate.fate.word(),
            sentence(&fate.fate),
            relation,
        );
        groups.entry(key).or_default().push(at);
    }
    let groups = groups.into_iter().rev();
    let groups = groups.map(|((.., relation), members)| (members, parent.map(|row| (row, relation))));
    groups.collect()
}

/// Objects by their position, each with the reason why it is below another one.
type Below = Vec<(usize, Relation)>;

/// The objects without an owner or namespace among the fates, and the objects below each.
fn relations(fates: &[ObjectFate], by_blocking: bool) -> (Below, Vec<Below>) {
    let by_uid: BTreeMap<&Uid, usize> = fates.iter().map(|fate| &fate.object.uid).zip(0..).collect();
    let is_namespace =
        |fate: &&ObjectFate| fate.object.group().is_empty() && *fate.object.kind == *"Namespace";
    let namespaces = fates.iter().enumerate().filter(|(_, fate)| is_namespace(fate));
    let namespaces = namespaces.map(|(at, fate)| (&*fate.object.name, at));
    let namespaces: BTreeMap<&str, usize> = namespaces.collect();
    let (mut roots, mut children) = (Vec::new(), vec![Vec::new(); fates.len()]);
    for (at, fate) in fates.iter().enumerate() {
        let owners = (fate.before().owner_references())
            .filter_map(|reference| Some((*by_uid.get(&reference.uid)?, reference)))
            .filter(|(owner, _)| *owner != at);
        let owner = owners.min_by_key(|(_, reference)| reference.controller != Some(true));
        let namespace = namespaces.get(&*fate.object.namespace).copied();
        match (owner, namespace) {
            (Some((owner, reference)), _) => {
                let relation = match reference.is_blocking() && by_blocking {
                    true => Relation::BlockingReference,
                    false => Relation::Reference,
                };
                children[owner].push((at, relation));
            }
            (None, Some(namespace)) if namespace != at => {
                children[namespace].push((at, Relation::Namespace));
            }
            (None, _) => roots.push((at, Relation::Reference)),
        }
    }
    (roots, children)
}
