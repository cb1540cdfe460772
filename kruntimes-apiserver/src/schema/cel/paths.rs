//! The static check of rules: every field they name is declared, every function and variable exists.
//!
//! The CEL library evaluates without types, so a misspelt field would silently be absent, and a field with a reserved
//! name that was not escaped would never be found. A cluster refuses such rules when the definition is applied; this
//! check does the same, following the schema through selections, indexes and comprehensions.

use kube_cel::cel::IdedExpr;
use std::collections::BTreeMap;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, SelectExpr, operators,
};

use super::super::field_error::Path;
use super::super::structural::{JsonType, ListType, Node, SchemaError};
use super::Engine;
use super::bind::escape;

/// Names that stand for types or for groups of functions, not for variables.
const GLOBALS: [&str; 19] = [
    "base64",
    "bool",
    "bytes",
    "cel",
    "double",
    "format",
    "int",
    "jsonpatch",
    "list",
    "map",
    "math",
    "null_type",
    "optional",
    "sets",
    "string",
    "strings",
    "type",
    "uint",
    "url",
];

/// Refuses rules below `root` that a cluster would refuse.
pub(in crate::schema) fn check(root: &Node, engine: &Engine) -> Result<(), SchemaError> {
    let mut functions = Functions {
        engine,
        known: BTreeMap::new(),
    };
    check_node(root, &mut functions, &Path::ROOT, true)
}

fn check_node(
    node: &Node,
    functions: &mut Functions<'_>,
    path: &Path<'_>,
    correlatable: bool,
) -> Result<(), SchemaError> {
    if !node.has_rules {
        return Ok(());
    }
    for rule in &node.rules {
        let refuse = |text: &str, reason: String| SchemaError::RuleMeaning {
            path: path.to_string(),
            rule: text.to_owned(),
            reason,
        };
        if rule.is_transition() && !correlatable {
            let reason = "oldSelf cannot be used inside a list whose members have no keys";
            return Err(refuse(rule.source(), reason.to_owned()));
        }
        for (expression, text) in rule.expressions() {
            let mut reader = Reader {
                node,
                functions: &mut *functions,
                scope: Vec::new(),
            };
            reader
                .infer(expression)
                .map_err(|reason| refuse(text, reason))?;
        }
        let mut blamed = node;
        for name in rule.blamed() {
            let next = blamed.member(name);
            blamed = next.ok_or_else(|| {
                refuse(
                    rule.source(),
                    format!("fieldPath names the undeclared field {name}"),
                )
            })?;
        }
    }
    for (name, child) in &node.properties {
        check_node(child, functions, &path.field(name), correlatable)?;
    }
    if let Some(child) = &node.additional {
        check_node(child, functions, &path.key("*"), correlatable)?;
    }
    if let Some(child) = &node.items {
        let keyed = matches!(node.list, ListType::Map(_));
        check_node(child, functions, &path.key("*"), correlatable && keyed)?;
    }
    Ok(())
}

/// What is known about the value of an expression.
#[derive(Clone, Copy)]
enum Shape<'n> {
    Unknown,
    Described(&'n Node),
    Metadata,
}

/// Remembers which functions exist: asking is as dear as compiling a rule.
struct Functions<'e> {
    engine: &'e Engine,
    known: BTreeMap<String, bool>,
}

impl Functions<'_> {
    fn has(&mut self, name: &str) -> bool {
        if let Some(found) = self.known.get(name) {
            return *found;
        }
        let found = self.engine.has_function(name);
        self.known.insert(name.to_owned(), found);
        found
    }
}

struct Reader<'n, 'f, 'e> {
    node: &'n Node,
    functions: &'f mut Functions<'e>,
    scope: Vec<(String, Shape<'n>)>,
}

