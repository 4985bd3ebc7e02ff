//! Objects in protobuf, as Go clients of today send and accept the built-in kinds.
//!
//! An object is decoded to its JSON and encoded from it. Both follow a table of messages.
//!
//! # Upstream
//! `Serializer` and `RawSerializer` in
//! [`protobuf.go`](https://github.com/kubernetes/apimachinery/blob/v0.36.0/pkg/runtime/serializer/protobuf/protobuf.go).

mod table;
#[cfg(test)]
mod tests;
mod wire;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use kubegc_core::Timestamp;
use serde_json::{Map, Number, Value};

use table::{Field, Message, Shape, Type};
use wire::{Reader, Wire, put_bytes, put_double, put_int};

/// The first bytes of an object; the message `Unknown` of `k8s.io/apimachinery/pkg/runtime` follows.
const PREFIX: &[u8] = b"k8s\0";
/// The deepest nesting of messages. Only the schemas of definitions are recursive.
const DEPTH_MAX: usize = 100;

/// A body that holds no object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Undecodable {
    /// The API version and kind, if the body could be read so far.
    pub(super) kind: Option<(String, String)>,
    /// The reason, with message and field.
    pub(super) problem: String,
}

pub(crate) fn is_object(body: &[u8]) -> bool {
    body.starts_with(PREFIX)
}

pub(super) fn has_message(api_version: &str, kind: &str) -> bool {
    Message::of(api_version, kind).is_some()
}

