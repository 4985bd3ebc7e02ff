//! Eviction thresholds of a node's settings, and their validation.

use std::{collections::BTreeMap, fmt};

use kubegc_core::FieldError;

use super::{Amount, Layout, Signal};
use crate::{GoDuration, Semantics, policy::PolicySpec, semantics::behavior};

/// The origin of a threshold.
#[expect(clippy::exhaustive_enums, reason = "written down, or copied")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// The node's settings.
    #[default]
    Configured,
    /// A copy of the threshold on another signal ([N4.19](crate::rules#n4-19)). Upstream's copies may differ
    /// in detail.
    CopyOf(Signal),
}

/// One threshold: met while less than its value is available.
#[expect(
    clippy::exhaustive_structs,
    reason = "the fields of upstream's threshold; the only operator is `less than`"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Threshold {
    /// Its signal.
    pub signal: Signal,
    /// The amount below which it is met. If it is too low, the node runs out before pods are evicted; if it
    /// is too high, pods are evicted unnecessarily.
    pub value: Amount,
    /// The time for which it must be met before it counts. Zero makes it a hard one.
    pub grace: GoDuration,
    /// The amount beyond the value that must be available before it counts as resolved.
    pub minimum_reclaim: Option<Amount>,
    /// Its origin.
    pub origin: Origin,
}

impl Threshold {
    /// Returns whether it counts at once.
    #[must_use]
    pub fn is_hard(&self) -> bool {
        self.grace == GoDuration::ZERO
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}<{}", self.signal, self.value)?;
        if !self.is_hard() {
            write!(f, " for {}", self.grace)?;
        }
        match self.origin {
            Origin::Configured => Ok(()),
            Origin::CopyOf(signal) => write!(f, " (copied from {signal})"),
        }
    }
}

/// All thresholds of a node, valid by construction, and the planner of the reclaim: see the [module](super).
///
/// The order is hard before soft, and by the signals' names within; upstream's is random.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Thresholds {
    configured: Vec<Threshold>,
    off: Vec<String>,
    semantics: Semantics,
}

impl Thresholds {
    /// The thresholds of a node's settings. `0%` and `100%` disable a threshold.
    ///
    /// # Errors
    /// Every invalid entry, in the order hard, soft, grace periods, minimum reclaims. The texts are not
    /// upstream's.
    pub fn new(spec: &PolicySpec, semantics: Semantics) -> Result<Self, Vec<FieldError>> {
        let mut reading = Reading {
            semantics,
            off: Vec::new(),
            errors: Vec::new(),
        };
        let mut configured = reading.values("evictionHard", &spec.eviction_hard);
        let mut soft = reading.values("evictionSoft", &spec.eviction_soft);
        let graces = reading.graces(&spec.eviction_soft_grace_period);
        reading.add_graces(&mut soft, &graces, spec);
        configured.extend(soft);
        let reclaims = reading.reclaims(&spec.eviction_minimum_reclaim);
        for threshold in &mut configured {
            threshold.minimum_reclaim = reclaims.get(&threshold.signal).copied();
        }
        if reading.errors.is_empty() {
            Ok(Self {
                configured,
                off: reading.off,
                semantics,
            })
        } else {
            Err(reading.errors)
        }
    }

    /// The thresholds as configured.
    #[must_use]
    pub fn configured(&self) -> &[Threshold] {
        &self.configured
    }

    /// Fields whose value disables their threshold, such as `evictionHard[nodefs.available]`.
    #[must_use]
    pub fn off(&self) -> &[String] {
        &self.off
    }

    /// The version and gates.
    #[must_use]
    pub const fn semantics(&self) -> Semantics {
        self.semantics
    }

    /// The thresholds of a layout: the configured ones, then the copies for writable layers.
    ///
    /// From 1.31 thresholds on `containerfs` are replaced by copies of those on the file system that contains
    /// the writable layers ([N4.19](crate::rules#n4-19), [N4.20](crate::rules#n4-20)).
    #[must_use]
    pub fn effective(&self, layout: Layout) -> Vec<Threshold> {
        let mut effective = self.configured.clone();
        if !self.semantics.version.has(behavior::CONTAINER_FS_SIGNALS) {
            return effective;
        }
        effective.retain(|threshold| !threshold.signal.is_container_fs());
        let copies: Vec<Threshold> = effective
            .iter()
            .filter_map(|threshold| {
                let signal = writable_layers(threshold.signal, layout)?;
                Some(Threshold {
                    signal,
                    origin: Origin::CopyOf(threshold.signal),
                    ..*threshold
                })
            })
            .collect();
        effective.extend(copies);
        effective
    }

