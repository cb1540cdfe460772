//! Query parameters of a request, decoded.

use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;

use crate::error::ApiError;

/// The decoded parameters; the first value of a repeated name counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let mut values = BTreeMap::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            values.entry(decode(name)).or_insert_with(|| decode(value));
        }
        Self(values)
    }

    /// Returns a value that is present and not empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(self.0.get(name).map(String::as_str), Some("true" | "1"))
    }

    /// Whether a parameter is given, with a value or without.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns a number, refusing text that is not one.
    pub(crate) fn number<N: std::str::FromStr>(&self, name: &str) -> Result<Option<N>, ApiError> {
        self.text(name)
            .map(|text| {
                text.parse().map_err(|_| {
                    ApiError::bad_request(format!("invalid value for parameter {name}: {text:?}"))
                })
            })
            .transpose()
    }
}

fn decode(text: &str) -> String {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_and_flags_read() {
        let query = Query::parse("&labelSelector=a%3Db%2Cc&watch=true&limit=5&x=1+2");
        assert_eq!(query.text("labelSelector"), Some("a=b,c"));
        assert!(query.flag("watch"));
        assert_eq!(query.number::<usize>("limit").unwrap(), Some(5));
        assert_eq!(query.text("x"), Some("1 2"));
        assert!(query.number::<usize>("x").is_err());
    }
}
