//! The names of the fields and annotations that facts are read from.

/// The provisioner of a volume.
pub(crate) const ANNOTATION_PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Set if a controller, and no user, bound the volume.
pub(crate) const ANNOTATION_BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The CSI driver that an in-tree volume was migrated to.
pub(crate) const ANNOTATION_MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// The name of the service account that a secret holds a token of.
pub(crate) const ANNOTATION_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
/// The uid of that service account.
pub(crate) const ANNOTATION_ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";
/// Set on Jobs whose finished pods are counted with finalizers.
pub(crate) const ANNOTATION_JOB_TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The index of a pod of an Indexed Job.
pub(crate) const ANNOTATION_COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// The number of earlier failures of the index of a pod.
pub(crate) const ANNOTATION_INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
/// The cost of deleting a pod that is surplus.
pub(crate) const ANNOTATION_DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// The revision of its Deployment that a ReplicaSet has.
pub(crate) const ANNOTATION_REVISION: &str = "deployment.kubernetes.io/revision";
/// Set on Endpoints that serve as a lock.
pub(crate) const ANNOTATION_LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// All of them.
pub(crate) const ANNOTATIONS: [&str; 11] = [
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

/// The names of the fields that [`details`](crate::details) are read from, other than volume sources.
pub(crate) const FACTS: &str = "
    activeDeadlineSeconds addresses allocation allocationMode apiGroup apiGroups apiVersion apiVersions
    availableReplicas backoffLimit backoffLimitPerIndex categories certificate cidrs claimName claimRef
    clientConfig clusterIPs completedIndexes completionMode completions conditions containerStatuses containers
    conversion count csi currentRevision currentVolumeAttributesClassName driver effect endpoints env envFrom
    ephemeral ephemeralContainers excludeResourceRules expression failed failedIndexes failedJobsHistoryLimit
    failurePolicy finalizers group hostPath imagePullSecrets initContainerStatuses initContainers
    involvedObject jobTemplate key kind kubeletVersion lastTransitionTime lastUpdateTime leaseDurationSeconds
    managedBy matchConditions matchConstraints matchExpressions matchPolicy matchResources maxFailedIndexes
    maxSurge maxUnavailable message messageExpression metadata modifyVolumeStatus name names namespace
    namespaceSelector nodeInfo nodeName nodePublishSecretRef objectSelector observedGeneration operations
    operator ordinals parallelism paramKind paramRef parameterNotFoundAction parentRef path paused
    persistentVolumeClaim persistentVolumeClaimRetentionPolicy persistentVolumeName
    persistentVolumeReclaimPolicy phase plural podFailurePolicy podGroupName podReplacementPolicy policyName
    port projected providerID ready reason renewTime replicas reservedFor resource resourceNames resourceRules
    resources restartCount revision revisionHistoryLimit rollingUpdate rules schedulingGroup scope
    scopeSelector scopes secret secretKeyRef secretName secretRef secrets served service shortNames source
    sources spec start startTime state status storage storedVersions strategy subsets succeeded successPolicy
    successfulJobsHistoryLimit suspend taints targetVolumeAttributesClassName terminated
    terminationGracePeriodSeconds timeAdded tolerationSeconds tolerations ttlSecondsAfterFinished type uid
    uncountedTerminatedPods updateRevision updatedReplicas url validationActions validations value valueFrom
    values variables version versions volumeAttributesClassName volumeClaimTemplates volumeHandle volumeMode
    volumeName volumes volumesInUse waiting webhook webhookClientConfig webhooks whenDeleted whenScaled
";

/// The sources of volumes without facts of their own.
pub(crate) const OTHER_SOURCES: [&str; 20] = [
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "cinder",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "glusterfs",
    "iscsi",
    "local",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];
