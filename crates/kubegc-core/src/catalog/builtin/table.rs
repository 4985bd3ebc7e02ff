//! A table of the built-in kinds that a default API server serves, with versions and the range of minor
//! releases.
//!
//! One line is one kind in one version: kind, plural resource, first and last minor release that serve it *by
//! default*. Alpha versions are off by default and omitted, and so are beta versions introduced in 1.24 or
//! later (except flow control). The versions of one group are adjacent, most preferred first: discovery
//! prefers the first that has the resource. Subresources are not listed. Resources that cannot be collected
//! are, because references to them can be resolved.

use crate::Scope;
use VerbSet::{AllButCollection, CollectionSince, CreateOnly, Nothing, Reads};

/// One kind in one version.
pub(super) struct Kind {
    /// Kind of the objects.
    pub(super) kind: &'static str,
    /// Plural name in URLs.
    pub(super) resource: &'static str,
    /// Whether the objects are namespaced.
    pub(super) scope: Scope,
    /// First minor release that serves it by default, at least the oldest that kubegc supports.
    pub(super) first: u16,
    /// Last minor release that serves it by default.
    pub(super) last: u16,
    /// The verbs that the resource supports.
    pub(super) verbs: VerbSet,
}

/// The verbs of a resource that matter to garbage collection.
#[derive(Clone, Copy)]
pub(super) enum VerbSet {
    /// All of them.
    All,
    /// All, `deletecollection` only since a minor release.
    CollectionSince(u16),
    /// All but `deletecollection`.
    AllButCollection,
    /// `get` and `list`.
    Reads,
    /// `create`.
    CreateOnly,
    /// None: only a subresource is supported.
    Nothing,
}

impl Kind {
    /// Whether a minor release serves it by default.
    pub(super) const fn served_in(&self, minor: u16) -> bool {
        self.first <= minor && minor <= self.last
    }

    const fn verbs(mut self, verbs: VerbSet) -> Self {
        self.verbs = verbs;
        self
    }
}

const fn kind(kind: &'static str, resource: &'static str, scope: Scope, first: u16, last: u16) -> Kind {
    Kind {
        kind,
        resource,
        scope,
        first,
        last,
        verbs: VerbSet::All,
    }
}

const fn cluster(name: &'static str, resource: &'static str, first: u16, last: u16) -> Kind {
    kind(name, resource, Scope::Cluster, first, last)
}

const fn namespaced(name: &'static str, resource: &'static str, first: u16, last: u16) -> Kind {
    kind(name, resource, Scope::Namespaced, first, last)
}

/// For kinds that the newest known release serves: later releases are assumed to serve them too.
pub(super) const NEWEST: u16 = u16::MAX;

