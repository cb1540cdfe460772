//! Request bodies as JSON values, read from JSON or YAML with an eye on repeated keys.

use std::{cell::RefCell, fmt};

use serde::{
    Deserializer,
    de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};
use serde_saphyr::DuplicateKeyPolicy;

use crate::{
    error::ApiError,
    strict::{Findings, Place, bounded},
};

/// Bytes of a parser's complaint that are passed on.
const COMPLAINT_MAX_BYTES: usize = 512;
/// Deepest nesting of a YAML body, that of JSON.
const DEPTH_MAX: usize = 127;
/// Nodes that all aliases of a YAML body may stand for together.
const ALIASED_NODES_MAX: usize = 100_000;

/// A body as received: its value, and the keys that it gives more than once.
#[derive(Clone, Debug)]
pub(crate) struct Manifest {
    pub(crate) value: Value,
    pub(crate) findings: Findings,
}

impl From<Value> for Manifest {
    fn from(value: Value) -> Self {
        Self {
            value,
            findings: Findings::default(),
        }
    }
}

impl Manifest {
    /// Reads a body in the format its content type names; JSON when none is named.
    pub(crate) fn read(content_type: &str, body: &[u8], kind: &str) -> Result<Self, ApiError> {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let read = match essence {
            "" | "application/json" => Self::read_json(body).map_err(|error| error.to_string()),
            "application/yaml" => Self::read_yaml(body),
            _ => {
                return Err(ApiError::unsupported_media(&[
                    "application/json",
                    "application/yaml",
                ]));
            }
        };
        read.map_err(|error| {
            let error = bounded(error, COMPLAINT_MAX_BYTES);
            ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): {error}"
            ))
        })
    }

    /// Reads JSON; of a repeated key the last value counts.
    pub(crate) fn read_json(body: &[u8]) -> Result<Self, serde_json::Error> {
        let findings = RefCell::new(Findings::default());
        let mut parser = serde_json::Deserializer::from_slice(body);
        let value = Tree::whole(&findings).deserialize(&mut parser)?;
        parser.end()?;
        Ok(Self {
            value,
            findings: findings.into_inner(),
        })
    }

    /// Reads one YAML document; of a repeated key the last value counts.
    pub(crate) fn read_yaml(body: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
        let findings = RefCell::new(Findings::default());
        let options = serde_saphyr::options! {
            duplicate_keys: DuplicateKeyPolicy::PassThrough,
            with_snippet: false,
            budget: serde_saphyr::budget! { max_depth: DEPTH_MAX },
            alias_limits: serde_saphyr::alias_limits! {
                max_total_replayed_events: ALIASED_NODES_MAX,
            },
        };
        let read = serde_saphyr::with_deserializer_from_str_with_options(text, options, |parser| {
            Tree::whole(&findings).deserialize(parser)
        });
        let value = read.map_err(|error| error.to_string())?;
        Ok(Self {
            value,
            findings: findings.into_inner(),
        })
    }
}

/// Reads one value at a place of a body.
#[derive(Clone, Copy)]
struct Tree<'a> {
    place: Place<'a>,
    findings: &'a RefCell<Findings>,
}

impl<'a> Tree<'a> {
    fn whole(findings: &'a RefCell<Findings>) -> Self {
        Self {
            place: Place::Root,
            findings,
        }
    }

    fn at<'b>(&'b self, place: Place<'b>) -> Tree<'b> {
        Tree {
            place,
            findings: self.findings,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value that JSON can express")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value);
        number
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(element) =
            elements.next_element_seed(self.at(Place::Index(&self.place, list.len())))?
        {
            list.push(element);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let place = Place::Field(&self.place, &name);
            let value = members.next_value_seed(self.at(place))?;
            if fields.contains_key(&name) {
                self.findings.borrow_mut().duplicate(&place);
            }
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn yaml(text: &str) -> Result<Manifest, ApiError> {
        Manifest::read("application/yaml", text.as_bytes(), "Pod")
    }

    #[test]
    fn repeated_keys_are_found_by_path_and_the_last_one_counts() {
        let text = br#"{"a":{"b":1,"b":2},"c":[{"d":1},{"d":1,"d":3}],"a":{"b":4}}"#;
        let read = Manifest::read_json(text).unwrap();
        assert_eq!(
            read.value,
            json!({ "a": { "b": 4 }, "c": [{ "d": 1 }, { "d": 3 }] })
        );
        assert_eq!(
            read.findings.into_texts(),
            [
                "duplicate field \"a.b\"",
                "duplicate field \"c[1].d\"",
                "duplicate field \"a\""
            ]
        );
    }

    #[test]
    fn json_reads_as_serde_json_reads_it() {
        for text in [
            r#"{"a":[1,-2,3.5,1e300,18446744073709551615,true,null,"ä\n\u0041"]}"#,
            "[]",
            "\"x\"",
            "{",
            "{}x",
            "[1,]",
        ] {
            let plain: Option<Value> = serde_json::from_str(text).ok();
            let read = Manifest::read_json(text.as_bytes()).ok();
            assert_eq!(read.map(|read| read.value), plain, "{text}");
        }
        assert!(Manifest::read_json("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn yaml_is_read_as_json_would_be() {
        let read =
            yaml("a: 1\nb: [x, 'y', null, true, 0.5]\nc:\n  d: |\n    e\n  8080: f\n").unwrap();
        assert_eq!(
            read.value,
            json!({ "a": 1, "b": ["x", "y", null, true, 0.5], "c": { "d": "e\n", "8080": "f" } })
        );
        let read = yaml("a: 1\na: 2\n").unwrap();
        assert_eq!(read.value, json!({ "a": 2 }));
        assert_eq!(read.findings.into_texts(), ["duplicate field \"a\""]);
    }

    #[test]
    fn aliases_cannot_explode_and_bad_yaml_is_refused() {
        let level = |number: usize| {
            let inner = match number.checked_sub(1) {
                None => "x, ".repeat(10),
                Some(below) => format!("*a{below}, ").repeat(10),
            };
            format!("a{number}: &a{number} [{inner}]\n")
        };
        let text: String = (0..10).map(level).collect();
        assert_eq!(yaml(&text).unwrap_err().code, 400);
        for text in ["a: [", "a: b: c", "a: .nan", "--- 1\n--- 2\n"] {
            assert_eq!(yaml(text).unwrap_err().code, 400, "{text:?}");
        }
        assert_eq!(yaml(&"[".repeat(100_000)).unwrap_err().code, 400);
    }

    #[test]
    fn other_formats_are_not_accepted() {
        for format in ["application/vnd.kubernetes.protobuf", "text/plain"] {
            let error = Manifest::read(format, b"{}", "Pod").unwrap_err();
            assert_eq!(
                (error.code.as_u16(), error.reason),
                (415, "UnsupportedMediaType")
            );
        }
    }
}
