//! The API server under load, in memory, on disk and over HTTPS, and its return after a kill.
//!
//! `cargo bench -p kruntimes-benches --bench store` prints, for objects of about 1.5 KB: requests per second with 64
//! callers, latency with one, fan-out to 50 watchers, the memory an object takes, and how long a server takes to come
//! back with 100,000 objects (goal R1). The floor of a durable write, an append of 4 KiB with `fdatasync`, is taken
//! between the rounds. `KRUNTIMES_OBJECTS` changes the number of objects of the return.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod load;
mod restart;

use std::{
    fs::File,
    io::Write as _,
    path::Path,
    time::{Duration, Instant},
};

use kruntimes_apiserver::{
    ApiServer,
    listen::{ListenOptions, Listener},
};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use self::load::Figures;

const ROUNDS: usize = 5;

/// Starts a server with the kinds of kruntimes, on disk where a directory is given.
fn a_server(directory: Option<&Path>) -> ApiServer {
    let mut builder = ApiServer::builder();
    for crd in kruntimes_core::crd::all() {
        builder = builder.crd(crd);
    }
    if let Some(directory) = directory {
        builder = builder.data_dir(directory);
    }
    builder.build().expect("the server can be built")
}

/// Median and 99th percentile.
fn spread(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).copied();
    (at(50).unwrap_or_default(), at(99).unwrap_or_default())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Appends 4 KiB with `fdatasync`, 200 times: the least that a durable write costs.
fn floor(directory: &Path) -> Vec<Duration> {
    let mut file = File::create(directory.join("floor")).expect("a file can be made");
    let block = [7_u8; 4096];
    (0..200)
        .map(|_| {
            let begun = Instant::now();
            file.write_all(&block).expect("the disk has room");
            file.sync_data().expect("the disk works");
            begun.elapsed()
        })
        .collect()
}

fn round(runtime: &Runtime, directory: Option<&Path>, figures: &mut Figures) {
    runtime.block_on(async {
        let server = a_server(directory);
        load::measure(&server.client(), figures).await;
    });
}

/// The same over HTTPS and the loopback device, as kubectl and client libraries come in.
fn round_over_loopback(runtime: &Runtime, directory: &Path, figures: &mut Figures) {
    runtime.block_on(async {
        let server = a_server(None);
        let options = ListenOptions::new(directory.join("listener"));
        let listener = Listener::bind(&server, options).await.expect("it listens");
        let client = client(listener.kubeconfig()).await;
        let shutdown = CancellationToken::new();
        let serving = tokio::spawn(listener.run(shutdown.clone()));
        load::measure(&client, figures).await;
        shutdown.cancel();
        serving.await.expect("the listener ends in order");
    });
}

async fn client(kubeconfig: &Path) -> Client {
    let read = Kubeconfig::read_from(kubeconfig).expect("the listener wrote it");
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("the kubeconfig is complete")).expect("a client can be built")
}

fn main() {
    if restart::is_child() {
        return;
    }
    let runtime = Runtime::new().expect("a runtime can be built");
    let (mut memory, mut disk) = (Figures::default(), Figures::default());
    let mut loopback = Figures::default();
    let mut floors = Vec::new();
    for _ in 0..ROUNDS {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        round(&runtime, None, &mut memory);
        floors.extend(floor(directory.path()));
        round(&runtime, Some(&directory.path().join("data")), &mut disk);
        floors.extend(floor(directory.path()));
        round_over_loopback(&runtime, directory.path(), &mut loopback);
    }
    let (p50, p99) = spread(floors);
    println!("floor F, 4 KiB append + fdatasync     p50 {p50:?}  p99 {p99:?}");
    memory.print("in memory");
    disk.print("on disk");
    loopback.print("loopback");
    restart::measure();
}
