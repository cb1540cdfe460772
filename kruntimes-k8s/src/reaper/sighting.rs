//! What this process has seen of a Pod, and since when.
//!
//! Ages are measured from when a change was seen, on a clock that only moves
//! forward. The clocks of the nodes, which wrote the times into the Pods, are
//! not compared with anything.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use kruntimes_core::keys::{CONDITION_READY, POD_RUNTIMED_READY};
use kruntimes_core::loss::PodView;
use tokio::time::Instant;

/// A Pod and when it last changed in what matters.
#[derive(Clone, Debug)]
pub(super) struct Sighting {
    uid: String,
    terminating: Option<Instant>,
    ready: Option<bool>,
    settled: Instant,
    probe: Option<Timestamp>,
    heard: Instant,
}

impl Sighting {
    pub(super) fn first(pod: &Pod, now: Instant) -> Self {
        Self {
            uid: uid(pod).to_owned(),
            terminating: is_terminating(pod).then_some(now),
            ready: ready(pod),
            settled: now,
            probe: probe(pod),
            heard: now,
        }
    }

    /// Takes in what is seen now; tells whether that is more than a heartbeat.
    pub(super) fn update(&mut self, pod: &Pod, now: Instant) -> bool {
        if self.uid != uid(pod) {
            *self = Self::first(pod, now);
            return true;
        }
        let mut news = false;
        if self.terminating.is_none() && is_terminating(pod) {
            self.terminating = Some(now);
            news = true;
        }
        let ready = ready(pod);
        if self.ready != ready {
            (self.ready, self.settled) = (ready, now);
            news = true;
        }
        let probe = probe(pod);
        if probe.is_some() && self.probe != probe {
            (self.probe, self.heard) = (probe, now);
        }
        news
    }

    pub(super) fn view(&self, now: Instant) -> PodView {
        let age = |since: Instant| now.saturating_duration_since(since).into();
        PodView {
            uid: self.uid.clone(),
            terminating: self.terminating.map(age),
            ready: self.ready,
            settled: age(self.settled),
            silent: age(self.heard),
        }
    }
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

fn ready(pod: &Pod) -> Option<bool> {
    condition(pod, CONDITION_READY).map(|ready| ready.status == "True")
}

fn probe(pod: &Pod) -> Option<Timestamp> {
    let heartbeat = condition(pod, POD_RUNTIMED_READY).filter(|found| found.status == "True")?;
    Some(heartbeat.last_probe_time.as_ref()?.0)
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn pod(uid: &str, ready: &str, probe: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "uid": uid},
            "status": {"conditions": [
                {"type": "Ready", "status": ready},
                {"type": "kruntimes.io/RuntimedReady", "status": "True", "lastProbeTime": probe},
            ]},
        }))
        .unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn ages_count_from_what_was_seen_whatever_the_clocks_of_the_nodes_say() {
        let (old, older) = ("2001-01-01T00:00:05Z", "2001-01-01T00:00:00Z");
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let mut seen = Sighting::first(&pod("u", "True", older), start);
        assert!(
            !seen.update(&pod("u", "True", old), later(4)),
            "a heartbeat"
        );
        assert_eq!(seen.view(later(10)).silent, Duration::from_secs(6).into());
        assert!(
            !seen.update(&pod("u", "True", old), later(11)),
            "nothing new"
        );
        assert_eq!(seen.view(later(12)).silent, Duration::from_secs(8).into());
        assert!(seen.update(&pod("u", "False", old), later(20)));
        assert_eq!(seen.view(later(21)).settled, Duration::from_secs(1).into());
        assert!(
            seen.update(&pod("v", "False", old), later(30)),
            "another Pod"
        );
        assert_eq!(seen.view(later(31)).settled, Duration::from_secs(1).into());
    }
}
