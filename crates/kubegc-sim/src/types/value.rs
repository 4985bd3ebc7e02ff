//! Normalizes a JSON value as a typed round trip does: drops unknown fields, gives each value one form, and
//! writes or omits empty values by type. A value that is only decoded retains empty lists and maps, and the
//! texts of quantities.
//!
//! # Upstream
//! Decoding and encoding of the versioned types, and the protobuf form in between, in which an empty list or
//! map is absent.

use std::cell::Cell;

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};
use kubegc_core::{KubernetesVersion, Quantity, Timestamp, version::behavior};
use serde_json::{Map, Value};

use super::{
    mismatch::{Mismatch, Step, base64_error, quantity_error, time_error},
    schema::{StructId, Type},
};

/// As Go's decoder, it ignores the bits of the last symbol that belong to no byte.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The form that values get.
pub(crate) struct Form {
    pub(crate) version: KubernetesVersion,
    /// Whether the values are only decoded: defaults and the texts of refusals distinguish an empty list from
    /// a missing one.
    is_decoded: bool,
    /// Whether a decoded value differs from its normal form.
    differs: Cell<bool>,
}

impl Form {
    pub(crate) const fn normal(version: KubernetesVersion) -> Self {
        Self {
            version,
            is_decoded: false,
            differs: Cell::new(false),
        }
    }

    pub(crate) const fn decoded(version: KubernetesVersion) -> Self {
        Self {
            is_decoded: true,
            ..Self::normal(version)
        }
    }

    /// Whether a value was decoded that differs from its normal form.
    pub(crate) const fn differs(&self) -> bool {
        self.differs.get()
    }

    /// A decoded value, or its normal form.
    fn either(&self, decoded: Value, normal: Value) -> Value {
        if self.is_decoded && decoded != normal {
            self.differs.set(true);
            return decoded;
        }
        normal
    }
}

/// The fields of a struct in this form, with those behind feature gates that are off.
pub(crate) fn fields(
    mut sent: Map<String, Value>,
    id: StructId,
    form: &Form,
) -> Result<Map<String, Value>, Mismatch> {
    let mut normal = Map::new();
    for field in id.fields().iter().filter(|field| field.exists_in(form.version)) {
        let value = sent.remove(field.name).unwrap_or(Value::Null);
        let value =
            normalized(value, &field.ty, form).map_err(|error| error.within(Step::Field(id, field.name)))?;
        let is_unwritten = field.omit_empty && is_empty(&value, &field.ty)
            || field.name == "creationTimestamp"
                && value.is_null()
                && form.version.has(behavior::ZERO_TIMESTAMPS_ARE_OMITTED);
        if !is_unwritten {
            normal.insert(field.name.to_owned(), value);
        }
    }
    Ok(normal)
}

/// Metadata in its normal form.
pub(crate) fn metadata(sent: Value, version: KubernetesVersion) -> Result<Value, Mismatch> {
    match StructId::named("ObjectMeta") {
        Some(id) => normalized(sent, &Type::Struct(id), &Form::normal(version)),
        None => Ok(sent),
    }
}

/// Whether a normal value is omitted from a field that omits empty values.
fn is_empty(value: &Value, ty: &Type) -> bool {
    match ty {
        Type::Pointer(_) | Type::List(_) | Type::Map(_) => value.is_null(),
        Type::Bytes => value.is_null() || value.as_str() == Some(""),
        Type::String => value.as_str() == Some(""),
        Type::Bool => value == &Value::Bool(false),
        Type::Int32 | Type::Int64 | Type::Double => value.as_f64() == Some(0.0),
        // Structs are never empty to the encoder.
        _ => false,
    }
}

