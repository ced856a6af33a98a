//! Request bodies in Kubernetes' protobuf form, read into the same trees as JSON.
//!
//! Only bodies: answers are always JSON, which every client takes.

mod tables;
#[cfg(test)]
mod tests;
mod wire;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use tables::{Form, Table, table};
pub(crate) use wire::ProtobufError;
use wire::{Fields, Wire};

/// The media type of such bodies.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

const MARK: &[u8] = b"k8s\0";

/// Reads a body: a mark, then an envelope that names the kind and holds the message.
pub(crate) fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = body.strip_prefix(MARK).ok_or(ProtobufError::Mark)?;
    let (mut api_version, mut kind, mut message) = (String::new(), String::new(), &[][..]);
    for field in Fields::new(envelope) {
        match field? {
            (1, Wire::Bytes(kind_of_message)) => {
                for field in Fields::new(kind_of_message) {
                    match field? {
                        (1, Wire::Bytes(bytes)) => api_version = text("apiVersion", bytes)?,
                        (2, Wire::Bytes(bytes)) => kind = text("kind", bytes)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => message = bytes,
            _ => {}
        }
    }
    let Some(table) = table(&api_version, &kind) else { return Err(ProtobufError::Kind { api_version, kind }) };
    let mut object = Map::new();
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    read(table, message, &mut object)?;
    Ok(Value::Object(object))
}

fn text(name: &'static str, bytes: &[u8]) -> Result<String, ProtobufError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| ProtobufError::Field(name))
}

fn read(table: &Table, message: &[u8], object: &mut Map<String, Value>) -> Result<(), ProtobufError> {
    for field in Fields::new(message) {
        let (number, wire) = field?;
        // Fields of newer clients are left out.
        let Some((_, name, form)) = table.iter().find(|row| row.0 == number) else { continue };
        match wire {
            Wire::Varint(value) => read_number(name, *form, value, object)?,
            Wire::Bytes(bytes) => read_bytes(name, *form, bytes, object)?,
            Wire::Other => return Err(ProtobufError::Field(name)),
        }
    }
    Ok(())
}

fn read_number(
    name: &'static str,
    form: Form,
    value: u64,
    object: &mut Map<String, Value>,
) -> Result<(), ProtobufError> {
    match form {
        Form::Number if value == 0 => {}
        // Negative numbers stand as their two's complement.
        Form::Number | Form::OptionalNumber => drop(object.insert(name.to_owned(), value.cast_signed().into())),
        Form::OptionalFlag => drop(object.insert(name.to_owned(), (value != 0).into())),
        _ => return Err(ProtobufError::Field(name)),
    }
    Ok(())
}

fn read_bytes(
    name: &'static str,
    form: Form,
    bytes: &[u8],
    object: &mut Map<String, Value>,
) -> Result<(), ProtobufError> {
    let value = match form {
        Form::Text if bytes.is_empty() => return Ok(()),
        Form::Text | Form::OptionalText => text(name, bytes)?.into(),
        Form::Time | Form::MicroTime => match time(name, bytes, matches!(form, Form::MicroTime))? {
            Some(time) => time.into(),
            None => return Ok(()),
        },
        Form::Json => json(name, bytes)?,
        Form::Message(table) => {
            let mut inner = Map::new();
            read(table, bytes, &mut inner)?;
            Value::Object(inner)
        }
        Form::Messages(table) => {
            let mut inner = Map::new();
            read(table, bytes, &mut inner)?;
            return push(name, Value::Object(inner), object);
        }
        Form::Texts => return push(name, text(name, bytes)?.into(), object),
        Form::TextMap | Form::BytesMap => {
            let (key, value) = pair(name, bytes, matches!(form, Form::BytesMap))?;
            let map = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
            if let Some(map) = map.as_object_mut() {
                map.insert(key, value);
            }
            return Ok(());
        }
        Form::Number | Form::OptionalNumber | Form::OptionalFlag => return Err(ProtobufError::Field(name)),
    };
    object.insert(name.to_owned(), value);
    Ok(())
}

fn push(name: &'static str, value: Value, object: &mut Map<String, Value>) -> Result<(), ProtobufError> {
    let list = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
    list.as_array_mut().ok_or(ProtobufError::Field(name))?.push(value);
    Ok(())
}

/// One entry of a map: a message of key and value.
fn pair(name: &'static str, bytes: &[u8], base64: bool) -> Result<(String, Value), ProtobufError> {
    let (mut key, mut value) = (String::new(), &[][..]);
    for field in Fields::new(bytes) {
        match field? {
            (1, Wire::Bytes(bytes)) => key = text(name, bytes)?,
            (2, Wire::Bytes(bytes)) => value = bytes,
            _ => {}
        }
    }
    let value = if base64 { STANDARD.encode(value) } else { text(name, value)? };
    Ok((key, value.into()))
}

/// An empty message means no time.
fn time(name: &'static str, bytes: &[u8], micro: bool) -> Result<Option<String>, ProtobufError> {
    let (mut seconds, mut nanoseconds) = (0i64, 0i32);
    for field in Fields::new(bytes) {
        match field? {
            (1, Wire::Varint(value)) => seconds = value.cast_signed(),
            (2, Wire::Varint(value)) => {
                nanoseconds = i32::try_from(value.cast_signed()).map_err(|_| ProtobufError::Field(name))?;
            }
            _ => {}
        }
    }
    if bytes.is_empty() {
        return Ok(None);
    }
    let time = jiff::Timestamp::new(seconds, nanoseconds).map_err(|_| ProtobufError::Field(name))?;
    let format = if micro { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(Some(time.strftime(format).to_string()))
}

fn json(name: &'static str, bytes: &[u8]) -> Result<Value, ProtobufError> {
    for field in Fields::new(bytes) {
        if let (1, Wire::Bytes(bytes)) = field? {
            return serde_json::from_slice(bytes).map_err(|_| ProtobufError::Field(name));
        }
    }
    Ok(Value::Object(Map::new()))
}
