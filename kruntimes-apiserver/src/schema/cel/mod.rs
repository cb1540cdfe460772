//! Everything that touches the CEL library: compiling rules, giving them values, reading their verdicts.
//!
//! Values are bound as a cluster binds them: only declared fields, names escaped, numbers and texts typed by their
//! schema. A rule sees the node it stands on as `self` and, on an update, its older counterpart as `oldSelf`.

mod bind;
mod paths;

use std::fmt;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::ValidationRule;
use kube_cel::KubeCelExt as _;
use kube_cel::cel::{Context, ExecutionError, IdedExpr, Program, Value as Cel};
use serde_json::Value;

use super::field_error::{FieldError, Path};
use super::lists;
use super::structural::{JsonType, Node, SchemaError, refuse};

/// What a failed rule is reported as.
#[derive(Clone, Copy, Debug)]
enum Reason {
    Invalid,
    Forbidden,
    Required,
    Duplicate,
}

/// One compiled validation rule.
#[derive(Debug)]
pub(super) struct Rule {
    source: String,
    program: Program,
    message: Option<String>,
    message_source: String,
    message_program: Option<Program>,
    reason: Reason,
    /// Names to follow from the node of the rule to the field to blame.
    blamed: Vec<String>,
    /// Whether the rule compares with the older object.
    transition: bool,
}

impl Rule {
    pub(super) fn compile(rule: &ValidationRule, path: &Path<'_>) -> Result<Self, SchemaError> {
        let refused = |reason: &str| SchemaError::RuleMeaning {
            path: path.to_string(),
            rule: rule.rule.clone(),
            reason: reason.to_owned(),
        };
        if rule.rule.trim().is_empty() {
            return Err(refuse(path, "a rule must not be empty"));
        }
        if rule.optional_old_self == Some(true) {
            return Err(refused("optionalOldSelf is not supported"));
        }
        let reason = match rule.reason.as_deref() {
            None | Some("FieldValueInvalid") => Reason::Invalid,
            Some("FieldValueForbidden") => Reason::Forbidden,
            Some("FieldValueRequired") => Reason::Required,
            Some("FieldValueDuplicate") => Reason::Duplicate,
            Some(_) => return Err(refused("the reason is none that Kubernetes knows")),
        };
        let program = compile_program(&rule.rule, path)?;
        let message_source = rule.message_expression.clone().unwrap_or_default();
        let message_program = match message_source.as_str() {
            "" => None,
            source => Some(compile_program(source, path)?),
        };
        let transition = program.references().has_variable("oldSelf");
        if !transition
            && message_program
                .as_ref()
                .is_some_and(|message| message.references().has_variable("oldSelf"))
        {
            return Err(refused("messageExpression uses oldSelf, the rule does not"));
        }
        let blamed = parse_field_path(rule.field_path.as_deref().unwrap_or_default());
        let blamed = blamed.ok_or_else(|| refused("fieldPath is not a path of names"))?;
        let message = rule
            .message
            .as_deref()
            .map(str::trim)
            .filter(|message| !message.is_empty());
        Ok(Self {
            source: rule.rule.clone(),
            program,
            message: message.map(str::to_owned),
            message_source,
            message_program,
            reason,
            blamed,
            transition,
        })
    }

    pub(super) fn is_transition(&self) -> bool {
        self.transition
    }

    pub(super) fn blamed(&self) -> &[String] {
        &self.blamed
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Lists the expressions of the rule with their texts.
    pub(super) fn expressions(&self) -> impl Iterator<Item = (&IdedExpr, &str)> {
        let message = self
            .message_program
            .as_ref()
            .map(|program| (program.expression(), self.message_source.as_str()));
        std::iter::once((self.program.expression(), self.source.as_str())).chain(message)
    }

    fn default_message(&self) -> String {
        let rule = || format!("failed rule: {}", self.source.trim().replace('\n', " "));
        self.message.clone().unwrap_or_else(rule)
    }

    fn failure_message(&self, scope: &Context<'_>) -> String {
        let Some(program) = &self.message_program else {
            return self.default_message();
        };
        match program.execute(scope) {
            Ok(Cel::String(text)) if !text.trim().is_empty() && !text.contains('\n') => {
                text.trim().to_owned()
            }
            Ok(_) | Err(_) => self.default_message(),
        }
    }

    fn report(&self, node: &Node, path: &Path<'_>, detail: &str) -> FieldError {
        let shown = Value::from(node.json_type.map_or("", JsonType::name));
        blame(node, path, &self.blamed, &|path| match self.reason {
            Reason::Invalid => FieldError::invalid(path, &shown, detail),
            Reason::Forbidden => FieldError::forbidden(path, detail),
            Reason::Required => FieldError::required(path, detail),
            Reason::Duplicate => FieldError::duplicate(path, &shown),
        })
    }
}

fn compile_program(source: &str, path: &Path<'_>) -> Result<Program, SchemaError> {
    Program::compile(source).map_err(|cause| SchemaError::Rule {
        path: path.to_string(),
        rule: source.to_owned(),
        source: Box::new(cause),
    })
}

/// Reads `.a.b['c']` into names; an empty text names the node itself.
fn parse_field_path(text: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, tail) = if let Some(quoted) = rest.strip_prefix("['") {
            quoted.split_once("']")?
        } else {
            let plain = rest.strip_prefix('.')?;
            plain.split_at(plain.find(['.', '[']).unwrap_or(plain.len()))
        };
        if name.is_empty() {
            return None;
        }
        names.push(name.to_owned());
        rest = tail;
    }
    Some(names)
}

