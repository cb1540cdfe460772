//! What the service knows about a kind: its names, its scope, its rules.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    schema::{FieldError, KindSchema},
    shape::{Form, Shape, View},
    table::Columns,
    typed::Through,
};

/// The shelf of kinds that are answered and never stored.
pub(crate) const NOT_STORED: usize = usize::MAX;

/// One kind of object, stored once whatever versions it is served in.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent properties, each a column of the table of kinds"
)]
pub(crate) struct Kind {
    /// Place of the kind in the store.
    pub(crate) shelf: usize,
    /// `apiVersion` of what is stored.
    pub(crate) api_version: String,
    pub(crate) name: String,
    pub(crate) list_name: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// Has a `/status` subresource, so that main and status writes are kept apart.
    pub(crate) status: bool,
    /// Counts spec changes in `metadata.generation`.
    pub(crate) generation: bool,
    /// Accepts a PUT without `metadata.resourceVersion`.
    pub(crate) unconditional_update: bool,
    /// The objects are given when the server is built, and only read.
    pub(crate) fixed: bool,
    pub(crate) rules: Rules,
}

impl Kind {
    /// Whether there can be objects of this kind; the others are only ever created, to be answered.
    pub(crate) fn is_stored(&self) -> bool {
        self.shelf != NOT_STORED
    }

    /// Whether this is core `v1` `kind`, for the few that the service itself reacts to.
    pub(crate) fn is_core(&self, kind: &str) -> bool {
        self.api_version == "v1" && self.name == kind
    }

    /// Whether the answer to a deletion at once is the object, as Kubernetes has it for some old kinds.
    pub(crate) fn shows_last_state(&self) -> bool {
        ["Pod", "Service", "ServiceAccount"]
            .iter()
            .any(|kind| self.is_core(kind))
    }
}

/// What a built-in kind does beyond storing: plain functions, all harmless by default.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// Completes an object about to be created.
    pub(crate) prepare: fn(&mut Value),
    /// Fills in what is absent, on every write.
    pub(crate) default: fn(&mut Value),
    /// Judges an object, on update together with the one it replaces.
    pub(crate) check: fn(&Value, Option<&Value>) -> Vec<FieldError>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            prepare: |_| {},
            default: |_| {},
            check: |_, _| Vec::new(),
        }
    }
}

/// A kind under one group and version, as named in request paths.
pub(crate) struct Served {
    pub(crate) kind: Arc<Kind>,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) shape: Shape,
    pub(crate) schema: Option<KindSchema>,
    /// Passes an object through the type of a built-in kind, in this version.
    pub(crate) through: Option<Through>,
    /// Paths of the stored form that a field selector may name, besides metadata.
    pub(crate) selectable: Vec<String>,
    /// What a table of the kind shows.
    pub(crate) columns: Arc<Columns>,
}

impl Served {
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns `runs.kruntimes.io` or `pods`, as error messages name a resource.
    pub(crate) fn resource(&self) -> String {
        dotted(&self.kind.plural, &self.group)
    }

    /// Describes how this version shows stored objects.
    pub(crate) fn view(&self, form: Form) -> View {
        View {
            shape: self.shape.clone(),
            api_version: self.api_version(),
            form,
        }
    }
}

/// Joins a name and its group, of which the core one is not said.
pub(crate) fn dotted(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}
