//! Value validations of one schema: bounds, patterns, enumerations and the branches of `allOf` and the like.

use std::cmp::Ordering;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use regex::Regex;
use serde_json::{Map, Number, Value};

use super::field_error::{FieldError, Path, quoted};
use super::formats::Format;
use super::structural::{Node, Place, SchemaError, compile};
use super::validate::check_value;

/// What a schema demands of a value beyond its type.
#[derive(Debug, Default)]
pub(super) struct Checks {
    enumeration: Vec<Value>,
    format: Option<Format>,
    text: TextChecks,
    number: NumberChecks,
    size: SizeChecks,
    required: Vec<String>,
    all_of: Vec<Node>,
    any_of: Vec<Node>,
    one_of: Vec<Node>,
    not: Option<Box<Node>>,
}

#[derive(Debug, Default)]
struct TextChecks {
    pattern: Option<Regex>,
    min_length: Option<u64>,
    max_length: Option<u64>,
}

#[derive(Debug, Default)]
struct NumberChecks {
    minimum: Option<f64>,
    maximum: Option<f64>,
    exclusive_minimum: bool,
    exclusive_maximum: bool,
    multiple_of: Option<f64>,
}

#[derive(Debug, Default)]
struct SizeChecks {
    min_items: Option<u64>,
    max_items: Option<u64>,
    unique_items: bool,
    min_properties: Option<u64>,
    max_properties: Option<u64>,
}

impl Checks {
    pub(super) fn compile(
        props: &JSONSchemaProps,
        branches: Place,
        path: &Path<'_>,
    ) -> Result<Self, SchemaError> {
        let limit = |given: Option<i64>| given.and_then(|limit| u64::try_from(limit).ok());
        let all = |keyword: &str, given: &Option<Vec<JSONSchemaProps>>| {
            let place = path.field(keyword);
            let compile_one = |(index, one)| compile(one, branches, &place.index(index));
            given
                .iter()
                .flatten()
                .enumerate()
                .map(compile_one)
                .collect::<Result<Vec<_>, _>>()
        };
        Ok(Self {
            enumeration: props
                .enum_
                .iter()
                .flatten()
                .map(|one| one.0.clone())
                .collect(),
            format: props.format.as_deref().and_then(Format::parse),
            text: TextChecks {
                pattern: compile_pattern(props, path)?,
                min_length: limit(props.min_length),
                max_length: limit(props.max_length),
            },
            number: NumberChecks {
                minimum: props.minimum,
                maximum: props.maximum,
                exclusive_minimum: props.exclusive_minimum == Some(true),
                exclusive_maximum: props.exclusive_maximum == Some(true),
                multiple_of: props.multiple_of,
            },
            size: SizeChecks {
                min_items: limit(props.min_items),
                max_items: limit(props.max_items),
                unique_items: props.unique_items == Some(true),
                min_properties: limit(props.min_properties),
                max_properties: limit(props.max_properties),
            },
            required: props.required.clone().unwrap_or_default(),
            all_of: all("allOf", &props.all_of)?,
            any_of: all("anyOf", &props.any_of)?,
            one_of: all("oneOf", &props.one_of)?,
            not: match &props.not {
                Some(one) => Some(Box::new(compile(one, branches, &path.field("not"))?)),
                None => None,
            },
        })
    }

    pub(super) fn requires(&self, name: &str) -> bool {
        self.required.iter().any(|one| one == name)
    }

    pub(super) fn format(&self) -> Option<Format> {
        self.format
    }

    /// Lists the schemas of all branches.
    pub(super) fn branches(&self) -> impl Iterator<Item = &Node> {
        self.all_of
            .iter()
            .chain(&self.any_of)
            .chain(&self.one_of)
            .chain(self.not.as_deref())
    }

