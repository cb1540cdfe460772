//! Leader election: work that one process at a time does.
//!
//! [`lead`] waits for a `coordination.k8s.io/v1` Lease, does the work, and
//! renews meanwhile. Two rules keep two leaders apart without comparing the
//! clocks of machines:
//!
//! - a candidate takes over only after it has itself seen the Lease unchanged
//!   for its whole duration, and every write names the version it read;
//! - a leader that could not renew for [`Config::renew_deadline`], which is
//!   shorter than that, drops its work there and then (S-126).
//!
//! A request that is on its way at that moment can still arrive: writes that
//! matter name a version too, or carry the [`Term`].

use std::future::Future;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::chain;
use crate::clock::Clock;

/// Which Lease is contended for, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who contends; no two processes may share it.
    pub identity: String,
    /// How long a Lease that is not renewed keeps others away; whole seconds.
    pub duration: Duration,
    /// How long a leader works on without having renewed; shorter than the duration.
    pub renew_deadline: Duration,
    /// How often the Lease is renewed or looked at.
    pub retry_period: Duration,
}

impl Config {
    /// Contends with the times that Kubernetes components use: 15, 10 and 2 seconds.
    pub fn new(
        namespace: impl Into<String>,
        name: impl Into<String>,
        identity: impl Into<String>,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// A number that grows with every change of the leader, to fence side effects with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term(pub i32);

/// How leading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End<T> {
    /// The work ended by itself.
    Finished(T),
    /// The Lease was lost, and the work was dropped.
    Lost,
    /// Somebody asked to stop.
    Stopped,
}

/// Waits for the Lease, then works while it is held.
///
/// The work is dropped when the Lease is lost or `stop` is ready. A Lease that
/// is still held at the end is given back, so that the next one need not wait.
pub async fn lead<F, Fut>(
    client: Client,
    config: Config,
    clock: Clock,
    stop: impl Future<Output = ()>,
    work: F,
) -> End<Fut::Output>
where
    F: FnOnce(Term) -> Fut,
    Fut: Future,
{
    let candidate = Candidate {
        api: Api::namespaced(client, &config.namespace),
        config,
        clock,
    };
    let mut stop = std::pin::pin!(stop);
    let mut held = tokio::select! {
        held = candidate.acquire() => held,
        () = &mut stop => return End::Stopped,
    };
    let end = {
        let term = Term(spec(&held.lease).lease_transitions.unwrap_or_default());
        tracing::info!(lease = candidate.config.name, term = term.0, "leading");
        let work = std::pin::pin!(work(term));
        tokio::select! {
            biased;
            () = candidate.keep(&mut held) => End::Lost,
            () = &mut stop => End::Stopped,
            value = work => End::Finished(value),
        }
    };
    if matches!(end, End::Lost) {
        tracing::error!(lease = candidate.config.name, "the lease is lost");
    } else {
        candidate.release(held).await;
    }
    end
}

/// A Lease in our name, and when we began to write that down.
struct Held {
    lease: Lease,
    renewed: Instant,
}

/// How an attempt to write the Lease ended.
enum Written {
    Held(Box<Lease>),
    /// Somebody else wrote first.
    Conflict,
}

struct Candidate {
    api: Api<Lease>,
    config: Config,
    clock: Clock,
}

impl Candidate {
    /// Waits until the Lease is ours.
    async fn acquire(&self) -> Held {
        let mut seen: Option<(Option<String>, Instant)> = None;
        loop {
            let renewed = Instant::now();
            let attempt = timeout(self.config.renew_deadline, self.attempt(&mut seen)).await;
            match attempt {
                Ok(Ok(Some(lease))) => return Held { lease, renewed },
                Ok(Ok(None)) => {}
                Ok(Err(error)) => {
                    let error = chain(&error);
                    tracing::warn!(lease = self.config.name, error, "cannot contend");
                }
                Err(_) => tracing::warn!(lease = self.config.name, "no answer about the lease"),
            }
            sleep(self.config.retry_period).await;
        }
    }

    /// Looks at the Lease, and takes it if nobody has it; `seen` is its last version and since when it is.
    async fn attempt(
        &self,
        seen: &mut Option<(Option<String>, Instant)>,
    ) -> Result<Option<Lease>, kube::Error> {
        let written = match self.api.get_opt(&self.config.name).await? {
            None => self.create().await?,
            Some(found) => {
                let version = found.metadata.resource_version.clone();
                let since = match seen {
                    Some((known, since)) if *known == version => *since,
                    _ => seen.insert((version, Instant::now())).1,
                };
                if !self.is_free(&found, since) {
                    return Ok(None);
                }
                self.write(self.taken(found)).await?
            }
        };
        Ok(match written {
            Written::Held(lease) => Some(*lease),
            Written::Conflict => None,
        })
    }

