//! The last sections of a report: the next reconcile, notes and assumptions.

use std::collections::{BTreeMap, BTreeSet};

use kubegc_controllers::default_controllers;
use kubegc_core::{KubernetesVersion, ObjectRef};

use super::text::Text;
use crate::{
    Finding, Forecast,
    words::{Name, counted, later, moment, names_of_kind},
};

impl Text<'_> {
    /// Writes the next scheduled reconcile, warnings, findings and assumptions.
    pub(super) fn write_notes(&mut self) {
        let forecast = self.forecast;
        if let Some(next_at) = forecast.next_at.filter(|_| forecast.horizon.is_some()) {
            let (at, later) = (moment(next_at), later(next_at.since(forecast.began)));
            self.out
                .plain(format_args!("\nNext reconcile: {at} UTC ({later})"));
        }
        let notes = notes(forecast, self.detail.objects_max);
        if !notes.is_empty() {
            self.out.plain("\nNotes:");
        }
        for note in notes {
            self.out.line("  ! ", &note);
        }
        self.out.plain("\nAssumed:");
        for assumption in assumptions(forecast) {
            self.out.line("  - ", &assumption);
        }
    }
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
