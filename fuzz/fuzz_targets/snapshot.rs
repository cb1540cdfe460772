//! Snapshots and states: what loads is written as it was read.
#![no_main]

use kruntimes_workflow::driver::Execution;
use kruntimes_workflow::snapshot::Snapshot;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(state) = Execution::from_json(text) {
        let written = state.to_json();
        let again = Execution::from_json(&written).expect("what was written can be read");
        assert_eq!(again.to_json(), written);
    }
    let Ok(value) = serde_json::from_str(text) else {
        return;
    };
    if let Ok(snapshot) = Snapshot::from_value("ns/n", &value) {
        let again = serde_json::from_slice(&snapshot.to_bytes()).expect("JSON was written");
        let again = Snapshot::from_value("ns/n", &again).expect("what was written can be read");
        assert_eq!(again, snapshot);
    }
});
