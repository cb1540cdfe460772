//! The kinds of kruntimes, and how arguments name their objects (C-47).

use kruntimes_core::api::{GROUP, VERSION};
use kube::core::{ApiResource, GroupVersionKind};

/// A kind of kruntimes. Group, version and plural are compiled in, so nothing has to be discovered (C-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One execution.
    Run,
    /// A pool of warm Pods.
    Runtime,
    /// A reusable definition.
    Workflow,
    /// One execution of jobs.
    WorkflowRun,
    /// A reusable step.
    Action,
    /// A directory that stays.
    PersistentWorkspace,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Run,
        Self::Runtime,
        Self::Workflow,
        Self::WorkflowRun,
        Self::Action,
        Self::PersistentWorkspace,
    ];

    /// The kind as the API spells it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Run => "Run",
            Self::Runtime => "Runtime",
            Self::Workflow => "Workflow",
            Self::WorkflowRun => "WorkflowRun",
            Self::Action => "Action",
            Self::PersistentWorkspace => "PersistentWorkspace",
        }
    }

    /// Singular, in lower case.
    pub(crate) fn singular(self) -> String {
        self.as_str().to_lowercase()
    }

    /// Plural of the API.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Run => "runs",
            Self::Runtime => "runtimes",
            Self::Workflow => "workflows",
            Self::WorkflowRun => "workflowruns",
            Self::Action => "actions",
            Self::PersistentWorkspace => "persistentworkspaces",
        }
    }

    /// What people type instead.
    fn short(self) -> &'static str {
        match self {
            Self::Run => "rn",
            Self::Runtime => "rt",
            Self::Workflow => "wf",
            Self::WorkflowRun => "wfr",
            Self::Action => "",
            Self::PersistentWorkspace => "pw",
        }
    }

    /// Reads what people type.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let word = word.to_lowercase();
        let is_named = |kind: &Self| {
            word == kind.singular()
                || word == kind.plural()
                || (word == kind.short() && !word.is_empty())
        };
        Self::ALL.into_iter().find(is_named)
    }

    /// The resource of the API.
    pub(crate) fn resource(self) -> ApiResource {
        let gvk = GroupVersionKind::gvk(GROUP, VERSION, self.as_str());
        ApiResource::from_gvk_with_plural(&gvk, self.plural())
    }
}

/// An object as an argument names it: `NAME`, which means a Run, or `KIND/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// Kind of the object.
    pub(crate) kind: Kind,
    /// Name of the object.
    pub(crate) name: String,
}

impl Reference {
    /// Reads an argument; the error is for people.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (kind, name) = match text.split_once('/') {
            None => (Kind::Run, text),
            Some((word, name)) => {
                let kind = Kind::parse(word);
                (
                    kind.ok_or_else(|| format!("there is no kind {word:?}; {}", Self::kinds()))?,
                    name,
                )
            }
        };
        if name.is_empty() || name.contains('/') {
            return Err(format!("{text:?} names no object; write NAME or KIND/NAME"));
        }
        Ok(Self {
            kind,
            name: name.to_owned(),
        })
    }

    fn kinds() -> String {
        let names = Kind::ALL.map(|kind| match kind.short() {
            "" => kind.singular(),
            short => format!("{}|{short}", kind.singular()),
        });
        format!("there are {}", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_47_an_argument_names_kind_and_object() {
        for (text, kind, name) in [
            ("build", Kind::Run, "build"),
            ("run/build", Kind::Run, "build"),
            ("rn/build", Kind::Run, "build"),
            ("WorkflowRun/x", Kind::WorkflowRun, "x"),
            ("wfr/x", Kind::WorkflowRun, "x"),
            ("workflows/x", Kind::Workflow, "x"),
            ("action/x", Kind::Action, "x"),
            ("pw/x", Kind::PersistentWorkspace, "x"),
        ] {
            let name = name.to_owned();
            assert_eq!(
                Reference::parse(text),
                Ok(Reference { kind, name }),
                "{text}"
            );
        }
        for (text, says) in [
            (
                "pod/x",
                "there is no kind \"pod\"; there are run|rn, runtime|rt",
            ),
            ("/x", "there is no kind \"\""),
            ("run/", "names no object"),
            ("run/a/b", "names no object"),
        ] {
            let said = Reference::parse(text).unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
        }
    }
}
