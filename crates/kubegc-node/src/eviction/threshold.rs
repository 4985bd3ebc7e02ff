//! Eviction thresholds of the kubelet's configuration, and their validation.

use std::{collections::BTreeMap, fmt};

use kubegc_core::FieldError;

use super::{Amount, Layout, Signal};
use crate::{GoDuration, Semantics, policy::PolicySpec, semantics::behavior};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// The kubelet's configuration.
    #[default]
    Configured,
    /// A copy of the threshold of this signal ([N4.19](crate::rules#n4-19)). Upstream's copies may differ in
    /// detail.
    CopyOf(Signal),
}

/// An eviction threshold. It is met while less than its value is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Threshold {
    pub signal: Signal,
    /// The amount below which it is met. Too low: the node runs out of the resource before pods are evicted.
    /// Too high: pods are evicted unnecessarily.
    pub value: Amount,
    /// The time for which it must be met before the kubelet acts. Zero: a hard threshold.
    pub grace: GoDuration,
    /// The amount that must be available in addition to the value before the threshold is resolved.
    pub minimum_reclaim: Option<Amount>,
    pub origin: Origin,
}

impl Threshold {
    /// Returns whether it is a hard threshold: it has no grace period.
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

/// The validated thresholds of a node, and the planner of the reclaim. See the [module](super).
///
/// Hard thresholds come before soft ones, each sorted by the name of the signal. Upstream's order is random.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Thresholds {
    configured: Vec<Threshold>,
    disabled: Vec<String>,
    semantics: Semantics,
}

impl Thresholds {
    /// Parses and validates the thresholds of a configuration. `0%` and `100%` disable a threshold.
    ///
    /// # Errors
    /// All invalid entries, in this order: hard thresholds, soft thresholds, grace periods, minimum
    /// minimum_reclaims. The texts differ from upstream's.
    pub fn new(spec: &PolicySpec, semantics: Semantics) -> Result<Self, Vec<FieldError>> {
        let mut parser = Parser {
            semantics,
            disabled: Vec::new(),
            errors: Vec::new(),
        };
        let mut configured = parser.values("evictionHard", &spec.eviction_hard);
        let mut soft = parser.values("evictionSoft", &spec.eviction_soft);
        let grace_periods = parser.grace_periods(&spec.eviction_soft_grace_period);
        parser.set_grace_periods(&mut soft, &grace_periods, spec);
        configured.extend(soft);
        let minimum_reclaims = parser.minimum_reclaims(&spec.eviction_minimum_reclaim);
        for threshold in &mut configured {
            threshold.minimum_reclaim = minimum_reclaims.get(&threshold.signal).copied();
        }
        if parser.errors.is_empty() {
            Ok(Self {
                configured,
                disabled: parser.disabled,
                semantics,
            })
        } else {
            Err(parser.errors)
        }
    }

    pub fn configured(&self) -> &[Threshold] {
        &self.configured
    }

    /// Paths of the fields whose value disables the threshold, such as `evictionHard[nodefs.available]`.
    pub fn disabled(&self) -> &[String] {
        &self.disabled
    }

    /// The version and its feature gates.
    pub const fn semantics(&self) -> Semantics {
        self.semantics
    }

