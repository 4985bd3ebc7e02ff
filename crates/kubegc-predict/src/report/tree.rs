//! The affected objects as a tree: dependents below their owners, content below its namespace, equal siblings
//! as one row.

use std::collections::{BTreeMap, BTreeSet};

use kubegc_core::Uid;

use crate::{Forecast, ObjectFate, judge::sentence, words::Name};

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
