//! Facts of certificate signing requests, Secrets, ServiceAccounts and ConfigMaps. Of the data of a Secret
//! only the expiry of a bootstrap token is decoded or kept.

use std::sync::Arc;

use kubegc_core::{
    json::JsonType,
    record::{Certificate, CertificateSigningRequest, ConfigMap, Secret, ServiceAccount},
};
use serde_json::{Value, json};

use super::{
    facts::{Each, Fact, Facts, In, Object, Plain, object, written},
    node::Conditions,
    reading::{At, Origin, Reading, Unreadable},
};
use crate::{
    body::Raw,
    encoding,
    fields::{ANNOTATION_ACCOUNT_NAME, ANNOTATION_ACCOUNT_UID},
    x509,
};

/// The type of a Secret that has no other.
const OPAQUE: &str = "Opaque";
const BOOTSTRAP_TOKEN: &str = "bootstrap.kubernetes.io/token";

facts! {
    CertificateSigningRequest {
        status {
            conditions: "conditions" => Conditions(&[]),
            certificate: "certificate" => Plain,
        }
    }
    ConfigMap {
        object {
            since: "data" => In("since", Plain),
        }
    }
    ServiceAccount {
        object {
            secrets: "secrets" => Each(In("name", Plain)),
        }
    }
}

impl Fact for Certificate {
    const TYPE: JsonType = JsonType::String;

    fn read(reading: &mut Reading<'_>, at: At<'_, '_>) -> Result<Self, Unreadable> {
        let Some(text) = reading.str(at)? else {
            return Ok(Self::Absent);
        };
        if text.is_empty() {
            return Ok(Self::Empty);
        }
        match encoding::from_base64(text.as_bytes()) {
            Some(bytes) => Ok(x509::read(&bytes)),
            // Dumps may have it redacted.
            None => Err(reading.bad(at, "is not base64")),
        }
    }

    fn write(&self) -> Value {
        match self {
            Self::Absent => Value::Null,
            Self::Empty => "".into(),
            read => x509::write(read).map_or(Value::Null, |bytes| encoding::to_base64(&bytes).into()),
        }
    }
}

impl Facts for Secret {
    fn read(reading: &mut Reading<'_>, object: At<'_, '_>) -> Self {
        let metadata = object.field("metadata");
        let annotations = metadata.field("annotations");
        let annotations = reading.map(annotations).ok().map(|_| annotations);
        // The API server gives a Secret without a type the type Opaque. A token of a ServiceAccount is not
        // one: its type was stripped.
        let is_token = annotations.is_some_and(|all| !all.field(ANNOTATION_ACCOUNT_NAME).is_absent());
        let secret_type = reading.field(Some(object), |reading, object| {
            let at = object.field("type");
            match reading.text(at)? {
                Some(secret_type) => Ok(secret_type),
                None if reading.origin == Origin::Dump && !is_token => {
                    reading.assumed(at, OPAQUE);
                    Ok(reading.texts.share(OPAQUE))
                }
                None => reading.or_default(OPAQUE.into()),
            }
        });
        let is_bootstrap_token = secret_type
            .known()
            .is_some_and(|found| **found == *BOOTSTRAP_TOKEN);
        let expiration = reading.field(is_bootstrap_token.then_some(object), expiration);
        let mut annotation = |key: &'static str| {
            reading.field(annotations, |reading, all| reading.text_or_empty(all.field(key)))
        };
        Self {
            secret_type,
            service_account_name: annotation(ANNOTATION_ACCOUNT_NAME),
            service_account_uid: annotation(ANNOTATION_ACCOUNT_UID),
            expiration,
        }
    }

    fn write(&self) -> Object {
        let is_token = self
            .secret_type
            .known()
            .is_some_and(|found| **found == *BOOTSTRAP_TOKEN);
        let data = is_token.then(|| {
            let expiration: Value = match self.expiration.known() {
                Some(text) => encoding::to_base64(text.as_bytes()).into(),
                None => Value::Bool(false),
            };
            json!({ "expiration": expiration })
        });
        let annotations = json!({
            ANNOTATION_ACCOUNT_NAME: written(&Plain, &self.service_account_name),
            ANNOTATION_ACCOUNT_UID: written(&Plain, &self.service_account_uid),
        });
        object([
            ("metadata", json!({ "annotations": annotations })),
            ("type", written(&Plain, &self.secret_type)),
            ("data", data.into()),
        ])
    }
}

/// The expiry of a bootstrap token. An entry of `stringData` takes precedence over one of `data`, as in the
/// API server.
fn expiration(reading: &mut Reading<'_>, object: At<'_, '_>) -> Result<Arc<str>, Unreadable> {
    let plain = object.field("stringData");
    reading.map(plain)?;
    if let Some(text) = reading.str(plain.field("expiration"))? {
        return Ok(text.into());
    }
    let data = object.field("data");
    reading.map(data)?;
    // A token without any data was stripped of them.
    let is_empty = |data: At<'_, '_>| match data.value {
        Raw::Map(entries) => entries.iter().all(|(_, value)| value.is_null()),
        _ => true,
    };
    if reading.origin == Origin::Dump && is_empty(plain) && is_empty(data) {
        return Err(Unreadable);
    }
    let at = data.field("expiration");
    let text = reading.str(at)?;
    match encoding::from_base64(text.unwrap_or_default().as_bytes()) {
        // Bytes that are not text are not a date either.
        Some(bytes) => Ok(String::from_utf8_lossy(&bytes).into()),
        None => Err(reading.bad(at, "is not base64")),
    }
}
