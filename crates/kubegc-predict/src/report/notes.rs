//! The last sections of a report: the next reconcile, notes and assumptions.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
};

use kubegc_controllers::default_controllers;
use kubegc_core::{KubernetesVersion, ObjectRef};

use super::{
    names::{Name, counted, names_of_kind},
    text::Text,
    words::{later, moment},
};
use crate::{Forecast, fate::Finding};

impl Text<'_> {
    /// Writes the next scheduled reconcile, warnings, findings and assumptions.
    pub(super) fn write_notes(&mut self) -> fmt::Result {
        let forecast = self.forecast;
        if let Some(next_at) = forecast.next_at.filter(|_| forecast.horizon.is_some()) {
            let (at, later) = (moment(next_at), later(next_at.since(forecast.began)));
            writeln!(self.out, "\nNext reconcile: {at} UTC ({later})")?;
        }
        let notes = notes(forecast, self.detail.objects_max);
        if !notes.is_empty() {
            writeln!(self.out, "\nNotes:")?;
        }
        for note in notes {
            self.line("  ! ", &note)?;
        }
        writeln!(self.out, "\nAssumed:")?;
        assumptions(forecast)
            .iter()
            .try_for_each(|assumption| self.line("  - ", assumption))
    }
}

/// The warnings and findings. Grouped findings name the first objects.
pub(super) fn notes(forecast: &Forecast, names_max: usize) -> Vec<String> {
    let warnings = forecast
        .warnings
        .iter()
        .map(|warning| format!("{}: {warning}", warning.dependent.short()));
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
    let disabled: Vec<&str> = names
        .filter(|name| !forecast.controllers.contains(name))
        .collect();
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
    let mut recreated: BTreeMap<(bool, &str, &str), Recreated<'_>> = BTreeMap::new();
    let mut others = Vec::new();
    for finding in findings {
        match finding {
            Finding::CreatedAgain {
                object,
                controller,
                is_certain,
            } => {
                let key = (!is_certain, &*controller.kind, controller.group());
                let of_kind = recreated.entry(key).or_default();
                of_kind.controllers.insert(controller);
                of_kind.kinds.push(&*object.kind);
            }
            // The summary contains it.
            Finding::NothingSelected { .. } => {}
            other => others.push(other.to_string()),
        }
    }
    let recreated = recreated.iter();
    let recreated = recreated.map(|((is_possible, ..), of_kind)| of_kind.text(!is_possible, names_max));
    let mut all: Vec<String> = recreated.collect();
    all.append(&mut others);
    all
}

/// Objects that are deleted while their controllers, all of one kind, are kept.
#[derive(Default)]
struct Recreated<'a> {
    controllers: BTreeSet<&'a ObjectRef>,
    /// The kind of each object that is deleted.
    kinds: Vec<&'a str>,
}

impl Recreated<'_> {
    fn text(&self, is_certain: bool, names_max: usize) -> String {
        let names: Vec<Name<'_>> = self
            .controllers
            .iter()
            .map(|controller| Name::from(*controller))
            .collect();
        let deleted = counted(self.kinds.iter().copied()).join(", ");
        let are = match (is_certain, self.kinds.len()) {
            (true, 1) => "is",
            (true, _) => "are",
            (false, _) => "may be",
        };
        let which = if names.len() == 1 { "which is" } else { "which are" };
        // The API server creates the addresses of Services.
        let are_services = names.iter().all(|name| name.kind == "Service");
        let by = if are_services { "for" } else { "by" };
        let names = names_of_kind(&names, names_max);
        format!("{deleted} {are} created again {by} {names}, {which} kept")
    }
}
