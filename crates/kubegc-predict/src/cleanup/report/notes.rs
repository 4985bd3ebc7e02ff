//! Writes the end of a report: what is due next, what is worth knowing, and what is assumed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
};

use kubegc_core::ObjectRef;

use super::{Text, counted, named, place_and_name};
use crate::{
    cleanup::{
        CleanupForecast,
        words::{later, moment, number, some_of},
    },
    fate::Finding,
};

impl Text<'_> {
    pub(super) fn write_notes(&mut self) -> fmt::Result {
        let CleanupForecast {
            forecast,
            frame,
            began,
            next_at,
            ..
        } = self.forecast;
        if let Some(next_at) = next_at {
            let (at, later) = (moment(*next_at), later(next_at.since(*began)));
            writeln!(self.out, "\nNext thing to look at: {at} UTC ({later})")?;
        }
        let warnings = forecast
            .warnings
            .iter()
            .map(|warning| format!("{}: {warning}", named(&warning.dependent)));
        let findings = told_together(&forecast.findings, self.detail.objects_max);
        let worth: Vec<String> = warnings.chain(findings).collect();
        if !worth.is_empty() {
            writeln!(self.out, "\nWorth knowing:")?;
        }
        for finding in worth {
            self.tell("  ! ", &finding)?;
        }
        writeln!(self.out, "\nAssumed:")?;
        let assumptions = forecast.assumptions.to_string();
        let of_cluster = assumptions.split("; ").map(str::to_owned);
        for assumption in of_cluster.chain(frame.assumptions()) {
            self.tell("  - ", &assumption)?;
        }
        Ok(())
    }
}

/// Findings, with those told together of which there are many.
fn told_together(findings: &[Finding], names_max: usize) -> Vec<String> {
    let mut recreated: BTreeMap<(&str, &str), Recreated<'_>> = BTreeMap::new();
    let mut told = Vec::new();
    for finding in findings {
        match finding {
            // A cron job makes jobs by its schedule, whatever becomes of former ones.
            Finding::OwnerMayRecreate { controller, .. }
                if *controller.kind == *"CronJob" && controller.group() == "batch" => {}
            Finding::OwnerMayRecreate { object, controller } => {
                let of_kind = recreated
                    .entry((&*controller.kind, controller.group()))
                    .or_default();
                of_kind.controllers.insert(controller);
                of_kind.kinds.push(&*object.kind);
            }
            other => told.push(other.to_string()),
        }
    }
    let recreated = recreated
        .iter()
        .map(|((kind, _), of_kind)| of_kind.told(kind, names_max));
    let mut all: Vec<String> = recreated.collect();
    all.append(&mut told);
    all
}

/// What goes while its controllers, of one kind, stay.
#[derive(Default)]
struct Recreated<'a> {
    controllers: BTreeSet<&'a ObjectRef>,
    /// The kind of each object that goes.
    kinds: Vec<&'a str>,
}

impl Recreated<'_> {
    fn told(&self, kind: &str, names_max: usize) -> String {
        let names = self
            .controllers
            .iter()
            .map(|controller| place_and_name(controller));
        let names = some_of(names.collect(), names_max).join(", ");
        let gone = counted(self.kinds.iter().copied()).join(", ");
        match self.controllers.len() {
            1 => format!("{kind} {names} stays, and may create anew what goes of it: {gone}"),
            several => format!(
                "{} ({names}) stay, and may create anew what goes of them: {gone}",
                number(several, kind)
            ),
        }
    }
}
