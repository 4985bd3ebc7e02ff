//! The fields of a pod that name Secrets.

/// A field that names a Secret, or contains such fields.
pub(crate) enum Names {
    /// A text: the name.
    Text(&'static str),
    Map(&'static str, &'static [Self]),
    /// A list of maps.
    List(&'static str, &'static [Self]),
}

const NAME: &[Names] = &[Names::Text("name")];
const SECRET_NAME: &[Names] = &[Names::Text("secretName")];
const REFERENCE: &[Names] = &[Names::Map("secretRef", NAME)];

/// Of the spec of a pod, apart from its volumes.
pub(crate) const OF_SPEC: &[Names] = &[
    Names::List("imagePullSecrets", NAME),
    Names::List("containers", OF_CONTAINER),
    Names::List("initContainers", OF_CONTAINER),
    Names::List("ephemeralContainers", OF_CONTAINER),
];

const OF_CONTAINER: &[Names] = &[
    Names::List(
        "env",
        &[Names::Map("valueFrom", &[Names::Map("secretKeyRef", NAME)])],
    ),
    Names::List("envFrom", REFERENCE),
];

pub(crate) const OF_VOLUME: &[Names] = &[
    Names::Map("secret", SECRET_NAME),
    Names::Map("azureFile", SECRET_NAME),
    Names::Map("cephfs", REFERENCE),
    Names::Map("cinder", REFERENCE),
    Names::Map("flexVolume", REFERENCE),
    Names::Map("iscsi", REFERENCE),
    Names::Map("rbd", REFERENCE),
    Names::Map("scaleIO", REFERENCE),
    Names::Map("storageos", REFERENCE),
    Names::Map("csi", &[Names::Map("nodePublishSecretRef", NAME)]),
    Names::Map(
        "projected",
        &[Names::List("sources", &[Names::Map("secret", NAME)])],
    ),
];
