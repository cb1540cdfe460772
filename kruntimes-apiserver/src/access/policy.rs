//! The static policy: users with tokens, and rules for groups.

use std::sync::Arc;

use super::{
    asked::Asked,
    identity::{AUTHENTICATED, Identity},
    token::TokenDigest,
};

/// What the `view` rule keeps to itself: reading these is as good as being somebody else.
const NOT_FOR_VIEWERS: [&str; 3] = ["secrets", "roles", "rolebindings"];
/// What everybody who is known may read: which kinds there are.
const DISCOVERY: [&str; 8] = [
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/openapi",
    "/openapi/*",
    "/version",
    "/version/",
];
/// What everybody may read, known or not.
const OPEN: [&str; 8] = [
    "/healthz",
    "/healthz/*",
    "/livez",
    "/livez/*",
    "/readyz",
    "/readyz/*",
    "/version",
    "/version/",
];

/// Who is let in from the network, and what each group may do there.
///
/// Members of `system:masters` may do everything, everybody else only what a rule of one of their groups allows.
/// Everybody let in may look up which kinds there are and ask what they may do. The default lets nobody in.
///
/// ```
/// use kruntimes_apiserver::{Identity, Policy, Rule};
///
/// let policy = Policy::default()
///     .user("s3cret-of-ann", Identity::new("ann").group("developers"))
///     .user("s3cret-of-bob", Identity::new("bob").group("guests"))
///     .grant("developers", Rule::resources(["*"], ["kruntimes.io"], ["*"]).in_namespaces(["default"]))
///     .grant("guests", Rule::view());
/// # let _ = policy;
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Policy {
    users: Vec<(TokenDigest, Arc<Identity>)>,
    grants: Vec<(String, Rule)>,
}

impl Policy {
    /// Lets in whoever shows `token`, as `identity`; everybody let in is in `system:authenticated` as well.
    ///
    /// Only a digest of the token is kept. An empty token lets nobody in.
    pub fn user(mut self, token: &str, identity: Identity) -> Self {
        let known = Arc::new(identity.group(AUTHENTICATED));
        self.users.push((TokenDigest::of(token), known));
        self
    }

    /// Allows the members of `group` what `rule` says.
    pub fn grant(mut self, group: impl Into<String>, rule: Rule) -> Self {
        self.grants.push((group.into(), rule));
        self
    }

    /// Returns whose token this is; every token is compared, so the time taken does not tell which one came close.
    pub(super) fn find(&self, digest: &TokenDigest) -> Option<&Arc<Identity>> {
        let same = |(known, _): &&(TokenDigest, _)| known.is_same(digest);
        let found = self.users.iter().filter(same).map(|(_, user)| user);
        found.reduce(|first, _| first)
    }

    /// Whether a rule allows this.
    pub(crate) fn allows(&self, identity: &Identity, asked: &Asked) -> bool {
        identity.is_master()
            || self.granted(identity).any(|rule| rule.allows(asked))
            || for_everybody(identity)
                .iter()
                .any(|rule| rule.allows(asked))
    }

    /// Lists all rules that a user may rely on.
    pub(crate) fn rules_for(&self, identity: &Identity) -> Vec<Rule> {
        let mut rules = Vec::new();
        if identity.is_master() {
            rules.push(Rule::resources(["*"], ["*"], ["*"]));
            rules.push(Rule::paths(["*"], ["*"]));
        }
        rules.extend(self.granted(identity).cloned());
        rules.extend(for_everybody(identity));
        rules
    }

    fn granted(&self, identity: &Identity) -> impl Iterator<Item = &Rule> {
        let granted = self.grants.iter();
        granted
            .filter(|(group, _)| identity.groups.contains(group))
            .map(|(_, rule)| rule)
    }
}

