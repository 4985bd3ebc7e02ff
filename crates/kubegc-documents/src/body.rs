//! The fields of an object other than its metadata, as they are in the document: those of all kinds that have
//! [`Details`](crate::Details).
//!
//! The kind of an object may follow its contents, or be known from its list only. So the fields of all kinds
//! are read, and whether one of them is of the wrong type is judged when the kind is known: fields of the
//! same name in other kinds do not matter.

use std::borrow::Cow;

use kubegc_core::json::{AnyMap, Expected, Labels, Soft, Text};
use kubegc_core::record::IntOrPercent;
use serde::{
    Deserialize, Serialize, Serializer,
    de::{MapAccess, value::MapAccessDeserializer},
};

use crate::template::PodTemplate;

/// A list whose entries may each be of the wrong type.
pub type List<T> = Vec<Soft<T>>;

/// Declares a map of which some fields are read, each under its name in the API.
macro_rules! part {
    ($(#[$doc:meta])* $name:ident<'a> { $($fields:tt)* }) => {
        part! { @ [$(#[$doc])*] $name [<'a>] ["'de: 'a"] ['de: 'a, 'a] { $($fields)* } }
    };
    ($(#[$doc:meta])* $name:ident { $($fields:tt)* }) => {
        part! { @ [$(#[$doc])*] $name [] [""] ['de] { $($fields)* } }
    };
    (@ [$($doc:tt)*] $name:ident [$($of_text:tt)*] [$bound:literal] [$($lifetimes:tt)*] {
        $($field:ident: $of:ty = $key:literal,)*
    }) => {
        $($doc)*
        #[derive(Clone, Debug, Default, Deserialize, Serialize)]
        #[serde(default, bound(deserialize = $bound))]
        pub struct $name $($of_text)* {
            $(
                #[serde(rename = $key, skip_serializing_if = "Soft::is_absent")]
                pub $field: Soft<$of>,
            )*
        }

        impl<$($lifetimes)*> Expected<'de> for $name $($of_text)* {
            const WORDS: &'static str = "a map";

            fn of_map<A: MapAccess<'de>>(map: A) -> Result<Option<Self>, A::Error> {
                Self::deserialize(MapAccessDeserializer::new(map)).map(Some)
            }
        }
    };
}

mod maps;

pub use self::maps::{
    ANNOTATION_ACCOUNT_NAME, ANNOTATION_ACCOUNT_UID, ANNOTATION_BOUND_BY_CONTROLLER,
    ANNOTATION_COMPLETION_INDEX, ANNOTATION_DELETION_COST, ANNOTATION_INDEX_FAILURES,
    ANNOTATION_JOB_TRACKING, ANNOTATION_LEADER, ANNOTATION_MIGRATED_TO, ANNOTATION_PROVISIONED_BY,
    ANNOTATION_REVISION, Annotations, Data, SECRET_TYPE_BOOTSTRAP_TOKEN, Selector,
};

part! {
    /// All fields that are read, except the typed metadata.
    Body<'a> {
        metadata: BodyMeta<'a> = "metadata",
        spec: Spec<'a> = "spec",
        status: Status<'a> = "status",
        object_type: Text<'a> = "type",
        data: Data<'a> = "data",
        string_data: Data<'a> = "stringData",
        secrets: List<Named<'a>> = "secrets",
        revision: i64 = "revision",
        webhooks: List<Webhook<'a>> = "webhooks",
        subsets: List<Subset> = "subsets",
        endpoints: List<Endpoint> = "endpoints",
    }
}

part! {
    /// One of `subsets` of an Endpoints.
    Subset {
        addresses: List<AnyMap> = "addresses",
    }
}

part! {
    /// One of `endpoints` of an EndpointSlice.
    Endpoint {
        conditions: EndpointConditions = "conditions",
    }
}

part! {
    /// `conditions` of an endpoint.
    EndpointConditions {
        ready: bool = "ready",
    }
}

part! {
    /// `metadata`, as far as it belongs to a body.
    BodyMeta<'a> {
        annotations: Annotations<'a> = "annotations",
    }
}

part! {
    /// `spec`.
    Spec<'a> {
        // Of pods.
        node_name: Text<'a> = "nodeName",
        termination_grace_period_seconds: i64 = "terminationGracePeriodSeconds",
        volumes: List<Volume<'a>> = "volumes",
        image_pull_secrets: List<Named<'a>> = "imagePullSecrets",
        containers: List<Container<'a>> = "containers",
        init_containers: List<Container<'a>> = "initContainers",
        ephemeral_containers: List<Container<'a>> = "ephemeralContainers",
        tolerations: List<Toleration<'a>> = "tolerations",
        scheduling_group: SchedulingGroup<'a> = "schedulingGroup",
        // Of namespaces.
        finalizers: List<Text<'a>> = "finalizers",
        // Of definitions.
        group: Text<'a> = "group",
        scope: Text<'a> = "scope",
        names: Names<'a> = "names",
        version: Text<'a> = "version",
        versions: List<Version<'a>> = "versions",
        conversion: Conversion<'a> = "conversion",
        // Of jobs and cron jobs.
        ttl_seconds_after_finished: i64 = "ttlSecondsAfterFinished",
        successful_jobs_history_limit: i64 = "successfulJobsHistoryLimit",
        failed_jobs_history_limit: i64 = "failedJobsHistoryLimit",
        job_template: Template<'a> = "jobTemplate",
        parallelism: i64 = "parallelism",
        completions: i64 = "completions",
        completion_mode: Text<'a> = "completionMode",
        suspend: bool = "suspend",
        active_deadline_seconds: i64 = "activeDeadlineSeconds",
        backoff_limit: i64 = "backoffLimit",
        backoff_limit_per_index: i64 = "backoffLimitPerIndex",
        max_failed_indexes: i64 = "maxFailedIndexes",
        pod_failure_policy: AnyMap = "podFailurePolicy",
        success_policy: AnyMap = "successPolicy",
        pod_replacement_policy: Text<'a> = "podReplacementPolicy",
        managed_by: Text<'a> = "managedBy",
        // Of Jobs, Deployments and ReplicaSets.
        template: PodTemplate<'a> = "template",
        // Of nodes.
        taints: List<Taint<'a>> = "taints",
        provider_id: Text<'a> = "providerID",
        // Of leases.
        renew_time: Text<'a> = "renewTime",
        lease_duration_seconds: i64 = "leaseDurationSeconds",
        // Of APIServices.
        service: ServiceReference<'a> = "service",
        // Of volumes and claims.
        persistent_volume_reclaim_policy: Text<'a> = "persistentVolumeReclaimPolicy",
        claim_ref: ClaimRef<'a> = "claimRef",
        volume_mode: Text<'a> = "volumeMode",
        volume_name: Text<'a> = "volumeName",
        volume_attributes_class_name: Text<'a> = "volumeAttributesClassName",
        csi: CsiVolume<'a> = "csi",
        host_path: HostPathVolume<'a> = "hostPath",
        aws_elastic_block_store: AnyMap = "awsElasticBlockStore",
        azure_disk: AnyMap = "azureDisk",
        azure_file: AnyMap = "azureFile",
        cephfs: AnyMap = "cephfs",
        cinder: AnyMap = "cinder",
        fc: AnyMap = "fc",
        flex_volume: AnyMap = "flexVolume",
        flocker: AnyMap = "flocker",
        gce_persistent_disk: AnyMap = "gcePersistentDisk",
        glusterfs: AnyMap = "glusterfs",
        iscsi: AnyMap = "iscsi",
        local: AnyMap = "local",
        nfs: AnyMap = "nfs",
        photon_persistent_disk: AnyMap = "photonPersistentDisk",
        portworx_volume: AnyMap = "portworxVolume",
        quobyte: AnyMap = "quobyte",
        rbd: AnyMap = "rbd",
        scale_io: AnyMap = "scaleIO",
        storageos: AnyMap = "storageos",
        vsphere_volume: AnyMap = "vsphereVolume",
        // Of Deployments, ReplicaSets, DaemonSets and StatefulSets.
        replicas: i64 = "replicas",
        revision_history_limit: i64 = "revisionHistoryLimit",
        paused: bool = "paused",
        strategy: Strategy<'a> = "strategy",
        // Of workloads and services.
        selector: Selector<'a> = "selector",
        // Of services.
        cluster_ips: List<Text<'a>> = "clusterIPs",
        // Of IP addresses.
        parent_ref: ParentReference<'a> = "parentRef",
        // Of service CIDRs.
        cidrs: List<Text<'a>> = "cidrs",
        // Of resource claims.
        allocation_mode: Text<'a> = "allocationMode",
        // Of volume attachments.
        source: AttachmentSource<'a> = "source",
        // Of stateful sets.
        ordinals: Ordinals = "ordinals",
        retention_policy: RetentionPolicy<'a> = "persistentVolumeClaimRetentionPolicy",
        volume_claim_templates: List<Template<'a>> = "volumeClaimTemplates",
        // Of admission policies.
        failure_policy: Text<'a> = "failurePolicy",
        match_constraints: MatchResources<'a> = "matchConstraints",
        match_conditions: List<PolicyExpression<'a>> = "matchConditions",
        param_kind: ParamKind<'a> = "paramKind",
        variables: List<PolicyExpression<'a>> = "variables",
        validations: List<PolicyExpression<'a>> = "validations",
        // Of bindings of admission policies.
        policy_name: Text<'a> = "policyName",
        param_ref: ParamRef<'a> = "paramRef",
        match_resources: MatchResources<'a> = "matchResources",
        validation_actions: List<Text<'a>> = "validationActions",
    }
}

part! {
    /// `status.nodeInfo` of a node.
    NodeInfo<'a> {
        kubelet_version: Text<'a> = "kubeletVersion",
    }
}

impl Body<'_> {
    /// The version of a node's kubelet.
    pub fn kubelet_version(&self) -> Option<&str> {
        match &self.status {
            Soft::Is(Status {
                node_info:
                    Soft::Is(NodeInfo {
                        kubelet_version: Soft::Is(version),
                    }),
                ..
            }) => Some(version.as_str()),
            _ => None,
        }
    }
}

part! {
    /// `status`.
    Status<'a> {
        node_info: NodeInfo<'a> = "nodeInfo",
        phase: Text<'a> = "phase",
        reason: Text<'a> = "reason",
        start_time: Text<'a> = "startTime",
        certificate: Text<'a> = "certificate",
        stored_versions: List<Text<'a>> = "storedVersions",
        conditions: List<Condition<'a>> = "conditions",
        // Of pods.
        container_statuses: List<ContainerStatus> = "containerStatuses",
        init_container_statuses: List<ContainerStatus> = "initContainerStatuses",
        // Of Jobs.
        succeeded: i64 = "succeeded",
        failed: i64 = "failed",
        uncounted_terminated_pods: UncountedPods<'a> = "uncountedTerminatedPods",
        completed_indexes: Text<'a> = "completedIndexes",
        failed_indexes: Text<'a> = "failedIndexes",
        // Of Deployments, ReplicaSets, DaemonSets and StatefulSets.
        replicas: i64 = "replicas",
        updated_replicas: i64 = "updatedReplicas",
        available_replicas: i64 = "availableReplicas",
        observed_generation: i64 = "observedGeneration",
        current_revision: Text<'a> = "currentRevision",
        update_revision: Text<'a> = "updateRevision",
        // Of resource claims.
        reserved_for: List<Consumer<'a>> = "reservedFor",
        allocation: AnyMap = "allocation",
        // Of claims.
        current_attributes_class: Text<'a> = "currentVolumeAttributesClassName",
        modify_volume_status: ModifyVolumeStatus<'a> = "modifyVolumeStatus",
        // Of nodes.
        volumes_in_use: List<Text<'a>> = "volumesInUse",
    }
}