    fn is_free(&self, lease: &Lease, since: Instant) -> bool {
        let spec = spec(lease);
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let seconds = spec.lease_duration_seconds.unwrap_or_default();
        let duration = u64::try_from(seconds).map_or(self.config.duration, Duration::from_secs);
        holder.is_empty() || holder == self.config.identity || since.elapsed() >= duration
    }

    /// Renews the Lease; returns when it is not ours any more, or may soon not be.
    async fn keep(&self, held: &mut Held) {
        loop {
            let deadline = held.renewed + self.config.renew_deadline;
            let next = Instant::now() + self.config.retry_period;
            sleep_until(next.min(deadline)).await;
            let began = Instant::now();
            if began >= deadline {
                return;
            }
            let Ok(answer) = timeout_at(deadline, self.renew(&held.lease)).await else {
                return;
            };
            match answer {
                Ok(Some(lease)) => {
                    held.lease = lease;
                    held.renewed = began;
                }
                Ok(None) => return,
                Err(error) => {
                    let error = chain(&error);
                    tracing::warn!(lease = self.config.name, error, "lease is not renewed");
                }
            }
        }
    }

    /// Writes the Lease once more, or returns nothing if it is somebody else's.
    async fn renew(&self, lease: &Lease) -> Result<Option<Lease>, kube::Error> {
        let mut lease = lease.clone();
        loop {
            if let Written::Held(lease) = self.write(self.renewed(lease)).await? {
                return Ok(Some(*lease));
            }
            // It was edited, or an own write arrived whose answer did not.
            match self.api.get_opt(&self.config.name).await? {
                Some(found) if self.is_holder(&found) => lease = found,
                Some(_) | None => return Ok(None),
            }
        }
    }

    fn is_holder(&self, lease: &Lease) -> bool {
        spec(lease).holder_identity.as_ref() == Some(&self.config.identity)
    }

    /// Gives the Lease back. If that fails, the next leader waits until it has run out.
    async fn release(&self, held: Held) {
        let mut lease = held.lease;
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = None;
        spec.renew_time = Some(MicroTime(self.clock.now()));
        let given_back = timeout(self.config.retry_period, self.write(lease)).await;
        if !matches!(given_back, Ok(Ok(Written::Held(_)))) {
            tracing::warn!(lease = self.config.name, "lease is not given back");
        }
    }

    async fn create(&self) -> Result<Written, kube::Error> {
        let mut lease = Lease::default();
        lease.metadata.name = Some(self.config.name.clone());
        let mut lease = self.taken(lease);
        lease.spec.get_or_insert_default().lease_transitions = Some(0);
        written(self.api.create(&PostParams::default(), &lease).await)
    }

    async fn write(&self, lease: Lease) -> Result<Written, kube::Error> {
        let params = PostParams::default();
        written(self.api.replace(&self.config.name, &params, &lease).await)
    }

    /// Returns the Lease in our name.
    fn taken(&self, mut lease: Lease) -> Lease {
        let spec = lease.spec.get_or_insert_default();
        let transitions = spec.lease_transitions.unwrap_or_default();
        spec.lease_transitions = Some(transitions.saturating_add(1));
        spec.holder_identity = Some(self.config.identity.clone());
        spec.acquire_time = Some(MicroTime(self.clock.now()));
        self.renewed(lease)
    }

    fn renewed(&self, mut lease: Lease) -> Lease {
        let spec = lease.spec.get_or_insert_default();
        let seconds = i32::try_from(self.config.duration.as_secs()).unwrap_or(i32::MAX);
        spec.lease_duration_seconds = Some(seconds.max(1));
        spec.renew_time = Some(MicroTime(self.clock.now()));
        lease
    }
}

fn written(answer: Result<Lease, kube::Error>) -> Result<Written, kube::Error> {
    match answer {
        Ok(lease) => Ok(Written::Held(Box::new(lease))),
        // Of a create, the code says that it exists; of an update, that it changed or is gone.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Written::Conflict),
        Err(error) => Err(error),
    }
}

fn spec(lease: &Lease) -> LeaseSpec {
    lease.spec.clone().unwrap_or_default()
}
