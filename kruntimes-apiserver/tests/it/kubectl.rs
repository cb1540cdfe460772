//! kubectl against the listener, command by command.
//!
//! Skipped, with a line that says so, where there is no kubectl.

use std::{
    io::{self, Write as _},
    process::Stdio,
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, Command},
};

use crate::listener::Served;

/// A kubectl with a server of its own and an empty home.
struct Kubectl {
    served: Served,
    home: tempfile::TempDir,
}

/// What a command printed, and whether it succeeded.
struct Said {
    ok: bool,
    text: String,
}

impl Kubectl {
    /// Starts a server; none when there is no kubectl to talk to it.
    async fn start() -> Option<Self> {
        let client = Command::new("kubectl")
            .args(["version", "--client"])
            .output();
        if !client.await.is_ok_and(|output| output.status.success()) {
            let _ = writeln!(io::stderr(), "skipped: there is no kubectl in PATH");
            return None;
        }
        Some(Self {
            served: Served::start().await,
            home: tempfile::tempdir().unwrap(),
        })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        command
            .args(arguments)
            .env("KUBECONFIG", &self.served.kubeconfig)
            .env("HOME", self.home.path())
            .env_remove("KUBECTL_EXTERNAL_DIFF")
            .kill_on_drop(true);
        command
    }

    /// Runs a command to its end, with `input` at its standard input.
    async fn run(&self, arguments: &[&str], input: &str) -> Said {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A command that reads nothing may be gone already.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let output = child.wait_with_output().await.unwrap();
        let text = [output.stdout, output.stderr].concat();
        Said {
            ok: output.status.success(),
            text: String::from_utf8_lossy(&text).into_owned(),
        }
    }

    /// Runs commands one after another; each must succeed and print every one of the wanted words.
    async fn prints(&self, commands: &[(&str, &[&str])]) {
        for (line, wanted) in commands {
            let arguments: Vec<&str> = line.split(' ').collect();
            let said = self.run(&arguments, "").await;
            assert!(said.ok, "kubectl {line}: {}", said.text);
            for word in *wanted {
                assert!(
                    said.text.contains(word),
                    "kubectl {line}: no {word:?} in {}",
                    said.text
                );
            }
        }
    }

    /// Runs a command over a manifest; it must succeed and print `wanted`.
    async fn takes(&self, line: &str, manifest: &str, wanted: &str) {
        let arguments: Vec<&str> = line.split(' ').collect();
        let said = self.run(&arguments, manifest).await;
        assert!(
            said.ok && said.text.contains(wanted),
            "kubectl {line}: {}",
            said.text
        );
    }

    /// Runs a command that must fail, with `wanted` in what it says.
    async fn refuses(&self, line: &str, manifest: &str, wanted: &str) {
        let arguments: Vec<&str> = line.split(' ').collect();
        let said = self.run(&arguments, manifest).await;
        assert!(
            !said.ok && said.text.contains(wanted),
            "kubectl {line}: {}",
            said.text
        );
    }

    /// Starts a command that goes on; returns it with the lines it prints.
    fn follow(
        &self,
        line: &str,
    ) -> (
        Child,
        tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    ) {
        let arguments: Vec<&str> = line.split(' ').collect();
        let mut command = self.command(&arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        (child, lines)
    }
}

const WIDGET: &str = r#"{
    "apiVersion": "suite.example.org/v1", "kind": "Widget", "metadata": { "name": "w" },
    "spec": { "color": "blue", "size": 1 }
}"#;

const BUILT_IN: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: { name: map }
data: { a: "1", b: "2" }
---
apiVersion: v1
kind: Secret
metadata: { name: secret }
stringData: { key: value }
---
apiVersion: v1
kind: Pod
metadata: { name: pod, labels: { app: web } }
spec: { containers: [{ name: main, image: image:1 }] }
---
apiVersion: v1
kind: Service
metadata: { name: service }
spec: { selector: { app: web }, ports: [{ port: 80 }] }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  replicas: 2
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec: { containers: [{ name: main, image: image:1 }] }
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: { name: lease }
spec: { holderIdentity: me }
---
apiVersion: v1
kind: Event
metadata: { name: event }
involvedObject: { apiVersion: v1, kind: Pod, name: pod, namespace: default }
reason: Started
message: the pod has started
type: Normal
count: 1
"#;

