//! Why something is done or stays, whichever mechanism says so.

use std::fmt;

use crate::{
    certificate::{self, pod_request},
    history, job, lease, node, pod, statefulset,
    token::{bootstrap, legacy},
    volume::{Phase, Policy, external, protection, reclaim},
};

/// A reason of one of the mechanisms. Its text is the mechanism's.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Of pods.
    Pod(pod::Reason),
    /// Of finished jobs.
    Job(job::Reason),
    /// Of jobs of cron jobs.
    History(history::Reason),
    /// Of certificate signing requests.
    Certificate(certificate::Reason),
    /// Of certificate requests of pods.
    PodCertificate(pod_request::Reason),
    /// Of volumes.
    Volume(reclaim::Reason),
    /// Of volumes of external provisioners.
    ExternalVolume(external::Reason),
    /// Of finalizers.
    Protection(protection::Reason),
    /// Of claims of stateful sets.
    StatefulSet(statefulset::Reason),
    /// Of nodes.
    Node(node::Reason),
    /// Of leases.
    Lease(lease::Reason),
    /// Of tokens of service accounts.
    LegacyToken(legacy::Reason),
    /// Of bootstrap tokens.
    BootstrapToken(bootstrap::Reason),
    /// The namespace is being deleted.
    NamespaceTerminating,
    /// What the mechanism has to know of all objects of some kind is not known.
    NotListed {
        /// The plural of the kind.
        resource: &'static str,
        /// Why not.
        message: std::sync::Arc<str>,
    },
    /// Nothing but the metadata of the object was read.
    Unread,
}

impl Reason {
    /// Whether it says that nothing could be decided, because something was not read, could not be listed, or came twice and not alike.
    #[must_use]
    pub const fn is_undecided(&self) -> bool {
        match self {
            Self::Pod(reason) => matches!(
                reason,
                pod::Reason::NodeNotLookedUp { .. }
                    | pod::Reason::NodeLookupFailed { .. }
                    | pod::Reason::NodeStateUnknown { .. }
                    | pod::Reason::NodeNameUnknown
                    | pod::Reason::StatusUnknown
                    | pod::Reason::PlaceInLineUnknown { .. }
                    | pod::Reason::ListedTwice
                    | pod::Reason::IdentityUnknown
                    | pod::Reason::NodesNotListed
            ),
            Self::Job(reason) => match reason {
                job::Reason::AsListed(state) | job::Reason::AsRead(state) => {
                    matches!(state, job::State::NotKnown { .. })
                }
                job::Reason::ListedTwice | job::Reason::NotRead { .. } | job::Reason::ReadFailed { .. } => {
                    true
                }
                _ => false,
            },
            Self::History(reason) => matches!(
                reason,
                history::Reason::LimitUnknown { .. }
                    | history::Reason::StartTimeUnknown { .. }
                    | history::Reason::PlaceUnknown { .. }
                    | history::Reason::UidUnknown
                    | history::Reason::VersionUnknown
                    | history::Reason::CronJobUnknown
                    | history::Reason::StatusUnknown
                    | history::Reason::TemplateUnknown
                    | history::Reason::ListedTwice
                    | history::Reason::CronJobListedTwice
                    | history::Reason::NotListed
            ),
            Self::Certificate(reason) => matches!(
                reason,
                certificate::Reason::ListedTwice | certificate::Reason::NotKnown { .. }
            ),
            Self::PodCertificate(reason) => matches!(
                reason,
                pod_request::Reason::ListedTwice
                    | pod_request::Reason::AgeNotKnown
                    | pod_request::Reason::UidNotKnown
            ),
            Self::Volume(reason) => is_undecided_volume(reason),
            Self::ExternalVolume(reason) => matches!(
                reason,
                external::Reason::GuardUnknown
                    | external::Reason::ListedTwice
                    | external::Reason::AnnotationsUnknown
                    | external::Reason::IdentityUnknown
                    | external::Reason::VolumeNotRead
                    | external::Reason::ReadFailed { .. }
                    | external::Reason::PhaseIs {
                        phase: Phase::Unknown
                    }
                    | external::Reason::PolicyIs {
                        policy: Policy::Unknown
                    }
            ),
            Self::Protection(reason) => matches!(
                reason,
                protection::Reason::PodsNotRead
                    | protection::Reason::PodsUnknown { .. }
                    | protection::Reason::PodUnread { .. }
                    | protection::Reason::IdentityUnknown
                    | protection::Reason::PhaseUnknown
                    | protection::Reason::ListedTwice
            ),
            Self::StatefulSet(reason) => matches!(
                reason,
                statefulset::Reason::ClaimUnread { .. }
                    | statefulset::Reason::IdentityUnknown
                    | statefulset::Reason::PolicyUnknown
                    | statefulset::Reason::FirstOrdinalUnknown
                    | statefulset::Reason::ReplicasUnknown
                    | statefulset::Reason::PodsUnknown { .. }
                    | statefulset::Reason::ClaimsUnknown { .. }
                    | statefulset::Reason::PodListedTwice
                    | statefulset::Reason::ListedTwice
            ),
            Self::Node(reason) => matches!(
                reason,
                node::Reason::AgeUnknown
                    | node::Reason::ConditionsUnknown
                    | node::Reason::TaintsUnknown
                    | node::Reason::ExistenceNotAsked
                    | node::Reason::ExistenceUnknown { .. }
                    | node::Reason::ShutdownNotAsked
                    | node::Reason::ShutdownUnknown { .. }
                    | node::Reason::ListedTwice
                    | node::Reason::IdentityUnknown
            ),
            Self::Lease(reason) => matches!(
                reason,
                lease::Reason::NodeNotLookedUp { .. }
                    | lease::Reason::NodeLookupFailed { .. }
                    | lease::Reason::NodeListedTwice { .. }
                    | lease::Reason::OwnerIdentityUnknown { .. }
                    | lease::Reason::OwnerIsNoNode { .. }
                    | lease::Reason::ListedTwice
                    | lease::Reason::IdentityUnknown
            ),
            Self::LegacyToken(reason) => matches!(
                reason,
                legacy::Reason::TrackingNotKnown
                    | legacy::Reason::ListedTwice
                    | legacy::Reason::NotKnown { .. }
                    | legacy::Reason::AccountsNotListed { .. }
                    | legacy::Reason::AccountListedTwice { .. }
                    | legacy::Reason::AccountNotKnown { .. }
                    | legacy::Reason::PodsNotListed { .. }
                    | legacy::Reason::PodNotKnown { .. }
            ),
            Self::BootstrapToken(reason) => matches!(
                reason,
                bootstrap::Reason::ListedTwice | bootstrap::Reason::NotKnown { .. }
            ),
            Self::NamespaceTerminating => false,
            Self::NotListed { .. } | Self::Unread => true,
        }
    }
}