/// Decodes an object. `default` is the API version and kind of one that does not say them.
pub(crate) fn decode(body: &[u8], default: (&str, &str)) -> Result<Value, Undecodable> {
    let unnamed = |problem: String| Undecodable { kind: None, problem };
    let body = match body.strip_prefix(PREFIX) {
        None if body.is_empty() => return Err(unnamed("empty data".to_owned())),
        None => {
            let problem = "provided data does not appear to be a protobuf message, expected prefix";
            return Err(unnamed(format!("{problem} [107 56 115 0]")));
        }
        Some([]) => return Err(unnamed("empty body".to_owned())),
        Some(body) => body,
    };
    let unreadable = |problem: &str| unnamed(format!("Unknown: {problem}"));
    // The type of the object, and its message.
    let [meta, raw] = last_fields(body).map_err(unreadable)?;
    let (meta, raw) = (
        bytes_of(meta).map_err(unreadable)?,
        bytes_of(raw).map_err(unreadable)?,
    );
    let [api_version, kind] = last_fields(meta).map_err(unreadable)?;
    let or = |field, default: &str| match bytes_of(field).map_err(unreadable)? {
        [] => Ok(default.to_owned()),
        named => Ok(text(named)),
    };
    let (api_version, kind) = (or(api_version, default.0)?, or(kind, default.1)?);
    let mut object = Map::new();
    let read = match Message::of(&api_version, &kind) {
        Some(message) => read_message(message, raw, DEPTH_MAX, &mut object),
        None => Err(format!(
            "no kind {kind:?} is registered for version {api_version:?}"
        )),
    };
    if let Err(problem) = read {
        let kind = Some((api_version, kind));
        return Err(Undecodable { kind, problem });
    }
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

const WRONG_TYPE: &str = "wrong wire type";

/// The last value of each of the first fields of a message, by their numbers from 1 on.
fn last_fields<const N: usize>(bytes: &[u8]) -> Result<[Option<Wire<'_>>; N], &'static str> {
    let mut last = [None; N];
    let mut fields = Reader(bytes);
    while let Some((number, value)) = fields.field()? {
        if let Some(field) = last.get_mut(number as usize - 1) {
            *field = Some(value);
        }
    }
    Ok(last)
}

fn bytes_of(field: Option<Wire<'_>>) -> Result<&[u8], &'static str> {
    match field {
        None => Ok(&[]),
        Some(Wire::Bytes(bytes)) => Ok(bytes),
        Some(_) => Err(WRONG_TYPE),
    }
}

fn int_of(field: Option<Wire<'_>>) -> Result<i64, &'static str> {
    match field {
        None => Ok(0),
        Some(Wire::Varint(value)) => Ok(value as i64),
        Some(_) => Err(WRONG_TYPE),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reads the fields of a message into an object. A message that occurs twice is merged.
fn read_message(
    message: &'static Message,
    bytes: &[u8],
    depth: usize,
    object: &mut Map<String, Value>,
) -> Result<(), String> {
    let depth = deeper(message, depth)?;
    let mut fields = Reader(bytes);
    while let Some((number, wire)) = fields.field().map_err(|why| format!("{}: {why}", message.name))? {
        let Some(field) = message.field(number) else {
            continue;
        };
        let named = |why: &str| field.problem(message, why);
        match (field.shape, field.ty, wire) {
            (Shape::One, Type::Message(inner), Wire::Bytes(bytes)) if field.name.is_empty() => {
                read_message(inner, bytes, depth, object)?;
            }
            (Shape::One, Type::Message(inner), Wire::Bytes(bytes)) if !inner.is_choice() => {
                let mut value = match object.remove(field.name) {
                    Some(Value::Object(value)) => value,
                    _ => Map::new(),
                };
                read_message(inner, bytes, depth, &mut value)?;
                object.insert(field.name.to_owned(), Value::Object(value));
            }
            (Shape::One, ty, wire) => {
                let value = read_value(message, field, wire, depth)?;
                if value.is_null() || !field.is_pointer && !field.is_written && is_zero(ty, &value) {
                    object.remove(field.name);
                } else {
                    object.insert(field.name.to_owned(), value);
                }
            }
            (Shape::List, ty, wire) => {
                let list = object
                    .entry(field.name)
                    .or_insert_with(|| Value::Array(Vec::new()));
                let Value::Array(list) = list else {
                    return Err(named("not a list"));
                };
                match (ty, wire) {
                    (Type::Int32 | Type::Int64, Wire::Bytes(packed)) => {
                        let mut numbers = Reader(packed);
                        while let Some(number) = numbers.packed().map_err(&named)? {
                            list.push(read_value(message, field, Wire::Varint(number), depth)?);
                        }
                    }
                    _ => list.push(read_value(message, field, wire, depth)?),
                }
            }
            (Shape::Map, _, Wire::Bytes(entry)) => {
                let [key, value] = last_fields(entry).map_err(&named)?;
                let key = text(bytes_of(key).map_err(&named)?);
                let value = read_value(message, field, value.unwrap_or(Wire::Bytes(&[])), depth)?;
                let entries = object
                    .entry(field.name)
                    .or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(entries) = entries {
                    entries.insert(key, value);
                }
            }
            (Shape::Map, ..) => return Err(named(WRONG_TYPE)),
        }
    }
    Ok(())
}

fn deeper(message: &Message, depth: usize) -> Result<usize, String> {
    let deeper = depth.checked_sub(1);
    deeper.ok_or_else(|| format!("{}: more than {DEPTH_MAX} messages in each other", message.name))
}

/// Whether a value is omitted from JSON: structs are not.
fn is_zero(ty: Type, value: &Value) -> bool {
    match ty {
        Type::String | Type::Bytes => value == "",
        Type::Bool => value == false,
        Type::Int32 | Type::Int64 | Type::Double => value.as_f64() == Some(0.0),
        Type::Strings => value.as_array().is_some_and(Vec::is_empty),
        _ => false,
    }
}

/// Reads a value. A time that is not set is null, and so is JSON that is absent.
fn read_value(message: &Message, field: &Field, wire: Wire<'_>, depth: usize) -> Result<Value, String> {
    let (ty, named) = (field.ty, |why: &str| field.problem(message, why));
    let bytes = match (ty, wire) {
        (Type::Bool, Wire::Varint(value)) => return Ok((value != 0).into()),
        // As Go: the low bits.
        (Type::Int32, Wire::Varint(value)) => return Ok((value as i32).into()),
        (Type::Int64, Wire::Varint(value)) => return Ok((value as i64).into()),
        (Type::Double, Wire::Fixed64(value)) => return number(f64::from_le_bytes(value)).map_err(named),
        (Type::Bool | Type::Int32 | Type::Int64 | Type::Double, _) => return Err(named(WRONG_TYPE)),
        (_, Wire::Bytes(bytes)) => bytes,
        _ => return Err(named(WRONG_TYPE)),
    };
    let value: Result<Value, &str> = match ty {
        Type::String => Ok(text(bytes).into()),
        Type::Bytes => Ok(BASE64_STANDARD.encode(bytes).into()),
        Type::Quantity => only_field(bytes).map(|quantity| match quantity {
            [] => "0".into(),
            quantity => text(quantity).into(),
        }),
        Type::Strings => {
            texts(bytes).map(|texts| texts.into_iter().map(|item| Value::from(text(item))).collect())
        }
        Type::Json => only_field(bytes).and_then(|json| match json {
            [] => Ok(Value::Null),
            json => serde_json::from_slice(json).map_err(|_| "not JSON"),
        }),
        Type::IntOrString => int_or_string(bytes),
        Type::Time | Type::MicroTime if bytes.is_empty() => Ok(Value::Null),
        Type::Time => time(bytes).map(|time| time.truncate_to_secs().to_string().into()),
        Type::MicroTime => time(bytes).map(|time| micro_time(time).into()),
        Type::Message(message) => {
            let mut object = Map::new();
            read_message(message, bytes, depth, &mut object)?;
            return Ok(if message.is_choice() {
                shown(object)
            } else {
                Value::Object(object)
            });
        }
        // Read above.
        Type::Bool | Type::Int32 | Type::Int64 | Type::Double => Err(WRONG_TYPE),
    };
    value.map_err(named)
}

/// A number as JSON shows it: a whole one without a fraction.
fn number(value: f64) -> Result<Value, &'static str> {
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() < WHOLE_MAX {
        return Ok((value as i64).into());
    }
    Number::from_f64(value)
        .map(Value::Number)
        .ok_or("not a finite number")
}

/// The value of field 1, the only one of a message.
fn only_field(bytes: &[u8]) -> Result<&[u8], &'static str> {
    last_fields(bytes).and_then(|[field]| bytes_of(field))
}

/// All values of field 1, the only one of a message.
fn texts(bytes: &[u8]) -> Result<Vec<&[u8]>, &'static str> {
    let mut texts = Vec::new();
    let mut fields = Reader(bytes);
    while let Some((number, value)) = fields.field()? {
        match (number, value) {
            (1, Wire::Bytes(bytes)) => texts.push(bytes),
            (1, _) => return Err(WRONG_TYPE),
            _ => {}
        }
    }
    Ok(texts)
}

fn int_or_string(bytes: &[u8]) -> Result<Value, &'static str> {
    let [is_string, int, string] = last_fields(bytes)?;
    let (is_string, int, string) = (int_of(is_string)? != 0, int_of(int)?, bytes_of(string)?);
    // As Go: the low bits.
    let int = int as i32;
    Ok(if is_string {
        text(string).into()
    } else {
        int.into()
    })
}

fn time(bytes: &[u8]) -> Result<Timestamp, &'static str> {
    let [seconds, nanos] = last_fields(bytes)?;
    let (seconds, nanos) = (int_of(seconds)?, int_of(nanos)? as i32);
    seconds
        .checked_mul(1_000_000_000)
        .and_then(|time| time.checked_add(nanos.into()))
        .map(Timestamp::from_nanos)
        .ok_or("not a time between the years 1678 and 2262")
}

/// A time with six fractional digits of a second.
fn micro_time(time: Timestamp) -> String {
    let micros = time.as_nanos().rem_euclid(1_000_000_000) / 1000;
    let seconds = time.truncate_to_secs().to_string();
    format!("{}.{micros:06}Z", seconds.trim_end_matches('Z'))
}

/// JSON's form of a choice: a list, else a schema, else a boolean.
fn shown(fields: Map<String, Value>) -> Value {
    let rank = |value: &Value| match value {
        Value::Array(_) => 0,
        Value::Object(_) => 1,
        _ => 2,
    };
    let values = fields.into_iter().map(|(_, value)| value);
    values.min_by_key(rank).unwrap_or_default()
}

pub(super) fn encode(object: &Value) -> Result<Vec<u8>, String> {
    let of = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (of("apiVersion"), of("kind"));
    let message = Message::of(api_version, kind)
        .ok_or_else(|| format!("no kind {kind:?} is registered for version {api_version:?}"))?;
    let mut raw = Vec::new();
    write_message(message, object, DEPTH_MAX, &mut raw)?;
    Ok(envelope(api_version, kind, &raw))
}

/// An object of a kind around its message.
fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let mut meta = Vec::new();
    put_bytes(&mut meta, 1, api_version.as_bytes());
    put_bytes(&mut meta, 2, kind.as_bytes());
    let mut body = PREFIX.to_vec();
    put_bytes(&mut body, 1, &meta);
    put_bytes(&mut body, 2, raw);
    // Encoding and type of the content, which Go always writes.
    put_bytes(&mut body, 3, &[]);
    put_bytes(&mut body, 4, &[]);
    body
}