/// Returns what needs no rule of the policy's own.
fn for_everybody(identity: &Identity) -> Vec<Rule> {
    let read = |paths: [&'static str; 8]| Rule::paths(["get", "head"], paths);
    if !identity.groups.iter().any(|group| group == AUTHENTICATED) {
        return vec![read(OPEN)];
    }
    let of_oneself = |group, resources: &[&'static str]| {
        Rule::resources(["create"], [group], resources.iter().copied())
    };
    vec![
        of_oneself(
            "authorization.k8s.io",
            &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        ),
        of_oneself("authentication.k8s.io", &["selfsubjectreviews"]),
        read(OPEN),
        read(DISCOVERY),
    ]
}

/// One thing that is allowed: verbs on resources in places, or verbs on paths.
///
/// Words mean what they mean in a Role: `*` is everything, `pods/log` names a subresource, `*/scale` that subresource
/// of everything, and `pods` alone covers no subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub(crate) verbs: Vec<String>,
    pub(crate) groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) except: Vec<String>,
    pub(crate) names: Vec<String>,
    pub(crate) namespaces: Vec<String>,
    pub(crate) paths: Vec<String>,
}

impl Rule {
    /// Allows `verbs` on `resources` of API `groups`, everywhere; the core group is the empty text.
    pub fn resources<V: Into<String>, G: Into<String>, R: Into<String>>(
        verbs: impl IntoIterator<Item = V>,
        groups: impl IntoIterator<Item = G>,
        resources: impl IntoIterator<Item = R>,
    ) -> Self {
        Self {
            verbs: words(verbs),
            groups: words(groups),
            resources: words(resources),
            ..Self::default()
        }
    }

    /// Allows `verbs`, which are lower-case HTTP methods, on paths that are not resources; a last `*` matches any end.
    pub fn paths<V: Into<String>, P: Into<String>>(
        verbs: impl IntoIterator<Item = V>,
        paths: impl IntoIterator<Item = P>,
    ) -> Self {
        Self {
            verbs: words(verbs),
            paths: words(paths),
            ..Self::default()
        }
    }

    /// Allows reading everything but Secrets, Roles and RoleBindings.
    pub fn view() -> Self {
        Self {
            except: words(NOT_FOR_VIEWERS),
            ..Self::resources(["get", "list", "watch"], ["*"], ["*"])
        }
    }

    /// Restricts the rule to some namespaces; it then covers neither cluster scope nor all namespaces together.
    pub fn in_namespaces<N: Into<String>>(
        mut self,
        namespaces: impl IntoIterator<Item = N>,
    ) -> Self {
        self.namespaces = words(namespaces);
        self
    }

    /// Restricts the rule to objects of some names; requests that name no object are then not covered.
    pub fn named<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.names = words(names);
        self
    }

    /// Whether the rule is about paths, which know no namespaces.
    pub(crate) fn is_for_paths(&self) -> bool {
        !self.paths.is_empty()
    }

    /// Whether the rule allows anything in a namespace.
    pub(crate) fn applies_in(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|known| known == namespace)
    }

    fn allows(&self, asked: &Asked) -> bool {
        if !has(&self.verbs, &asked.verb) {
            return false;
        }
        if !asked.path.is_empty() {
            return covers_path(&self.paths, &asked.path);
        }
        has(&self.groups, &asked.group)
            && self.covers_resource(asked)
            && !self.except.contains(&asked.resource)
            && (self.names.is_empty() || self.names.contains(&asked.name))
            && self.applies_in(&asked.namespace)
    }

    fn covers_resource(&self, asked: &Asked) -> bool {
        let full = asked.full_resource();
        self.resources.iter().any(|word| {
            let of_all = word.strip_prefix("*/");
            word == "*"
                || *word == full
                || of_all.is_some_and(|sub| !sub.is_empty() && sub == asked.subresource)
        })
    }
}

fn words<W: Into<String>>(words: impl IntoIterator<Item = W>) -> Vec<String> {
    words.into_iter().map(Into::into).collect()
}

/// Whether a list names a word or everything; an empty verb is that of no request and never covered.
fn has(list: &[String], word: &str) -> bool {
    list.iter().any(|item| item == "*" || item == word)
}

