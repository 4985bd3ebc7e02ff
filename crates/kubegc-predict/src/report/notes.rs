//! The last sections of a report: the next reconcile, notes and assumptions.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
};

use kubegc_controllers::default_controllers;
use kubegc_core::{KubernetesVersion, ObjectRef};

use super::text::Text;
use crate::words::{Name, counted, later, moment, names_of_kind};
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
    let mut recreated: BTreeMap<(Recreation<'_>, &str, &str), Recreated<'_>> = BTreeMap::new();
    let mut others = Vec::new();
    for finding in findings {
        let (object, controller, recreation) = match finding {
            Finding::CreatedAgain {
                object,
                controller,
                is_certain: true,
            } => (object, controller, Recreation::Certain),
            Finding::CreatedAgain {
                object, controller, ..
            } => (object, controller, Recreation::Possible),
            Finding::NotCreatedAgain {
                object,
                controller,
                refusal,
            } => (object, controller, Recreation::Refused(&refusal.message)),
            // The summary contains it.
            Finding::NothingSelected { .. } => continue,
            other => {
                others.push(other.to_string());
                continue;
            }
        };
        let of_kind = recreated.entry((recreation, &controller.kind, controller.group()));
        let of_kind = of_kind.or_default();
        of_kind.controllers.insert(controller);
        of_kind.kinds.push(&*object.kind);
    }
    let recreated = recreated.iter();
    let recreated = recreated.map(|((recreation, ..), of_kind)| of_kind.text(*recreation, names_max));
    let mut all: Vec<String> = recreated.collect();
    all.append(&mut others);
    all
}

/// Whether objects are created again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Recreation<'a> {
    Certain,
    Possible,
    /// They are not, for the API server refuses it with this message.
    Refused(&'a str),
}

/// Objects that are deleted while their controllers, all of one kind, are kept.
#[derive(Default)]
struct Recreated<'a> {
    controllers: BTreeSet<&'a ObjectRef>,
    /// The kind of each object that is deleted.
    kinds: Vec<&'a str>,
}

impl Recreated<'_> {
    fn text(&self, recreation: Recreation<'_>, names_max: usize) -> String {
        let names: Vec<Name<'_>> = self
            .controllers
            .iter()
            .map(|controller| Name::from(*controller))
            .collect();
        let deleted = counted(self.kinds.iter().copied()).join(", ");
        let are = match (recreation, self.kinds.len()) {
            (Recreation::Certain, 1) => "is",
            (Recreation::Certain, _) => "are",
            (Recreation::Possible, _) => "may be",
            (Recreation::Refused(_), 1) => "is not",
            (Recreation::Refused(_), _) => "are not",
        };
        let which = if names.len() == 1 { "which is" } else { "which are" };
        // The API server creates the addresses of Services.
        let are_services = names.iter().all(|name| name.kind == "Service");
        let by = if are_services { "for" } else { "by" };
        let names = names_of_kind(&names, names_max);
        match recreation {
            Recreation::Refused(message) => {
                format!("{deleted} {are} created again {by} {names}: the API server refuses it: {message}")
            }
            _ => format!("{deleted} {are} created again {by} {names}, {which} kept"),
        }
    }
}
