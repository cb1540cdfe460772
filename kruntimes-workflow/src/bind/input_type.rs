//! Types of inputs beyond `string` (W-206). The bound value stays text.

use std::collections::BTreeMap;
use std::sync::Arc;

use kruntimes_core::api::InputType;

use crate::extend::Plugin;

/// Reads a value of one type. It has to be pure.
pub trait ReadInput: Send + Sync {
    /// Returns the value in its one spelling, which is what gets bound.
    ///
    /// # Errors
    ///
    /// Says what the value should be.
    fn read(&self, value: &str) -> Result<String, String>;
}

impl<F: Fn(&str) -> Result<String, String> + Send + Sync> ReadInput for F {
    fn read(&self, value: &str) -> Result<String, String> {
        self(value)
    }
}

/// Types by name; `string` is always there and takes everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputTypes {
    types: BTreeMap<String, Plugin<dyn ReadInput>>,
}

impl InputTypes {
    /// The types most definitions want: `boolean`, and `number` for whole numbers.
    pub fn usual() -> Self {
        let boolean = |value: &str| match value {
            "true" | "false" => Ok(value.to_owned()),
            _ => Err("must be true or false".to_owned()),
        };
        let number = |value: &str| {
            let number: Result<i64, _> = value.parse();
            let number = number.map_err(|_| "must be a whole number".to_owned());
            number.map(|number| number.to_string())
        };
        Self::default()
            .with("boolean", boolean)
            .with("number", number)
    }

    /// Adds a type, or replaces the one of that name.
    pub fn with(mut self, name: &str, read: impl ReadInput + 'static) -> Self {
        let read: Arc<dyn ReadInput> = Arc::new(read);
        self.types.insert(name.to_owned(), Plugin::new(read));
        self
    }

    /// Tells whether a type may be used.
    pub fn has(&self, input_type: &InputType) -> bool {
        match input_type {
            InputType::String => true,
            InputType::Named(name) => self.types.contains_key(name),
        }
    }

    /// Reads a value of a type.
    ///
    /// # Errors
    ///
    /// Says what the value should be, or that there is no such type.
    pub fn read(&self, input_type: &InputType, value: &str) -> Result<String, String> {
        let name = match input_type {
            InputType::String => return Ok(value.to_owned()),
            InputType::Named(name) => name,
        };
        match self.types.get(name) {
            Some(read) => read.read(value),
            None => Err("has a type that nobody defined".to_owned()),
        }
    }
}