    /// The thresholds that apply with a layout: the configured ones, then the copies for `containerfs`.
    ///
    /// From 1.31, thresholds of `containerfs` are replaced by copies of those of the file system that
    /// contains the writable layers ([N4.19](crate::rules#n4-19), [N4.20](crate::rules#n4-20)).
    pub fn effective(&self, layout: Layout) -> Vec<Threshold> {
        let mut effective = self.configured.clone();
        if !self.semantics.version.has(behavior::CONTAINER_FS_SIGNALS) {
            return effective;
        }
        effective.retain(|threshold| !threshold.signal.is_container_fs());
        let copies: Vec<Threshold> = effective
            .iter()
            .filter_map(|threshold| {
                let signal = copied_to(threshold.signal, layout)?;
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

    /// The configured thresholds that [`effective`](Self::effective) replaces by copies.
    pub fn replaced(&self) -> impl Iterator<Item = &Threshold> {
        let copies_replace = self.semantics.version.has(behavior::CONTAINER_FS_SIGNALS);
        self.configured
            .iter()
            .filter(move |threshold| copies_replace && threshold.signal.is_container_fs())
    }
}

/// The `containerfs` signal whose threshold is a copy of this signal's threshold in a layout.
const fn copied_to(signal: Signal, layout: Layout) -> Option<Signal> {
    match (layout, signal) {
        (Layout::Single | Layout::Split, Signal::NodeFsAvailable)
        | (Layout::DedicatedImages, Signal::ImageFsAvailable) => Some(Signal::ContainerFsAvailable),
        (Layout::Single | Layout::Split, Signal::NodeFsInodesFree)
        | (Layout::DedicatedImages, Signal::ImageFsInodesFree) => Some(Signal::ContainerFsInodesFree),
        _ => None,
    }
}

/// Parses the entries of a configuration, and collects their errors.
struct Parser {
    semantics: Semantics,
    disabled: Vec<String>,
    errors: Vec<FieldError>,
}

impl Parser {
    fn values(&mut self, field: &str, entries: &BTreeMap<String, String>) -> Vec<Threshold> {
        let mut thresholds = Vec::new();
        for (name, text) in entries {
            let Some(signal) = self.signal(field, name) else {
                continue;
            };
            let path = format!("{field}[{name}]");
            if matches!(text.as_str(), "0%" | "100%") {
                self.disabled.push(path);
                continue;
            }
            match text.parse::<Amount>() {
                Err(error) => self.reject(&path, text, problem(&error)),
                Ok(Amount::Absolute(value)) if value.is_negative() || value.is_zero() => {
                    self.reject(&path, text, "must be above zero");
                }
                Ok(Amount::Relative(percent)) if percent.as_fraction() > 1.0 => {
                    self.reject(&path, text, "must not be above 100%");
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

    fn grace_periods(&mut self, entries: &BTreeMap<String, GoDuration>) -> BTreeMap<Signal, GoDuration> {
        const FIELD: &str = "evictionSoftGracePeriod";
        let mut grace_periods = BTreeMap::new();
        for (name, grace) in entries {
            let Some(signal) = self.signal(FIELD, name) else {
                continue;
            };
            if grace.is_negative() {
                let path = format!("{FIELD}[{name}]");
                self.reject(&path, &grace.to_string(), "must not be negative");
            }
            grace_periods.insert(signal, *grace);
        }
        grace_periods
    }

    fn set_grace_periods(
        &mut self,
        soft: &mut [Threshold],
        grace_periods: &BTreeMap<Signal, GoDuration>,
        spec: &PolicySpec,
    ) {
        for threshold in soft {
            match grace_periods.get(&threshold.signal) {
                Some(grace) => threshold.grace = *grace,
                None => {
                    let name = threshold.signal.as_str();
                    let value = spec.eviction_soft.get(name).map_or("", String::as_str);
                    let path = format!("evictionSoft[{name}]");
                    self.reject(&path, value, "needs an entry in evictionSoftGracePeriod");
                }
            }
        }
    }

    fn minimum_reclaims(&mut self, entries: &BTreeMap<String, String>) -> BTreeMap<Signal, Amount> {
        const FIELD: &str = "evictionMinimumReclaim";
        let mut minimum_reclaims = BTreeMap::new();
        for (name, text) in entries {
            let Some(signal) = self.signal(FIELD, name) else {
                continue;
            };
            let path = format!("{FIELD}[{name}]");
            match text.parse::<Amount>() {
                Err(error) => self.reject(&path, text, problem(&error)),
                Ok(Amount::Absolute(amount)) if amount.is_negative() => {
                    self.reject(&path, text, "must not be negative");
                }
                Ok(Amount::Relative(percent)) if percent.as_fraction() == 0.0 => {
                    self.reject(&path, text, "must be above 0%");
                }
                Ok(amount) => {
                    minimum_reclaims.insert(signal, amount);
                }
            }
        }
        minimum_reclaims
    }

    fn signal(&mut self, field: &str, name: &str) -> Option<Signal> {
        let signal = name
            .parse()
            .ok()
            .filter(|signal: &Signal| signal.is_known(self.semantics));
        if signal.is_none() {
            let problem = format!("Kubernetes {} has no such signal", self.semantics.version);
            self.reject(field, name, &problem);
        }
        signal
    }

    fn reject(&mut self, field: &str, value: &str, problem: &str) {
        self.errors.push(FieldError::invalid(field, value, problem));
    }
}

/// The problem of an invalid amount, without the field, which the parser of amounts does not know.
fn problem(error: &FieldError) -> &str {
    match error {
        FieldError::Invalid { problem, .. } => problem,
        _ => "cannot be parsed",
    }
}
