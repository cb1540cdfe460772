//! The output of Runs on its way to whoever follows.

use std::sync::{Mutex, PoisonError};

use kruntimes_node::{LogRecord, LogSink, RunEnd};
use tokio::sync::mpsc;

use crate::pod_log::PodLog;

/// One piece of news from a daemon.
#[derive(Clone, Debug)]
pub enum LogNews {
    /// One line of output.
    Line(Box<LogRecord>),
    /// An execution is over and its output complete.
    End(Box<RunEnd>),
}

/// Hands every record to every follower.
///
/// What a follower has not read yet waits in memory; the amount is bounded by
/// the output caps of the Runs it follows.
#[derive(Debug, Default)]
pub struct LogHub {
    followers: Mutex<Vec<mpsc::UnboundedSender<LogNews>>>,
    /// Keeps the output for whoever asks later.
    pod_log: Option<PodLog>,
}

impl LogHub {
    /// Also writes every record into the logs of Pods.
    pub(crate) fn with_pod_log(pod_log: Option<PodLog>) -> Self {
        Self {
            pod_log,
            ..Self::default()
        }
    }

    /// Starts to follow; nothing emitted before is seen.
    pub fn subscribe(&self) -> mpsc::UnboundedReceiver<LogNews> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.followers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(sender);
        receiver
    }

    fn publish(&self, news: &LogNews) {
        let mut followers = self
            .followers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        followers.retain(|follower| follower.send(news.clone()).is_ok());
    }
}

impl LogSink for LogHub {
    fn record(&self, record: LogRecord) {
        if let Some(pod_log) = &self.pod_log {
            pod_log.record(record.clone());
        }
        self.publish(&LogNews::Line(Box::new(record)));
    }

    fn ended(&self, end: RunEnd) {
        self.publish(&LogNews::End(Box::new(end)));
    }
}
