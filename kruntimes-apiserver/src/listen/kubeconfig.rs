//! The file that tells kubectl and client libraries how to get in.

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// Writes a kubeconfig with one context, `kruntimes`, that needs no other file.
pub(super) fn text(endpoint: &str, authority: &str, token: &str) -> String {
    let authority = STANDARD.encode(authority);
    format!(
        "apiVersion: v1\n\
         kind: Config\n\
         current-context: kruntimes\n\
         clusters:\n\
         - name: kruntimes\n\
         \x20 cluster:\n\
         \x20   server: {endpoint}\n\
         \x20   certificate-authority-data: {authority}\n\
         users:\n\
         - name: kruntimes\n\
         \x20 user:\n\
         \x20   token: \"{token}\"\n\
         contexts:\n\
         - name: kruntimes\n\
         \x20 context:\n\
         \x20   cluster: kruntimes\n\
         \x20   user: kruntimes\n\
         \x20   namespace: default\n"
    )
}
