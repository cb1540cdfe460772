//! Following the Runtime Server: its events put Runs into the queue (node, section 9.4).

use std::time::Duration;

use futures::StreamExt as _;
use kruntimes_proto::{Event, ExecutionState};
use tokio::time::sleep;

use crate::node::Node;

/// Wait before a broken stream is opened again.
const RECONNECT: Duration = Duration::from_millis(500);
/// Wait before a server without events is asked for them again.
const UNIMPLEMENTED: Duration = Duration::from_secs(30);
/// How long output may gather before it is read (N-177).
const OUTPUT: Duration = Duration::from_millis(200);

/// Follows the events of the server for ever; without them held Runs are polled by their reconciles.
pub(crate) async fn follow(node: &Node) {
    loop {
        let wait = match node.server.watch().await {
            Ok(mut events) => {
                node.server.set_pushing(true);
                node.pulse.follow(true);
                // What was lost before the stream began has no event of its own.
                look_at_all(node);
                while let Some(Ok(event)) = events.next().await {
                    on_event(node, &event);
                }
                node.server.set_pushing(false);
                node.pulse.follow(false);
                look_at_all(node);
                RECONNECT
            }
            Err(error) if error.is_unimplemented() => UNIMPLEMENTED,
            Err(error) => {
                tracing::debug!(%error, "runtime server cannot be followed");
                RECONNECT
            }
        };
        sleep(wait).await;
    }
}

fn look_at_all(node: &Node) {
    for key in node.table.keys() {
        node.queue.add(key);
    }
}

/// What an event asks for.
#[derive(Debug, PartialEq, Eq)]
enum Look {
    Now,
    Later,
    Never,
}

fn on_event(node: &Node, event: &Event) {
    let found = node.table.update(&event.id, |entry| {
        if entry.releasing {
            return (entry.key.clone(), Look::Never);
        }
        let look = match event.state {
            ExecutionState::Pending | ExecutionState::Running => {
                // One look is enough to take note of an execution that lives.
                let first = entry.local.seen.is_none();
                if first {
                    entry.pushed = Some(event.state);
                }
                match (first, event.output) {
                    (true, _) => Look::Now,
                    (false, true) => Look::Later,
                    (false, false) => Look::Never,
                }
            }
            ExecutionState::Succeeded | ExecutionState::Failed | ExecutionState::Unknown(_) => {
                entry.pushed = None;
                Look::Now
            }
        };
        (entry.key.clone(), look)
    });
    match found {
        Some((key, Look::Now)) => {
            if event.output {
                node.queue.add_after(key.clone(), OUTPUT);
            }
            node.queue.add(key);
        }
        Some((key, Look::Later)) => node.queue.add_after(key, OUTPUT),
        Some((_, Look::Never)) | None => {}
    }
}