/// Every version of every group with its kinds.
#[rustfmt::skip] // one line a kind
pub(super) const SERVED: &[(&str, &[Kind])] = &[
    ("v1", &[
        namespaced("Binding", "bindings", 13, NEWEST).verbs(CreateOnly),
        cluster("ComponentStatus", "componentstatuses", 13, NEWEST).verbs(Reads),
        namespaced("ConfigMap", "configmaps", 13, NEWEST),
        namespaced("Endpoints", "endpoints", 13, NEWEST),
        namespaced("Event", "events", 13, NEWEST),
        namespaced("LimitRange", "limitranges", 13, NEWEST),
        cluster("Namespace", "namespaces", 13, NEWEST).verbs(AllButCollection),
        cluster("Node", "nodes", 13, NEWEST),
        cluster("PersistentVolume", "persistentvolumes", 13, NEWEST),
        namespaced("PersistentVolumeClaim", "persistentvolumeclaims", 13, NEWEST),
        namespaced("Pod", "pods", 13, NEWEST),
        namespaced("PodTemplate", "podtemplates", 13, NEWEST),
        namespaced("ReplicationController", "replicationcontrollers", 13, NEWEST),
        namespaced("ResourceQuota", "resourcequotas", 13, NEWEST),
        namespaced("Secret", "secrets", 13, NEWEST),
        namespaced("Service", "services", 13, NEWEST).verbs(CollectionSince(23)),
        namespaced("ServiceAccount", "serviceaccounts", 13, NEWEST),
    ]),
    ("admissionregistration.k8s.io/v1", &[
        cluster("MutatingAdmissionPolicy", "mutatingadmissionpolicies", 36, NEWEST),
        cluster("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", 36, NEWEST),
        cluster("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", 16, NEWEST),
        cluster("ValidatingAdmissionPolicy", "validatingadmissionpolicies", 30, NEWEST),
        cluster("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", 30, NEWEST),
        cluster("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", 16, NEWEST),
    ]),
    ("admissionregistration.k8s.io/v1beta1", &[
        cluster("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", 13, 21),
        cluster("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", 13, 21),
    ]),
    ("apiextensions.k8s.io/v1", &[
        cluster("CustomResourceDefinition", "customresourcedefinitions", 16, NEWEST),
    ]),
    ("apiextensions.k8s.io/v1beta1", &[
        cluster("CustomResourceDefinition", "customresourcedefinitions", 13, 21),
    ]),
    ("apiregistration.k8s.io/v1", &[
        cluster("APIService", "apiservices", 13, NEWEST),
    ]),
    ("apiregistration.k8s.io/v1beta1", &[
        cluster("APIService", "apiservices", 13, 21),
    ]),
    ("apps/v1", &[
        namespaced("ControllerRevision", "controllerrevisions", 13, NEWEST),
        namespaced("DaemonSet", "daemonsets", 13, NEWEST),
        namespaced("Deployment", "deployments", 13, NEWEST),
        namespaced("ReplicaSet", "replicasets", 13, NEWEST),
        namespaced("StatefulSet", "statefulsets", 13, NEWEST),
    ]),
    ("apps/v1beta2", &[
        namespaced("ControllerRevision", "controllerrevisions", 13, 15),
        namespaced("DaemonSet", "daemonsets", 13, 15),
        namespaced("Deployment", "deployments", 13, 15),
        namespaced("ReplicaSet", "replicasets", 13, 15),
        namespaced("StatefulSet", "statefulsets", 13, 15),
    ]),
    ("apps/v1beta1", &[
        namespaced("ControllerRevision", "controllerrevisions", 13, 15),
        namespaced("Deployment", "deployments", 13, 15),
        namespaced("StatefulSet", "statefulsets", 13, 15),
    ]),
    ("authentication.k8s.io/v1", &[
        cluster("SelfSubjectReview", "selfsubjectreviews", 28, NEWEST).verbs(CreateOnly),
        cluster("TokenReview", "tokenreviews", 13, NEWEST).verbs(CreateOnly),
    ]),
    ("authentication.k8s.io/v1beta1", &[
        cluster("TokenReview", "tokenreviews", 13, 21).verbs(CreateOnly),
    ]),
    ("authorization.k8s.io/v1", &[
        namespaced("LocalSubjectAccessReview", "localsubjectaccessreviews", 13, NEWEST).verbs(CreateOnly),
        cluster("SelfSubjectAccessReview", "selfsubjectaccessreviews", 13, NEWEST).verbs(CreateOnly),
        cluster("SelfSubjectRulesReview", "selfsubjectrulesreviews", 13, NEWEST).verbs(CreateOnly),
        cluster("SubjectAccessReview", "subjectaccessreviews", 13, NEWEST).verbs(CreateOnly),
    ]),
    ("authorization.k8s.io/v1beta1", &[
        namespaced("LocalSubjectAccessReview", "localsubjectaccessreviews", 13, 21).verbs(CreateOnly),
        cluster("SelfSubjectAccessReview", "selfsubjectaccessreviews", 13, 21).verbs(CreateOnly),
        cluster("SelfSubjectRulesReview", "selfsubjectrulesreviews", 13, 21).verbs(CreateOnly),
        cluster("SubjectAccessReview", "subjectaccessreviews", 13, 21).verbs(CreateOnly),
    ]),
    ("autoscaling/v2", &[
        namespaced("HorizontalPodAutoscaler", "horizontalpodautoscalers", 23, NEWEST),
    ]),
    ("autoscaling/v1", &[
        namespaced("HorizontalPodAutoscaler", "horizontalpodautoscalers", 13, NEWEST),
    ]),
    ("autoscaling/v2beta1", &[
        namespaced("HorizontalPodAutoscaler", "horizontalpodautoscalers", 13, 24),
    ]),
    ("autoscaling/v2beta2", &[
        namespaced("HorizontalPodAutoscaler", "horizontalpodautoscalers", 13, 25),
    ]),
    ("batch/v1", &[
        namespaced("CronJob", "cronjobs", 21, NEWEST),
        namespaced("Job", "jobs", 13, NEWEST),
    ]),
    ("batch/v1beta1", &[
        namespaced("CronJob", "cronjobs", 13, 24),
    ]),
    ("certificates.k8s.io/v1", &[
        cluster("CertificateSigningRequest", "certificatesigningrequests", 19, NEWEST),
        cluster("ClusterTrustBundle", "clustertrustbundles", 37, NEWEST),
        namespaced("PodCertificateRequest", "podcertificaterequests", 37, NEWEST),
    ]),
    ("certificates.k8s.io/v1beta1", &[
        cluster("CertificateSigningRequest", "certificatesigningrequests", 13, 21),
    ]),
    ("coordination.k8s.io/v1", &[
        namespaced("Lease", "leases", 14, NEWEST),
    ]),
    ("coordination.k8s.io/v1beta1", &[
        namespaced("Lease", "leases", 13, 21),
    ]),
    ("discovery.k8s.io/v1", &[
        namespaced("EndpointSlice", "endpointslices", 21, NEWEST),
    ]),
    ("discovery.k8s.io/v1beta1", &[
        namespaced("EndpointSlice", "endpointslices", 17, 24),
    ]),
    ("events.k8s.io/v1", &[
        namespaced("Event", "events", 19, NEWEST),
    ]),
    ("events.k8s.io/v1beta1", &[
        namespaced("Event", "events", 13, 24),
    ]),
    ("extensions/v1beta1", &[
        namespaced("DaemonSet", "daemonsets", 13, 15),
        namespaced("Deployment", "deployments", 13, 15),
        namespaced("Ingress", "ingresses", 13, 21),
        namespaced("NetworkPolicy", "networkpolicies", 13, 15),
        cluster("PodSecurityPolicy", "podsecuritypolicies", 13, 15),
        namespaced("ReplicaSet", "replicasets", 13, 15),
        namespaced("ReplicationControllerDummy", "replicationcontrollers", 13, 15).verbs(Nothing),
    ]),
    ("flowcontrol.apiserver.k8s.io/v1", &[
        cluster("FlowSchema", "flowschemas", 29, NEWEST),
        cluster("PriorityLevelConfiguration", "prioritylevelconfigurations", 29, NEWEST),
    ]),
    ("flowcontrol.apiserver.k8s.io/v1beta3", &[
        cluster("FlowSchema", "flowschemas", 26, 31),
        cluster("PriorityLevelConfiguration", "prioritylevelconfigurations", 26, 31),
    ]),
    ("flowcontrol.apiserver.k8s.io/v1beta2", &[
        cluster("FlowSchema", "flowschemas", 23, 28),
        cluster("PriorityLevelConfiguration", "prioritylevelconfigurations", 23, 28),
    ]),
    ("flowcontrol.apiserver.k8s.io/v1beta1", &[
        cluster("FlowSchema", "flowschemas", 20, 25),
        cluster("PriorityLevelConfiguration", "prioritylevelconfigurations", 20, 25),
    ]),
    ("networking.k8s.io/v1", &[
        cluster("IPAddress", "ipaddresses", 33, NEWEST),
        namespaced("Ingress", "ingresses", 19, NEWEST),
        cluster("IngressClass", "ingressclasses", 19, NEWEST),
        namespaced("NetworkPolicy", "networkpolicies", 13, NEWEST),
        cluster("ServiceCIDR", "servicecidrs", 33, NEWEST),
    ]),
    ("networking.k8s.io/v1beta1", &[
        namespaced("Ingress", "ingresses", 14, 21),
        cluster("IngressClass", "ingressclasses", 18, 21),
    ]),
    ("node.k8s.io/v1", &[
        cluster("RuntimeClass", "runtimeclasses", 20, NEWEST),
    ]),
    ("node.k8s.io/v1beta1", &[
        cluster("RuntimeClass", "runtimeclasses", 14, 24),
    ]),
    ("policy/v1", &[
        namespaced("PodDisruptionBudget", "poddisruptionbudgets", 21, NEWEST),
    ]),
    ("policy/v1beta1", &[
        namespaced("PodDisruptionBudget", "poddisruptionbudgets", 13, 24),
        cluster("PodSecurityPolicy", "podsecuritypolicies", 13, 24),
    ]),
    ("rbac.authorization.k8s.io/v1", &[
        cluster("ClusterRole", "clusterroles", 13, NEWEST),
        cluster("ClusterRoleBinding", "clusterrolebindings", 13, NEWEST),
        namespaced("Role", "roles", 13, NEWEST),
        namespaced("RoleBinding", "rolebindings", 13, NEWEST),
    ]),
    ("rbac.authorization.k8s.io/v1beta1", &[
        cluster("ClusterRole", "clusterroles", 13, 21),
        cluster("ClusterRoleBinding", "clusterrolebindings", 13, 21),
        namespaced("Role", "roles", 13, 21),
        namespaced("RoleBinding", "rolebindings", 13, 21),
    ]),
    ("resource.k8s.io/v1", &[
        cluster("DeviceClass", "deviceclasses", 34, NEWEST),
        cluster("DeviceTaintRule", "devicetaintrules", 37, NEWEST),
        namespaced("ResourceClaim", "resourceclaims", 34, NEWEST),
        namespaced("ResourceClaimTemplate", "resourceclaimtemplates", 34, NEWEST),
        cluster("ResourceSlice", "resourceslices", 34, NEWEST),
    ]),
    ("scheduling.k8s.io/v1", &[
        cluster("PriorityClass", "priorityclasses", 14, NEWEST),
    ]),
    ("scheduling.k8s.io/v1beta1", &[
        cluster("PriorityClass", "priorityclasses", 13, 21),
    ]),
    ("storage.k8s.io/v1", &[
        cluster("CSIDriver", "csidrivers", 18, NEWEST),
        cluster("CSINode", "csinodes", 17, NEWEST),
        namespaced("CSIStorageCapacity", "csistoragecapacities", 24, NEWEST),
        cluster("StorageClass", "storageclasses", 13, NEWEST),
        cluster("VolumeAttachment", "volumeattachments", 13, NEWEST),
        cluster("VolumeAttributesClass", "volumeattributesclasses", 34, NEWEST),
    ]),
    ("storage.k8s.io/v1beta1", &[
        cluster("CSIDriver", "csidrivers", 14, 21),
        cluster("CSINode", "csinodes", 14, 21),
        namespaced("CSIStorageCapacity", "csistoragecapacities", 21, 26),
        cluster("StorageClass", "storageclasses", 13, 21),
        cluster("VolumeAttachment", "volumeattachments", 13, 21),
    ]),
    ("storagemigration.k8s.io/v1", &[
        cluster("StorageVersionMigration", "storageversionmigrations", 37, NEWEST),
    ]),

];
