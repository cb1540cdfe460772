//! Bounds and rules of artifact references and stores (API reference, sections 3.6 and 4.2).

use schemars::Schema;
use serde_json::json;

use super::rule::Rule;
use super::schema::{at_least, filled, object, text};

/// The member named by `driver` is present and the other one is absent.
fn follows_driver(parent: &str) -> String {
    format!(
        "self.driver == 'filesystem' ? (has({parent}.filesystem) && !has({parent}.s3)) : (has({parent}.s3) && !has({parent}.filesystem))"
    )
}

pub(crate) fn reference(schema: &mut Schema) {
    object(schema)
        .field("name", &filled(255))
        .field("sizeBytes", &at_least(0))
        .field("digest", &text(256))
        .field("contentType", &text(255))
        // R15
        .rule(
            Rule::new(
                follows_driver("self.location"),
                "location must hold exactly the member named by driver",
            )
            .at(".location"),
        );
}

pub(crate) fn location(schema: &mut Schema) {
    object(schema);
}

pub(crate) fn filesystem_location(schema: &mut Schema) {
    object(schema)
        .field("path", &filled(4096))
        .field("volumeClaimName", &text(253));
}

pub(crate) fn s3_location(schema: &mut Schema) {
    object(schema)
        .field("bucket", &filled(255))
        .field("key", &filled(4096));
}

pub(crate) fn store(schema: &mut Schema) {
    // T6
    object(schema).rule(Rule::new(
        follows_driver("self"),
        "artifactStore must hold exactly the member named by driver",
    ));
}

pub(crate) fn filesystem_store(schema: &mut Schema) {
    object(schema).field("volumeClaimName", &json!({ "minLength": 1 }));
}

pub(crate) fn s3_store(schema: &mut Schema) {
    object(schema)
        .field("bucket", &json!({ "minLength": 1, "pattern": "^[^/]+$" }))
        .field("prefix", &text(1024))
        .field("region", &text(128))
        .field("endpoint", &text(2048))
        .field_rule(
            "endpoint",
            Rule::new(
                "isURL(self) && url(self).getScheme() != '' && url(self).getHost() != ''",
                "endpoint must be a URL with scheme and host",
            ),
        )
        .field("credentialsSecretName", &filled(253))
        .field("uploadPartSize", &at_least(5_242_880))
        .field("uploadConcurrency", &at_least(1));
}
