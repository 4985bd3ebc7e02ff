//! Annotations, data and selectors: maps of which some keys are read, or all.

use std::mem;

use kubegc_core::json::{DUPLICATE, Expected, Labels, Soft, Text};
use serde::{
    Serialize, Serializer,
    de::{Error as _, IgnoredAny, MapAccess},
    ser::SerializeMap as _,
};

use super::LabelSelector;

/// The annotations that affect decisions: few objects have any of them.
#[derive(Clone, Debug, Default)]
pub struct Annotations<'a>(Vec<(&'static str, Soft<Text<'a>>)>);

impl<'a> Annotations<'a> {
    /// The value of a key, which is one of those that are read.
    pub fn at(&self, key: &str) -> &Soft<Text<'a>> {
        // Of equal keys the last one counts, as in Go.
        let found = self.0.iter().rev().find(|(known, _)| *known == key);
        found.map_or(&Soft::Absent, |(_, value)| value)
    }

    /// Adds one of those that are read.
    pub fn push(&mut self, key: &'static str, value: Soft<Text<'a>>) {
        if !value.is_absent() {
            self.0.push((key, value));
        }
    }
}

impl<'de: 'a, 'a> Expected<'de> for Annotations<'a> {
    const WORDS: &'static str = "a map";

    fn of_map<A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        let mut annotations = Self::default();
        while let Some(Text(key)) = map.next_key()? {
            match ANNOTATIONS.into_iter().find(|known| **known == *key) {
                Some(known) => annotations.push(known, map.next_value()?),
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Some(annotations))
    }
}

impl Serialize for Annotations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// The provisioner of a volume.
pub const ANNOTATION_PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Set if a controller, and no user, bound the volume.
pub const ANNOTATION_BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The CSI driver that an in-tree volume was migrated to.
pub const ANNOTATION_MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// The name of the service account that a secret holds a token of.
pub const ANNOTATION_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
/// The uid of that service account.
pub const ANNOTATION_ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// Set on Jobs whose finished pods are counted with finalizers.
pub const ANNOTATION_JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The index of a pod of an Indexed Job.
pub const ANNOTATION_COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The number of earlier failures of the index of a pod.
pub const ANNOTATION_INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The cost of deleting a pod that is surplus.
pub const ANNOTATION_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// The revision of its Deployment that a ReplicaSet has.
pub const ANNOTATION_REVISION: &str = "deployment.kubernetes.io/revision";
/// Set on Endpoints that serve as a lock.
pub const ANNOTATION_LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// `type` of a secret that is a bootstrap token.
pub const SECRET_TYPE_BOOTSTRAP_TOKEN: &str = "bootstrap.kubernetes.io/token";

/// The annotations that are read.
const ANNOTATIONS: [&str; 11] = [
    ANNOTATION_PROVISIONED_BY,
    ANNOTATION_BOUND_BY_CONTROLLER,
    ANNOTATION_MIGRATED_TO,
    ANNOTATION_ACCOUNT_NAME,
    ANNOTATION_ACCOUNT_UID,
    ANNOTATION_JOB_TRACKING,
    ANNOTATION_COMPLETION_INDEX,
    ANNOTATION_INDEX_FAILURES,
    ANNOTATION_DELETION_COST,
    ANNOTATION_REVISION,
    ANNOTATION_LEADER,
];

/// `data` of secrets and config maps. Nothing else of it is ever kept.
#[derive(Clone, Debug, Default)]
pub struct Data<'a> {
    pub since: Soft<Text<'a>>,
    pub expiration: Soft<Text<'a>>,
    /// Whether it has other keys.
    pub has_others: bool,
}

impl<'de: 'a, 'a> Expected<'de> for Data<'a> {
    const WORDS: &'static str = "a map";

    fn of_map<A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        let mut data = Self::default();
        while let Some(Text(key)) = map.next_key()? {
            match &*key {
                DATA_SINCE => data.since = map.next_value()?,
                DATA_EXPIRATION => data.expiration = map.next_value()?,
                _ => {
                    data.has_others = true;
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Some(data))
    }
}

impl Data<'_> {
    /// Whether it has no keys.
    pub fn is_empty(&self) -> bool {
        self.since.is_absent() && self.expiration.is_absent() && !self.has_others
    }
}

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let other = if self.has_others {
            Soft::Is(Text::default())
        } else {
            Soft::Absent
        };
        let all = [
            (DATA_SINCE, &self.since),
            (DATA_EXPIRATION, &self.expiration),
            (DATA_OTHER, &other),
        ];
        serializer.collect_map(all.into_iter().filter(|(_, value)| !value.is_absent()))
    }
}

const DATA_SINCE: &str = "since";
const DATA_EXPIRATION: &str = "expiration";
/// Represents all keys that are not read.
const DATA_OTHER: &str = "other";

/// `spec.selector`: the label selector of a workload, or the labels of a Service, which are all other keys.
#[derive(Clone, Debug, Default)]
pub struct Selector<'a> {
    pub of_workload: LabelSelector<'a>,
    pub of_service: Soft<Labels<'a>>,
}

impl<'de: 'a, 'a> Expected<'de> for Selector<'a> {
    const WORDS: &'static str = "a map";

    fn of_map<A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        let (mut selector, mut labels) = (Self::default(), Vec::new());
        let (mut has_labels, mut has_expressions) = (false, false);
        while let Some(key) = map.next_key::<Text<'a>>()? {
            let is_repeated = match key.as_str() {
                MATCH_LABELS => {
                    selector.of_workload.match_labels = map.next_value()?;
                    mem::replace(&mut has_labels, true)
                }
                MATCH_EXPRESSIONS => {
                    selector.of_workload.match_expressions = map.next_value()?;
                    mem::replace(&mut has_expressions, true)
                }
                _ => {
                    labels.push((key, map.next_value()?));
                    false
                }
            };
            if is_repeated {
                return Err(A::Error::custom(DUPLICATE));
            }
        }
        selector.of_service = Soft::Is(Labels(labels));
        Ok(Some(selector))
    }
}

impl Serialize for Selector<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let LabelSelector {
            match_labels,
            match_expressions,
        } = &self.of_workload;
        let mut map = serializer.serialize_map(None)?;
        if !match_labels.is_absent() {
            map.serialize_entry(MATCH_LABELS, match_labels)?;
        }
        if !match_expressions.is_absent() {
            map.serialize_entry(MATCH_EXPRESSIONS, match_expressions)?;
        }
        if let Soft::Is(Labels(labels)) = &self.of_service {
            for (key, value) in labels {
                map.serialize_entry(key, value)?;
            }
        }
        map.end()
    }
}

const MATCH_LABELS: &str = "matchLabels";
const MATCH_EXPRESSIONS: &str = "matchExpressions";
