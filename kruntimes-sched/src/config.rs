//! Profiles as data: plugins by name, with typed arguments.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::builder::{ProfileBuilder, ProfileError};
use crate::identity::ProfileName;
use crate::plugins::{
    self, Expression, Gang, LeastLoaded, Preemption, PreferredRunAffinity, RunAffinity,
    RuntimePodAvailability, Workspace,
};
use crate::profile::Profile;

/// A profile as it is written in a configuration file (S-148).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ProfileSpec {
    /// Name that a selector may give.
    pub name: ProfileName,
    /// Whether to start from nothing instead of from the default plugins.
    pub bare: bool,
    /// Plugins to take out, at every extension point.
    pub remove: Vec<String>,
    /// Plugins to add, or to give other arguments where they are.
    pub plugins: Vec<PluginSpec>,
    /// Other weights of score plugins.
    pub weights: BTreeMap<String, i64>,
    /// Whether decisions are explained; they are unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain: Option<bool>,
    /// Percentage of Pods at which the search for candidates ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage: Option<u8>,
}

/// A plugin by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct PluginSpec {
    /// Name it was registered with.
    pub name: String,
    /// Weight, for score plugins; one unless told otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i64>,
    /// What the plugin is told.
    pub arguments: Map<String, Value>,
}

impl PluginSpec {
    /// Reads one argument as the type the plugin wants.
    ///
    /// # Errors
    ///
    /// Returns an error when the argument is missing or of another form (S-149).
    pub fn argument<T: DeserializeOwned>(&self, name: &str) -> Result<T, ProfileError> {
        let wrong = |cause: String| ProfileError::Argument {
            plugin: self.name.clone(),
            argument: name.to_owned(),
            cause,
        };
        let value = self.arguments.get(name);
        let value = value.ok_or_else(|| wrong("it is missing".to_owned()))?;
        T::deserialize(value).map_err(|error| wrong(error.to_string()))
    }

    /// Reads all arguments as one value.
    ///
    /// # Errors
    ///
    /// Returns an error when one is missing, unknown or of another form (S-149).
    pub fn arguments<T: DeserializeOwned>(&self) -> Result<T, ProfileError> {
        let value = Value::Object(self.arguments.clone());
        T::deserialize(value).map_err(|error| ProfileError::Argument {
            plugin: self.name.clone(),
            argument: "arguments".to_owned(),
            cause: error.to_string(),
        })
    }

    /// Refuses arguments where none are known.
    ///
    /// # Errors
    ///
    /// Returns the first argument.
    pub fn no_arguments(&self) -> Result<(), ProfileError> {
        match self.arguments.keys().next() {
            None => Ok(()),
            Some(argument) => Err(ProfileError::Argument {
                plugin: self.name.clone(),
                argument: argument.clone(),
                cause: "it is unknown".to_owned(),
            }),
        }
    }

    fn weight(&self) -> i64 {
        self.weight.unwrap_or(1)
    }
}

/// Puts a plugin into a profile, or says what is wrong with its arguments.
type Maker =
    dyn Fn(ProfileBuilder, &PluginSpec) -> Result<ProfileBuilder, ProfileError> + Send + Sync;

/// The plugins that configurations may name.
#[derive(Clone)]
pub struct Registry {
    makers: BTreeMap<String, Arc<Maker>>,
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

impl Registry {
    /// Knows the plugins of this crate.
    pub fn new() -> Self {
        let empty = Self {
            makers: BTreeMap::new(),
        };
        empty
            .with("Workspace", |builder, spec| {
                let plugin: Workspace = spec.arguments()?;
                Ok(builder.put_filter(plugin).put_pre_bind(plugin))
            })
            .with("RuntimePodAvailability", |builder, spec| {
                let plugin: RuntimePodAvailability = spec.arguments()?;
                Ok(builder.put_filter(plugin).put_reserve(plugin))
            })
            .with("RunAffinity", |builder, spec| {
                spec.no_arguments()?;
                Ok(builder.put_filter(RunAffinity))
            })
            .with("PreferredRunAffinity", |builder, spec| {
                spec.no_arguments()?;
                Ok(builder.put_score(spec.weight(), PreferredRunAffinity))
            })
            .with("LeastLoaded", |builder, spec| {
                spec.no_arguments()?;
                Ok(builder.put_score(spec.weight(), LeastLoaded))
            })
            .with("Preemption", |builder, spec| {
                Ok(builder.post_filter(spec.arguments::<Preemption>()?))
            })
            .with("Gang", |builder, spec| {
                Ok(builder.permit(spec.arguments::<Gang>()?))
            })
            .with("Expression", |builder, spec| {
                let text: String = spec.argument("expression")?;
                let plugin = Expression::parse(&text).map_err(|error| ProfileError::Argument {
                    plugin: spec.name.clone(),
                    argument: "expression".to_owned(),
                    cause: error.to_string(),
                })?;
                Ok(builder.filter(plugin))
            })
    }

    /// Makes a plugin known under a name; replaces an earlier one.
    pub fn with(
        mut self,
        name: &str,
        maker: impl Fn(ProfileBuilder, &PluginSpec) -> Result<ProfileBuilder, ProfileError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.makers.insert(name.to_owned(), Arc::new(maker));
        self
    }

    /// Builds a profile: start, remove, add, reweight, check.
    ///
    /// # Errors
    ///
    /// Returns the first mistake (S-149).
    pub fn build(&self, spec: &ProfileSpec) -> Result<Profile, ProfileError> {
        let mut builder = if spec.bare {
            Profile::builder()
        } else {
            plugins::standard()
        };
        for name in &spec.remove {
            builder = builder.remove(name);
        }
        for plugin in &spec.plugins {
            let maker = self.makers.get(&plugin.name);
            let maker = maker.ok_or_else(|| ProfileError::UnknownPlugin(plugin.name.clone()))?;
            builder = maker(builder, plugin)?;
        }
        for (name, weight) in &spec.weights {
            builder = builder.reweight(name, *weight);
        }
        if let Some(explain) = spec.explain {
            builder = builder.explain(explain);
        }
        if let Some(percentage) = spec.percentage {
            builder = builder.percentage(percentage);
        }
        builder.build()
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.makers.keys();
        f.debug_list().entries(names).finish()
    }
}
