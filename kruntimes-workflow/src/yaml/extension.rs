//! Fields of extensions as a file writes them; whether an engine accepts them is judged later.

use std::collections::BTreeMap;

use kruntimes_core::api::{
    ArtifactRef, Concurrency, ConcurrencyPolicy, Decision, Matrix, RetryPolicy, Reused, ReusedStep,
    Strategy,
};
use kruntimes_core::duration::Duration;

use super::Node;
use super::decode::{Decoder, join};

impl<'a> Decoder<'a> {
    pub(super) fn strategy(
        &mut self,
        node: Option<&&'a Node>,
        path: &str,
    ) -> Option<Box<Strategy>> {
        let known = ["timeout", "maxParallel", "failFast", "concurrency"];
        let members = self.members(node?, path, &known);
        let at = |name: &str| join(path, name);
        let group = members.get("concurrency");
        Some(Box::new(Strategy {
            timeout: self.duration(members.get("timeout"), &at("timeout")),
            max_parallel: self.number(members.get("maxParallel"), &at("maxParallel")),
            fail_fast: self.boolean(members.get("failFast"), &at("failFast")),
            concurrency: group.map(|node| self.concurrency(node, &at("concurrency"))),
        }))
    }

    fn concurrency(&mut self, node: &'a Node, path: &str) -> Concurrency {
        let members = self.members(node, path, &["group", "policy"]);
        let group = self.optional(members.get("group"), &join(path, "group"));
        let words = [
            ("Queue", ConcurrencyPolicy::Queue),
            ("CancelPending", ConcurrencyPolicy::CancelPending),
            ("CancelRunning", ConcurrencyPolicy::CancelRunning),
        ];
        let policy = members.get("policy").copied();
        Concurrency {
            group: group.unwrap_or_default(),
            policy: policy
                .and_then(|node| self.word(node, &join(path, "policy"), &words))
                .unwrap_or_default(),
        }
    }

    pub(super) fn matrix(&mut self, node: Option<&&'a Node>, path: &str) -> Option<Box<Matrix>> {
        let members = self.members(node?, path, &["axes", "exclude", "include"]);
        let at = |name: &str| join(path, name);
        let axis = |decoder: &mut Self, node: &'a Node, path: &str| {
            decoder.list(Some(&node), path, true, Self::text)
        };
        Some(Box::new(Matrix {
            axes: self.map(members.get("axes"), &at("axes"), axis),
            exclude: self.list(members.get("exclude"), &at("exclude"), false, Self::texts),
            include: self.list(members.get("include"), &at("include"), false, Self::texts),
        }))
    }

    fn texts(&mut self, node: &'a Node, path: &str) -> BTreeMap<String, String> {
        self.map(Some(&node), path, Self::text)
    }

    pub(super) fn retry(
        &mut self,
        node: Option<&&'a Node>,
        path: &str,
    ) -> Option<Box<RetryPolicy>> {
        let known = ["maxAttempts", "backoff", "retryableReasons"];
        let members = self.members(node?, path, &known);
        let at = |name: &str| join(path, name);
        let reasons = members.get("retryableReasons");
        Some(Box::new(RetryPolicy {
            max_attempts: self.number(members.get("maxAttempts"), &at("maxAttempts")),
            backoff: self.duration(members.get("backoff"), &at("backoff")),
            retryable_reasons: self.list(reasons, &at("retryableReasons"), false, Self::text),
        }))
    }

    pub(super) fn decisions(
        &mut self,
        node: Option<&&'a Node>,
        path: &str,
    ) -> BTreeMap<String, Decision> {
        let words = [
            ("Approved", Decision::Approved),
            ("Denied", Decision::Denied),
        ];
        let read =
            |decoder: &mut Self, node: &'a Node, path: &str| decoder.word(node, path, &words);
        let read = self.map(node, path, read).into_iter();
        read.filter_map(|(gate, word)| Some((gate, word?)))
            .collect()
    }

    pub(super) fn reused(&mut self, node: &'a Node, path: &str) -> Reused {
        let members = self.members(node, path, &["outputs", "artifacts", "steps"]);
        let at = |name: &str| join(path, name);
        let artifact = |decoder: &mut Self, node: &'a Node, path: &str| {
            let read: Result<ArtifactRef, _> = serde_json::from_value(plain(node));
            if let Err(error) = &read {
                decoder.report("K003", path, format!("{path}: {error}"), None);
            }
            read.ok()
        };
        let artifacts = self.map(members.get("artifacts"), &at("artifacts"), artifact);
        let artifacts = artifacts.into_iter();
        Reused {
            outputs: self.map(members.get("outputs"), &at("outputs"), Self::text),
            artifacts: artifacts
                .filter_map(|(name, found)| Some((name, found?)))
                .collect(),
            steps: self.list(members.get("steps"), &at("steps"), false, Self::reused_step),
        }
    }

    fn reused_step(&mut self, node: &'a Node, path: &str) -> ReusedStep {
        let members = self.members(node, path, &["name", "outputs"]);
        let name = self.optional(members.get("name"), &join(path, "name"));
        ReusedStep {
            name: name.unwrap_or_default(),
            outputs: self.map(members.get("outputs"), &join(path, "outputs"), Self::text),
        }
    }

    /// Reads a length of time such as `90s`.
    pub(super) fn duration(&mut self, node: Option<&&'a Node>, path: &str) -> Option<Duration> {
        let text = self.text(node?, path);
        match text.parse() {
            Ok(duration) => Some(duration),
            Err(error) => {
                self.report("K003", path, format!("{path}: {error}"), None);
                None
            }
        }
    }

    fn number<T: std::str::FromStr>(&mut self, node: Option<&&'a Node>, path: &str) -> Option<T> {
        let text = self.text(node?, path);
        let number = text.parse().ok();
        if number.is_none() {
            self.report("K003", path, format!("{path} must be a whole number"), None);
        }
        number
    }

    fn word<T: Copy>(&mut self, node: &'a Node, path: &str, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(node, path);
        let found = words.iter().find(|(word, _)| *word == text);
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let said = format!("{path} must be one of {}", known.join(", "));
            self.report("K003", path, said, None);
        }
        found.map(|(_, value)| *value)
    }
}

/// Turns a node into the value the API would see.
fn plain(node: &Node) -> serde_json::Value {
    use super::Content;

    match &node.content {
        Content::Mapping(members) => {
            let members = members.iter();
            members
                .map(|(key, value)| (key.text.clone(), plain(value)))
                .collect()
        }
        Content::Sequence(elements) => elements.iter().map(plain).collect(),
        Content::Scalar { text, plain: true } => match (text.as_str(), text.parse::<i64>()) {
            ("true", _) => true.into(),
            ("false", _) => false.into(),
            (_, Ok(number)) => number.into(),
            (text, Err(_)) => text.into(),
        },
        Content::Scalar { text, plain: false } => text.as_str().into(),
    }
}