part! {
    /// An entry of `status.containerStatuses` or `status.initContainerStatuses` of a pod.
    ContainerStatus {
        state: ContainerState = "state",
        restart_count: i64 = "restartCount",
    }
}

part! {
    /// `spec.schedulingGroup` of a pod.
    SchedulingGroup<'a> {
        pod_group_name: Text<'a> = "podGroupName",
    }
}

part! {
    /// `spec.parentRef` of an IPAddress.
    ParentReference<'a> {
        group: Text<'a> = "group",
        resource: Text<'a> = "resource",
        namespace: Text<'a> = "namespace",
        name: Text<'a> = "name",
    }
}

part! {
    /// `status.uncountedTerminatedPods` of a Job.
    UncountedPods<'a> {
        succeeded: List<Text<'a>> = "succeeded",
        failed: List<Text<'a>> = "failed",
    }
}

part! {
    /// An entry of `status.reservedFor` of a ResourceClaim.
    Consumer<'a> {
        api_group: Text<'a> = "apiGroup",
        resource: Text<'a> = "resource",
        name: Text<'a> = "name",
        uid: Text<'a> = "uid",
    }
}

part! {
    /// `status.modifyVolumeStatus` of a PersistentVolumeClaim.
    ModifyVolumeStatus<'a> {
        target_attributes_class: Text<'a> = "targetVolumeAttributesClassName",
    }
}