/// Encodes an event of a watch, with its length before it.
///
/// # Upstream
/// `LengthDelimitedFramer` in the same file.
pub(super) fn encode_event(event_type: &str, object: &Value) -> Result<Vec<u8>, String> {
    let (mut event, mut extension) = (Vec::new(), Vec::new());
    put_bytes(&mut extension, 1, &encode(object)?);
    put_bytes(&mut event, 1, event_type.as_bytes());
    put_bytes(&mut event, 2, &extension);
    let length = u32::try_from(event.len()).map_err(|_| "the event is too large".to_owned())?;
    let mut frame = length.to_be_bytes().to_vec();
    frame.append(&mut event);
    Ok(frame)
}

/// Writes the fields of a message. As Go, it writes the zero values of fields that are no pointers, as far as
/// the newest release has them.
fn write_message(
    message: &'static Message,
    value: &Value,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let depth = deeper(message, depth)?;
    let is_choice = message.is_choice();
    if !is_choice && !value.is_object() && !value.is_null() {
        return Err(format!("{}: not an object", message.name));
    }
    for field in message.fields() {
        let part = match field.name {
            _ if is_choice => match chosen(field, value) {
                None => continue,
                part => part,
            },
            "" => Some(value),
            name => value.get(name).filter(|value| !value.is_null()),
        };
        write_field(message, field, part, depth, out)?;
    }
    Ok(())
}

