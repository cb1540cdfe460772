//! The CRD files of the chart: one YAML document per kind, the same bytes for the same types.

use std::collections::BTreeMap;

use kruntimes_core::crd;
use serde_json::Value;

/// Why the files cannot be rendered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RenderError {
    /// A definition is no JSON.
    #[error("cannot turn a definition into JSON")]
    Json(#[from] serde_json::Error),
    /// A definition is no YAML.
    #[error("cannot write a definition as YAML")]
    Yaml(#[from] serde_saphyr::ser::Error),
}

/// Returns the text of every CRD file by file name, `<plural>.yaml`.
///
/// # Errors
///
/// Fails when a definition cannot be serialized, which only a bug in the types can cause.
pub fn rendered() -> Result<BTreeMap<String, String>, RenderError> {
    let mut files = BTreeMap::new();
    for definition in crd::all() {
        let mut document = serde_json::to_value(&definition)?;
        whole_numbers(&mut document);
        let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
        let yaml = serde_saphyr::to_string_with_options(&document, options)?;
        let header = "# Generated from the types by `cargo xtask crds`; do not edit.\n";
        files.insert(
            format!("{}.yaml", definition.spec.names.plural),
            format!("{header}{yaml}"),
        );
    }
    Ok(files)
}

/// Writes bounds as `1`, not `1.0`: the schema types hold them as floats.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(members) => members.values_mut().for_each(whole_numbers),
        Value::Number(number) if number.is_f64() => {
            let text = format!("{:.0}", number.as_f64().unwrap_or_default());
            let whole = text.parse::<i64>().ok().map(serde_json::Number::from);
            if let Some(whole) = whole.filter(|whole| whole.as_f64() == number.as_f64()) {
                *number = whole;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests;