impl<'n> Reader<'n, '_, '_> {
    fn infer(&mut self, expression: &IdedExpr) -> Result<Shape<'n>, String> {
        match &expression.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(Shape::Unknown),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => {
                list.elements
                    .iter()
                    .try_for_each(|element| self.infer(element).map(drop))?;
                Ok(Shape::Unknown)
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    self.entry(&entry.expr)?;
                }
                Ok(Shape::Unknown)
            }
            Expr::Struct(_) => Err("messages cannot be constructed in rules".to_owned()),
        }
    }

    fn entry(&mut self, entry: &EntryExpr) -> Result<(), String> {
        match entry {
            EntryExpr::StructField(field) => self.infer(&field.value).map(drop),
            EntryExpr::MapEntry(entry) => {
                self.infer(&entry.key)?;
                self.infer(&entry.value).map(drop)
            }
        }
    }

    fn variable(&self, name: &str) -> Result<Shape<'n>, String> {
        if let Some((_, shape)) = self.scope.iter().rev().find(|(known, _)| known == name) {
            return Ok(*shape);
        }
        match name {
            "self" | "oldSelf" => Ok(Shape::Described(self.node)),
            _ if GLOBALS.contains(&name) => Ok(Shape::Unknown),
            _ => Err(format!("undeclared reference to {name}")),
        }
    }

    fn select(&mut self, select: &SelectExpr) -> Result<Shape<'n>, String> {
        match self.infer(&select.operand)? {
            Shape::Unknown => Ok(Shape::Unknown),
            Shape::Metadata => match select.field.as_str() {
                "name" | "generateName" => Ok(Shape::Unknown),
                other => Err(format!("metadata.{other} is not visible to rules")),
            },
            Shape::Described(node) => field_of(node, &select.field),
        }
    }

    fn call(&mut self, call: &CallExpr) -> Result<Shape<'n>, String> {
        if [operators::OPT_SELECT, operators::OPT_INDEX].contains(&call.func_name.as_str()) {
            return Err("optional field syntax is not supported".to_owned());
        }
        self.function_exists(call)?;
        if let Some(target) = &call.target {
            self.infer(target)?;
        }
        let mut shapes = Vec::with_capacity(call.args.len());
        for argument in &call.args {
            shapes.push(self.infer(argument)?);
        }
        match (call.func_name.as_str(), shapes.as_slice()) {
            (operators::INDEX, [Shape::Described(node), _]) => {
                let member = node.items.as_deref().or(node.additional.as_deref());
                Ok(member.map_or(Shape::Unknown, Shape::Described))
            }
            (operators::CONDITIONAL, [_, yes @ Shape::Described(_), _]) => Ok(*yes),
            (operators::CONDITIONAL, [_, _, no]) => Ok(*no),
            _ => Ok(Shape::Unknown),
        }
    }

    fn function_exists(&mut self, call: &CallExpr) -> Result<(), String> {
        let name = &call.func_name;
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || self.functions.has(name) {
            return Ok(());
        }
        if let Some(Expr::Ident(group)) = call.target.as_deref().map(|target| &target.expr)
            && self.functions.has(&format!("{group}.{name}"))
        {
            return Ok(());
        }
        Err(format!("undeclared reference to function {name}"))
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Result<Shape<'n>, String> {
        if comprehension.iter_var2.is_some() {
            return Err("macros with two variables are not supported".to_owned());
        }
        let range = self.infer(&comprehension.iter_range)?;
        self.infer(&comprehension.accu_init)?;
        let member = match range {
            Shape::Described(node) => node
                .items
                .as_deref()
                .map_or(Shape::Unknown, Shape::Described),
            Shape::Unknown | Shape::Metadata => Shape::Unknown,
        };
        let outer = self.scope.len();
        self.scope.push((comprehension.iter_var.clone(), member));
        self.scope
            .push((comprehension.accu_var.clone(), Shape::Unknown));
        self.infer(&comprehension.loop_cond)?;
        self.infer(&comprehension.loop_step)?;
        self.infer(&comprehension.result)?;
        self.scope.truncate(outer);
        Ok(if keeps_members(comprehension) {
            range
        } else {
            Shape::Unknown
        })
    }
}

/// Recognises `filter`, whose result has the members of its range.
fn keeps_members(comprehension: &ComprehensionExpr) -> bool {
    let Expr::Call(step) = &comprehension.loop_step.expr else {
        return false;
    };
    let [_, then, _] = step.args.as_slice() else {
        return false;
    };
    let Expr::Call(add) = &then.expr else {
        return false;
    };
    let Some(Expr::List(added)) = add.args.get(1).map(|argument| &argument.expr) else {
        return false;
    };
    matches!(added.elements.as_slice(), [one] if one.expr == Expr::Ident(comprehension.iter_var.clone()))
}

fn field_of<'n>(node: &'n Node, field: &str) -> Result<Shape<'n>, String> {
    if node.embedded {
        match field {
            "metadata" => return Ok(Shape::Metadata),
            "apiVersion" | "kind" => return Ok(Shape::Unknown),
            _ => {}
        }
    }
    if let Some((_, child)) = node
        .properties
        .iter()
        .find(|(name, _)| escape(name) == field)
    {
        return Ok(Shape::Described(child));
    }
    if node.properties.contains_key(field) {
        return Err(format!(
            "the field {field} must be written {}",
            escape(field)
        ));
    }
    if let Some(child) = &node.additional {
        return Ok(Shape::Described(child));
    }
    match node.json_type {
        Some(JsonType::Object) => Err(format!("undefined field {field}")),
        None if node.int_or_string => Err(format!("undefined field {field} of an int or string")),
        None => Err(format!("undefined field {field} of an undeclared value")),
        Some(other) => Err(format!("undefined field {field} of a {}", other.name())),
    }
}