/// The value of a field of a choice, if the choice is of the type of the field.
fn chosen<'v>(field: &Field, choice: &'v Value) -> Option<&'v Value> {
    // A schema allows values.
    const ALLOWS: &Value = &Value::Bool(true);
    match (field.shape, field.ty, choice) {
        (Shape::List, _, Value::Array(_))
        | (Shape::One, Type::Bool, Value::Bool(_))
        | (Shape::One, Type::Message(_), Value::Object(_)) => Some(choice),
        (Shape::One, Type::Bool, Value::Object(_)) => Some(ALLOWS),
        _ => None,
    }
}

fn write_field(
    message: &'static Message,
    field: &Field,
    value: Option<&Value>,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let named = |why: &str| field.problem(message, why);
    match (field.shape, value) {
        (Shape::One, Some(value)) => write_value(field.number, field.ty, value, depth, out, &named),
        // Go's empty slices are not written.
        (Shape::One, None)
            if field.is_pointer || field.is_removed || matches!(field.ty, Type::Bytes | Type::Strings) =>
        {
            Ok(())
        }
        (Shape::One, None) => write_value(field.number, field.ty, &Value::Null, depth, out, &named),
        (Shape::List | Shape::Map, None) => Ok(()),
        (Shape::List, Some(Value::Array(items))) => items
            .iter()
            .try_for_each(|item| write_value(field.number, field.ty, item, depth, out, &named)),
        (Shape::Map, Some(Value::Object(entries))) => entries.iter().try_for_each(|(key, value)| {
            let mut entry = Vec::new();
            put_bytes(&mut entry, 1, key.as_bytes());
            write_value(2, field.ty, value, depth, &mut entry, &named)?;
            put_bytes(out, field.number, &entry);
            Ok(())
        }),
        (Shape::List, Some(_)) => Err(named("not a list")),
        (Shape::Map, Some(_)) => Err(named("not an object")),
    }
}

