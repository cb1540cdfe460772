//! One connection from its handshake to its end.

use std::{pin::pin, time::Duration};

use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use tokio::{net::TcpStream, sync::watch, time::timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::door::Door;

/// How long a client may take to agree on keys.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(10);
/// How long the head of an HTTP/1 request may take to arrive.
const HEAD_WITHIN: Duration = Duration::from_secs(20);
/// How long a connection may go without a request under way.
const IDLE_WITHIN: Duration = Duration::from_mins(3);
/// How long a connection that has been idle may take to say goodbye.
const GOODBYE_WITHIN: Duration = Duration::from_secs(5);
/// How often a quiet HTTP/2 client is asked whether it is still there, and how long it may take to answer.
const PING_EVERY: Duration = Duration::from_secs(30);
const PONG_WITHIN: Duration = Duration::from_secs(20);
/// Requests under way at one time on one HTTP/2 connection, watches included; as in Kubernetes.
const STREAMS_MAX: u32 = 250;
/// Bytes of header fields in one HTTP/2 request.
const HEAD_MAX_BYTES: u32 = 64 * 1024;

/// Serves one connection until the client leaves, is idle for too long, or `shutdown` lets it finish.
pub(super) async fn serve(
    stream: TcpStream,
    tls: TlsAcceptor,
    door: Door,
    shutdown: CancellationToken,
) {
    let stream = tokio::select! {
        biased;
        () = shutdown.cancelled() => return,
        shaken = timeout(HANDSHAKE_WITHIN, tls.accept(stream)) => match shaken {
            Ok(Ok(stream)) => stream,
            // Too slow, or no TLS that we speak: there is nobody to tell.
            Ok(Err(_)) | Err(_) => return,
        },
    };
    let mut busy = door.busy();
    let http = http();
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(door));
    let mut connection = pin!(connection);
    let stopping = tokio::select! {
        // How a connection ends is the client's affair.
        _ = connection.as_mut() => return,
        () = shutdown.cancelled() => true,
        () = idle(&mut busy) => false,
    };
    connection.as_mut().graceful_shutdown();
    if stopping {
        // The listener bounds this wait.
        let _ = connection.await;
    } else {
        let _ = timeout(GOODBYE_WITHIN, connection).await;
    }
}

fn http() -> Builder<TokioExecutor> {
    let mut http = Builder::new(TokioExecutor::new());
    http.http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN);
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PONG_WITHIN)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_MAX_BYTES);
    http
}

/// Returns when no request has been under way for too long.
async fn idle(busy: &mut watch::Receiver<usize>) {
    loop {
        // The door lives as long as the connection, so neither wait can fail.
        let _ = busy.wait_for(|count| *count == 0).await;
        let next = timeout(IDLE_WITHIN, busy.wait_for(|count| *count > 0)).await;
        if next.is_err() {
            return;
        }
    }
}
