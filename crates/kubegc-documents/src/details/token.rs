//! Fields of secrets, service accounts and config maps. Of the data of a secret only the expiry of a
//! bootstrap token is decoded or kept.

use std::sync::Arc;

use kubegc_core::json::Text;
use kubegc_core::record::{ConfigMap, Secret, ServiceAccount};

use super::{
    ANNOTATIONS, annotations_of,
    reading::{Origin, Path, Reading, Unreadable},
};
use crate::{
    body::{ANNOTATION_ACCOUNT_NAME, ANNOTATION_ACCOUNT_UID, Body, Data, SECRET_TYPE_BOOTSTRAP_TOKEN},
    encoding,
};

static DATA: Path<'static> = Path::of("data");
static STRING_DATA: Path<'static> = Path::of("stringData");
/// The type of a Secret that has no other.
const OPAQUE: &str = "Opaque";

pub(super) fn secret(reading: &mut Reading<'_>, body: &Body<'_>) -> Secret {
    let annotations = annotations_of(reading, body);
    // The API server gives a Secret without a type the type Opaque. A token of a ServiceAccount is not one:
    // its type was stripped.
    let is_token =
        matches!(&annotations, Ok(Some(annotations)) if !annotations.at(ANNOTATION_ACCOUNT_NAME).is_absent());
    let secret_type = reading.field(Some(body), |reading, body| {
        let path = Path::of("type");
        let secret_type = reading.text(&body.object_type, path);
        if reading.origin == Origin::Dump && !is_token && matches!(secret_type, Ok(None)) {
            reading.assumed(path, OPAQUE);
            return Ok(reading.texts.share(OPAQUE));
        }
        reading.or_default(secret_type, || OPAQUE.into())
    });
    let is_bootstrap_token = secret_type
        .known()
        .is_some_and(|found| **found == *SECRET_TYPE_BOOTSTRAP_TOKEN);
    let expiration = reading.field(is_bootstrap_token.then_some(body), expiration);
    let mut annotation = |key| {
        reading.field(annotations.ok(), |reading, annotations| match annotations {
            Some(annotations) => reading.text_or_empty(annotations.at(key), ANNOTATIONS.key(key)),
            None => Ok(reading.texts.share("")),
        })
    };
    Secret {
        secret_type,
        service_account_name: annotation(ANNOTATION_ACCOUNT_NAME),
        service_account_uid: annotation(ANNOTATION_ACCOUNT_UID),
        expiration,
    }
}

/// The expiry of a bootstrap token. An entry of `stringData` takes precedence over one of `data`, as in the
/// API server.
fn expiration(reading: &mut Reading<'_>, body: &Body<'_>) -> Result<Arc<str>, Unreadable> {
    let plain = reading.value(&body.string_data, STRING_DATA)?;
    if let Some(plain) = plain {
        let text = reading.value(&plain.expiration, STRING_DATA.field("expiration"))?;
        if let Some(text) = text {
            return Ok(text.as_str().into());
        }
    }
    let data = reading.value(&body.data, DATA)?;
    // A token without any data was stripped of them.
    if reading.origin == Origin::Dump && [plain, data].into_iter().flatten().all(Data::is_empty) {
        return Err(Unreadable);
    }
    let path = DATA.field("expiration");
    let text = match data {
        Some(data) => reading.value(&data.expiration, path)?,
        None => None,
    };
    match encoding::from_base64(text.map_or("", Text::as_str).as_bytes()) {
        // Bytes that are not text are not a date either.
        Some(bytes) => Ok(String::from_utf8_lossy(&bytes).into()),
        None => Err(reading.bad(path, "is not base64")),
    }
}

pub(super) fn service_account(reading: &mut Reading<'_>, body: &Body<'_>) -> ServiceAccount {
    ServiceAccount {
        secrets: reading.field(Some(body), |reading, body| {
            reading.list(&body.secrets, Path::of("secrets"), |reading, reference, path| {
                reading.text_or_empty(&reference.name, path.field("name"))
            })
        }),
    }
}

pub(super) fn config_map(reading: &mut Reading<'_>, body: &Body<'_>) -> ConfigMap {
    ConfigMap {
        since: reading.field(Some(body), |reading, body| {
            match reading.value(&body.data, DATA)? {
                Some(data) => reading.text(&data.since, DATA.field("since")),
                None => Ok(None),
            }
        }),
    }
}