part! {
    /// `spec.csi` of a PersistentVolume.
    CsiVolume<'a> {
        driver: Text<'a> = "driver",
        volume_handle: Text<'a> = "volumeHandle",
    }
}

part! {
    /// `spec.hostPath` of a PersistentVolume.
    HostPathVolume<'a> {
        path: Text<'a> = "path",
    }
}

part! {
    /// `spec.source` of a VolumeAttachment.
    AttachmentSource<'a> {
        persistent_volume_name: Text<'a> = "persistentVolumeName",
    }
}

part! {
    /// The state of a container.
    ContainerState {
        waiting: AnyMap = "waiting",
        terminated: AnyMap = "terminated",
    }
}

part! {
    /// One condition.
    Condition<'a> {
        condition_type: Text<'a> = "type",
        status: Text<'a> = "status",
        reason: Text<'a> = "reason",
        message: Text<'a> = "message",
        last_transition_time: Text<'a> = "lastTransitionTime",
        last_update_time: Text<'a> = "lastUpdateTime",
        observed_generation: i64 = "observedGeneration",
    }
}

part! {
    /// Anything that has a name, and references by name.
    Named<'a> {
        name: Text<'a> = "name",
    }
}

part! {
    /// `spec.names` of a definition.
    Names<'a> {
        plural: Text<'a> = "plural",
        kind: Text<'a> = "kind",
        short_names: List<Text<'a>> = "shortNames",
        categories: List<Text<'a>> = "categories",
    }
}

