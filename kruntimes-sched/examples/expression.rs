//! A profile out of a configuration file, with a filter whose condition is text.
//!
//! `cargo run -p kruntimes-sched --example expression` prints `the run goes to blue-large`.
#![expect(clippy::print_stdout, reason = "an example shows its result")]

use std::error::Error;

use kruntimes_sched::testing::{a_pod, a_run, a_snapshot, winner};
use kruntimes_sched::{ProfileSpec, Registry};

const PROFILE: &str = r#"{
  "name": "zones",
  "weights": {"LeastLoaded": 2},
  "plugins": [{
    "name": "Expression",
    "arguments": {
      "expression":
        "pod.labels[\"zone\"] == run.labels[\"zone\"] && (pod.free[\"gpu\"] >= 2 || run.request[\"gpu\"] == 0)"
    }
  }]
}"#;

fn main() -> Result<(), Box<dyn Error>> {
    let spec: ProfileSpec = serde_json::from_str(PROFILE)?;
    let profile = Registry::new().build(&spec)?;
    let pod = |name, zone, gpu| {
        let pod = a_pod(name).label("zone", zone);
        pod.offers("runs", 4).offers("gpu", gpu)
    };
    let snapshot = a_snapshot()
        .pod(pod("blue-large", "blue", 4))
        .pod(pod("blue-small", "blue", 1))
        .pod(pod("red-large", "red", 4));
    let run = a_run("train").label("zone", "blue").asks("gpu", 1);
    let decision = snapshot.decide(&run, &profile);
    let winner = winner(&decision).ok_or("the run waits")?;
    println!("the run goes to {winner}");
    assert_eq!(winner, "blue-large");
    Ok(())
}

#[test]
fn a_condition_from_a_file_decides() -> Result<(), Box<dyn Error>> {
    main()
}