/// Writes a value. Null is the zero value of the type.
fn write_value(
    number: u32,
    ty: Type,
    value: &Value,
    depth: usize,
    out: &mut Vec<u8>,
    named: &impl Fn(&str) -> String,
) -> Result<(), String> {
    let mut inner = Vec::new();
    match (ty, value) {
        (Type::Bool, Value::Bool(_) | Value::Null) => {
            put_int(out, number, i64::from(*value == true));
            return Ok(());
        }
        (Type::Int32 | Type::Int64, Value::Number(_) | Value::Null) => {
            let int = if value.is_null() { Some(0) } else { value.as_i64() };
            let int = int.filter(|int| matches!(ty, Type::Int64) || i32::try_from(*int).is_ok());
            let int = int.ok_or_else(|| named("not a whole number of the field's size"))?;
            put_int(out, number, int);
            return Ok(());
        }
        (Type::Double, Value::Number(_) | Value::Null) => {
            put_double(out, number, value.as_f64().unwrap_or_default());
            return Ok(());
        }
        (Type::String, Value::String(text)) => inner.extend(text.as_bytes()),
        (Type::Bytes, Value::String(text)) => {
            // As Go, without line breaks.
            inner = BASE64_STANDARD
                .decode(text.replace(['\r', '\n'], ""))
                .map_err(|_| named("not in base64"))?;
        }
        (Type::Quantity, Value::String(text)) => put_bytes(&mut inner, 1, text.as_bytes()),
        (Type::Quantity, Value::Number(_)) => put_bytes(&mut inner, 1, value.to_string().as_bytes()),
        (Type::Quantity, Value::Null) => put_bytes(&mut inner, 1, b"0"),
        (Type::IntOrString, Value::String(_) | Value::Number(_) | Value::Null) => {
            let int = i32::try_from(value.as_i64().unwrap_or_default());
            let int = int.map_err(|_| named("not a number of 32 bits"))?;
            put_int(&mut inner, 1, i64::from(value.is_string()));
            put_int(&mut inner, 2, int.into());
            put_bytes(&mut inner, 3, value.as_str().unwrap_or_default().as_bytes());
        }
        (Type::Time | Type::MicroTime, Value::String(text)) => {
            let time = Timestamp::parse(text).map_err(|_| named("not a time"))?;
            let nanos = time.as_nanos().rem_euclid(1_000_000_000);
            let is_micro = matches!(ty, Type::MicroTime);
            put_int(&mut inner, 1, time.as_secs());
            put_int(&mut inner, 2, if is_micro { nanos - nanos % 1000 } else { 0 });
        }
        (Type::Strings, Value::Array(items)) => {
            for item in items {
                let item = item.as_str().ok_or_else(|| named("not a string"))?;
                put_bytes(&mut inner, 1, item.as_bytes());
            }
        }
        (Type::Json, Value::Null) => {}
        (Type::Json, value) => put_bytes(&mut inner, 1, value.to_string().as_bytes()),
        (Type::Message(message), value) => write_message(message, value, depth, &mut inner)?,
        // Empty strings and lists, and times that are not set.
        (_, Value::Null) => {}
        _ => return Err(named("of another type")),
    }
    put_bytes(out, number, &inner);
    Ok(())
}
