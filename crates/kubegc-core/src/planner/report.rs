//! Plans as text.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
};

use super::{Kept, Plan};

/// The maximum number of objects that a line names.
const NAMED_MAX: usize = 5;

/// A plan as strings. It is displayed as the plan is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "camelCase")
)]
pub struct PlanReport {
    /// The actions, in order.
    pub actions: Vec<String>,
    /// The kept objects, by reason.
    pub kept: Vec<ReportedObjects>,
    /// The findings, by reason.
    pub findings: Vec<ReportedObjects>,
    /// The time when the same facts may give another plan; `None` if time alone changes nothing.
    pub next_at: Option<String>,
}

/// The objects of one reason.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "camelCase")
)]
pub struct ReportedObjects {
    /// The reason. It omits the name of the object where it would repeat it.
    pub reason: String,
    /// The objects, in the order of the plan.
    pub objects: Vec<String>,
}

impl<Action: Display, Object: Display, Reason: Display, Summary> Plan<Action, Object, Reason, Summary> {
    /// The plan as strings, for programs that print or store it. The summary is omitted.
    #[must_use]
    pub fn report(&self) -> PlanReport {
        PlanReport {
            actions: self.actions.iter().map(ToString::to_string).collect(),
            kept: by_reason(&self.kept),
            findings: by_reason(&self.findings),
            next_at: self.next_at.map(|at| at.to_string()),
        }
    }
}

impl<Action: Display, Object: Display, Reason: Display, Summary> Display
    for Plan<Action, Object, Reason, Summary>
{
    /// The actions, then the kept objects, grouped by reason with counts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.report().fmt(f)
    }
}

/// Serializes a reason as `{"reason": name, "message": text}`, the fields of conditions and Events.
#[cfg(feature = "serde")]
pub fn serialize_reason<S: serde::Serializer>(
    name: &str,
    message: &dyn Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeStruct;

    let mut fields = serializer.serialize_struct("Reason", 2)?;
    fields.serialize_field("reason", name)?;
    fields.serialize_field("message", &message.to_string())?;
    fields.end()
}

/// Groups by reason, in the order of the strings.
fn by_reason<Object: Display, Reason: Display>(all: &[Kept<Object, Reason>]) -> Vec<ReportedObjects> {
    let mut groups = BTreeMap::<String, Vec<String>>::new();
    for kept in all {
        let object = kept.object.to_string();
        let reason = kept.reason.to_string().replacen(&format!("{object}: "), "", 1);
        groups.entry(reason).or_default().push(object);
    }
    groups
        .into_iter()
        .map(|(reason, objects)| ReportedObjects { reason, objects })
        .collect()
}

impl Display for PlanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let header = |f: &mut fmt::Formatter<'_>, title: &str, count: usize| {
            let colon = if count == 0 { "" } else { ":" };
            writeln!(f, "{title} ({count}){colon}")
        };
        header(f, "actions", self.actions.len())?;
        for action in &self.actions {
            writeln!(f, "  {action}")?;
        }
        for (title, groups) in [("kept", &self.kept), ("findings", &self.findings)] {
            if !groups.is_empty() {
                header(f, title, groups.iter().map(|group| group.objects.len()).sum())?;
            }
            for group in groups {
                writeln!(f, "  {group}")?;
            }
        }
        match &self.next_at {
            Some(at) => writeln!(f, "the next change is due at {at}"),
            None => Ok(()),
        }
    }
}

impl Display for ReportedObjects {
    /// For example `it has not finished (2): job.batch/a -n shop, job.batch/b -n shop`. At most five objects
    /// are named.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reason, objects } = self;
        write!(f, "{reason} ({})", objects.len())?;
        for (at, object) in objects.iter().take(NAMED_MAX).enumerate() {
            let separator = if at == 0 { ":" } else { "," };
            write!(f, "{separator} {object}")?;
        }
        match objects.len().saturating_sub(NAMED_MAX) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
