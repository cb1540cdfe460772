//! Where in a definition a problem is.

use std::fmt;

/// Path to one text of a definition; every part may be absent.
///
/// Prints as the stable path of W-44 followed by field and offset, such as
/// `jobs.build.steps.pack.run@12`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// Job name.
    pub job: Option<String>,
    /// Step name; without a job it is a step of an Action.
    pub step: Option<String>,
    /// Field, with its index or key where it has one: `run`, `arg[0]`, `env[PATH]`.
    pub field: Option<String>,
    /// Byte offset inside the text of the field.
    pub offset: Option<usize>,
}

impl Location {
    /// Points at a whole job.
    pub fn job(name: &str) -> Self {
        Self {
            job: Some(name.to_owned()),
            ..Self::default()
        }
    }

    /// Points at a step of the job, or of an Action when there is no job.
    pub fn step(mut self, name: &str) -> Self {
        self.step = Some(name.to_owned());
        self
    }

    /// Points at a field.
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Points at a byte of the field.
    pub fn offset(mut self, offset: usize) -> Self {
        self.offset = Some(offset);
        self
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut dot = "";
        for (kind, part) in [
            ("jobs.", &self.job),
            ("steps.", &self.step),
            ("", &self.field),
        ] {
            if let Some(part) = part {
                write!(f, "{dot}{kind}{part}")?;
                dot = ".";
            }
        }
        match self.offset {
            Some(offset) => write!(f, "@{offset}"),
            None => Ok(()),
        }
    }
}

/// Returns the stable path of a job, step or Action step (W-44).
pub fn path(job: &str, step: &str, action_step: Option<&str>) -> String {
    match action_step {
        Some(inner) => format!("jobs.{job}.steps.{step}.actionSteps.{inner}"),
        None => format!("jobs.{job}.steps.{step}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w_44_paths_are_stable() {
        assert_eq!(path("b", "s", None), "jobs.b.steps.s");
        assert_eq!(path("b", "s", Some("i")), "jobs.b.steps.s.actionSteps.i");
        let location = Location::job("b").step("s").field("arg[2]").offset(7);
        assert_eq!(location.to_string(), "jobs.b.steps.s.arg[2]@7");
        assert_eq!(Location::default().to_string(), "");
    }
}
