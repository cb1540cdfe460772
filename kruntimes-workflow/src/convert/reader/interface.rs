//! What a CI file declares for callers: inputs and outputs below `on`.

use std::collections::BTreeMap;

use kruntimes_core::api::{Input, InputType, Output};
use kruntimes_core::message::quoted;

use super::super::expression::Names;
use super::Reader;
use crate::yaml::{Node, Severity};

impl Reader<'_> {
    pub(super) fn inputs(&mut self) -> BTreeMap<String, Input> {
        let mut inputs = BTreeMap::new();
        let Some((_, on)) = self.root.member("on") else {
            return inputs;
        };
        let place = self.place("on");
        let said = "`on` has no effect: `krt` is what starts it";
        let notice = self.source.finding(Severity::Advice, "K000", said, place);
        self.findings.push(notice);
        for trigger in ["workflow_call", "workflow_dispatch"] {
            let declared = on.at(&[trigger, "inputs"]).map_or(&[][..], Node::members);
            for (key, node) in declared {
                let path = format!("on.{trigger}.inputs.{}", key.text);
                self.keys(node, &path, &["type", "required", "default", "description"]);
                let kind = format!("{path}.type");
                if let Some(other) = self.text_at(&kind).filter(|kind| kind != "string") {
                    let said = format!("inputs of type {} do not exist", quoted(&other));
                    self.refuse("K005", &kind, said, Some("every input is a text"));
                }
                let input = Input {
                    input_type: InputType::String,
                    required: self.text_at(&format!("{path}.required")).as_deref() == Some("true"),
                    default: self.text_at(&format!("{path}.default")),
                };
                inputs.insert(key.text.clone(), input);
            }
        }
        inputs
    }

    pub(super) fn outputs(&mut self) -> BTreeMap<String, Output> {
        let declared = self.root.at(&["on", "workflow_call", "outputs"]);
        let none = BTreeMap::new();
        let names = Names {
            steps: &none,
            needs: None,
        };
        let mut outputs = BTreeMap::new();
        for (key, _) in declared.map_or(&[][..], Node::members) {
            let path = format!("on.workflow_call.outputs.{}.value", key.text);
            let value = self.text_at(&path).unwrap_or_default();
            let value = self.rewritten(&value, &path, &names);
            outputs.insert(key.text.clone(), Output { value });
        }
        outputs
    }
}