part! {
    /// One of `spec.versions` of a definition.
    Version<'a> {
        name: Text<'a> = "name",
        served: bool = "served",
        storage: bool = "storage",
    }
}

part! {
    /// A template of an object.
    Template<'a> {
        metadata: TemplateMeta<'a> = "metadata",
    }
}

part! {
    /// The metadata of a template.
    TemplateMeta<'a> {
        name: Text<'a> = "name",
        labels: Labels<'a> = "labels",
    }
}

part! {
    /// An entry of `spec.taints`.
    Taint<'a> {
        key: Text<'a> = "key",
        effect: Text<'a> = "effect",
        value: Text<'a> = "value",
        time_added: Text<'a> = "timeAdded",
    }
}

part! {
    /// An entry of `spec.tolerations`.
    Toleration<'a> {
        key: Text<'a> = "key",
        operator: Text<'a> = "operator",
        value: Text<'a> = "value",
        effect: Text<'a> = "effect",
        toleration_seconds: i64 = "tolerationSeconds",
    }
}

part! {
    /// `spec.claimRef`.
    ClaimRef<'a> {
        namespace: Text<'a> = "namespace",
        name: Text<'a> = "name",
        uid: Text<'a> = "uid",
    }
}

part! {
    /// `spec.strategy` of a Deployment.
    Strategy<'a> {
        strategy_type: Text<'a> = "type",
        rolling_update: RollingUpdate = "rollingUpdate",
    }
}

