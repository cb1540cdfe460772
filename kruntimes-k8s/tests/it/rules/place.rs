//! Places in an object, written like `spec/mode/task/args/0`, and bounds to try there.

use serde_json::{Value, json};

/// Puts `value` at `place`, making objects and one-element lists on the way.
pub(super) fn put(target: &mut Value, place: &str, value: Value) {
    let mut slot = target;
    for step in place.split('/') {
        slot = match step.parse() {
            Ok(index) => element(slot, index),
            Err(_) => member(slot, step),
        };
    }
    *slot = value;
}

fn element(slot: &mut Value, index: usize) -> &mut Value {
    if !slot.is_array() {
        *slot = json!([]);
    }
    let list = slot.as_array_mut().expect("it was just made a list");
    while list.len() <= index {
        list.push(json!({}));
    }
    &mut list[index]
}

fn member<'v>(slot: &'v mut Value, name: &str) -> &'v mut Value {
    if !slot.is_object() {
        *slot = json!({});
    }
    let object = slot.as_object_mut().expect("it was just made an object");
    object.entry(name).or_insert(Value::Null)
}

/// Writes a place as a field error does.
pub(super) fn shown(place: &str) -> String {
    place
        .split('/')
        .fold(String::new(), |path, step| match step.parse::<usize>() {
            Ok(index) => format!("{path}[{index}]"),
            Err(_) if path.is_empty() => step.to_owned(),
            Err(_) => format!("{path}.{step}"),
        })
}

/// A bound of the field tables of the API reference.
pub(super) enum Bound {
    /// Characters of a text, least and most.
    Text(usize, usize),
    /// Most characters of a text that a pattern keeps from being empty.
    Pattern(usize),
    /// Elements of a list, least and most, all like the one given.
    Items(usize, usize, &'static str),
    /// Keys of a map, least and most, all values like the one given.
    Keys(usize, usize, &'static str),
    /// A whole number, smallest and largest.
    Number(i64, Option<i64>),
    /// An enumeration.
    OneOf(&'static [&'static str]),
}

impl Bound {
    /// Values that just fit.
    pub(super) fn good(&self) -> Vec<Value> {
        match self {
            Self::Text(least, most) => vec![text(*least), text(*most)],
            Self::Pattern(most) => vec![text(1), text(*most)],
            Self::Items(least, most, one) => vec![list(*least, one), list(*most, one)],
            Self::Keys(least, most, one) => vec![map(*least, one), map(*most, one)],
            Self::Number(least, most) => {
                vec![json!(least), json!(most.unwrap_or(i64::from(i32::MAX)))]
            }
            Self::OneOf(all) => all.iter().map(|one| json!(one)).collect(),
        }
    }

    /// Values that just do not fit, each with what is said about it.
    pub(super) fn bad(&self) -> Vec<(Value, String)> {
        let too_long = |most: usize| format!("Too long: may not be more than {most} bytes");
        let too_many =
            |most: usize| format!("Too many: {}: must have at most {most} items", most + 1);
        let too_few = |least: usize, unit: &str| format!("at least {least} {unit}");
        match self {
            Self::Text(least, most) => {
                let mut bad = vec![(text(most + 1), too_long(*most))];
                bad.extend(below(*least).map(|short| (text(short), too_few(*least, "chars long"))));
                bad
            }
            Self::Pattern(most) => {
                vec![
                    (text(most + 1), too_long(*most)),
                    (text(0), "should match".to_owned()),
                ]
            }
            Self::Items(least, most, one) => {
                let mut bad = vec![(list(most + 1, one), too_many(*most))];
                bad.extend(below(*least).map(|short| (list(short, one), too_few(*least, "items"))));
                bad
            }
            Self::Keys(least, most, one) => {
                let mut bad = vec![(map(most + 1, one), too_many(*most))];
                bad.extend(
                    below(*least).map(|short| (map(short, one), too_few(*least, "properties"))),
                );
                bad
            }
            Self::Number(least, most) => {
                let small = (
                    json!(least - 1),
                    "should be greater than or equal to".to_owned(),
                );
                let large = most.map(|most| {
                    (
                        json!(most + 1),
                        "should be less than or equal to".to_owned(),
                    )
                });
                std::iter::once(small).chain(large).collect()
            }
            Self::OneOf(all) => vec![(json!("Bogus"), format!("supported values: \"{}\"", all[0]))],
        }
    }
}

fn below(least: usize) -> Option<usize> {
    least.checked_sub(1)
}

fn text(length: usize) -> Value {
    json!("a".repeat(length))
}

fn list(length: usize, one: &str) -> Value {
    vec![super::parsed(one); length].into()
}

fn map(length: usize, one: &str) -> Value {
    let one = super::parsed(one);
    Value::Object(
        (0..length)
            .map(|index| (format!("k{index}"), one.clone()))
            .collect(),
    )
}
