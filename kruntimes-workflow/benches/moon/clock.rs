//! Time that is spent computing.

use std::fs;
use std::sync::LazyLock;
use std::time::Instant;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Returns the seconds that this thread has computed.
///
/// Time in which other programs had the core is left out where the system
/// tells; elsewhere it is the time that has passed.
pub(crate) fn on_core() -> f64 {
    let start = *START;
    let stated = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = stated.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanos.map_or_else(|| start.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}
