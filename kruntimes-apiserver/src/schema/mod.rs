//! Structural schemas of CustomResourceDefinitions: pruning, defaulting and validation.
//!
//! A [`KindSchema`] is compiled once from one version of a CustomResourceDefinition and then applied to any number of
//! JSON objects. Everything here is a pure function of its arguments: no clock, no store, no request. The order of use
//! is that of Kubernetes: [`KindSchema::prune`], [`KindSchema::default`], then [`KindSchema::validate`].
//!
//! Differences from a cluster: regular expressions are those of the `regex` crate, CEL cost limits are not estimated,
//! `optionalOldSelf` and optional field syntax are refused at compile time, and of ratcheting there is only this: an
//! update does not repeat CEL rules about a value that it leaves alone, transition rules excepted.

mod cel;
mod checks;
mod defaults;
mod field_error;
mod formats;
mod laws;
mod lists;
mod prune;
mod structural;
mod validate;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

pub use field_error::{FieldError, FieldErrorKind};
pub use structural::SchemaError;
pub(crate) use structural::{JsonType, ListType, Node};

/// Applies the structural schema of one version of one custom kind.
///
/// Holds compiled patterns and compiled CEL rules; share it behind an `Arc`, it is immutable.
#[derive(Debug)]
pub struct KindSchema {
    root: structural::Node,
    engine: cel::Engine,
}

impl KindSchema {
    /// Compiles the schema of `version`, refusing what a cluster refuses when the definition is applied.
    ///
    /// A version without a schema accepts every object and prunes nothing.
    ///
    /// # Errors
    ///
    /// Fails when the version does not exist, the schema is not structural, a pattern or a rule does not compile, a
    /// rule names a field that the schema does not declare or uses a CEL construct that would not mean the same on a
    /// cluster, or a default value does not satisfy its own schema.
    pub fn compile(crd: &CustomResourceDefinition, version: &str) -> Result<Self, SchemaError> {
        let found = crd
            .spec
            .versions
            .iter()
            .find(|candidate| candidate.name == version);
        let found = found.ok_or_else(|| SchemaError::UnknownVersion(version.to_owned()))?;
        let props = found
            .schema
            .as_ref()
            .and_then(|schema| schema.open_api_v3_schema.as_ref());
        let root = match props {
            Some(props) => structural::compile_root(props)?,
            None => structural::Node::anything(),
        };
        let schema = Self {
            root,
            engine: cel::Engine::new(),
        };
        schema.engine.check_rules(&schema.root)?;
        defaults::check(&schema.root, &schema.engine)?;
        Ok(schema)
    }

    /// Returns the schema of whole objects.
    pub(crate) fn root(&self) -> &Node {
        &self.root
    }

    /// Drops the fields that the schema does not declare and returns their paths, such as `spec.jobs.build.stage`.
    ///
    /// `apiVersion`, `kind` and `metadata` of the object itself and of embedded resources are never touched.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.root, object)
    }

    /// Fills in absent fields that have a default, and replaces or drops `null` where null is not allowed.
    ///
    /// A null of a field that has a default takes the default when the field is not nullable.
    pub fn default(&self, object: &mut Value) {
        defaults::apply(&self.root, object);
    }

    /// Returns everything that is wrong with `object`, in schema order; an empty list means that it is valid.
    ///
    /// With `old` (an update) transition rules are evaluated too. CEL rules are skipped, with one error that says so,
    /// while an error of type, presence, enumeration or size exists: a rule may rely on all of these.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        validate::validate(&self.root, &self.engine, object, old)
    }

    /// Returns everything that is wrong after a write to the status subresource.
    ///
    /// `object` is the stored object with its new status. As on a cluster the whole of it is judged, because rules on
    /// the object itself see the status too.
    pub fn validate_status(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        validate::validate(&self.root, &self.engine, object, old)
    }
}

#[cfg(test)]
mod tests;