fn blame(
    node: &Node,
    path: &Path<'_>,
    names: &[String],
    make: &dyn Fn(&Path<'_>) -> FieldError,
) -> FieldError {
    let Some((name, rest)) = names.split_first() else {
        return make(path);
    };
    match (node.properties.get(name), &node.additional) {
        (Some(child), _) => blame(child, &path.field(name), rest, make),
        (None, Some(child)) => blame(child, &path.key(name), rest, make),
        (None, None) => make(&path.field(name)),
    }
}

/// Holds the functions that rules may call.
pub(super) struct Engine {
    functions: Context<'static>,
    duration: Option<Program>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    pub(super) fn new() -> Self {
        Self {
            functions: Context::default().with_all(),
            duration: Program::compile("duration(self)").ok(),
        }
    }

    /// Tells whether rules may call a function of that (qualified) name.
    pub(super) fn has_function(&self, name: &str) -> bool {
        let Ok(call) = Program::compile(&format!("{name}()")) else {
            return true;
        };
        !matches!(
            call.execute(&self.functions),
            Err(ExecutionError::UndeclaredReference(_))
        )
    }

    /// Refuses rules below `root` that a cluster would refuse: see the module of paths.
    pub(super) fn check_rules(&self, root: &Node) -> Result<(), SchemaError> {
        paths::check(root, self)
    }

    /// Evaluates the rules of `node` and of everything below it.
    pub(super) fn check(
        &self,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
        errors: &mut Vec<FieldError>,
    ) {
        let past = Past {
            value: old,
            unchanged: old == Some(value),
        };
        self.walk(node, value, past, &Path::ROOT, errors);
    }

    fn walk(
        &self,
        node: &Node,
        value: &Value,
        past: Past<'_>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        self.evaluate(node, value, past, path, errors);
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let (child, below) = match (node.properties.get(name), &node.additional) {
                        (Some(child), _) => (child, path.field(name)),
                        (None, Some(child)) => (&**child, path.key(name)),
                        (None, None) => continue,
                    };
                    if child.has_rules {
                        let before = past.value.and_then(|old| old.get(name));
                        self.walk(child, member, past.of(before, member), &below, errors);
                    }
                }
            }
            Value::Array(elements) => {
                let Some(items) = node.items.as_deref().filter(|items| items.has_rules) else {
                    return;
                };
                for (index, element) in elements.iter().enumerate() {
                    let before = lists::counterpart(node, element, past.value);
                    self.walk(
                        items,
                        element,
                        past.of(before, element),
                        &path.index(index),
                        errors,
                    );
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn evaluate(
        &self,
        node: &Node,
        value: &Value,
        past: Past<'_>,
        path: &Path<'_>,
        errors: &mut Vec<FieldError>,
    ) {
        let applies = |rule: &&Rule| {
            if rule.transition {
                past.value.is_some()
            } else {
                !past.unchanged
            }
        };
        if !node.rules.iter().any(|rule| applies(&rule)) {
            return;
        }
        let mut scope = self.functions.new_inner_scope();
        scope.add_variable_from_value("self", self.bind(node, value));
        if let Some(old) = past
            .value
            .filter(|_| node.rules.iter().any(Rule::is_transition))
        {
            scope.add_variable_from_value("oldSelf", self.bind(node, old));
        }
        for rule in node.rules.iter().filter(applies) {
            let detail = match rule.program.execute(&scope) {
                Ok(Cel::Bool(true)) => continue,
                Ok(Cel::Bool(false)) => rule.failure_message(&scope),
                Ok(_) => format!("the rule did not evaluate to a boolean: {}", rule.source),
                Err(cause) => evaluation_failure(rule, &cause),
            };
            errors.push(rule.report(node, path, &detail));
        }
    }
}

/// What a value was before an update.
#[derive(Clone, Copy)]
struct Past<'v> {
    value: Option<&'v Value>,
    /// Whether nothing changed here, so that rules about the present alone hold as they did.
    unchanged: bool,
}

impl<'v> Past<'v> {
    /// Goes on to a member that was `before` and is `now`.
    fn of(self, before: Option<&'v Value>, now: &Value) -> Self {
        Self {
            value: before,
            unchanged: self.unchanged || before == Some(now),
        }
    }
}

fn evaluation_failure(rule: &Rule, cause: &ExecutionError) -> String {
    let mut cause = cause.to_string();
    if let Some(first) = cause.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    format!(
        "{cause} evaluating rule: {}",
        rule.message.as_deref().unwrap_or(&rule.source)
    )
}
