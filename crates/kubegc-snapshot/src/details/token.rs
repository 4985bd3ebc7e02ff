//! What is read of secrets, service accounts and config maps. Of the data of a secret nothing but the expiry of a bootstrap token is ever kept.

use std::sync::Arc;

use kubegc_lifecycle::{
    fields::{ConfigMap, Secret, ServiceAccount},
    token::bootstrap::Expiration,
};

use super::{
    ANNOTATIONS, annotations_of,
    reading::{Found, Path, Reading, Unreadable},
};
use crate::{
    body::{ANNOTATION_ACCOUNT_NAME, ANNOTATION_ACCOUNT_UID, Body},
    encoding,
    item::Text,
};

static DATA: Path<'static> = Path::of("data");
static STRING_DATA: Path<'static> = Path::of("stringData");

pub(super) fn secret(reading: &mut Reading<'_>, body: &Body<'_>) -> Secret {
    // The API server never leaves the type out.
    let secret_type = reading.text_unless_empty(&body.object_type, Path::of("type"));
    let expiration = match expiration(reading, body) {
        Ok(None) if matches!(secret_type, Ok(None)) && body.data.is_absent() => Expiration::Unknown,
        Ok(None) => Expiration::Absent,
        Ok(Some(text)) => Expiration::Text(text),
        Err(Unreadable) => Expiration::Unknown,
    };
    let annotations = annotations_of(reading, body);
    let mut annotation = |key| match annotations {
        Ok(Some(annotations)) => reading.text_or_empty(annotations.at(key), ANNOTATIONS.key(key)),
        Ok(None) => Ok(reading.texts.share("")),
        Err(error) => Err(error),
    };
    let (account_name, account_uid) = (
        annotation(ANNOTATION_ACCOUNT_NAME).ok(),
        annotation(ANNOTATION_ACCOUNT_UID).ok(),
    );
    Secret {
        secret_type: secret_type.ok().flatten(),
        account_name,
        account_uid,
        expiration,
    }
}

/// The expiry, decoded. What stands in `stringData` takes the place of what stands in `data`, as in the API server.
fn expiration(reading: &mut Reading<'_>, body: &Body<'_>) -> Found<Arc<str>> {
    if let Some(plain) = reading.value(&body.string_data, STRING_DATA)? {
        let text = reading.value(&plain.expiration, STRING_DATA.field("expiration"))?;
        if let Some(text) = text {
            return Ok(Some(text.as_str().into()));
        }
    }
    let Some(data) = reading.value(&body.data, DATA)? else {
        return Ok(None);
    };
    let path = DATA.field("expiration");
    let Some(text) = reading.value(&data.expiration, path)?.map(Text::as_str) else {
        return Ok(None);
    };
    match encoding::from_base64(text.as_bytes()) {
        // What is no text is no date either.
        Some(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into())),
        None => Err(reading.bad(path, "is not base64")),
    }
}

pub(super) fn service_account(reading: &mut Reading<'_>, body: &Body<'_>) -> ServiceAccount {
    let secrets = reading.list(&body.secrets, Path::of("secrets"), |reading, reference, path| {
        reading.text_or_empty(&reference.name, path.field("name"))
    });
    ServiceAccount {
        secrets: secrets.ok(),
    }
}

pub(super) fn config_map(reading: &mut Reading<'_>, body: &Body<'_>) -> Option<ConfigMap> {
    let since = match reading.value(&body.data, DATA).ok()? {
        Some(data) => reading.text(&data.since, DATA.field("since")).ok()?,
        None => None,
    };
    Some(ConfigMap { since })
}
