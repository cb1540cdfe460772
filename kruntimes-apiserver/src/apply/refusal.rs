//! How conflicts between appliers are told.

use serde_json::{Value, json};

use super::{ledger::Operation, turn::Conflict};
use crate::error::ApiError;

/// Tells an applier whose fields it would change.
pub(super) fn conflict(conflicts: &[Conflict]) -> ApiError {
    let causes: Vec<Value> = conflicts
        .iter()
        .flat_map(|conflict| {
            let message = format!("conflict with {}", owner(conflict));
            conflict.paths.iter().map(move |path| {
                json!({ "reason": "FieldManagerConflict", "message": message, "field": path })
            })
        })
        .collect();
    let message = match (causes.len(), conflicts) {
        (1, [only]) => format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            owner(only),
            only.paths.concat()
        ),
        (many, _) => format!("Apply failed with {many} conflicts: {}", table(conflicts)),
    };
    ApiError::apply_conflict(message, &causes)
}

fn table(conflicts: &[Conflict]) -> String {
    let mut lines = Vec::new();
    for conflict in conflicts {
        lines.push(format!("conflicts with {}:", owner(conflict)));
        lines.extend(conflict.paths.iter().map(|path| format!("- {path}")));
    }
    lines.join("\n")
}

fn owner(conflict: &Conflict) -> String {
    let manager = &conflict.owner;
    let mut told = format!("{:?}", manager.name);
    if !manager.subresource.is_empty() {
        told = format!("{told} with subresource {:?}", manager.subresource);
    }
    match manager.operation {
        Operation::Apply => told,
        Operation::Update => format!("{told} using {}", manager.api_version),
    }
}
