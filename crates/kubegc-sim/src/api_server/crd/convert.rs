//! Conversion of custom resources between the versions of a definition. A function of the caller takes the
//! place of the conversion webhook.
//!
//! # Upstream
//! `webhookConverter.Convert`, `validateConvertedObject` and `restoreObjectMeta` in
//! `apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go`, 1.20.2.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kubegc_core::{KindId, identity::join_api_version};
use serde_json::Value;

use crate::{
    Manifest, StoredObject,
    api_server::ApiServer,
    status::{self, RefusedBy, Result},
};

type Function = dyn Fn(Value, &str) -> Result<Value, String> + Send + Sync;

/// Converts a custom resource to another version, in place of the conversion webhook of its definition.
///
/// The function receives the object as JSON and the wanted `apiVersion`. It returns the converted object, or
/// an error message. It must not use the server that calls it.
#[derive(Clone)]
pub struct Converter(Arc<Function>);

impl Converter {
    /// A converter that calls a function.
    pub fn new(convert: impl Fn(Value, &str) -> Result<Value, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(convert))
    }
}

impl fmt::Debug for Converter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Converter").finish_non_exhaustive()
    }
}

/// The converters, by the names of definitions.
pub(crate) type Converters = Arc<BTreeMap<String, Converter>>;

impl ApiServer {
    /// Sets the converter of a definition, such as `widgets.example.com`. It takes the place of the
    /// conversion webhook where the strategy is `Webhook`, with [`Settings::types`](crate::Settings::types).
    /// Without a converter, such conversions fail as with an unreachable webhook.
    ///
    /// Objects count as stored in the current storage version. They are converted from it even if they were
    /// written before the definition changed its storage version.
    pub fn set_converter(&mut self, definition: &str, converter: Converter) {
        Arc::make_mut(&mut self.converters).insert(definition.to_owned(), converter);
    }

    /// Converts a custom resource from one version of its definition to another.
    ///
    /// # Errors
    /// 500 if the webhook refuses, cannot be reached, or changes an immutable field.
    pub(super) fn convert_custom(
        &self,
        kind: KindId,
        definition: &StoredObject,
        object: &mut StoredObject,
        from: &str,
        to: &str,
    ) -> Result<()> {
        if from == to || definition.text_at(&["spec", "conversion", "strategy"]) != "Webhook" {
            return Ok(());
        }
        let resource = self.resource(kind);
        let version = |version: &str| join_api_version(&resource.group, version);
        let named = format!("{}, Kind={}", version(from), resource.kind);
        let by = || RefusedBy::Conversion(Arc::clone(&definition.meta.name));
        let failed =
            |why: &str| status::internal(format!("conversion webhook for {named} failed: {why}")).by(by());
        let Some(converter) = self.converters.get(&*definition.meta.name) else {
            return Err(failed(&unreachable(definition)));
        };
        let mut sent = object.to_json(resource);
        sent["apiVersion"] = version(from).into();
        let converted = (converter.0)(sent.clone(), &version(to)).map_err(|why| failed(&why))?;
        check(&sent, &converted, &version(to)).map_err(|why| {
            status::internal(format!(
                "conversion webhook for {named} returned invalid converted object at index 0: {why}"
            ))
        })?;
        let Value::Object(mut fields) = converted else {
            return Err(failed("the converted object is not an object"));
        };
        let metadata = fields.remove("metadata");
        let invalid = |why: &str| {
            status::internal(format!(
                "conversion webhook for {named} returned invalid metadata in object at index 0: {why}"
            ))
        };
        fields.insert("metadata".to_owned(), restored(&sent, metadata));
        let read = Manifest::read(Value::Object(fields)).map_err(|why| invalid(&why.to_string()))?;
        let StoredObject { meta, body, .. } = read.object;
        // Only labels and annotations may change; annotations are in the body.
        object.meta.labels.clone_from(&meta.labels);
        object.body = body;
        object.tidy();
        Ok(())
    }
}

/// The error message for a webhook that the server cannot reach.
fn unreachable(definition: &StoredObject) -> String {
    let config = ["spec", "conversion", "webhook", "clientConfig"];
    let at = |more: &[&str]| definition.text_at(&[&config[..], more].concat()).to_owned();
    let mut url = at(&["url"]);
    if url.is_empty() {
        let [name, namespace, path] = ["name", "namespace", "path"].map(|key| at(&["service", key]));
        url = format!("https://{name}.{namespace}.svc:443{path}");
    }
    format!("Post \"{url}?timeout=30s\": no converter of the test plays this webhook")
}

fn check(sent: &Value, converted: &Value, wanted: &str) -> Result<(), String> {
    fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
        value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }
    let found = text(converted, "/apiVersion");
    if found != wanted {
        return Err(format!(
            "invalid groupVersion (expected {wanted}, received {found})"
        ));
    }
    for (pointer, what) in [
        ("/kind", "kind"),
        ("/metadata/name", "name"),
        ("/metadata/namespace", "namespace"),
        ("/metadata/uid", "UID"),
    ] {
        let (before, after) = (text(sent, pointer), text(converted, pointer));
        if before != after {
            return Err(format!("must have the same {what}: {before} != {after}"));
        }
    }
    Ok(())
}

/// The metadata as it was sent, with the labels and annotations of the converted object.
fn restored(sent: &Value, converted: Option<Value>) -> Value {
    let mut metadata = sent["metadata"].as_object().cloned().unwrap_or_default();
    for key in ["labels", "annotations"] {
        match converted.as_ref().and_then(|metadata| metadata.get(key)) {
            Some(changed) => metadata.insert(key.to_owned(), changed.clone()),
            None => metadata.remove(key),
        };
    }
    metadata.into()
}
