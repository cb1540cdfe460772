//! Expressions: what is measured is what is evaluated, and what is checked is what fails.
#![no_main]

use std::collections::BTreeMap;

use kruntimes_workflow::expr::{Known, Scope, check, evaluate, measure};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let inputs: BTreeMap<String, String> = [("x".to_owned(), "${{ y }}".to_owned())].into();
    let scope = Scope {
        inputs: Some(&inputs),
        ..Scope::default()
    };
    let known = Known {
        inputs: Some(&|name| name == "x"),
        ..Known::default()
    };
    let found = check(text, &known);
    match (evaluate(text, &scope), measure(text, &scope)) {
        (Ok(value), Ok(size)) => {
            assert_eq!(
                (value.len(), value.chars().count()),
                (size.bytes, size.chars)
            );
            assert_eq!(found, []);
        }
        (Err(value), Err(size)) => {
            assert_eq!(value, size);
            assert_eq!(found.first(), Some(&value));
        }
        (value, size) => panic!("{value:?} and {size:?}"),
    }
});
