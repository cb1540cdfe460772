//! Runtime Servers that a program brings along for Pods of the local node.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kruntimes_runtime::Supervisor;
use kruntimes_runtime::server::ServeError;

type Make = dyn Fn(&Path, Duration) -> Result<Supervisor, ServeError> + Send + Sync;

/// Runtime Servers of one's own, by the name that the image of a Runtime has to contain.
///
/// `sqlite` serves the images `sqlite` and `registry.example/sqlite-runtime:1.0`, and comes before a built-in
/// server of the same name.
#[derive(Clone, Default)]
pub struct Servers {
    makers: BTreeMap<String, Arc<Make>>,
}

impl Servers {
    /// Adds a server; `make` is given the work root of a Pod and the grace period, once per Pod.
    pub fn with(
        mut self,
        name: impl Into<String>,
        make: impl Fn(&Path, Duration) -> Result<Supervisor, ServeError> + Send + Sync + 'static,
    ) -> Self {
        self.makers.insert(name.into(), Arc::new(make));
        self
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.makers.keys().map(String::as_str)
    }

    pub(super) fn maker(&self, name: &str) -> Option<&Make> {
        self.makers.get(name).map(AsRef::as_ref)
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
