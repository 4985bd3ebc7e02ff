//! The end of a report: the next reconcile, notes and assumptions.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
};

use kubegc_controllers::default_controllers;
use kubegc_core::{KubernetesVersion, ObjectRef};

use super::{
    text::{Text, counted, named, place_and_name},
    words::{later, moment, number, some_of},
};
use crate::fate::Finding;

impl Text<'_> {
    /// Writes the next scheduled reconcile, warnings, findings and assumptions.
    pub(super) fn write_notes(&mut self) -> fmt::Result {
        let forecast = self.forecast;
        if let Some(next_at) = forecast.next_at.filter(|_| forecast.horizon.is_some()) {
            let (at, later) = (moment(next_at), later(next_at.since(forecast.began)));
            writeln!(self.out, "\nNext reconcile: {at} UTC ({later})")?;
        }
        let warnings = forecast
            .warnings
            .iter()
            .map(|warning| format!("{}: {warning}", named(&warning.dependent)));
        let notes: Vec<String> = warnings
            .chain(grouped(&forecast.findings, self.detail.objects_max))
            .collect();
        if !notes.is_empty() {
            writeln!(self.out, "\nNotes:")?;
        }
        for note in notes {
            self.line("  ! ", &note)?;
        }
        writeln!(self.out, "\nAssumed:")?;
        let assumptions = forecast.assumptions.to_string();
        let mut assumptions: Vec<String> = assumptions.split("; ").map(str::to_owned).collect();
        if forecast.horizon.is_some() {
            assumptions.push("all controllers start at the beginning".to_owned());
        }
        let defaults = default_controllers(KubernetesVersion::LATEST);
        let defaults = defaults.iter().map(|controller| controller.info().name);
        let disabled: Vec<&str> = defaults
            .filter(|name| !forecast.controllers.contains(name))
            .collect();
        if !disabled.is_empty() {
            assumptions.push(format!("these controllers do not run: {}", disabled.join(", ")));
        }
        assumptions
            .iter()
            .try_for_each(|assumption| self.line("  - ", assumption))
    }
}

/// Findings, with those about controllers that create objects again grouped.
fn grouped(findings: &[Finding], names_max: usize) -> Vec<String> {
    let mut recreated: BTreeMap<(&str, &str), Recreated<'_>> = BTreeMap::new();
    let mut others = Vec::new();
    for finding in findings {
        match finding {
            // A CronJob creates Jobs by its schedule, whether earlier ones exist or not.
            Finding::OwnerMayRecreate { controller, .. }
                if *controller.kind == *"CronJob" && controller.group() == "batch" => {}
            Finding::OwnerMayRecreate { object, controller } => {
                let of_kind = recreated
                    .entry((&*controller.kind, controller.group()))
                    .or_default();
                of_kind.controllers.insert(controller);
                of_kind.kinds.push(&*object.kind);
            }
            other => others.push(other.to_string()),
        }
    }
    let recreated = recreated
        .iter()
        .map(|((kind, _), of_kind)| of_kind.text(kind, names_max));
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
    fn text(&self, kind: &str, names_max: usize) -> String {
        let names = self
            .controllers
            .iter()
            .map(|controller| place_and_name(&controller.namespace, &controller.name));
        let names = some_of(names.collect(), names_max).join(", ");
        let gone = counted(self.kinds.iter().copied()).join(", ");
        match self.controllers.len() {
            1 => format!("{kind} {names} is kept and may create them again: {gone}"),
            several => format!(
                "{} ({names}) are kept and may create them again: {gone}",
                number(several, kind)
            ),
        }
    }
}