part! {
    /// `spec.strategy.rollingUpdate` of a Deployment.
    RollingUpdate {
        max_unavailable: Share = "maxUnavailable",
        max_surge: Share = "maxSurge",
    }
}

/// A whole number or a percentage.
#[derive(Clone, Copy, Debug)]
pub struct Share(pub IntOrPercent);

impl Expected<'_> for Share {
    const WORDS: &'static str = "a whole number or a percentage";

    fn of_text(text: Cow<'_, str>) -> Option<Self> {
        let percent = text.strip_suffix('%')?.parse();
        percent.ok().map(IntOrPercent::Percent).map(Self)
    }

    fn of_number(number: i64) -> Option<Self> {
        i32::try_from(number).ok().map(IntOrPercent::Int).map(Self)
    }
}

impl Serialize for Share {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            IntOrPercent::Int(number) => serializer.serialize_i32(number),
            IntOrPercent::Percent(percent) => serializer.collect_str(&format_args!("{percent}%")),
        }
    }
}

part! {
    /// `spec.ordinals`.
    Ordinals {
        start: i64 = "start",
    }
}

part! {
    /// `spec.persistentVolumeClaimRetentionPolicy`.
    RetentionPolicy<'a> {
        when_deleted: Text<'a> = "whenDeleted",
        when_scaled: Text<'a> = "whenScaled",
    }
}

part! {
    /// One container.
    Container<'a> {
        env: List<EnvVar<'a>> = "env",
        env_from: List<EnvFrom<'a>> = "envFrom",
    }
}

part! {
    /// One variable of an environment.
    EnvVar<'a> {
        value_from: ValueFrom<'a> = "valueFrom",
    }
}

part! {
    /// The source of a variable's value.
    ValueFrom<'a> {
        secret_key_ref: Named<'a> = "secretKeyRef",
    }
}

part! {
    /// The source of a part of an environment.
    EnvFrom<'a> {
        secret_ref: Named<'a> = "secretRef",
    }
}

part! {
    /// One volume of a pod.
    Volume<'a> {
        name: Text<'a> = "name",
        persistent_volume_claim: ClaimSource<'a> = "persistentVolumeClaim",
        ephemeral: AnyMap = "ephemeral",
        secret: NamesSecret<'a> = "secret",
        azure_file: NamesSecret<'a> = "azureFile",
        projected: Projected<'a> = "projected",
        csi: PublishesSecret<'a> = "csi",
        cephfs: RefersToSecret<'a> = "cephfs",
        cinder: RefersToSecret<'a> = "cinder",
        flex_volume: RefersToSecret<'a> = "flexVolume",
        iscsi: RefersToSecret<'a> = "iscsi",
        rbd: RefersToSecret<'a> = "rbd",
        scale_io: RefersToSecret<'a> = "scaleIO",
        storageos: RefersToSecret<'a> = "storageos",
    }
}

part! {
    /// A claim as the source of a volume.
    ClaimSource<'a> {
        claim_name: Text<'a> = "claimName",
    }
}

part! {
    /// A source that names a secret.
    NamesSecret<'a> {
        secret_name: Text<'a> = "secretName",
    }
}

part! {
    /// A source that refers to a secret.
    RefersToSecret<'a> {
        secret_ref: Named<'a> = "secretRef",
    }
}

part! {
    /// A CSI driver as a source.
    PublishesSecret<'a> {
        node_publish_secret_ref: Named<'a> = "nodePublishSecretRef",
    }
}

