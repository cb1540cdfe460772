//! Identifiers that cannot be confused with one another.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::run::Run;

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Returns the text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Tells whether the text is empty.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl<T: Into<Arc<str>>> From<T> for $name {
            fn from(text: T) -> Self {
                Self(text.into())
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(Self::from)
            }
        }
    };
}

identifier!(
    /// Namespace of Runs and Pods. Cheap to clone.
    Namespace
);
identifier!(
    /// Name of a Run within its namespace. Cheap to clone.
    RunName
);
identifier!(
    /// Identity of a Run over all time. Cheap to clone.
    RunUid
);
identifier!(
    /// Name of a Pod within its namespace. Cheap to clone.
    PodName
);
identifier!(
    /// Identity of a Pod over all time. Cheap to clone.
    PodUid
);
identifier!(
    /// Name of a Runtime within its namespace. Cheap to clone.
    RuntimeName
);
identifier!(
    /// Name of a PersistentWorkspace within its namespace. Cheap to clone.
    WorkspaceName
);
identifier!(
    /// Key that Runs of one group share; they are placed all or none. Cheap to clone.
    GroupKey
);
identifier!(
    /// Name of a scheduling profile. Cheap to clone.
    ProfileName
);

/// Namespace and name of a Run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunKey {
    /// Namespace.
    pub namespace: Namespace,
    /// Name within the namespace.
    pub name: RunName,
}

impl RunKey {
    /// Reads the key of a Run.
    pub fn of(run: &Run) -> Self {
        Self {
            namespace: run.namespace.clone(),
            name: run.name.clone(),
        }
    }
}

/// Namespace and Runtime of a pool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolKey {
    /// Namespace.
    pub namespace: Namespace,
    /// Name of the Runtime.
    pub runtime: RuntimeName,
}

impl PoolKey {
    /// Returns the pool that a Run wants.
    pub fn of(run: &Run) -> Self {
        Self {
            namespace: run.namespace.clone(),
            runtime: run.runtime.clone(),
        }
    }
}

impl RunUid {
    /// Tells whether one is a clone of the other, which is quicker to find out than whether they are equal.
    pub(crate) fn is_clone_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
