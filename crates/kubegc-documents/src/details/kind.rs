//! The kinds with details, and the fields of an object from which each kind's details are read.
//!
//! A new kind with facts is a struct and a row of the resources in `kubegc_core::record`, a row here, a table
//! with `facts!`, and their names in [`fields`](crate::fields).

use kubegc_core::{identity::split_api_version, record::Body};
use serde_json::json;

use super::{
    facts::{Facts, Object, object},
    reading::{At, Reading},
};

/// Declares [`Kind`]: variant, name and group in the API, and the fields of an object that are read. The
/// facts of the first ones are in records.
macro_rules! kinds {
    (
        records { $($record:ident: $record_name:literal in $record_group:literal has $record_fields:expr;)* }
        others { $($other:ident: $($other_name:literal)|+ in $other_group:literal has $other_fields:expr;)* }
    ) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $($record,)*
            $($other,)*
            /// Of `v1beta1`, which has other defaults.
            BetaWebhookConfiguration,
        }

        impl Kind {
            /// The kind of this name, and its group.
            fn named(kind: &str) -> Option<(Self, &'static str)> {
                Some(match kind {
                    $($record_name => (Self::$record, $record_group),)*
                    $($($other_name)|+ => (Self::$other, $other_group),)*
                    _ => return None,
                })
            }

            /// Whether details are read from a field of the object.
            pub(super) fn has(self, field: &str) -> bool {
                let fields: &[&str] = match self {
                    $(Self::$record => &$record_fields,)*
                    $(Self::$other => &$other_fields,)*
                    Self::BetaWebhookConfiguration => &["webhooks"],
                };
                fields.contains(&field)
            }

            pub(super) fn facts(self, reading: &mut Reading<'_>, object: At<'_, '_>) -> Body {
                match self {
                    $(Self::$record => Body::$record(Facts::read(reading, object)),)*
                    $(Self::$other => Body::Unread,)*
                    Self::BetaWebhookConfiguration => Body::Unread,
                }
            }
        }

        /// The group of each kind.
        const GROUPS: &[&str] = &[$($record_group,)* $($other_group,)*];

        /// The JSON of a record's facts. An unread fact becomes a value of a wrong type.
        pub(crate) fn write(body: &Body) -> Object {
            match body {
                Body::Unread => {
                    let fields = ["spec", "status", "type", "data", "secrets", "revision", "subsets"];
                    let mut object = object(fields.map(|field| (field, false.into())));
                    object.insert("metadata".to_owned(), json!({ "annotations": false }));
                    object
                }
                $(Body::$record(facts) => facts.write(),)*
            }
        }
    };
}

kinds! {
    records {
        CertificateSigningRequest: "CertificateSigningRequest" in "certificates.k8s.io" has ["status"];
        ConfigMap: "ConfigMap" in "" has ["data"];
        ControllerRevision: "ControllerRevision" in "apps" has ["revision"];
        CronJob: "CronJob" in "batch" has ["spec"];
        DaemonSet: "DaemonSet" in "apps" has ["spec", "status"];
        Deployment: "Deployment" in "apps" has ["spec", "status"];
        Endpoints: "Endpoints" in "" has ["subsets"];
        IpAddress: "IPAddress" in "networking.k8s.io" has ["spec"];
        Job: "Job" in "batch" has ["spec", "status"];
        Lease: "Lease" in "coordination.k8s.io" has ["spec"];
        Namespace: "Namespace" in "" has ["spec", "status"];
        Node: "Node" in "" has ["spec", "status"];
        PersistentVolume: "PersistentVolume" in "" has ["spec", "status"];
        PersistentVolumeClaim: "PersistentVolumeClaim" in "" has ["spec", "status"];
        Pod: "Pod" in "" has ["spec", "status"];
        ReplicaSet: "ReplicaSet" in "apps" has ["spec", "status"];
        ResourceClaim: "ResourceClaim" in "resource.k8s.io" has ["spec", "status"];
        Secret: "Secret" in "" has ["type", "data", "stringData"];
        Service: "Service" in "" has ["spec"];
        ServiceAccount: "ServiceAccount" in "" has ["secrets"];
        ServiceCidr: "ServiceCIDR" in "networking.k8s.io" has ["spec"];
        StatefulSet: "StatefulSet" in "apps" has ["spec", "status"];
        VolumeAttachment: "VolumeAttachment" in "storage.k8s.io" has ["spec"];
    }
    others {
        AdmissionPolicy: "ValidatingAdmissionPolicy" in "admissionregistration.k8s.io" has ["spec"];
        AdmissionPolicyBinding:
            "ValidatingAdmissionPolicyBinding" in "admissionregistration.k8s.io" has ["spec"];
        ApiService: "APIService" in "apiregistration.k8s.io" has ["spec", "status"];
        CustomResourceDefinition:
            "CustomResourceDefinition" in "apiextensions.k8s.io" has ["spec", "status"];
        Event: "Event" in "" has ["reason", "message", "involvedObject", "count"];
        ResourceQuota: "ResourceQuota" in "" has ["spec", "status"];
        EndpointSlice: "EndpointSlice" in "discovery.k8s.io" has ["endpoints"];
        WebhookConfiguration: "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration"
            in "admissionregistration.k8s.io" has ["webhooks"];
    }
}

impl Kind {
    /// The kind, in any version of its group.
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        let (group, version) = split_api_version(api_version);
        match Self::in_group(group, kind) {
            Some(Self::WebhookConfiguration) if version == "v1beta1" => Some(Self::BetaWebhookConfiguration),
            found => found,
        }
    }

    pub fn in_group(group: &str, kind: &str) -> Option<Self> {
        let (found, of) = Self::named(kind)?;
        (group == of).then_some(found)
    }
}

/// Whether a field holds facts that are kept, judged by the kind as far as it has been read. An empty text
/// may still become any kind.
pub(crate) fn may_read(api_version: &str, kind: &str, field: &str) -> bool {
    let group = split_api_version(api_version).0;
    match Kind::named(kind) {
        Some((kind, of)) => (api_version.is_empty() || group == of) && kind.has(field),
        None if !kind.is_empty() => false,
        None => GROUPS.contains(&group),
    }
}
