//! One listening socket, a few pages, bounded connections.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{ALLOW, CONTENT_TYPE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower::Service;

use super::ready::Check;
use super::registry::Registry;

/// Connections served at one time; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 64;
/// How long a connection may last, with its one request and answer.
const CONNECTION_WITHIN: Duration = Duration::from_secs(15);
/// How long to wait before accepting again when the system refuses.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

const PLAIN: &str = "text/plain; charset=utf-8";
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is served at one address.
#[derive(Clone)]
pub(super) enum Pages {
    Metrics(Registry),
    Probes(Check),
}

type Page = Response<Full<bytes::Bytes>>;

impl Pages {
    async fn answer(self, method: Method, path: String) -> Page {
        if method != Method::GET && method != Method::HEAD {
            let mut page = page(
                StatusCode::METHOD_NOT_ALLOWED,
                PLAIN,
                "only GET is answered\n",
            );
            page.headers_mut()
                .insert(ALLOW, http::HeaderValue::from_static("GET, HEAD"));
            return page;
        }
        match (self, path.as_str()) {
            (Self::Metrics(registry), "/metrics") => {
                page(StatusCode::OK, EXPOSITION, registry.text())
            }
            (Self::Probes(_), "/healthz") => page(StatusCode::OK, PLAIN, "ok\n"),
            (Self::Probes(ready), "/readyz") => match ready.ask().await {
                Ok(()) => page(StatusCode::OK, PLAIN, "ok\n"),
                Err(error) => {
                    let told = format!("{}\n", crate::chain(&error));
                    page(StatusCode::SERVICE_UNAVAILABLE, PLAIN, told)
                }
            },
            (Self::Metrics(_) | Self::Probes(_), _) => {
                page(StatusCode::NOT_FOUND, PLAIN, "no such page\n")
            }
        }
    }
}

fn page(status: StatusCode, kind: &'static str, text: impl Into<bytes::Bytes>) -> Page {
    let mut page = Response::new(Full::new(text.into()));
    *page.status_mut() = status;
    page.headers_mut()
        .insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    page
}

impl<B> Service<Request<B>> for Pages {
    type Response = Page;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Page, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let answer =
            (self.clone()).answer(request.method().clone(), request.uri().path().to_owned());
        Box::pin(async { Ok(answer.await) })
    }
}

/// Answers requests at one address, if there is one, for ever.
pub(super) async fn serve(socket: Option<TcpListener>, pages: Pages) {
    let Some(socket) = socket else {
        return std::future::pending().await;
    };
    let mut connections = JoinSet::new();
    loop {
        while connections.len() >= CONNECTIONS_MAX {
            connections.join_next().await;
        }
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, pages.clone()));
                }
                Err(_) => sleep(ACCEPT_AGAIN_AFTER).await,
            },
        }
    }
}

async fn connection(stream: TcpStream, pages: Pages) {
    let mut http = Builder::new(TokioExecutor::new()).http1_only();
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_WITHIN)
        .keep_alive(false);
    let serving = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(pages));
    // How a connection ends is the client's affair.
    let _ = timeout(CONNECTION_WITHIN, serving).await;
}
