//! What a Runtime needs besides its Deployment (API reference, section 4.5; node, section 18).
//!
//! Service and NetworkPolicy belong to the Runtime. The identity of the daemon,
//! ServiceAccount, Role and RoleBinding, belongs to the namespace: several
//! Runtimes may share it, and it outlives them (N-240).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServiceAccount, ServicePort, ServiceSpec};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
    NetworkPolicySpec,
};
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kruntimes_core::{keys, names};
use kube::core::ObjectMeta;

use super::deployment::selector_labels;

/// Name of the Role of the daemon, one per namespace.
pub const DAEMON_ROLE: &str = "kruntimes-runtimed";
/// Label by which Roles, bindings and accounts of the daemon are found.
pub(super) const DAEMON_SELECTOR: &str = "app=kruntimes-runtimed";
/// Port of the daemon that callers of functions and sessions are led to.
const SESSION_PORT: i32 = 9093;
/// Name of that port.
const SESSION_PORT_NAME: &str = "session-runtime";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// The objects of one Runtime, without its Deployment.
#[derive(Clone, Debug, PartialEq)]
pub struct Children {
    /// Who the daemon is; never owned.
    pub account: ServiceAccount,
    /// What the daemon may do; shared by the namespace.
    pub role: Role,
    /// Gives the Role to the account.
    pub binding: RoleBinding,
    /// Leads callers of functions and sessions to the Pods.
    pub service: Service,
    /// Keeps everybody else out.
    pub policy: NetworkPolicy,
}

/// Builds the objects of a Runtime whose Pods run as `account`.
///
/// Callers from outside of the Runtime are let in only when there is a gateway namespace.
pub fn desired(
    runtime: &str,
    namespace: &str,
    owner: &OwnerReference,
    account: &str,
    gateway_namespace: Option<&str>,
) -> Children {
    let owned = ObjectMeta {
        name: Some(names::runtime_objects(runtime)),
        namespace: Some(namespace.to_owned()),
        labels: Some(selector_labels(runtime)),
        owner_references: Some(vec![owner.clone()]),
        ..ObjectMeta::default()
    };
    Children {
        account: ServiceAccount {
            metadata: daemon_meta(account, namespace),
            ..ServiceAccount::default()
        },
        role: Role {
            metadata: daemon_meta(DAEMON_ROLE, namespace),
            rules: Some(rules()),
        },
        binding: binding(account, namespace),
        service: service(runtime, owned.clone()),
        policy: policy(runtime, owned, gateway_namespace),
    }
}

fn daemon_meta(name: &str, namespace: &str) -> ObjectMeta {
    let labels = [
        ("app.kubernetes.io/name", "kruntimes"),
        ("app.kubernetes.io/component", "runtimed"),
        (keys::LABEL_APP, "kruntimes-runtimed"),
    ];
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(namespace.to_owned()),
        labels: Some(strings(labels)),
        ..ObjectMeta::default()
    }
}

fn strings<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

/// Everything a daemon asks of the API, and nothing about Secrets or ConfigMaps.
fn rules() -> Vec<PolicyRule> {
    let rule = |group: &str, resource: &str, verbs: &[&str]| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    };
    let keeps = ["get", "list", "watch", "update", "patch"];
    vec![
        rule("kruntimes.io", "runs", &keeps),
        rule("kruntimes.io", "runs/status", &["get", "update", "patch"]),
        rule("kruntimes.io", "persistentworkspaces", &keeps),
        rule("", "pods", &["get"]),
        rule("", "pods/status", &["get", "patch"]),
        rule("", "events", &["create", "patch"]),
    ]
}

fn binding(account: &str, namespace: &str) -> RoleBinding {
    RoleBinding {
        metadata: daemon_meta(&names::daemon_role_binding(account), namespace),
        role_ref: RoleRef {
            api_group: RBAC_GROUP.to_owned(),
            kind: "Role".to_owned(),
            name: DAEMON_ROLE.to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: account.to_owned(),
            namespace: Some(namespace.to_owned()),
            ..Subject::default()
        }]),
    }
}

