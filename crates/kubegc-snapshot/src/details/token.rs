//! What is read of secrets, service accounts and config maps. Of the data of a secret nothing but the expiry of a bootstrap token is ever decoded or kept.

use kubegc_lifecycle::{
    fields::{ConfigMap, Secret, ServiceAccount},
    token::bootstrap::{Expiration, SECRET_TYPE},
};

use super::{
    ANNOTATIONS, annotations_of,
    reading::{Path, Reading, Unreadable},
};
use crate::{
    body::{ANNOTATION_ACCOUNT_NAME, ANNOTATION_ACCOUNT_UID, Body, Data},
    encoding,
    item::Text,
};

static DATA: Path<'static> = Path::of("data");
static STRING_DATA: Path<'static> = Path::of("stringData");

pub(super) fn secret(reading: &mut Reading<'_>, body: &Body<'_>) -> Secret {
    // The API server never leaves the type out.
    let secret_type = reading.text_unless_empty(&body.object_type, Path::of("type"));
    let is_bootstrap_token = matches!(&secret_type, Ok(Some(of_type)) if **of_type == *SECRET_TYPE);
    let expiration = if is_bootstrap_token {
        expiration(reading, body).unwrap_or(Expiration::Unknown)
    } else {
        Expiration::Unknown
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

/// The expiry of a bootstrap token. What stands in `stringData` takes the place of what stands in `data`, as in the API server.
///
/// A token has data; one without any was read without them.
fn expiration(reading: &mut Reading<'_>, body: &Body<'_>) -> Result<Expiration, Unreadable> {
    let plain = reading.value(&body.string_data, STRING_DATA)?;
    if let Some(plain) = plain {
        let text = reading.value(&plain.expiration, STRING_DATA.field("expiration"))?;
        if let Some(text) = text {
            return Ok(Expiration::Text(text.as_str().into()));
        }
    }
    let data = reading.value(&body.data, DATA)?;
    if [plain, data].into_iter().flatten().all(Data::is_empty) {
        return Ok(Expiration::Unknown);
    }
    let Some(data) = data else {
        return Ok(Expiration::Absent);
    };
    let path = DATA.field("expiration");
    let Some(text) = reading.value(&data.expiration, path)?.map(Text::as_str) else {
        return Ok(Expiration::Absent);
    };
    match encoding::from_base64(text.as_bytes()) {
        // What is no text is no date either.
        Some(bytes) => Ok(Expiration::Text(String::from_utf8_lossy(&bytes).into())),
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