    /// The configured thresholds that [`effective`](Self::effective) drops.
    pub fn dropped(&self) -> impl Iterator<Item = &Threshold> {
        let replaced = self.semantics.version.has(behavior::CONTAINER_FS_SIGNALS);
        self.configured
            .iter()
            .filter(move |threshold| replaced && threshold.signal.is_container_fs())
    }
}

/// The signal of writable layers that a signal replaces in a layout.
const fn writable_layers(signal: Signal, layout: Layout) -> Option<Signal> {
    match (layout, signal) {
        (Layout::Single | Layout::Split, Signal::NodeFsAvailable)
        | (Layout::DedicatedImages, Signal::ImageFsAvailable) => Some(Signal::ContainerFsAvailable),
        (Layout::Single | Layout::Split, Signal::NodeFsInodesFree)
        | (Layout::DedicatedImages, Signal::ImageFsInodesFree) => Some(Signal::ContainerFsInodesFree),
        _ => None,
    }
}

/// Settings during their evaluation.
struct Reading {
    semantics: Semantics,
    off: Vec<String>,
    errors: Vec<FieldError>,
}

impl Reading {
    fn values(&mut self, field: &str, entries: &BTreeMap<String, String>) -> Vec<Threshold> {
        let mut thresholds = Vec::new();
        for (name, text) in entries {
            let Some(signal) = self.signal(field, name) else {
                continue;
            };
            let place = format!("{field}[{name}]");
            if matches!(text.as_str(), "0%" | "100%") {
                self.off.push(place);
                continue;
            }
            match text.parse::<Amount>() {
                Err(error) => self.refuse(&place, text, problem(&error)),
                Ok(Amount::Absolute(value)) if value.is_negative() || value.is_zero() => {
                    self.refuse(&place, text, "must be above zero");
                }
                Ok(Amount::Relative(percent)) if percent.share() > 1.0 => {
                    self.refuse(&place, text, "must not be above 100%");
                }
                Ok(value) => thresholds.push(Threshold {
                    signal,
                    value,
                    grace: GoDuration::ZERO,
                    minimum_reclaim: None,
                    origin: Origin::Configured,
                }),
            }
        }
        thresholds
    }

    fn graces(&mut self, entries: &BTreeMap<String, GoDuration>) -> BTreeMap<Signal, GoDuration> {
        const FIELD: &str = "evictionSoftGracePeriod";
        let mut graces = BTreeMap::new();
        for (name, grace) in entries {
            let Some(signal) = self.signal(FIELD, name) else {
                continue;
            };
            if grace.is_negative() {
                let place = format!("{FIELD}[{name}]");
                self.refuse(&place, &grace.to_string(), "must not be negative");
            }
            graces.insert(signal, *grace);
        }
        graces
    }

    fn add_graces(
        &mut self,
        soft: &mut [Threshold],
        graces: &BTreeMap<Signal, GoDuration>,
        spec: &PolicySpec,
    ) {
        for threshold in soft {
            match graces.get(&threshold.signal) {
                Some(grace) => threshold.grace = *grace,
                None => {
                    let name = threshold.signal.as_str();
                    let value = spec.eviction_soft.get(name).map_or("", String::as_str);
                    let place = format!("evictionSoft[{name}]");
                    self.refuse(&place, value, "needs an entry in evictionSoftGracePeriod");
                }
            }
        }
    }

    fn reclaims(&mut self, entries: &BTreeMap<String, String>) -> BTreeMap<Signal, Amount> {
        const FIELD: &str = "evictionMinimumReclaim";
        let mut reclaims = BTreeMap::new();
        for (name, text) in entries {
            let Some(signal) = self.signal(FIELD, name) else {
                continue;
            };
            let place = format!("{FIELD}[{name}]");
            match text.parse::<Amount>() {
                Err(error) => self.refuse(&place, text, problem(&error)),
                Ok(Amount::Absolute(amount)) if amount.is_negative() => {
                    self.refuse(&place, text, "must not be negative");
                }
                Ok(Amount::Relative(percent)) if percent.share() == 0.0 => {
                    self.refuse(&place, text, "must be above 0%");
                }
                Ok(amount) => {
                    reclaims.insert(signal, amount);
                }
            }
        }
        reclaims
    }

    fn signal(&mut self, field: &str, name: &str) -> Option<Signal> {
        let signal = name
            .parse()
            .ok()
            .filter(|signal: &Signal| signal.is_known(self.semantics));
        if signal.is_none() {
            let problem = format!("Kubernetes {} knows no such signal", self.semantics.version);
            self.refuse(field, name, &problem);
        }
        signal
    }

    fn refuse(&mut self, field: &str, value: &str, problem: &str) {
        self.errors.push(FieldError::invalid(field, value, problem));
    }
}

/// The problem of a refused amount, without the field, which it does not know.
fn problem(error: &FieldError) -> &str {
    match error {
        FieldError::Invalid { problem, .. } => problem,
        _ => "cannot be read",
    }
}