/// A value in this form, by its type.
pub(crate) fn normalized(value: Value, ty: &Type, form: &Form) -> Result<Value, Mismatch> {
    Ok(match (ty, value) {
        (Type::Any, value) => value,
        (Type::Either(object, _), value @ (Value::Object(_) | Value::Null)) => {
            normalized(value, object, form)?
        }
        (Type::Either(_, other), value) => normalized(value, other, form)?,
        (
            Type::Pointer(_) | Type::List(_) | Type::Map(_) | Type::Bytes | Type::Time | Type::MicroTime,
            Value::Null,
        ) => Value::Null,
        (Type::Pointer(target), value) => normalized(value, target, form)?,
        (Type::Struct(id), Value::Null) => Value::Object(fields(Map::new(), *id, form)?),
        (Type::Struct(id), Value::Object(sent)) => Value::Object(fields(sent, *id, form)?),
        (Type::String, Value::Null) => "".into(),
        (Type::Bool, Value::Null) => false.into(),
        (Type::Int32 | Type::Int64 | Type::IntOrString | Type::Double, Value::Null) => 0.into(),
        (Type::Duration, Value::Null) => "0s".into(),
        (Type::List(item), Value::Array(items)) if !items.is_empty() => {
            let items = items.into_iter().enumerate().map(|(index, value)| {
                normalized(value, item, form).map_err(|error| error.within(Step::Item(index)))
            });
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        (Type::Map(of), Value::Object(entries)) if !entries.is_empty() => {
            let mut normal = Map::new();
            for (key, value) in entries {
                let value =
                    normalized(value, of, form).map_err(|error| error.within(Step::Entry(key.clone())))?;
                let value = match **of {
                    Type::Quantity => rounded(value),
                    Type::Bytes if value.is_null() => "".into(),
                    _ => value,
                };
                normal.insert(key, value);
            }
            Value::Object(normal)
        }
        (Type::List(_), empty @ Value::Array(_)) | (Type::Map(_), empty @ Value::Object(_)) => {
            form.either(empty, Value::Null)
        }
        (Type::String | Type::Duration | Type::IntOrString, value @ Value::String(_))
        | (Type::Bool, value @ Value::Bool(_))
        | (Type::Double, value @ Value::Number(_)) => value,
        (Type::Int64, Value::Number(number)) if number.is_i64() => number.into(),
        (Type::Int32 | Type::IntOrString, Value::Number(number))
            if number
                .as_i64()
                .is_some_and(|number| i32::try_from(number).is_ok()) =>
        {
            number.into()
        }
        (Type::Quantity, value) => quantity(&value, form)?,
        (Type::Bytes, Value::String(sent)) => {
            let text: String = sent.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
            match BASE64.decode(text) {
                Ok(bytes) => BASE64.encode(bytes).into(),
                Err(error) => {
                    let problem = format!("illegal base64 data at input byte {}", base64_error(&sent));
                    return Err(Mismatch::refused(problem, format!("base64Codec: {error}")));
                }
            }
        }
        // Go's decoder reads numbers into a slice of bytes.
        (Type::Bytes, Value::Array(items)) => {
            let bytes = items.iter().enumerate().map(|(index, item)| {
                let byte = item.as_u64().and_then(|byte| u8::try_from(byte).ok());
                byte.ok_or_else(|| Mismatch::of_type(item, &Type::Int32).within(Step::Item(index)))
            });
            BASE64.encode(bytes.collect::<Result<Vec<u8>, _>>()?).into()
        }
        (Type::Time | Type::MicroTime, Value::String(text)) => match Timestamp::parse(&text) {
            Ok(time) if *ty == Type::Time => time.truncate_to_secs().to_string().into(),
            Ok(time) => micro_time(time).into(),
            Err(_) => {
                let problem = time_error(&text, *ty == Type::MicroTime);
                return Err(Mismatch::refused(problem.clone(), problem));
            }
        },
        (ty, found) => return Err(Mismatch::of_type(&found, ty)),
    })
}

fn quantity(value: &Value, form: &Form) -> Result<Value, Mismatch> {
    let sent = match value {
        Value::Null => "0".to_owned(),
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    match Quantity::canonical(&sent) {
        Some(shown) => Ok(form.either(sent.into(), shown.into())),
        None => {
            let problem = quantity_error(&sent).to_owned();
            Err(Mismatch::refused(
                problem.clone(),
                format!("unmarshalerDecoder: {problem}"),
            ))
        }
    }
}

/// A quantity with at most three fractional digits.
fn rounded(value: Value) -> Value {
    match value.as_str().and_then(Quantity::parse) {
        Some(quantity) if quantity.rounded_up(-3) != quantity => quantity.rounded_up(-3).to_string().into(),
        _ => value,
    }
}

/// A time with six fractional digits of a second.
fn micro_time(time: Timestamp) -> String {
    let micros = time.as_nanos().rem_euclid(1_000_000_000) / 1000;
    let seconds = time.truncate_to_secs().to_string();
    format!("{}.{micros:06}Z", seconds.trim_end_matches('Z'))
}
