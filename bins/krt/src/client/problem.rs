//! What failed, why, and the next command to type (C-13 to C-15).

use std::error::Error;

use crate::exit::Exit;

/// A failure on its way to the caller.
#[derive(Debug)]
pub(crate) struct Problem {
    /// What is said, several lines.
    pub(crate) text: String,
    /// How the process ends.
    pub(crate) exit: Exit,
}

/// A request to the API server, as its answer is explained.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// Verb of the authorizer, such as `list`.
    pub(crate) verb: &'static str,
    /// Plural of the kind, with a subresource after a slash.
    pub(crate) resource: &'a str,
    /// Group of the kind; empty for the core.
    pub(crate) group: &'a str,
    /// Namespace; empty for all.
    pub(crate) namespace: &'a str,
}

impl<'a> Asked<'a> {
    /// A request about a kind of kruntimes.
    pub(crate) fn new(verb: &'static str, resource: &'a str, namespace: &'a str) -> Self {
        Self {
            verb,
            resource,
            group: kruntimes_core::api::GROUP,
            namespace,
        }
    }

    /// A request about a kind of the core.
    pub(crate) fn core(verb: &'static str, resource: &'a str, namespace: &'a str) -> Self {
        Self {
            group: "",
            ..Self::new(verb, resource, namespace)
        }
    }

    /// Explains why the request failed; `what` completes "cannot".
    pub(crate) fn failed(&self, what: &str, error: &kube::Error) -> Problem {
        let kube::Error::Api(answer) = error else {
            let text = format!("krt: cannot {what}: {}", causes(error));
            return Problem::new(
                text,
                "is the server there? see `kubectl cluster-info`, or start one: `krt local up`",
            );
        };
        let why = if answer.message.is_empty() {
            &answer.reason
        } else {
            &answer.message
        };
        let text = format!("krt: cannot {what}: {why}");
        if answer.is_forbidden() {
            return Problem::new(text, &self.rule());
        }
        if answer.code == 401 {
            return Problem::new(
                text,
                "the server does not know you: check the credentials of the context",
            );
        }
        if answer.is_not_found() {
            return Problem::new(text, &self.look());
        }
        if answer.is_invalid() || answer.code == 400 {
            let refused = Problem::new(text, "correct the field that is named and try again");
            return refused.exit(Exit::Refused);
        }
        if answer.is_already_exists() || answer.is_conflict() {
            return Problem::new(text, &self.look());
        }
        Problem::new(text, "try again; with KRT_LOG=debug krt tells more")
    }

    /// The command that shows what there is.
    fn look(&self) -> String {
        let flag = self.flag();
        match self.resource.split('/').next().unwrap_or_default() {
            "runs" => format!("see `krt ls{flag}`"),
            "runtimes" => format!("see `krt rt ls{flag}`"),
            "workflows" => format!("see `krt wf ls{flag}`"),
            "workflowruns" => format!("see `krt wf run ls{flag}`"),
            other => format!("see `kubectl get {other}{flag}`"),
        }
    }

    fn flag(&self) -> String {
        if self.namespace.is_empty() {
            " -A".to_owned()
        } else {
            format!(" -n {}", self.namespace)
        }
    }

    /// The smallest rule that would allow the request.
    fn rule(&self) -> String {
        let kind = if self.namespace.is_empty() {
            "ClusterRole"
        } else {
            "Role"
        };
        let (group, resource, verb) = (self.group, self.resource, self.verb);
        let place = if self.namespace.is_empty() {
            "in all namespaces".to_owned()
        } else {
            format!("in namespace {}", self.namespace)
        };
        format!(
            "missing: {verb} {resource} {place}; a {kind} with this rule allows it:\n  \
             - apiGroups: [\"{group}\"]\n    resources: [\"{resource}\"]\n    verbs: [\"{verb}\"]"
        )
    }
}

impl Problem {
    /// A failure to carry something out.
    pub(crate) fn new(mut text: String, next: &str) -> Self {
        text.push_str("\n  ");
        text.push_str(next);
        Self {
            text,
            exit: Exit::NotCarriedOut,
        }
    }

    /// A failure with a typed cause.
    pub(crate) fn of(error: &dyn Error, next: &str) -> Self {
        Self::new(format!("krt: {}", causes(error)), next)
    }

    /// Ends the process in another way.
    pub(crate) fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }
}

/// Writes an error and its causes; what a cause repeats of its parent is said once.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        cause = error.source();
    }
    said
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn answer(code: u16, reason: &str, message: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status {
            code,
            reason: reason.to_owned(),
            message: message.to_owned(),
            ..Status::default()
        }))
    }

    #[test]
    fn c_14_c_15_each_answer_has_its_exit_code_and_next_step() {
        let asked = Asked::new("list", "runs", "team");
        for (error, exit, says) in [
            (
                answer(404, "NotFound", "runs \"x\" not found"),
                Exit::NotCarriedOut,
                "`krt ls -n team`",
            ),
            (
                answer(422, "Invalid", "spec.timeout: bad"),
                Exit::Refused,
                "correct the field",
            ),
            (
                answer(401, "Unauthorized", "no"),
                Exit::NotCarriedOut,
                "check the credentials",
            ),
            (
                answer(500, "InternalError", "oops"),
                Exit::NotCarriedOut,
                "KRT_LOG=debug",
            ),
        ] {
            let problem = asked.failed("list Runs", &error);
            assert_eq!(problem.exit, exit, "{}", problem.text);
            assert!(
                problem.text.starts_with("krt: cannot list Runs: "),
                "{}",
                problem.text
            );
            assert!(problem.text.contains(says), "{}", problem.text);
        }
    }

    #[test]
    fn c_15_a_forbidden_answer_brings_the_rule_that_is_missing() {
        let asked = Asked::core("get", "pods/log", "team");
        let problem = asked.failed(
            "read logs",
            &answer(403, "Forbidden", "pods \"p\" is forbidden"),
        );
        insta::assert_snapshot!(problem.text, @r#"
        krt: cannot read logs: pods "p" is forbidden
          missing: get pods/log in namespace team; a Role with this rule allows it:
          - apiGroups: [""]
            resources: ["pods/log"]
            verbs: ["get"]
        "#);
    }
}