    /// Appends what is wrong with `value` itself; members are the caller's business.
    pub(super) fn check(&self, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
        self.check_branches(value, path, errors);
        match value {
            Value::String(text) => {
                self.text.check(text, value, path, errors);
                if let Some(format) = self.format.filter(|format| !format.accepts_text(text)) {
                    let detail = format!(
                        "{path} in body must be of type {}: {}",
                        format.name(),
                        quoted(text)
                    );
                    errors.push(FieldError::type_invalid(path, value, &detail));
                }
            }
            Value::Number(number) => {
                self.number.check(number, path, errors);
                if let Some(format) = self.format.filter(|format| !format.accepts_number(number)) {
                    let detail = format!(
                        "{path} in body must be of type {}: \"{number}\"",
                        format.name()
                    );
                    errors.push(FieldError::type_invalid(path, value, &detail));
                }
            }
            Value::Array(elements) => self.size.check_list(elements, path, errors),
            Value::Object(members) => {
                self.size.check_map(members, path, errors);
                for name in &self.required {
                    if !members.contains_key(name) {
                        errors.push(FieldError::required(&path.field(name), ""));
                    }
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
        self.check_enumeration(value, path, errors);
    }

    /// Null of a nullable field is still bound by the enumeration.
    pub(super) fn check_enumeration(
        &self,
        value: &Value,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        if !self.enumeration.is_empty() && !self.enumeration.iter().any(|one| equal(one, value)) {
            errors.push(FieldError::not_supported(path, value, &self.enumeration));
        }
    }

    fn check_branches(&self, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
        let complain = |text: &str| {
            FieldError::invalid(path, &Value::from(""), &format!("\"{path}\" must {text}"))
        };
        for branch in &self.all_of {
            check_value(branch, value, path, errors);
        }
        if !self.any_of.is_empty() {
            let mut outcomes = self
                .any_of
                .iter()
                .map(|branch| outcome(branch, value, path));
            let first = outcomes.next().unwrap_or_default();
            if !first.is_empty() && !outcomes.any(|found| found.is_empty()) {
                errors.push(complain("validate at least one schema (anyOf)"));
                errors.extend(first);
            }
        }
        if !self.one_of.is_empty() {
            let mut outcomes: Vec<_> = self
                .one_of
                .iter()
                .map(|branch| outcome(branch, value, path))
                .collect();
            let valid = outcomes.iter().filter(|found| found.is_empty()).count();
            if valid == 0 {
                errors.push(complain(
                    "validate one and only one schema (oneOf). Found none valid",
                ));
                errors.append(&mut outcomes[0]);
            } else if valid > 1 {
                let text = format!(
                    "validate one and only one schema (oneOf). Found {valid} valid alternatives"
                );
                errors.push(complain(&text));
            }
        }
        if let Some(branch) = &self.not
            && outcome(branch, value, path).is_empty()
        {
            errors.push(complain("not validate the schema (not)"));
        }
    }
}

fn outcome(branch: &Node, value: &Value, path: &Path<'_>) -> Vec<FieldError> {
    let mut found = Vec::new();
    check_value(branch, value, path, &mut found);
    found
}

fn compile_pattern(props: &JSONSchemaProps, path: &Path<'_>) -> Result<Option<Regex>, SchemaError> {
    let Some(pattern) = &props.pattern else {
        return Ok(None);
    };
    let compiled = Regex::new(pattern);
    compiled.map(Some).map_err(|source| SchemaError::Pattern {
        path: path.to_string(),
        source,
    })
}

impl TextChecks {
    fn check(&self, text: &str, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
        let mut invalid = |detail: String| errors.push(FieldError::invalid(path, value, &detail));
        if let Some(pattern) = self
            .pattern
            .as_ref()
            .filter(|pattern| !pattern.is_match(text))
        {
            invalid(format!("{path} in body should match '{pattern}'"));
        }
        // The bytes decide most cases without counting characters.
        let chars = |text: &str| text.chars().count() as u64;
        if let Some(limit) = self.min_length.filter(|limit| chars(text) < *limit) {
            invalid(format!(
                "{path} in body should be at least {limit} chars long"
            ));
        }
        if let Some(limit) = self
            .max_length
            .filter(|limit| text.len() as u64 > *limit && chars(text) > *limit)
        {
            errors.push(FieldError::too_long(path, limit));
        }
    }
}

impl NumberChecks {
    fn check(&self, number: &Number, path: &Path<'_>, errors: &mut Vec<FieldError>) {
        let Some(found) = number.as_f64() else { return };
        let mut invalid = |detail: &str, limit: f64| {
            let detail = format!("{path} in body should be {detail} {}", go_float(limit));
            errors.push(FieldError::invalid(
                path,
                &Value::Number(number.clone()),
                &detail,
            ));
        };
        match self.maximum {
            Some(limit) if self.exclusive_maximum && found >= limit => invalid("less than", limit),
            Some(limit) if found > limit => invalid("less than or equal to", limit),
            Some(_) | None => {}
        }
        match self.minimum {
            Some(limit) if self.exclusive_minimum && found <= limit => {
                invalid("greater than", limit);
            }
            Some(limit) if found < limit => invalid("greater than or equal to", limit),
            Some(_) | None => {}
        }
        if let Some(factor) = self.multiple_of.filter(|factor| *factor > 0.0) {
            let quotient = found / factor;
            if (quotient - quotient.round()).abs() > f64::EPSILON * quotient.abs().max(1.0) {
                invalid("a multiple of", factor);
            }
        }
    }
}

impl SizeChecks {
    fn check_list(&self, elements: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
        let count = elements.len() as u64;
        let omitted = Value::from(elements.len());
        if let Some(limit) = self.min_items.filter(|limit| count < *limit) {
            let detail = format!("{path} in body should have at least {limit} items");
            errors.push(FieldError::invalid(path, &omitted, &detail));
        }
        if let Some(limit) = self.max_items.filter(|limit| count > *limit) {
            errors.push(FieldError::too_many(path, elements.len(), limit));
        }
        if self.unique_items {
            let repeated = |(index, one): (usize, &Value)| {
                elements[..index].iter().any(|seen| equal(seen, one))
            };
            if elements.iter().enumerate().any(repeated) {
                let detail = format!("{path} in body shouldn't contain duplicates");
                errors.push(FieldError::invalid(path, &Value::from(""), &detail));
            }
        }
    }

    fn check_map(
        &self,
        members: &Map<String, Value>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        let count = members.len() as u64;
        if let Some(limit) = self.min_properties.filter(|limit| count < *limit) {
            let detail = format!("{path} in body should have at least {limit} properties");
            errors.push(FieldError::invalid(
                path,
                &Value::from(members.len()),
                &detail,
            ));
        }
        if let Some(limit) = self.max_properties.filter(|limit| count > *limit) {
            errors.push(FieldError::too_many(path, members.len(), limit));
        }
    }
}

/// Compares JSON values with `1` and `1.0` being the same number.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right
                || matches!((left.as_f64(), right.as_f64()), (Some(left), Some(right)) if left.partial_cmp(&right) == Some(Ordering::Equal))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .zip(right)
                    .all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let same = |(name, one)| right.get(name).is_some_and(|other| equal(one, other));
            left.len() == right.len() && left.iter().all(same)
        }
        (left, right) => left == right,
    }
}

/// Prints a bound as Kubernetes does: an exponent from a million on.
fn go_float(value: f64) -> String {
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    match exponent.parse::<i32>() {
        Ok(exponent) if !(-4..=5).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        Ok(_) | Err(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_print_as_in_kubernetes() {
        for (value, want) in [
            (1.0, "1"),
            (0.5, "0.5"),
            (262_144.0, "262144"),
            (5_242_880.0, "5.24288e+06"),
            (1e21, "1e+21"),
            (0.00001, "1e-05"),
        ] {
            assert_eq!(go_float(value), want);
        }
    }
}
