//! Whether this runtimed can do its work, and when it last showed signs of it (node, N-22, N-23, N-94).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kruntimes_core::crd::Run;
use kruntimes_k8s::serve::{Check, NotReady, can_list};
use kruntimes_proto::RuntimeClient;
use kube::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::server::Server;

/// Distance of two looks at a server that reports nothing by itself (N-89).
pub(crate) const PASS: Duration = Duration::from_millis(500);

/// Builds the answer of `/readyz`: the Pod is known, work is taken, Runs can be listed, and the Runtime
/// Server is well. All of it is asked anew each time.
pub(crate) fn check(
    client: Client,
    namespace: &str,
    runtime: Arc<dyn RuntimeClient>,
    known: &Arc<AtomicBool>,
    leaving: &CancellationToken,
) -> Check {
    let list = can_list::<Run>(client, Some(namespace));
    let server = Arc::new(Server::new(runtime));
    let (known, leaving) = (Arc::clone(known), leaving.clone());
    let part = |what, why: &str| NotReady::Part {
        what,
        why: why.to_owned(),
    };
    Check::new(move || {
        let (list, server) = (list.clone(), Arc::clone(&server));
        let (known, leaving) = (known.load(Ordering::Relaxed), leaving.is_cancelled());
        async move {
            if !known {
                return Err(part("pod", "its UID is not known yet"));
            }
            if leaving {
                return Err(part("runtimed", "it is shutting down"));
            }
            let (listed, health) = tokio::join!(list.ask(), server.ask_health());
            listed?;
            health.map_err(|why| part("runtime server", &why))
        }
    })
}

/// When the node last showed that it lives.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    heartbeat: Mutex<Option<Instant>>,
    events: Mutex<Option<Instant>>,
    following: AtomicBool,
}

fn set(moment: &Mutex<Option<Instant>>) {
    *moment.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
}

fn age(moment: &Mutex<Option<Instant>>) -> Option<f64> {
    let moment = *moment.lock().unwrap_or_else(PoisonError::into_inner);
    Some(moment?.elapsed().as_secs_f64())
}

impl Pulse {
    /// The API has taken a heartbeat.
    pub(crate) fn beat(&self) {
        set(&self.heartbeat);
    }

    /// The event stream of the server has begun or ended.
    pub(crate) fn follow(&self, following: bool) {
        self.following.store(following, Ordering::Relaxed);
        set(&self.events);
    }

    /// The server was asked about an execution and has answered.
    pub(crate) fn heard(&self) {
        set(&self.events);
    }

    /// Returns the seconds since the last heartbeat; nothing before the first.
    pub(crate) fn heartbeat_age(&self) -> Option<f64> {
        age(&self.heartbeat)
    }

    /// Returns the seconds since something was heard of the server, which is none while its events arrive;
    /// nothing before the first sign.
    pub(crate) fn events_age(&self) -> Option<f64> {
        if self.following.load(Ordering::Relaxed) {
            return Some(0.0);
        }
        age(&self.events)
    }
}

#[cfg(test)]
mod tests {
    use kruntimes_apiserver::ApiServer;
    use kruntimes_proto::testing::{Fault, Method, Script, ScriptedServer};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn n_23_a_server_that_does_not_answer_is_not_ready_after_two_seconds() {
        let server = ScriptedServer::new(|_| Script::never_ends());
        let mut builder = ApiServer::builder();
        for crd in kruntimes_core::crd::all() {
            builder = builder.crd(crd);
        }
        let client = builder.build().unwrap().client();
        let known = Arc::new(AtomicBool::new(true));
        let check = check(
            client,
            "default",
            Arc::new(server.clone()),
            &known,
            &CancellationToken::new(),
        );
        assert!(check.ask().await.is_ok());
        let started = Instant::now();
        server.break_next(Method::Health, Fault::Delay(Duration::from_secs(60)));
        let error = check.ask().await.unwrap_err().to_string();
        assert_eq!(
            error,
            "runtime server: deadline exceeded: no answer within 2s"
        );
        assert_eq!(started.elapsed(), Duration::from_secs(2));
        known.store(false, Ordering::Relaxed);
        let error = check.ask().await.unwrap_err().to_string();
        assert!(error.starts_with("pod: "), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn n_94_the_age_of_the_last_sign_is_told() {
        let pulse = Pulse::default();
        assert_eq!((pulse.events_age(), pulse.heartbeat_age()), (None, None));
        pulse.beat();
        pulse.follow(true);
        tokio::time::advance(PASS * 3).await;
        assert_eq!(pulse.heartbeat_age(), Some(1.5));
        assert_eq!(pulse.events_age(), Some(0.0), "events arrive");
        pulse.follow(false);
        tokio::time::advance(PASS).await;
        assert_eq!(pulse.events_age(), Some(0.5));
        pulse.heard();
        assert_eq!(pulse.events_age(), Some(0.0));
    }
}
