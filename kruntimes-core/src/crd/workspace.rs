//! Bounds and rules of the `PersistentWorkspace` kind (API reference, section 5).

use schemars::Schema;
use serde_json::json;

use super::rule::Rule;
use super::schema::{at_least, conditions, label63, object, text};

pub(crate) fn spec(schema: &mut Schema) {
    object(schema)
        .field("runtime", &label63())
        .field("mode", &json!({ "default": "RuntimePodLocal" }))
        .field("ttlSecondsAfterUnused", &at_least(0))
        .field("cleanupPolicy", &json!({ "default": "DeleteAfterTTL" }));
}

pub(crate) fn status(schema: &mut Schema) {
    object(schema)
        .field("phase", &json!({ "default": "Pending" }))
        .field("boundPodUID", &text(253))
        .field("conditions", &conditions())
        .rule(
            Rule::new(
                "!has(oldSelf.boundPodUID) || (has(self.boundPodUID) && self.boundPodUID == oldSelf.boundPodUID)",
                "boundPodUID may not change once set",
            )
            .forbidden()
            .at(".boundPodUID"),
        );
}