fn service(runtime: &str, metadata: ObjectMeta) -> Service {
    Service {
        metadata,
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(selector_labels(runtime)),
            ports: Some(vec![ServicePort {
                name: Some(SESSION_PORT_NAME.to_owned()),
                port: SESSION_PORT,
                protocol: Some("TCP".to_owned()),
                target_port: Some(IntOrString::String(SESSION_PORT_NAME.to_owned())),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn policy(runtime: &str, metadata: ObjectMeta, gateway_namespace: Option<&str>) -> NetworkPolicy {
    let selects = |labels: BTreeMap<String, String>| LabelSelector {
        match_labels: Some(labels),
        ..LabelSelector::default()
    };
    let rule = |namespace: &str| NetworkPolicyIngressRule {
        from: Some(vec![
            NetworkPolicyPeer {
                pod_selector: Some(selects(selector_labels(runtime))),
                ..NetworkPolicyPeer::default()
            },
            NetworkPolicyPeer {
                namespace_selector: Some(selects(strings([(
                    "kubernetes.io/metadata.name",
                    namespace,
                )]))),
                pod_selector: Some(selects(strings([(
                    "app.kubernetes.io/component",
                    "runtime-gateway",
                )]))),
                ..NetworkPolicyPeer::default()
            },
        ]),
        ports: Some(vec![NetworkPolicyPort {
            port: Some(IntOrString::Int(SESSION_PORT)),
            protocol: Some("TCP".to_owned()),
            ..NetworkPolicyPort::default()
        }]),
    };
    NetworkPolicy {
        metadata,
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(selects(selector_labels(runtime))),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: gateway_namespace.map(|namespace| vec![rule(namespace)]),
            ..NetworkPolicySpec::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn made(account: &str, gateway: Option<&str>) -> Children {
        let owner = OwnerReference {
            kind: "Runtime".into(),
            name: "bash".into(),
            ..OwnerReference::default()
        };
        desired("bash", "ns", &owner, account, gateway)
    }

    #[test]
    fn n_240_the_identity_of_the_daemon_belongs_to_nobody() {
        let made = made("builder", None);
        for meta in [
            &made.account.metadata,
            &made.role.metadata,
            &made.binding.metadata,
        ] {
            assert_eq!(meta.owner_references, None);
            let labels = meta.labels.as_ref().unwrap();
            assert_eq!(labels["app"], "kruntimes-runtimed");
            assert_eq!(labels["app.kubernetes.io/name"], "kruntimes");
            assert_eq!(labels["app.kubernetes.io/component"], "runtimed");
        }
        for meta in [&made.service.metadata, &made.policy.metadata] {
            assert_eq!(meta.owner_references.as_ref().unwrap()[0].name, "bash");
            assert_eq!(meta.name.as_deref(), Some("runtime-bash"));
        }
        let name = made.binding.metadata.name.as_deref();
        assert_eq!(name, Some("kruntimes-runtimed-builder"));
    }

    #[test]
    fn n_2_the_daemon_may_read_no_secret() {
        let rules = made("builder", None).role.rules.unwrap();
        let text = serde_json::to_string(&rules).unwrap();
        assert!(!text.contains("secrets") && !text.contains("configmaps") && !text.contains('*'));
        let writes: Vec<_> = rules
            .iter()
            .filter(|rule| rule.verbs.iter().any(|verb| verb == "delete"))
            .collect();
        assert!(writes.is_empty());
    }

    #[test]
    fn the_policy_lets_in_nobody_but_the_gateway_and_the_own_pool() {
        let closed = made("builder", None).policy.spec.unwrap();
        assert_eq!(closed.ingress, None);
        assert_eq!(closed.policy_types.unwrap(), ["Ingress"]);
        let open = made("builder", Some("edge")).policy.spec.unwrap();
        assert_eq!(
            serde_json::to_value(open.ingress).unwrap(),
            json!([{
                "from": [
                    {"podSelector": {"matchLabels": {"app": "kruntimes-bash", "runtime": "bash"}}},
                    {
                        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "edge"}},
                        "podSelector": {"matchLabels": {"app.kubernetes.io/component": "runtime-gateway"}},
                    },
                ],
                "ports": [{"port": 9093, "protocol": "TCP"}],
            }])
        );
    }
}
