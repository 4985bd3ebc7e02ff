//! The garbage collection settings of a kubelet, with the kubelet's validation.

mod finding;
pub(crate) mod spec;
mod switch;

use kubegc_core::{KubernetesVersion, node_facts::FileSystem};

pub use finding::Finding;
pub use spec::{PolicyChanges, PolicySpec, Setting, Slot};
pub use switch::{Switch, SwitchReason};

use crate::{GoDuration, Semantics, aggregate, container, eviction, image, semantics::behavior};

/// All errors in a kubelet's configuration and flags, with upstream's texts where upstream reports the error.
///
/// `Display` writes one message as it is, and several as `[a, b]`.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{}", aggregate(problems).unwrap_or_default())]
pub struct InvalidPolicy {
    /// The texts of the errors, in this order: those of the kubelet's validation
    /// ([N1.21](crate::rules#n1-21) to [N1.27](crate::rules#n1-27)), the minimum age of containers
    /// ([N1.18](crate::rules#n1-18)), images, eviction.
    pub problems: Vec<String>,
}

/// The validated policies of all planners of a node.
///
/// # Examples
/// ```
/// use kubegc_core::KubernetesVersion;
/// use kubegc_node::policy::{Policy, PolicySpec};
/// let spec = PolicySpec { image_gc_low_threshold_percent: 85, ..PolicySpec::default() };
/// let error = Policy::new(&spec, KubernetesVersion::LATEST).unwrap_err();
/// assert!(error.to_string().ends_with("must be less than imageGCHighThresholdPercent (--image-gc-high-threshold) 85"));
/// let policy = Policy::new(&PolicySpec::default(), KubernetesVersion::LATEST).unwrap();
/// assert!(policy.image_loop().enabled);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The policy of dead containers.
    pub container: container::EvictUnits,
    /// The policy of images.
    pub image: image::FreeSpace,
    pub eviction: eviction::Thresholds,
    /// The behavior of the version with its gates.
    pub semantics: Semantics,
    pub pod_logs_directory: String,
    findings: Vec<Finding>,
}

impl Policy {
    /// Validates a kubelet's settings for a version.
    ///
    /// # Errors
    /// All errors. Upstream stops after the errors of the configuration, before it checks the minimum age of
    /// containers and the eviction thresholds.
    ///
    /// # Upstream
    /// [`ValidateKubeletConfiguration`](https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/apis/config/validation/validation.go),
    /// then the constructors of the container and image policies. Upstream validates the ages of images from
    /// 1.29, which added the maximum age. This function rejects a negative minimum age in all versions.
    pub fn new(spec: &PolicySpec, version: KubernetesVersion) -> Result<Self, InvalidPolicy> {
        let semantics = Semantics::with_gates(version, &spec.feature_gates);
        let mut problems = configuration(spec, semantics);
        let is_valid = problems.is_empty();

        let limits = container::Limits {
            age_min: spec.minimum_container_ttl,
            per_unit_max: u32::try_from(spec.maximum_dead_containers_per_container).ok(),
            node_max: u32::try_from(spec.maximum_dead_containers).ok(),
        };
        let container = container::EvictUnits::new(limits, semantics);
        let thresholds = image::Thresholds {
            high_percent: spec.image_gc_high_threshold_percent,
            low_percent: spec.image_gc_low_threshold_percent,
            age_min: spec.image_minimum_gc_age,
            age_max: spec.image_maximum_gc_age,
        };
        let image = image::FreeSpace::new(thresholds, semantics);
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
                problems.extend(container.err().map(|error| error.to_string()));
                // The constructor reports the errors of the configuration again. It also rejects a value that
                // the kubelet's validation accepts: a negative minimum age, up to 1.28.
                problems.extend(image.err().filter(|_| is_valid).map(|error| error.to_string()));
                let eviction = eviction.err().into_iter().flatten();
                problems.extend(eviction.map(|error| error.to_string()));
                Err(InvalidPolicy { problems })
            }
        }
    }

    /// Whether the image loop is enabled, and the reason. All other loops always are.
    pub const fn image_loop(&self) -> Switch {
        Switch::new(&self.image.thresholds, self.semantics)
    }

    /// Valid settings that are probably not intended. Absolute eviction thresholds are compared with the
    /// image threshold only if the capacity of the image file system is known.
    pub fn findings(&self, image_file_system: Option<&FileSystem>) -> Vec<Finding> {
        let mut findings = finding::eviction_first(self, image_file_system);
        findings.extend(self.findings.iter().cloned());
        findings
    }
}

/// The errors of the kubelet's validation of its configuration, in upstream's order.
fn configuration(spec: &PolicySpec, semantics: Semantics) -> Vec<String> {
    const HIGH: &str = "imageGCHighThresholdPercent (--image-gc-high-threshold)";
    const LOW: &str = "imageGCLowThresholdPercent (--image-gc-low-threshold)";
    let (high, low) = (
        spec.image_gc_high_threshold_percent,
        spec.image_gc_low_threshold_percent,
    );
    let (age_min, age_max) = (spec.image_minimum_gc_age, spec.image_maximum_gc_age);
    let has_age_max = semantics.version.has(behavior::MAXIMUM_AGE);
    let mut messages = Vec::new();
    for (name, percent) in [(HIGH, high), (LOW, low)] {
        if !(0..=100).contains(&percent) {
            messages.push(format!("{name} {percent} must be between 0 and 100, inclusive"));
        }
    }
    if low >= high {
        messages.push(format!("{LOW} {low} must be less than {HIGH} {high}"));
    }
    if has_age_max && !semantics.maximum_age && age_max != GoDuration::ZERO {
        let gate =
            "ImageMaximumGCAge feature gate is required for Kubelet configuration option imageMaximumGCAge";
        messages.push(gate.to_owned());
    }
    for (name, age) in [("imageMinimumGCAge", age_min), ("imageMaximumGCAge", age_max)] {
        if has_age_max && age.is_negative() {
            messages.push(format!("{name} {age} must not be negative"));
        }
    }
    if has_age_max && age_max > GoDuration::ZERO && age_max <= age_min {
        messages.push(format!(
            "imageMaximumGCAge {age_max} must be greater than imageMinimumGCAge {age_min}"
        ));
    }
    let mut problems: Vec<String> = messages
        .iter()
        .map(|message| format!("invalid configuration: {message}"))
        .collect();
    if !has_age_max && age_max != GoDuration::ZERO {
        let version = semantics.version;
        // Upstream rejects the unknown field with another text.
        problems.push(format!(
            "imageMaximumGCAge {age_max} is set, but Kubernetes {version} has no such field"
        ));
    }
    problems
}
