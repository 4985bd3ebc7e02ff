//! Eviction thresholds of the kubelet's configuration, and their validation.

use std::{collections::BTreeMap, fmt};

use kubegc_core::FieldError;

use super::{Amount, Layout, Signal};
use crate::{GoDuration, Semantics, policy::spec::PolicySpec, semantics::behavior};

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
    /// reclaims. The texts differ from upstream's.
    pub fn new(spec: &PolicySpec, semantics: Semantics) -> Result<Self, Vec<FieldError>> {
        let mut parser = Parser {
            semantics,
            disabled: Vec::new(),
            errors: Vec::new(),
        };
        let mut configured = parser.values("evictionHard", &spec.eviction_hard);
        let soft = parser.values("evictionSoft", &spec.eviction_soft);
        let grace_periods = &spec.eviction_soft_grace_period;
        parser.parse("evictionSoftGracePeriod", grace_periods, |grace| {
            match grace.is_negative() {
                true => Err("must not be negative".to_owned()),
                false => Ok(()),
            }
        });
        for mut threshold in soft {
            let name = threshold.signal.as_str();
            match grace_periods.get(name) {
                Some(grace) => threshold.grace = *grace,
                None => {
                    let value = spec.eviction_soft.get(name).map_or("", String::as_str);
                    let path = format!("evictionSoft[{name}]");
                    parser.reject(&path, value, "needs an entry in evictionSoftGracePeriod");
                }
            }
            configured.push(threshold);
        }
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
        let values = self.parse(field, entries, |text| match text.as_str() {
            "0%" | "100%" => Ok(None),
            text => match amount(text)? {
                Amount::Absolute(value) if value.is_negative() || value.is_zero() => {
                    Err("must be above zero".to_owned())
                }
                Amount::Relative(percent) if percent.as_fraction() > 1.0 => {
                    Err("must not be above 100%".to_owned())
                }
                value => Ok(Some(value)),
            },
        });
        let mut thresholds = Vec::new();
        for (signal, value) in values {
            match value {
                None => self.disabled.push(format!("{field}[{signal}]")),
                Some(value) => thresholds.push(Threshold {
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

    fn minimum_reclaims(&mut self, entries: &BTreeMap<String, String>) -> BTreeMap<Signal, Amount> {
        let amounts = self.parse("evictionMinimumReclaim", entries, |text| match amount(text)? {
            Amount::Absolute(amount) if amount.is_negative() => Err("must not be negative".to_owned()),
            Amount::Relative(percent) if percent.as_fraction() == 0.0 => Err("must be above 0%".to_owned()),
            amount => Ok(amount),
        });
        amounts.into_iter().collect()
    }

    /// The entries of a field with a known signal and a valid value. The others are rejected.
    fn parse<T: fmt::Display, V>(
        &mut self,
        field: &str,
        entries: &BTreeMap<String, T>,
        parse: impl Fn(&T) -> Result<V, String>,
    ) -> Vec<(Signal, V)> {
        let mut parsed = Vec::new();
        for (name, value) in entries {
            let signal = name.parse().ok();
            let Some(signal) = signal.filter(|signal: &Signal| signal.is_known(self.semantics)) else {
                let problem = format!("Kubernetes {} has no such signal", self.semantics.version);
                self.reject(field, name, &problem);
                continue;
            };
            match parse(value) {
                Ok(value) => parsed.push((signal, value)),
                Err(problem) => self.reject(&format!("{field}[{name}]"), &value.to_string(), &problem),
            }
        }
        parsed
    }

    fn reject(&mut self, field: &str, value: &str, problem: &str) {
        self.errors.push(FieldError::invalid(field, value, problem));
    }
}

/// An amount, or the problem without the field, which the parser of amounts does not know.
fn amount(text: &str) -> Result<Amount, String> {
    text.parse().map_err(|error| match error {
        FieldError::Invalid { problem, .. } => problem,
        _ => "cannot be parsed".to_owned(),
    })
}
