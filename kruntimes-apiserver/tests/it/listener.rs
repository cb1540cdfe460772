//! The API over the network: keys, doors, endings, and the suite once more.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use futures::{AsyncBufReadExt as _, StreamExt as _, TryStreamExt as _};
use http::{HeaderMap, HeaderValue};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec},
    core::v1::{Namespace, Pod, Secret},
};
use kruntimes_apiserver::{
    ApiServer, Identity, LogError, LogRequest, LogStream, PodLogs, Policy, Rule,
    listen::{ListenError, ListenOptions, Listener},
};
use kube::{
    Api, Client, Config, CustomResourceExt as _,
    api::{DeleteParams, ListParams, LogParams, PostParams, WatchParams},
    client::Body,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::suite::{self, Room, Widget, a_widget, refused};

/// A served API, with everything a test wants to reach.
pub(crate) struct Served {
    pub(crate) server: ApiServer,
    pub(crate) endpoint: String,
    pub(crate) kubeconfig: PathBuf,
    shutdown: CancellationToken,
    serving: JoinHandle<()>,
    directory: TempDir,
}

impl Served {
    pub(crate) async fn start() -> Self {
        Self::with(Policy::default()).await
    }

    pub(crate) async fn with(policy: Policy) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let builder = ApiServer::builder()
            .crd(Widget::crd())
            .crd(suite::apply::assembly())
            .policy(policy);
        Self::again(builder.build().unwrap(), directory).await
    }

    async fn again(server: ApiServer, directory: TempDir) -> Self {
        let options = ListenOptions::new(directory.path().join("listener"));
        let listener = Listener::bind(&server, options).await.unwrap();
        let shutdown = CancellationToken::new();
        Self {
            endpoint: listener.endpoint().to_owned(),
            kubeconfig: listener.kubeconfig().to_owned(),
            serving: tokio::spawn(listener.run(shutdown.clone())),
            server,
            shutdown,
            directory,
        }
    }

    pub(crate) async fn client(&self) -> Client {
        client(&self.kubeconfig, None).await
    }

    async fn client_of(&self, token: &str) -> Client {
        client(&self.kubeconfig, Some(token)).await
    }

    fn address(&self) -> &str {
        self.endpoint.strip_prefix("https://").unwrap()
    }

    pub(crate) async fn stop(self) -> (ApiServer, TempDir) {
        self.shutdown.cancel();
        self.serving.await.unwrap();
        (self.server, self.directory)
    }
}