part! {
    /// Several sources in one volume.
    Projected<'a> {
        sources: List<ProjectedSource<'a>> = "sources",
    }
}

part! {
    /// One of several sources.
    ProjectedSource<'a> {
        secret: Named<'a> = "secret",
    }
}

part! {
    /// One of `webhooks` of a webhook configuration.
    Webhook<'a> {
        name: Text<'a> = "name",
        client_config: ClientConfig<'a> = "clientConfig",
        rules: List<WebhookRule<'a>> = "rules",
        failure_policy: Text<'a> = "failurePolicy",
        match_policy: Text<'a> = "matchPolicy",
        namespace_selector: LabelSelector<'a> = "namespaceSelector",
        object_selector: LabelSelector<'a> = "objectSelector",
        match_conditions: List<AnyMap> = "matchConditions",
    }
}

part! {
    /// `spec.conversion` of a definition. The first beta form has the client configuration in the strategy.
    Conversion<'a> {
        strategy: Text<'a> = "strategy",
        webhook: ConversionWebhook<'a> = "webhook",
        webhook_client_config: ClientConfig<'a> = "webhookClientConfig",
    }
}

part! {
    /// The webhook that converts custom resources.
    ConversionWebhook<'a> {
        client_config: ClientConfig<'a> = "clientConfig",
    }
}

part! {
    /// The endpoint of a webhook.
    ClientConfig<'a> {
        service: ServiceReference<'a> = "service",
        url: Text<'a> = "url",
    }
}

part! {
    /// A Service that a webhook or an APIService names.
    ServiceReference<'a> {
        namespace: Text<'a> = "namespace",
        name: Text<'a> = "name",
        path: Text<'a> = "path",
        port: i64 = "port",
    }
}

part! {
    /// One of `rules` of a webhook, or of `resourceRules` of a policy, which may name objects.
    WebhookRule<'a> {
        operations: List<Text<'a>> = "operations",
        api_groups: List<Text<'a>> = "apiGroups",
        api_versions: List<Text<'a>> = "apiVersions",
        resources: List<Text<'a>> = "resources",
        resource_names: List<Text<'a>> = "resourceNames",
        scope: Text<'a> = "scope",
    }
}

part! {
    /// `matchConstraints` of an admission policy, and `matchResources` of its bindings.
    MatchResources<'a> {
        resource_rules: List<WebhookRule<'a>> = "resourceRules",
        exclude_resource_rules: List<WebhookRule<'a>> = "excludeResourceRules",
        match_policy: Text<'a> = "matchPolicy",
        namespace_selector: LabelSelector<'a> = "namespaceSelector",
        object_selector: LabelSelector<'a> = "objectSelector",
    }
}

part! {
    /// One of `validations`, `variables` or `matchConditions` of an admission policy.
    PolicyExpression<'a> {
        name: Text<'a> = "name",
        expression: Text<'a> = "expression",
        message: Text<'a> = "message",
        message_expression: Text<'a> = "messageExpression",
        reason: Text<'a> = "reason",
    }
}

part! {
    /// `paramKind` of an admission policy.
    ParamKind<'a> {
        api_version: Text<'a> = "apiVersion",
        kind: Text<'a> = "kind",
    }
}

part! {
    /// `paramRef` of a binding.
    ParamRef<'a> {
        name: Text<'a> = "name",
        namespace: Text<'a> = "namespace",
        selector: LabelSelector<'a> = "selector",
        parameter_not_found_action: Text<'a> = "parameterNotFoundAction",
    }
}

part! {
    /// A label selector.
    LabelSelector<'a> {
        match_labels: Labels<'a> = "matchLabels",
        match_expressions: List<LabelRequirement<'a>> = "matchExpressions",
    }
}

part! {
    /// One of `matchExpressions` of a label selector.
    LabelRequirement<'a> {
        key: Text<'a> = "key",
        operator: Text<'a> = "operator",
        values: List<Text<'a>> = "values",
    }
}
