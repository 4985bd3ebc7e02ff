//! The name of an object in assertions: from a typed object, or from kind, namespace and name.

use std::{fmt, sync::Arc};

#[cfg(feature = "kube")]
use kube::Resource;
use kubegc_core::{
    ObjectRef, Uid,
    identity::{kubectl_name, split_api_version},
};
use serde::Serialize;
use serde_json::Value;

/// An object as tests name it: kind, namespace and name, and the uid if known.
///
/// Made from a typed object, from an [`ObjectRef`], by [`Name::of`], or by [`Name::of_object`]. If the
/// uid is known, another object under the same name is not the one that is meant.
///
/// # Examples
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kubegc_testkit::Name;
/// let mut config_map = ConfigMap::default();
/// config_map.metadata.name = Some("settings".to_owned());
/// config_map.metadata.namespace = Some("shop".to_owned());
/// assert_eq!(Name::from(&config_map), Name::of::<ConfigMap>("shop", "settings"));
/// assert_eq!(Name::from(&config_map).to_string(), "configmap/settings -n shop");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// Group and version, such as `apps/v1`.
    pub api_version: Arc<str>,
    pub kind: Arc<str>,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub uid: Option<Uid>,
}

impl Name {
    /// The object with this namespace (empty for cluster-scoped kinds) and name.
    ///
    /// # Examples
    /// ```
    /// use kubegc_testkit::Name;
    /// assert_eq!(Name::new("apps/v1", "Deployment", "shop", "web").to_string(), "deployment/web -n shop");
    /// ```
    pub fn new(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            api_version: api_version.into(),
            kind: kind.into(),
            namespace: namespace.into(),
            name: name.into(),
            uid: None,
        }
    }

    /// The name of an object of any library that writes it with serde, or of a `DynamicObject`. An object
    /// without `apiVersion` and `kind` matches nothing.
    ///
    /// # Examples
    /// ```
    /// use kubegc_testkit::Name;
    /// let object = serde_json::json!({
    ///     "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": "web"},
    /// });
    /// assert_eq!(Name::of_object(&object), Name::new("apps/v1", "Deployment", "shop", "web"));
    /// ```
    pub fn of_object(object: &impl Serialize) -> Self {
        let object = serde_json::to_value(object).unwrap_or_default();
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let filled = |pointer: &str| Arc::from(text(pointer).unwrap_or_default());
        Self {
            api_version: filled("/apiVersion"),
            kind: filled("/kind"),
            namespace: filled("/metadata/namespace"),
            name: filled("/metadata/name"),
            uid: text("/metadata/uid").map(Uid::new),
        }
    }
}

#[cfg(feature = "kube")]
impl Name {
    /// The object of a kind with this namespace (empty for cluster-scoped kinds) and name.
    pub fn of<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> Self {
        Self::new(&K::api_version(&()), &K::kind(&()), namespace, name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = split_api_version(&self.api_version).0;
        f.write_str(&kubectl_name(group, &self.kind, &self.namespace, &self.name))
    }
}

#[cfg(feature = "kube")]
impl<K: Resource<DynamicType = ()>> From<&K> for Name {
    fn from(object: &K) -> Self {
        let meta = object.meta();
        let text = |text: &Option<String>| Arc::from(text.as_deref().unwrap_or_default());
        Self {
            api_version: (&*K::api_version(&())).into(),
            kind: (&*K::kind(&())).into(),
            namespace: text(&meta.namespace),
            name: text(&meta.name),
            uid: meta.uid.as_deref().map(Uid::new),
        }
    }
}

impl From<ObjectRef> for Name {
    fn from(object: ObjectRef) -> Self {
        Self {
            api_version: object.api_version,
            kind: object.kind,
            namespace: object.namespace,
            name: object.name,
            uid: Some(object.uid).filter(|uid| !uid.is_empty()),
        }
    }
}

impl From<&Self> for Name {
    fn from(name: &Self) -> Self {
        name.clone()
    }
}
