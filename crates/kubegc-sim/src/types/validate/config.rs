//! ConfigMaps and Secrets.
//!
//! # Upstream
//! `ValidateConfigMap` and `ValidateSecret` in `pkg/apis/core/validation/validation.go`, 1.20.2.

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use super::super::field::{At, Check};
use crate::{json_kind, json_syntax_error, status::Cause};

/// The maximum size of the data of one object in bytes.
const BYTES_MAX: usize = 1024 * 1024;

/// The length of a base64 text after decoding, in bytes.
fn decoded_len(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

fn bytes(data: &At<'_>) -> usize {
    data.entries().map(|(_, value)| decoded_len(value.text())).sum()
}

pub(super) fn size(map: &At<'_>, c: &mut Check) {
    let texts = map.get("data").entries().map(|(_, value)| value.text().len());
    if texts.sum::<usize>() + bytes(&map.get("binaryData")) > BYTES_MAX {
        // The path of a field without a name.
        c.causes.push(Cause::too_long(c.version, "[]", BYTES_MAX));
    }
}

pub(super) fn is_large(data: &At<'_>, _: &Check<'_>) -> bool {
    bytes(data) > BYTES_MAX
}

/// The configuration of a client, in JSON.
pub(super) fn docker_config(config: &At<'_>, c: &mut Check) {
    let bytes = BASE64_STANDARD.decode(config.text()).unwrap_or_default();
    let problem = json_syntax_error(&bytes).or_else(|| {
        let value: Value = serde_json::from_slice(&bytes).ok()?;
        let is_refused = !value.is_object() && !value.is_null();
        let kind = json_kind(&value);
        is_refused
            .then(|| format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"))
    });
    if let Some(problem) = problem {
        config.invalid_as(c, "\"<secret contents redacted>\"", &problem);
    }
}