/// As the plans for volumes count it.
const fn is_undecided_volume(reason: &reclaim::Reason) -> bool {
    matches!(
        reason,
        reclaim::Reason::ClaimNotRead
            | reclaim::Reason::VolumeNotRead
            | reclaim::Reason::ListedTwice
            | reclaim::Reason::ReadFailed { .. }
            | reclaim::Reason::IdentityUnknown
            | reclaim::Reason::ClaimRefUnknown
            | reclaim::Reason::AnnotationsUnknown
            | reclaim::Reason::PhaseUnknown
            | reclaim::Reason::PolicyUnknown
            | reclaim::Reason::MigrationUnknown
            | reclaim::Reason::PluginUnknown
            | reclaim::Reason::PodsUnknown { .. }
    )
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(reason) => reason.fmt(f),
            Self::Job(reason) => reason.fmt(f),
            Self::History(reason) => reason.fmt(f),
            Self::Certificate(reason) => reason.fmt(f),
            Self::PodCertificate(reason) => reason.fmt(f),
            Self::Volume(reason) => reason.fmt(f),
            Self::ExternalVolume(reason) => reason.fmt(f),
            Self::Protection(reason) => reason.fmt(f),
            Self::StatefulSet(reason) => reason.fmt(f),
            Self::Node(reason) => reason.fmt(f),
            Self::Lease(reason) => reason.fmt(f),
            Self::LegacyToken(reason) => reason.fmt(f),
            Self::BootstrapToken(reason) => reason.fmt(f),
            Self::NamespaceTerminating => f.write_str("is being deleted"),
            Self::NotListed { resource, message } => write!(f, "the {resource} are not known: {message}"),
            Self::Unread => f.write_str("nothing but its metadata was read"),
        }
    }
}