async fn client(kubeconfig: &Path, token: Option<&str>) -> Client {
    let mut read = Kubeconfig::read_from(kubeconfig).unwrap();
    if let Some(token) = token {
        let user = &mut read.auth_infos[0];
        user.auth_info.as_mut().unwrap().token = Some(token.to_owned().into());
    }
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(read, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}

macro_rules! over_the_network {
    ($($module:ident: $($name:ident),+;)+) => {
        /// Every claim in a namespace of its own, all on one server and at the same time.
        #[tokio::test]
        async fn the_suite_holds_over_the_network() {
            let served = Served::start().await;
            let _background = served.server.spawn_background();
            let mut claims = tokio::task::JoinSet::new();
            $($(
                claims.spawn(suite::$module::$name(served.client().await));
            )+)+
            while let Some(held) = claims.join_next().await {
                held.unwrap();
            }
            served.stop().await;
        }
    };
}

suite::every_claim!(over_the_network);

#[tokio::test]
async fn a_kubeconfig_outlives_the_listener_that_wrote_it() {
    let first = Served::start().await;
    let endpoint = first.endpoint.clone();
    let kept = fs::read_to_string(&first.kubeconfig).unwrap();
    let (server, directory) = first.stop().await;
    let second = Served::again(server, directory).await;
    assert_eq!(second.endpoint, endpoint, "the port is remembered");
    assert_eq!(fs::read_to_string(&second.kubeconfig).unwrap(), kept);
    let namespaces: Api<Namespace> = Api::all(second.client().await);
    assert!(
        !namespaces
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    second.stop().await;
}

#[tokio::test]
async fn secrets_are_for_their_owner_alone() {
    let served = Served::start().await;
    let state = served.kubeconfig.parent().unwrap().to_owned();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    let mut names = Vec::new();
    for entry in fs::read_dir(&state).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(mode(&entry.path()), 0o600, "{}", entry.path().display());
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(
        names,
        ["ca.crt", "ca.key", "kubeconfig", "lock", "port", "token"]
    );
    let (server, directory) = served.stop().await;
    for (path, bits) in [(state.join("ca.key"), 0o640), (state.clone(), 0o755)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(bits)).unwrap();
        let refused = bind(&server, &state).await;
        let told = refused.to_string();
        assert!(matches!(refused, ListenError::Exposed { .. }), "{told}");
        assert!(told.contains(&path.display().to_string()), "{told}");
        fs::set_permissions(&path, fs::Permissions::from_mode(bits & 0o700)).unwrap();
    }
    drop(directory);
}

async fn bind(server: &ApiServer, state_dir: &Path) -> ListenError {
    let listener = Listener::bind(server, ListenOptions::new(state_dir)).await;
    listener.err().expect("the listener must not come up")
}

#[tokio::test]
async fn what_cannot_be_served_safely_is_refused() {
    let served = Served::start().await;
    let state = served.kubeconfig.parent().unwrap().to_owned();
    assert!(matches!(
        bind(&served.server, &state).await,
        ListenError::InUse { .. }
    ));
    let elsewhere = served.directory.path().join("elsewhere");
    let taken = ListenOptions {
        address: served.address().parse().unwrap(),
        state_dir: elsewhere.clone(),
    };
    let taken = Listener::bind(&served.server, taken).await.err().unwrap();
    assert!(matches!(taken, ListenError::Bind { .. }), "{taken}");
    let open = ListenOptions {
        address: ([0, 0, 0, 0], 0).into(),
        state_dir: elsewhere.clone(),
    };
    let open = Listener::bind(&served.server, open).await.err().unwrap();
    assert_eq!(open.to_string(), "0.0.0.0:0 is not a loopback address");
    let (server, directory) = served.stop().await;
    // Another authority's key does not sign what clients of this one accept.
    for name in ["ca.key", "ca.crt"] {
        let own = fs::read(state.join(name)).unwrap();
        let strange = fs::read(elsewhere.join(name)).unwrap();
        fs::write(state.join(name), strange).unwrap();
        let refused = bind(&server, &state).await;
        assert!(
            matches!(refused, ListenError::Authority { .. }),
            "{name}: {refused}"
        );
        fs::write(state.join(name), "no key and no certificate").unwrap();
        let refused = bind(&server, &state).await;
        assert!(
            matches!(refused, ListenError::Authority { .. }),
            "{name}: {refused}"
        );
        fs::write(state.join(name), own).unwrap();
    }
    drop(directory);
}

#[tokio::test]
async fn stopping_cuts_watches_and_closes_the_port() {
    let served = Served::start().await;
    let room = Room::open(served.client().await).await;
    let version = room.widgets.list(&ListParams::default()).await.unwrap();
    let version = version.metadata.resource_version.unwrap();
    let params = WatchParams::default().timeout(200);
    let watch = room.widgets.watch(&params, &version);
    let mut events = std::pin::pin!(watch.await.unwrap());
    room.create(a_widget("a")).await;
    assert!(events.try_next().await.unwrap().is_some(), "told at once");
    let address = served.address().to_owned();
    let (_server, _directory) = served.stop().await;
    assert!(events.try_next().await.unwrap().is_none(), "a clean end");
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_token_opens_what_its_rules_allow() {
    let policy = Policy::default()
        .user("of-ann", Identity::new("ann").group("viewers"))
        .user("of-bob", Identity::new("bob"))
        .grant("viewers", Rule::view());
    let served = Served::with(policy).await;
    let ann = served.client_of("of-ann").await;
    let widgets: Api<Widget> = Api::namespaced(ann.clone(), "default");
    widgets.list(&ListParams::default()).await.unwrap();
    let status = refused(widgets.create(&PostParams::default(), &a_widget("a")).await);
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        status.message,
        "widgets.suite.example.org is forbidden: User \"ann\" cannot create resource \"widgets\" in API group \
         \"suite.example.org\" in the namespace \"default\""
    );
    let secrets: Api<Secret> = Api::namespaced(ann, "default");
    assert_eq!(
        refused(secrets.get("s").await).code,
        403,
        "even if there is none"
    );
    let widgets: Api<Widget> = Api::all(served.client_of("of-bob").await);
    assert_eq!(
        refused(widgets.list(&ListParams::default()).await).code,
        403
    );
    let widgets: Api<Widget> = Api::all(served.client_of("of-nobody").await);
    let status = refused(widgets.list(&ListParams::default()).await);
    assert_eq!((status.code, status.reason.as_str()), (401, "Unauthorized"));
    served.stop().await;
}

#[tokio::test]
async fn identities_of_this_process_are_held_to_the_policy_too() {
    let policy = Policy::default().grant("viewers", Rule::view());
    let server = ApiServer::builder().policy(policy).build().unwrap();
    let viewer = Identity::new("v").group("viewers");
    let namespaces: Api<Namespace> = Api::all(server.client_as(viewer));
    namespaces.list(&ListParams::default()).await.unwrap();
    let refusal = refused(namespaces.delete("default", &DeleteParams::default()).await);
    assert_eq!(refusal.code, 403);
    let namespaces: Api<Namespace> = Api::all(server.client_as(Identity::new("stranger")));
    assert_eq!(
        refused(namespaces.list(&ListParams::default()).await).code,
        403
    );
}

/// A log that goes on for as long as somebody writes it.
struct OpenLog(Mutex<Option<LogStream>>);

#[async_trait::async_trait]
impl PodLogs for OpenLog {
    async fn open(&self, request: LogRequest) -> Result<LogStream, LogError> {
        assert!(request.follow);
        Ok(self.0.lock().unwrap().take().unwrap())
    }
}

#[tokio::test]
async fn followed_logs_arrive_line_by_line() {
    let (lines, log) = futures::channel::mpsc::unbounded();
    let log = OpenLog(Mutex::new(Some(log.map(Ok).boxed())));
    let builder = ApiServer::builder().pod_logs(Arc::new(log));
    let directory = tempfile::tempdir().unwrap();
    let served = Served::again(builder.build().unwrap(), directory).await;
    let pods: Api<Pod> = Api::default_namespaced(served.client().await);
    let pod = json!({
        "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] },
    });
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let params = LogParams {
        follow: true,
        ..LogParams::default()
    };
    let mut told = pods.log_stream("p", &params).await.unwrap().lines();
    for line in ["first", "second"] {
        let text = Bytes::from(format!("{line}\n"));
        lines.unbounded_send(text).unwrap();
        assert_eq!(told.try_next().await.unwrap().as_deref(), Some(line));
    }
    served.stop().await;
    assert_eq!(
        told.try_next().await.unwrap(),
        None,
        "cut, though the log is open"
    );
}

async fn answered(client: &Client, request: http::Request<kube::client::Body>) -> (u16, HeaderMap) {
    let answer = client.send(request).await.unwrap();
    (answer.status().as_u16(), answer.headers().clone())
}

#[tokio::test]
async fn answers_carry_the_headers_that_clients_look_for() {
    let served = Served::start().await;
    let client = served.client().await;
    let request = http::Request::get("/api/v1/namespaces/default").header("audit-id", "mine");
    let (code, headers) = answered(&client, request.body(Body::empty()).unwrap()).await;
    assert_eq!(
        (code, &headers["audit-id"]),
        (200, &HeaderValue::from_static("mine"))
    );
    for name in ["content-length", "date", "cache-control"] {
        assert!(headers.contains_key(name), "{name}");
    }
    let request = http::Request::head("/api/v1/namespaces/default");
    let (code, headers) = answered(&client, request.body(Body::empty()).unwrap()).await;
    assert_eq!(code, 405);
    assert!(uuid::Uuid::parse_str(headers["audit-id"].to_str().unwrap()).is_ok());
    let request = http::Request::head("/readyz").body(Body::empty()).unwrap();
    assert_eq!(answered(&client, request).await.0, 200);
    let large = http::Request::post("/api/v1/namespaces/default/configmaps");
    let large = large.body(Body::from(vec![b'x'; 3 * 1024 * 1024 + 1]));
    assert_eq!(answered(&client, large.unwrap()).await.0, 413);
    served.stop().await;
}

#[tokio::test]
async fn a_token_review_knows_the_users_of_the_policy() {
    let policy = Policy::default().user("of-ann", Identity::new("ann").group("viewers"));
    let served = Served::with(policy).await;
    let reviews: Api<TokenReview> = Api::all(served.server.client());
    let review = |audiences: Option<Vec<String>>| TokenReview {
        spec: TokenReviewSpec {
            token: Some("of-ann".to_owned()),
            audiences,
        },
        ..TokenReview::default()
    };
    let params = PostParams::default();
    let status = reviews
        .create(&params, &review(None))
        .await
        .unwrap()
        .status
        .unwrap();
    assert_eq!(status.authenticated, Some(true));
    let user = status.user.unwrap();
    assert_eq!(user.username.as_deref(), Some("ann"));
    assert_eq!(user.groups.unwrap(), ["viewers", "system:authenticated"]);
    let meant = status.audiences.unwrap();
    for (audiences, known) in [(meant, true), (vec!["elsewhere".to_owned()], false)] {
        let answer = reviews
            .create(&params, &review(Some(audiences)))
            .await
            .unwrap();
        assert_eq!(answer.status.unwrap().authenticated.unwrap_or(false), known);
    }
    // The token of the listener's kubeconfig is known as well.
    let token = fs::read_to_string(served.kubeconfig.with_file_name("token")).unwrap();
    let review = json!({ "spec": { "token": token.trim() } });
    let review = serde_json::from_value(review).unwrap();
    let status = reviews
        .create(&params, &review)
        .await
        .unwrap()
        .status
        .unwrap();
    assert_eq!(
        status.user.unwrap().username.as_deref(),
        Some("system:admin")
    );
    served.stop().await;
}

/// With nothing else to do, a paused clock jumps to the deadline.
#[tokio::test(start_paused = true)]
async fn silent_and_babbling_clients_are_shown_out() {
    let served = Served::start().await;
    for greeting in ["", "GET / HTTP/1.1\r\n\r\n"] {
        let mut silent = TcpStream::connect(served.address()).await.unwrap();
        silent.write_all(greeting.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let end = silent.read_to_end(&mut answer).await;
        assert!(
            !String::from_utf8_lossy(&answer).contains("HTTP"),
            "{end:?}"
        );
    }
    served.stop().await;
}
