//! How the built-in kinds merge: the facts that their JSON does not show, as one table.
//!
//! What is not in the table follows the rule that Kubernetes itself has for it: objects merge field by field, lists
//! are replaced as a whole. So only keyed lists, sets, and objects that are one value are rows here. The facts are
//! those that a Kubernetes 1.36 API server publishes about itself.

/// The members of one type of object that do not merge by default.
#[derive(Debug)]
pub(crate) struct Record(&'static [(&'static str, Member)]);

impl Record {
    /// Returns what is known of a member; a plain one merges by default.
    pub(crate) fn member(&self, name: &str) -> &'static Member {
        self.0
            .iter()
            .find(|(known, _)| *known == name)
            .map_or(&PLAIN, |(_, member)| member)
    }
}

/// What server-side apply takes for the smallest thing that can have an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merge {
    /// Objects by their fields, lists as a whole.
    Default,
    /// An object that has one owner as a whole.
    Atomic,
    /// A list of scalars, each with its own owner.
    Set,
    /// A list of objects that are told apart by these fields.
    Keys(&'static [Key]),
}

/// One of the fields that tell the items of a list apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// What an item without the field is taken to say.
    pub(crate) default: Option<&'static str>,
}

/// How a strategic merge patch treats a list; objects merge by their fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// The list of the patch takes the place of the old one.
    Replace,
    /// The scalars of the patch are added.
    Union,
    /// Items with the same value of this field are merged.
    By(&'static str),
}

/// One row of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) merge: Merge,
    pub(crate) strategy: Strategy,
    /// Whether a strategic merge patch drops the fields it does not mention, as `retainKeys` has it.
    pub(crate) retain_keys: bool,
    /// Whether Kubernetes shows the field even when nobody has set it, so that nobody comes to own it by creating it.
    pub(crate) inherent: bool,
    /// Whether each item of the list has one owner as a whole.
    pub(crate) whole_items: bool,
    /// What the object, or each item of the list, consists of.
    below: &'static Record,
}

impl Member {
    const fn plain() -> Self {
        Self {
            merge: Merge::Default,
            strategy: Strategy::Replace,
            retain_keys: false,
            inherent: false,
            whole_items: false,
            below: &NOTHING_SPECIAL,
        }
    }

    const fn object(below: &'static Record) -> Self {
        Self {
            below,
            ..Self::plain()
        }
    }

    const fn atomic() -> Self {
        Self {
            merge: Merge::Atomic,
            ..Self::plain()
        }
    }

    const fn set() -> Self {
        Self {
            merge: Merge::Set,
            strategy: Strategy::Union,
            ..Self::plain()
        }
    }

    const fn list(keys: &'static [Key], below: &'static Record) -> Self {
        Self {
            merge: Merge::Keys(keys),
            strategy: Strategy::By(keys[0].name),
            below,
            ..Self::plain()
        }
    }

    /// Describes a list whose items are keyed but not merged.
    const fn whole(keys: &'static [Key]) -> Self {
        Self {
            whole_items: true,
            ..Self::list(keys, &NOTHING_SPECIAL)
        }
    }

    const fn by(self, strategy: Strategy) -> Self {
        Self { strategy, ..self }
    }

    const fn retaining_keys(self) -> Self {
        Self {
            retain_keys: true,
            ..self
        }
    }

    const fn inherent(self) -> Self {
        Self {
            inherent: true,
            ..self
        }
    }

    /// Returns the record of the object itself or, for a list, of its items.
    pub(crate) fn below(&self) -> &'static Record {
        self.below
    }
}

const fn key(name: &'static str) -> Key {
    Key {
        name,
        default: None,
    }
}

const BY_NAME: &[Key] = &[key("name")];
const BY_TYPE: &[Key] = &[key("type")];
const BY_IP: &[Key] = &[key("ip")];
const PROTOCOL: Key = Key {
    name: "protocol",
    default: Some("TCP"),
};

const CONTAINER_PORT: &[Key] = &[key("containerPort"), PROTOCOL];

static NOTHING_SPECIAL: Record = Record(&[]);

/// An object, list or scalar about which there is nothing to know.
pub(crate) static PLAIN: Member = Member::plain();

/// The metadata of any object, custom ones included.
pub(crate) static OBJECT_META: Member = Member::object(&META);

static META: Record = Record(&[
    ("finalizers", Member::set()),
    ("ownerReferences", Member::whole(&[key("uid")])),
]);