#[tokio::test]
async fn kubectl_finds_its_way() {
    let Some(kubectl) = Kubectl::start().await else {
        return;
    };
    kubectl
        .prints(&[
            ("version", &["Server Version: v1.33"]),
            ("api-versions", &["suite.example.org/v1", "apps/v1"]),
            ("auth whoami", &["system:admin", "system:masters"]),
            ("auth can-i create widgets", &["yes"]),
            (
                "auth can-i list pods --as=eve --as-group=system:masters",
                &["yes"],
            ),
            ("auth can-i --list", &["*.*"]),
            (
                "api-resources",
                &["widgets", "wd", "suite.example.org/v1", "deploy"],
            ),
            (
                "api-resources --categories all -o name",
                &["pods", "deployments.apps"],
            ),
            ("cluster-info", &["is running at"]),
            ("get --raw /readyz?verbose", &["readyz check passed"]),
            ("get crd", &["CREATED AT", "widgets.suite.example.org"]),
            (
                "wait --for condition=established crd/widgets.suite.example.org",
                &["condition met"],
            ),
            (
                "explain widget.spec",
                &["suite.example.org", "color", "size"],
            ),
            (
                "explain widget --recursive",
                &["metadata\t<ObjectMeta>", "color\t<string>"],
            ),
            (
                "explain deployment.spec.template.spec.containers",
                &["Container", "imagePullPolicy"],
            ),
            (
                "explain pod.spec --recursive",
                &["volumeMounts\t<[]VolumeMount>"],
            ),
            ("explain crd.spec.versions", &["additionalPrinterColumns"]),
        ])
        .await;
    kubectl.served.stop().await;
}

#[tokio::test]
async fn kubectl_handles_custom_kinds() {
    let Some(kubectl) = Kubectl::start().await else {
        return;
    };
    kubectl
        .takes("create -f -", WIDGET, "widget.suite.example.org/w created")
        .await;
    kubectl
        .refuses("create -f -", WIDGET, "already exists")
        .await;
    let unknown = WIDGET.replace("\"size\"", "\"weight\": 1, \"size\"");
    kubectl
        .refuses("create -f -", &unknown, "unknown field \"spec.weight\"")
        .await;
    let wrong = WIDGET.replace("\"size\": 1", "\"size\": 1000");
    kubectl.refuses("replace -f -", &wrong, "spec.size").await;
    kubectl
        .prints(&[
            ("get widgets", &["NAME", "COLOR", "AGE", "blue"]),
            ("get wd w -o yaml", &["color: blue", "kind: Widget"]),
            ("get wd w -o json", &["\"color\": \"blue\""]),
            ("get wd -o name", &["widget.suite.example.org/w"]),
            ("get wd w -o jsonpath={.spec.color}", &["blue"]),
            (
                "get wd -o custom-columns=C:.spec.color,N:.metadata.name",
                &["C", "blue   w"],
            ),
            ("get wd -A --show-labels", &["NAMESPACE", "LABELS"]),
            ("get wd --sort-by=.spec.size -o wide", &["blue"]),
            ("describe wd w", &["Kind:         Widget", "Color:  blue"]),
            ("label wd w l=1", &["labeled"]),
            ("get wd -l l=1 -L l", &["blue"]),
            ("annotate wd w a=b", &["annotated"]),
            (
                "patch wd w --type merge -p {\"spec\":{\"size\":2}}",
                &["patched"],
            ),
            (
                "get wd w -o jsonpath={.spec.size}/{.metadata.generation}",
                &["2/2"],
            ),
            (
                "patch wd w --subresource status --type merge -p {\"status\":{\"phase\":\"Done\"}}",
                &["patched"],
            ),
            (
                "wait wd/w --for jsonpath={.status.phase}=Done",
                &["condition met"],
            ),
            ("delete wd w", &["deleted"]),
            ("get wd", &["No resources found"]),
        ])
        .await;
    kubectl.takes("apply -f -", WIDGET, "created").await;
    kubectl.takes("apply -f -", WIDGET, "unchanged").await;
    let green = WIDGET.replace("blue", "green");
    let said = kubectl.run(&["diff", "-f", "-"], &green).await;
    assert!(said.text.contains("+  color: green"), "{}", said.text);
    kubectl.takes("apply -f -", &green, "configured").await;
    kubectl.takes("delete -f -", WIDGET, "deleted").await;
    kubectl.served.stop().await;
}

