//! All settings of a node's garbage collection together, validated as by a kubelet.

mod error;
mod finding;
mod spec;
pub mod switches;

use kubegc_core::{KubernetesVersion, node_facts::FileSystem};

pub use error::{InvalidPolicy, Problem};
pub use finding::{ContainerFlag, Finding};
pub use spec::PolicySpec;
pub use switches::{Switch, SwitchReason, Switches};

use crate::{GoDuration, Semantics, container, eviction, image, semantics::behavior};

/// The policies of all planners of a node, valid by construction.
///
/// # Examples
/// ```
/// use kubegc_core::KubernetesVersion;
/// use kubegc_node::policy::{Policy, PolicySpec};
/// let spec = PolicySpec { image_gc_low_threshold_percent: 85, ..PolicySpec::default() };
/// let refused = Policy::new(&spec, KubernetesVersion::LATEST).unwrap_err();
/// assert!(refused.to_string().ends_with("must be less than imageGCHighThresholdPercent (--image-gc-high-threshold) 85"));
/// let policy = Policy::new(&PolicySpec::default(), KubernetesVersion::LATEST).unwrap();
/// assert!(policy.switches().images.on);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    container: container::Policy,
    image: image::Policy,
    eviction: eviction::Thresholds,
    semantics: Semantics,
    pod_logs_directory: String,
    findings: Vec<Finding>,
}

impl Policy {
    /// The policies of a node's settings on a version.
    ///
    /// # Errors
    /// All errors at once. Upstream stops after the errors of the configuration, before the containers'
    /// minimum age and eviction.
    ///
    /// # Upstream
    /// [`ValidateKubeletConfiguration`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/apis/config/validation/validation.go),
    /// then the constructors of the container and image policies. The rules on ages were added with the
    /// maximum age in 1.29; before, a negative minimum age is refused here although a kubelet accepts it.
    pub fn new(spec: &PolicySpec, version: KubernetesVersion) -> Result<Self, InvalidPolicy> {
        let semantics = Semantics::with_gates(version, &spec.feature_gates);
        let mut problems = configuration(spec, semantics);
        let is_valid = problems.is_empty();

        let limits = container::Limits {
            age_min: spec.minimum_container_ttl,
            per_unit_max: u32::try_from(spec.maximum_dead_containers_per_container).ok(),
            node_max: u32::try_from(spec.maximum_dead_containers).ok(),
        };
        let container = container::Policy::new(limits, semantics).map_err(Problem::MinimumContainerAge);
        let thresholds = image::Thresholds {
            high_percent: spec.image_gc_high_threshold_percent,
            low_percent: spec.image_gc_low_threshold_percent,
            age_min: spec.image_minimum_gc_age,
            age_max: spec.image_maximum_gc_age,
        };
        let image = image::Policy::new(thresholds, semantics).map_err(Problem::Image);
        let eviction = eviction::Thresholds::new(spec, semantics);
        match (container, image, eviction) {
            (Ok(container), Ok(image), Ok(eviction)) if is_valid => {
                let mut policy = Self {
                    container,
                    image,
                    eviction,
                    semantics,
                    pod_logs_directory: spec.pod_logs_directory.clone(),
                    findings: Vec::new(),
                };
                policy.findings = finding::of_spec(spec, &policy);
                Ok(policy)
            }
            (container, image, eviction) => {
                problems.extend(container.err());
                // Errors of the configuration are not repeated by the constructor.
                problems.extend(image.err().filter(|_| is_valid));
                problems.extend(eviction.err().into_iter().flatten().map(Problem::Eviction));
                Err(InvalidPolicy { problems })
            }
        }
    }

    /// The policy of dead containers.
    #[must_use]
    pub const fn container(&self) -> &container::Policy {
        &self.container
    }

    /// The policy of images.
    #[must_use]
    pub const fn image(&self) -> &image::Policy {
        &self.image
    }

    /// The eviction thresholds.
    #[must_use]
    pub const fn eviction(&self) -> &eviction::Thresholds {
        &self.eviction
    }

    /// The behavior of the version with its gates.
    #[must_use]
    pub const fn semantics(&self) -> Semantics {
        self.semantics
    }

    /// The directory of pod logs.
    #[must_use]
    pub fn pod_logs_directory(&self) -> &str {
        &self.pod_logs_directory
    }

    /// The loops that run, and why.
    #[must_use]
    pub const fn switches(&self) -> Switches {
        Switches::new(self.image.thresholds(), self.semantics)
    }

    /// Valid settings that are probably not intended. If the image file system is known, absolute eviction
    /// thresholds are compared with the image threshold, too.
    #[must_use]
    pub fn findings(&self, image_file_system: Option<&FileSystem>) -> Vec<Finding> {
        let mut findings = finding::eviction_first(self, image_file_system);
        findings.extend(self.findings.iter().cloned());
        findings
    }
}

/// The errors that a kubelet's validation of its configuration finds, in its order.
fn configuration(spec: &PolicySpec, semantics: Semantics) -> Vec<Problem> {
    let is_percentage = |percent| (0..=100).contains(&percent);
    let (high, low) = (
        spec.image_gc_high_threshold_percent,
        spec.image_gc_low_threshold_percent,
    );
    let (age_min, age_max) = (spec.image_minimum_gc_age, spec.image_maximum_gc_age);
    let knows_age = semantics.version.has(behavior::MAXIMUM_AGE);
    [
        (!is_percentage(high), Problem::HighThreshold { percent: high }),
        (!is_percentage(low), Problem::LowThreshold { percent: low }),
        (
            low >= high,
            Problem::ThresholdsCrossed {
                low_percent: low,
                high_percent: high,
            },
        ),
        (
            !knows_age && age_max != GoDuration::ZERO,
            Problem::MaximumAgeIsUnknown {
                age: age_max,
                version: semantics.version,
            },
        ),
        (
            knows_age && !semantics.maximum_age && age_max != GoDuration::ZERO,
            Problem::MaximumAgeGateIsOff,
        ),
        (
            knows_age && age_min.is_negative(),
            Problem::MinimumAge { age: age_min },
        ),
        (
            knows_age && age_max.is_negative(),
            Problem::MaximumAge { age: age_max },
        ),
        (
            knows_age && age_max > GoDuration::ZERO && age_max <= age_min,
            Problem::AgesCrossed { age_max, age_min },
        ),
    ]
    .into_iter()
    .filter_map(|(is_wrong, problem)| is_wrong.then_some(problem))
    .collect()
}