static CONTAINER: Record = Record(&[
    ("env", Member::list(BY_NAME, &ENV)),
    ("ports", Member::list(CONTAINER_PORT, &NOTHING_SPECIAL)),
    ("resources", Member::object(&RESOURCES)),
    (
        "volumeDevices",
        Member::list(&[key("devicePath")], &NOTHING_SPECIAL),
    ),
    (
        "volumeMounts",
        Member::list(&[key("mountPath")], &NOTHING_SPECIAL),
    ),
]);
static ENV: Record = Record(&[("valueFrom", Member::object(&ENV_SOURCE))]);
static ENV_SOURCE: Record = Record(&[
    ("configMapKeyRef", Member::atomic()),
    ("fieldRef", Member::atomic()),
    ("fileKeyRef", Member::atomic()),
    ("resourceFieldRef", Member::atomic()),
    ("secretKeyRef", Member::atomic()),
]);
static RESOURCES: Record = Record(&[(
    "claims",
    Member::list(BY_NAME, &NOTHING_SPECIAL).by(Strategy::Replace),
)]);

static VOLUME: Record = Record(&[
    ("cephfs", Member::object(&SECRET_REF)),
    ("cinder", Member::object(&SECRET_REF)),
    ("csi", Member::object(&CSI)),
    ("ephemeral", Member::object(&EPHEMERAL)),
    ("flexVolume", Member::object(&SECRET_REF)),
    ("iscsi", Member::object(&SECRET_REF)),
    ("rbd", Member::object(&SECRET_REF)),
    ("scaleIO", Member::object(&SECRET_REF)),
    ("storageos", Member::object(&SECRET_REF)),
]);
static SECRET_REF: Record = Record(&[("secretRef", Member::atomic())]);
static CSI: Record = Record(&[("nodePublishSecretRef", Member::atomic())]);
static EPHEMERAL: Record = Record(&[("volumeClaimTemplate", Member::object(&CLAIM_TEMPLATE))]);
static CLAIM_TEMPLATE: Record = Record(&[
    ("metadata", Member::object(&META)),
    ("spec", Member::object(&CLAIM_SPEC)),
]);
static CLAIM_SPEC: Record = Record(&[
    ("dataSource", Member::atomic()),
    ("selector", Member::atomic()),
]);

static AFFINITY: Record = Record(&[("nodeAffinity", Member::object(&NODE_AFFINITY))]);
static NODE_AFFINITY: Record = Record(&[(
    "requiredDuringSchedulingIgnoredDuringExecution",
    Member::atomic(),
)]);
static SPREAD: Record = Record(&[("labelSelector", Member::atomic())]);

static POD_SPEC: Record = Record(&[
    ("affinity", Member::object(&AFFINITY)),
    ("containers", Member::list(BY_NAME, &CONTAINER).inherent()),
    ("ephemeralContainers", Member::list(BY_NAME, &CONTAINER)),
    ("hostAliases", Member::list(BY_IP, &NOTHING_SPECIAL)),
    ("imagePullSecrets", Member::whole(BY_NAME)),
    ("initContainers", Member::list(BY_NAME, &CONTAINER)),
    ("nodeSelector", Member::atomic()),
    (
        "resourceClaims",
        Member::list(BY_NAME, &NOTHING_SPECIAL).retaining_keys(),
    ),
    ("resources", Member::object(&RESOURCES)),
    ("schedulingGates", Member::list(BY_NAME, &NOTHING_SPECIAL)),
    (
        "topologySpreadConstraints",
        Member::list(&[key("topologyKey"), key("whenUnsatisfiable")], &SPREAD),
    ),
    ("volumes", Member::list(BY_NAME, &VOLUME).retaining_keys()),
]);
static POD_STATUS: Record = Record(&[
    ("conditions", Member::list(BY_TYPE, &NOTHING_SPECIAL)),
    ("hostIPs", Member::plain().by(Strategy::By("ip"))),
    ("podIPs", Member::list(BY_IP, &NOTHING_SPECIAL)),
    (
        "resourceClaimStatuses",
        Member::list(BY_NAME, &NOTHING_SPECIAL).retaining_keys(),
    ),
    ("resources", Member::object(&RESOURCES)),
]);
static POD: Record = Record(&[
    ("metadata", Member::object(&META).inherent()),
    ("spec", Member::object(&POD_SPEC).inherent()),
    ("status", Member::object(&POD_STATUS).inherent()),
]);

static DEPLOYMENT_SPEC: Record = Record(&[
    ("selector", Member::atomic()),
    ("strategy", Member::plain().retaining_keys().inherent()),
    ("template", Member::object(&POD).inherent()),
]);
static CONDITIONS: Record = Record(&[("conditions", Member::list(BY_TYPE, &NOTHING_SPECIAL))]);
static DEPLOYMENT: Record = Record(&[
    ("metadata", Member::object(&META).inherent()),
    ("spec", Member::object(&DEPLOYMENT_SPEC).inherent()),
    ("status", Member::object(&CONDITIONS).inherent()),
]);

