//! Metrics and probes over real sockets (C-102, C-103, C-126, C-132).

use kruntimes_apiserver::ApiServer;
use kruntimes_apiserver::fault::{FaultLayer, FaultPlan};
use kruntimes_core::crd::Run;
use kruntimes_k8s::serve::{Address, Addresses, Check, Doors, Registry, build_info, can_list};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

fn local() -> Address {
    "127.0.0.1:0".parse().unwrap()
}

/// Sends one request and returns status line and everything after the head.
async fn ask(port: u16, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let head = format!("{request} HTTP/1.1\r\nHost: here\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.lines().next().unwrap();
    (status.to_owned(), body.to_owned())
}

async fn open(registry: Registry, ready: Check, serving: &mut JoinSet<()>) -> (u16, u16) {
    let addresses = Addresses {
        metrics: local(),
        probes: local(),
    };
    let doors = Doors::open(&addresses).await.unwrap();
    let (metrics, probes) = doors.ports();
    serving.spawn(doors.serve(registry, ready));
    (metrics.unwrap(), probes.unwrap())
}

fn server() -> ApiServer {
    let mut builder = ApiServer::builder();
    for crd in kruntimes_core::crd::all() {
        builder = builder.crd(crd);
    }
    builder.build().unwrap()
}

#[tokio::test]
async fn c_126_metrics_are_served_as_text_and_nothing_else_is() {
    let registry = Registry::new();
    build_info(&registry, "scheduler", "1.2.3", "abc");
    let mut serving = JoinSet::new();
    let ready = can_list::<Run>(server().client(), None);
    let (metrics, _) = open(registry, ready, &mut serving).await;
    let (status, text) = ask(metrics, "GET /metrics").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    let line = "kruntimes_build_info{component=\"scheduler\",version=\"1.2.3\",commit=\"abc\"} 1\n";
    assert!(text.ends_with(line), "{text}");
    for (request, want) in [
        ("GET /healthz", "404 Not Found"),
        ("GET /", "404 Not Found"),
        ("POST /metrics", "405 Method Not Allowed"),
        ("HEAD /metrics", "200 OK"),
    ] {
        let (status, _) = ask(metrics, request).await;
        assert_eq!(status, format!("HTTP/1.1 {want}"), "{request}");
    }
}

#[tokio::test]
async fn c_132_a_process_is_healthy_while_it_lives_and_ready_when_the_api_lists_its_kind() {
    let server = server();
    let faults = FaultLayer::new(1, FaultPlan::default());
    let handle = faults.handle();
    let mut serving = JoinSet::new();
    let ready = can_list::<Run>(server.client_with(&faults), Some("default"));
    let (_, probes) = open(Registry::new(), ready, &mut serving).await;
    for page in ["GET /healthz", "GET /readyz"] {
        let (status, text) = ask(probes, page).await;
        assert_eq!(
            (status.as_str(), text.as_str()),
            ("HTTP/1.1 200 OK", "ok\n")
        );
    }
    assert_eq!(server.stats().requests("list", "runs.kruntimes.io"), 1);
    handle.set_plan(FaultPlan {
        lost_request: 1.0,
        ..FaultPlan::default()
    });
    let (status, text) = ask(probes, "GET /readyz").await;
    assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
    assert!(text.starts_with("cannot list runs: "), "{text}");
    let (status, _) = ask(probes, "GET /healthz").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
}

#[tokio::test(start_paused = true)]
async fn c_132_an_api_that_does_not_answer_in_time_does_not_hang_the_probe() {
    let silent = FaultPlan {
        delay: 1.0,
        delay_for: std::time::Duration::from_secs(500)..=std::time::Duration::from_secs(500),
        ..FaultPlan::default()
    };
    let faults = FaultLayer::new(1, silent);
    let ready = can_list::<Run>(server().client_with(&faults), None);
    let start = tokio::time::Instant::now();
    let told = ready.ask().await.unwrap_err().to_string();
    assert_eq!(told, "no answer to a list of runs within 2 s");
    assert_eq!(start.elapsed().as_secs(), 2);
}

#[tokio::test]
async fn c_103_an_address_that_is_taken_is_refused_by_the_name_of_its_flag() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = taken.local_addr().unwrap().port();
    let taken = Address::At {
        host: Some("127.0.0.1".into()),
        port,
    };
    let (off, on) = (Address::Off, taken);
    for (metrics, probes, flag) in [
        (&on, &off, "--metrics-bind-address"),
        (&off, &on, "--health-probe-bind-address"),
    ] {
        let addresses = Addresses {
            metrics: metrics.clone(),
            probes: probes.clone(),
        };
        let refused = Doors::open(&addresses).await.unwrap_err();
        let want = format!("{flag}: cannot listen on 127.0.0.1:{port}");
        assert_eq!(refused.to_string(), want);
    }
    let doors = Doors::open(&Addresses::default()).await.unwrap();
    assert_eq!(doors.ports(), (None, None));
}

#[tokio::test]
async fn a_page_is_gone_with_the_future_that_served_it() {
    let mut serving = JoinSet::new();
    let ready = can_list::<Run>(server().client(), None);
    let (metrics, _) = open(Registry::new(), ready, &mut serving).await;
    ask(metrics, "GET /metrics").await;
    serving.shutdown().await;
    assert!(TcpStream::connect(("127.0.0.1", metrics)).await.is_err());
}
