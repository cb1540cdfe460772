//! Bodies in protocol buffers, the form in which kubectl and other Go programs send built-in kinds.
//!
//! They are only read, as the JSON that the same program would have sent: whoever sends protocol buffers understands
//! JSON in return. Custom kinds have no such form.

mod fields;
mod wire;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::{Map, Value};

use self::{
    fields::{Field, Presence, Repeat, Type},
    wire::{Piece, Reader},
};
use crate::error::ApiError;

/// The media type of such bodies.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// What every such body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// Why a body cannot be read.
#[derive(Debug, PartialEq, Eq)]
struct Malformed(&'static str);

type Read<T> = Result<T, Malformed>;

/// Reads a body as JSON; `None` when it is of a kind that has no such form here.
pub(crate) fn to_json(body: &[u8]) -> Result<Option<Bytes>, ApiError> {
    match read(body) {
        Ok(object) => Ok(object.map(|object| Bytes::from(object.to_string()))),
        Err(Malformed(why)) => Err(ApiError::bad_request(format!(
            "error decoding the object: {why}"
        ))),
    }
}

fn read(body: &[u8]) -> Read<Option<Value>> {
    let envelope = body.strip_prefix(MAGIC).ok_or(Malformed(
        "the body is not marked as a protocol buffer of Kubernetes",
    ))?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut reader = Reader::new(envelope);
    while let Some((number, piece)) = reader.next()? {
        match number {
            1 => {
                let mut names = Reader::new(piece.bytes()?);
                while let Some((number, piece)) = names.next()? {
                    match number {
                        1 => api_version = text(piece)?,
                        2 => kind = text(piece)?,
                        _ => {}
                    }
                }
            }
            2 => raw = piece.bytes()?,
            _ => {}
        }
    }
    let Some(known) = fields::of_kind(&api_version, &kind) else {
        return Ok(None);
    };
    let mut object = message(known, raw)?;
    object.insert("apiVersion".to_owned(), Value::from(api_version));
    object.insert("kind".to_owned(), Value::from(kind));
    Ok(Some(Value::Object(object)))
}

/// Reads one message, leaving out what its sender would leave out of JSON.
///
/// No message of Kubernetes contains itself, so the table bounds the depth.
fn message(fields: &'static [Field], content: &[u8]) -> Read<Map<String, Value>> {
    let mut object = Map::new();
    let mut reader = Reader::new(content);
    while let Some((number, piece)) = reader.next()? {
        let Some(field) = fields.iter().find(|field| field.number == number) else {
            continue;
        };
        match field.repeat {
            Repeat::Single => {
                let value = value(field, piece)?;
                if field.name.is_empty() {
                    // A part without a name of its own belongs to the whole.
                    if let Value::Object(part) = value {
                        object.extend(part);
                    }
                } else if field.presence == Presence::Told || !is_zero(field, &value) {
                    object.insert(field.name.to_owned(), value);
                }
            }
            Repeat::List => {
                let list = object
                    .entry(field.name)
                    .or_insert_with(|| Value::Array(Vec::new()));
                let Value::Array(list) = list else { continue };
                match piece {
                    Piece::Bytes(packed) if field.value == Type::Integer => {
                        let mut packed = Reader::new(packed);
                        while let Some(number) = packed.varint()? {
                            list.push(Value::from(number.cast_signed()));
                        }
                    }
                    piece => list.push(value(field, piece)?),
                }
            }
            Repeat::Map => {
                let (name, value) = entry(field, piece)?;
                let map = object
                    .entry(field.name)
                    .or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(map) = map {
                    map.insert(name, value);
                }
            }
        }
    }
    Ok(object)
}

/// Reads one entry of a map; a key or value that is not sent is empty.
fn entry(field: &Field, piece: Piece<'_>) -> Read<(String, Value)> {
    let (mut name, mut found) = (String::new(), None);
    let mut reader = Reader::new(piece.bytes()?);
    while let Some((number, piece)) = reader.next()? {
        match number {
            1 => name = text(piece)?,
            2 => found = Some(value(field, piece)?),
            _ => {}
        }
    }
    let found = found.map_or_else(|| value(field, Piece::Bytes(&[])), Ok)?;
    Ok((name, found))
}

fn value(field: &Field, piece: Piece<'_>) -> Read<Value> {
    Ok(match field.value {
        Type::Text => Value::from(text(piece)?),
        Type::Integer => Value::from(piece.varint()?.cast_signed()),
        Type::Boolean => Value::from(piece.varint()? != 0),
        Type::Bytes => Value::from(STANDARD.encode(piece.bytes()?)),
        Type::Moment { micro } => moment(piece.bytes()?, micro)?,
        Type::IntOrText => int_or_text(piece.bytes()?)?,
        Type::Quantity => match first(piece.bytes()?)? {
            Some(piece) => Value::from(text(piece)?),
            None => Value::from(""),
        },
        Type::Json => match first(piece.bytes()?)? {
            Some(piece) => serde_json::from_slice(piece.bytes()?)
                .map_err(|_| Malformed("an embedded object is not JSON"))?,
            None => Value::Null,
        },
        Type::Texts => {
            let mut texts = Vec::new();
            let mut reader = Reader::new(piece.bytes()?);
            while let Some((_, piece)) = reader.next()? {
                texts.push(Value::from(text(piece)?));
            }
            Value::Array(texts)
        }
        Type::Message(name) => Value::Object(message(fields::of_message(name), piece.bytes()?)?),
    })
}

/// Whether a value says nothing, so that JSON would not have it.
fn is_zero(field: &Field, value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty() && field.value != Type::Json,
    }
}

fn text(piece: Piece<'_>) -> Read<String> {
    let text = std::str::from_utf8(piece.bytes()?);
    text.map(str::to_owned)
        .map_err(|_| Malformed("a text is not UTF-8"))
}

/// Returns the only field of a message that wraps a single value.
fn first(content: &[u8]) -> Read<Option<Piece<'_>>> {
    let found = Reader::new(content).next()?;
    Ok(found.and_then(|(number, piece)| (number == 1).then_some(piece)))
}

/// Reads seconds and nanoseconds; the moment zero stands for none.
fn moment(content: &[u8], micro: bool) -> Read<Value> {
    let (mut seconds, mut nanos) = (0_i64, 0_i32);
    let mut reader = Reader::new(content);
    while let Some((number, piece)) = reader.next()? {
        match number {
            1 => seconds = piece.varint()?.cast_signed(),
            2 => nanos = i32::try_from(piece.varint()?).unwrap_or(0),
            _ => {}
        }
    }
    if content.is_empty() {
        return Ok(Value::Null);
    }
    let moment = jiff::Timestamp::new(seconds, if micro { nanos } else { 0 })
        .map_err(|_| Malformed("a moment is out of range"))?;
    Ok(Value::from(if micro {
        format!("{moment:.6}")
    } else {
        moment.to_string()
    }))
}

fn int_or_text(content: &[u8]) -> Read<Value> {
    let (mut is_text, mut number, mut words) = (false, 0, String::new());
    let mut reader = Reader::new(content);
    while let Some((field, piece)) = reader.next()? {
        match field {
            1 => is_text = piece.varint()? == 1,
            2 => number = piece.varint()?.cast_signed(),
            3 => words = text(piece)?,
            _ => {}
        }
    }
    Ok(if is_text {
        Value::from(words)
    } else {
        Value::from(number)
    })
}

#[cfg(test)]
mod tests;