fn covers_path<P: AsRef<str>>(paths: &[P], path: &str) -> bool {
    paths.iter().any(|known| {
        let known = known.as_ref();
        match known.strip_suffix('*') {
            Some(start) => path.starts_with(start),
            None => path == known,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(verb: &str, group: &str, resource: &str, namespace: &str) -> Asked {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Asked {
            verb: verb.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            ..Asked::default()
        }
    }

    fn at(path: &str) -> Asked {
        Asked {
            verb: "get".to_owned(),
            path: path.to_owned(),
            ..Asked::default()
        }
    }

    #[test]
    fn rules_cover_the_resources_they_name() {
        for (words, resource, want) in [
            ("runs", "runs", true),
            ("runs", "runs/status", false),
            ("runs/status", "runs/status", true),
            ("*/status", "runs/status", true),
            ("*/status", "runs", false),
            ("*/", "runs", false),
            ("*", "runs/status", true),
        ] {
            let rule = Rule::resources(["get"], ["g"], [words]);
            let allowed = rule.allows(&asked("get", "g", resource, "a"));
            assert_eq!(allowed, want, "{words} {resource}");
        }
    }

    #[test]
    fn rules_are_kept_to_their_verbs_groups_and_places() {
        let rule = || Rule::resources(["get"], ["g"], ["runs"]);
        let inside = || rule().in_namespaces(["a"]);
        for (case, rule, asked, want) in [
            ("verb", rule(), asked("list", "g", "runs", "a"), false),
            ("group", rule(), asked("get", "", "runs", "a"), false),
            ("inside", inside(), asked("get", "g", "runs", "a"), true),
            ("outside", inside(), asked("get", "g", "runs", "b"), false),
            ("everywhere", inside(), asked("get", "g", "runs", ""), false),
            (
                "nameless",
                rule().named(["r"]),
                asked("get", "g", "runs", ""),
                false,
            ),
            ("a path", rule(), at("/metrics"), false),
            ("its path", Rule::paths(["get"], ["/m*"]), at("/m"), true),
            (
                "a resource",
                Rule::paths(["*"], ["*"]),
                asked("get", "g", "runs", ""),
                false,
            ),
        ] {
            assert_eq!(rule.allows(&asked), want, "{case}");
        }
    }

    #[test]
    fn viewers_see_no_secrets_and_change_nothing() {
        let policy = Policy::default().grant("viewers", Rule::view());
        let viewer = Identity::new("v").group("viewers");
        assert!(policy.allows(&viewer, &asked("list", "", "pods", "a")));
        assert!(policy.allows(&viewer, &asked("get", "", "pods/log", "a")));
        assert!(!policy.allows(&viewer, &asked("get", "", "secrets", "a")));
        assert!(!policy.allows(&viewer, &asked("create", "", "pods", "a")));
        assert!(!policy.allows(&Identity::new("v"), &asked("list", "", "pods", "a")));
    }

    #[test]
    fn without_rules_only_the_open_paths_remain() {
        let policy = Policy::default();
        let (nobody, known) = (
            Identity::anonymous(),
            Identity::new("k").group(AUTHENTICATED),
        );
        assert!(policy.allows(&nobody, &at("/readyz")) && !policy.allows(&nobody, &at("/apis")));
        assert!(policy.allows(&known, &at("/apis/g.io/v1")) && !policy.allows(&known, &at("/x")));
        assert!(!policy.allows(&known, &asked("list", "", "pods", "")));
        let myself = asked(
            "create",
            "authorization.k8s.io",
            "selfsubjectaccessreviews",
            "",
        );
        assert!(policy.allows(&known, &myself) && !policy.allows(&nobody, &myself));
        assert!(policy.allows(&Identity::system_admin(), &asked("list", "", "pods", "")));
    }

    #[test]
    fn a_token_finds_its_user_and_no_other() {
        let policy = Policy::default()
            .user("one", Identity::new("first"))
            .user("two", Identity::new("second"))
            .user("two", Identity::new("third"));
        let user = |token| {
            policy
                .find(&TokenDigest::of(token))
                .map(|user| user.user.as_str())
        };
        assert_eq!(user("one"), Some("first"));
        assert_eq!(user("two"), Some("second"));
        assert_eq!(user("three"), None);
        assert!(!format!("{policy:?}").contains("one"));
    }
}