#[tokio::test]
async fn kubectl_handles_built_in_kinds() {
    let Some(kubectl) = Kubectl::start().await else {
        return;
    };
    kubectl
        .takes("create -f -", BUILT_IN, "deployment.apps/web created")
        .await;
    kubectl
        .prints(&[
            (
                "get all",
                &[
                    "pod/pod",
                    "0/1",
                    "Pending",
                    "service/service",
                    "deployment.apps/web",
                    "0/2",
                ],
            ),
            ("get pods -o wide", &["NOMINATED NODE", "READINESS GATES"]),
            ("get deploy -o wide", &["UP-TO-DATE", "image:1", "app=web"]),
            ("get svc", &["CLUSTER-IP", "80/TCP"]),
            ("get cm map", &["DATA", "map", "2"]),
            ("get secret secret", &["Opaque"]),
            ("get lease", &["HOLDER", "me"]),
            ("get ns", &["kube-system", "Active"]),
            (
                "get events",
                &["LAST SEEN", "pod/pod", "the pod has started"],
            ),
            ("events", &["the pod has started"]),
            ("describe pod pod", &["image:1", "app=web"]),
            ("describe deploy web", &["2 desired"]),
            ("describe cm map", &["Data"]),
            ("get pods -l app=web -o name", &["pod/pod"]),
            ("get pods --field-selector status.phase=Pending", &["pod"]),
            (
                "patch cm map --type merge -p {\"data\":{\"c\":\"3\"}}",
                &["patched"],
            ),
            ("get cm map -o jsonpath={.data.c}", &["3"]),
            ("run another --image image:2", &["pod/another created"]),
            ("delete pod another --now", &["deleted"]),
        ])
        .await;
    kubectl.served.stop().await;
}

#[tokio::test]
async fn kubectl_watches() {
    let Some(kubectl) = Kubectl::start().await else {
        return;
    };
    kubectl.takes("create -f -", WIDGET, "created").await;
    let (mut watch, mut lines) = kubectl.follow("get wd -w");
    let head = lines.next_line().await.unwrap().unwrap();
    assert!(head.starts_with("NAME") && head.contains("COLOR"), "{head}");
    let first = lines.next_line().await.unwrap().unwrap();
    assert!(first.contains("blue"), "{first}");
    kubectl
        .prints(&[(
            "patch wd w --type merge -p {\"spec\":{\"color\":\"green\"}}",
            &["patched"],
        )])
        .await;
    let second = lines.next_line().await.unwrap().unwrap();
    assert!(second.contains("green"), "{second}");
    watch.kill().await.unwrap();
    kubectl.served.stop().await;
}

/// These commands speak protocol buffers.
#[tokio::test]
async fn kubectl_makes_built_in_kinds_itself() {
    let Some(kubectl) = Kubectl::start().await else {
        return;
    };
    kubectl
        .prints(&[
            ("create configmap made --from-literal k=v", &["created"]),
            ("get cm made -o jsonpath={.data.k}", &["v"]),
            (
                "create secret generic hidden --from-literal k=v",
                &["created"],
            ),
            (
                "create deployment another --image image:2 --replicas 0",
                &["created"],
            ),
            ("get deploy another -o jsonpath={.spec.replicas}", &["0"]),
            (
                "create role reader --verb get --resource pods",
                &["created"],
            ),
            (
                "create rolebinding reads --role reader --user u",
                &["created"],
            ),
            ("create serviceaccount robot", &["created"]),
            ("create namespace room", &["created"]),
            ("auth can-i create deployments.apps", &["yes"]),
            ("auth whoami", &["system:masters"]),
        ])
        .await;
    kubectl.served.stop().await;
}