static SERVICE_SPEC: Record = Record(&[
    (
        "ports",
        Member::list(&[key("port"), PROTOCOL], &NOTHING_SPECIAL),
    ),
    ("selector", Member::atomic()),
]);
static SERVICE_STATUS: Record = Record(&[
    ("conditions", Member::list(BY_TYPE, &NOTHING_SPECIAL)),
    ("loadBalancer", Member::plain().inherent()),
]);
static SERVICE: Record = Record(&[
    ("metadata", Member::object(&META).inherent()),
    ("spec", Member::object(&SERVICE_SPEC).inherent()),
    ("status", Member::object(&SERVICE_STATUS).inherent()),
]);

static NAMESPACE: Record = Record(&[
    ("metadata", Member::object(&META).inherent()),
    ("spec", Member::plain().inherent()),
    ("status", Member::object(&CONDITIONS).inherent()),
]);
static SERVICE_ACCOUNT: Record = Record(&[
    ("metadata", Member::object(&META).inherent()),
    ("secrets", Member::whole(BY_NAME)),
]);
static REVISION: Record = Record(&[
    ("data", Member::atomic()),
    ("metadata", Member::object(&META).inherent()),
]);
static ROLE_BINDING: Record = Record(&[
    ("metadata", Member::object(&META).inherent()),
    ("roleRef", Member::atomic()),
]);
static NETWORK_POLICY_SPEC: Record = Record(&[("podSelector", Member::atomic())]);
static NETWORK_POLICY: Record = Record(&[
    ("metadata", Member::object(&META).inherent()),
    ("spec", Member::object(&NETWORK_POLICY_SPEC).inherent()),
]);
static EVENT: Record = Record(&[
    ("deprecatedSource", Member::plain().inherent()),
    ("metadata", Member::object(&META).inherent()),
    ("regarding", Member::atomic()),
    ("related", Member::atomic()),
]);
/// Kinds with a spec and no lists that merge: Lease; and those that have neither.
static SIMPLE: Record = Record(&[
    ("metadata", Member::object(&META).inherent()),
    ("spec", Member::plain().inherent()),
]);

static ROOTS: [(&str, Member); 9] = [
    ("ControllerRevision", Member::object(&REVISION)),
    ("Deployment", Member::object(&DEPLOYMENT)),
    ("Event", Member::object(&EVENT)),
    ("Namespace", Member::object(&NAMESPACE)),
    ("NetworkPolicy", Member::object(&NETWORK_POLICY)),
    ("Pod", Member::object(&POD)),
    ("RoleBinding", Member::object(&ROLE_BINDING)),
    ("Service", Member::object(&SERVICE)),
    ("ServiceAccount", Member::object(&SERVICE_ACCOUNT)),
];
static ANY_OTHER: Member = Member::object(&SIMPLE);

/// Returns what is known of a built-in kind in its stored form.
pub(crate) fn root(kind: &str) -> &'static Member {
    ROOTS
        .iter()
        .find(|(known, _)| *known == kind)
        .map_or(&ANY_OTHER, |(_, member)| member)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(kind: &str, path: &[&str]) -> Member {
        let found = path
            .iter()
            .fold(root(kind), |member, name| member.below().member(name));
        *found
    }

    #[test]
    fn paths_lead_to_what_kubernetes_says_of_them() {
        let template = ["spec", "template", "spec", "containers", "ports"];
        for (kind, path, merge, strategy) in [
            (
                "Deployment",
                &template[..],
                Merge::Keys(CONTAINER_PORT),
                Strategy::By("containerPort"),
            ),
            (
                "Pod",
                &["spec", "tolerations"],
                Merge::Default,
                Strategy::Replace,
            ),
            (
                "Pod",
                &["spec", "containers", "resources", "claims"],
                Merge::Keys(BY_NAME),
                Strategy::Replace,
            ),
            (
                "Pod",
                &["status", "hostIPs"],
                Merge::Default,
                Strategy::By("ip"),
            ),
            (
                "Secret",
                &["metadata", "finalizers"],
                Merge::Set,
                Strategy::Union,
            ),
            ("Role", &["rules"], Merge::Default, Strategy::Replace),
        ] {
            let member = at(kind, path);
            assert_eq!(
                (member.merge, member.strategy),
                (merge, strategy),
                "{kind} {path:?}"
            );
        }
        assert!(at("Pod", &["spec", "volumes"]).retain_keys);
        assert!(at("Deployment", &["spec", "strategy"]).retain_keys);
    }
}
