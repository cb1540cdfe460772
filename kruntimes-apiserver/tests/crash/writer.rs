//! The writer: a server on a data directory, clients that write to it, and others that watch them.

use std::{collections::BTreeMap, io::Write as _, path::Path};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kruntimes_apiserver::ApiServer;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};

use crate::{dice::Dice, life};

/// Clients that write, each to objects of its own.
const CLIENTS: u64 = 4;
/// Objects of each client.
const OBJECTS: u64 = 5;
/// Label of the objects that the driver keeps account of.
pub(crate) const LABEL: &str = "counted";
/// Longest filling, so that some rows take several pages.
const FILLING_MAX: u64 = 9_000;

pub(crate) fn main(directory: &Path) {
    let seed = std::env::var(life::SEED).ok();
    let seed = seed.and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be built");
    runtime.block_on(async {
        let server = match ApiServer::builder().data_dir(directory).build() {
            Ok(server) => server,
            Err(error) => return say(&format!("fail cannot open: {}", causes(&error))),
        };
        say(&format!("open {}", server.resource_version()));
        let _background = server.spawn_background();
        let version = server.resource_version().to_string();
        tokio::spawn(follow(server.client(), version));
        let mut clients = tokio::task::JoinSet::new();
        for client in 0..CLIENTS {
            let dice = Dice::new(seed ^ (client << 32));
            clients.spawn(write(server.client(), client, dice));
        }
        while let Some(ended) = clients.join_next().await {
            match ended {
                Ok(Err(error)) => say(&format!("fail client: {error}")),
                Err(error) => say(&format!("fail client: {error}")),
                Ok(Ok(())) => {}
            }
        }
    });
}

/// Says a line at once and in one piece.
fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    let said = output
        .write_all(format!("{line}\n").as_bytes())
        .and_then(|()| output.flush());
    // Nobody listens any more: the driver is gone.
    if said.is_err() {
        std::process::exit(1);
    }
}

pub(crate) fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source());
    let causes: Vec<String> = causes.map(ToString::to_string).collect();
    causes.join(": ")
}

/// Returns the data that belongs to a number, so that a mixture of two states shows.
pub(crate) fn data(number: u64) -> Value {
    let length = Dice::new(number).below(FILLING_MAX);
    let length = usize::try_from(length).unwrap_or_default();
    json!({ "n": number.to_string(), "filling": "f".repeat(length) })
}

fn a_map(name: &str, number: u64) -> ConfigMap {
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { LABEL: "yes" } }, "data": data(number),
    }))
    .expect("the map is well-formed")
}

/// Returns the number that an object holds.
pub(crate) fn number(map: &ConfigMap) -> u64 {
    let data = map.data.as_ref().and_then(|data| data.get("n"));
    data.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn version(map: &ConfigMap) -> String {
    map.resource_version().unwrap_or_default()
}

/// Says what a watcher sees, deletions as the number zero.
async fn follow(client: Client, version_at_start: String) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let params = WatchParams::default().labels(LABEL);
    let Ok(events) = maps.watch(&params, &version_at_start).await else {
        return say("fail the watch was refused");
    };
    let mut events = events.boxed();
    while let Ok(Some(event)) = events.try_next().await {
        match event {
            WatchEvent::Added(map) | WatchEvent::Modified(map) => {
                say(&format!(
                    "saw {} {} {}",
                    map.name_any(),
                    number(&map),
                    version(&map)
                ));
            }
            WatchEvent::Deleted(map) => say(&format!("saw {} 0 {}", map.name_any(), version(&map))),
            WatchEvent::Bookmark(_) => {}
            WatchEvent::Error(status) => say(&format!("fail watch: {}", status.message)),
        }
    }
}

/// Writes to its own objects for ever.
async fn write(client: Client, me: u64, mut dice: Dice) -> kube::Result<()> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let mine = format!("c{me}-");
    let found = maps.list(&ListParams::default().labels(LABEL)).await?;
    let mut known: BTreeMap<String, ConfigMap> = found
        .into_iter()
        .filter(|map| map.name_any().starts_with(&mine))
        .map(|map| (map.name_any(), map))
        .collect();
    loop {
        let name = format!("{mine}{}", dice.below(OBJECTS));
        let next = 1 + dice.below(1 << 40);
        match known.get(&name) {
            None => {
                say(&format!("try {name} {next}"));
                let made = maps
                    .create(&PostParams::default(), &a_map(&name, next))
                    .await?;
                say(&format!("ack {name} {next} {}", version(&made)));
                if dice.below(3) == 0 {
                    attach(&maps, &made, dice.draw()).await?;
                }
                known.insert(name, made);
            }
            Some(current) => match dice.below(8) {
                0 | 1 => {
                    say(&format!("try {name} 0"));
                    maps.delete(&name, &DeleteParams::background()).await?;
                    say(&format!("ack {name} 0 0"));
                    known.remove(&name);
                }
                2 | 3 => {
                    let mut changed = a_map(&name, next);
                    changed.metadata = current.metadata.clone();
                    say(&format!("try {name} {next}"));
                    let made = maps
                        .replace(&name, &PostParams::default(), &changed)
                        .await?;
                    say(&format!("ack {name} {next} {}", version(&made)));
                    known.insert(name, made);
                }
                4 => {
                    let seen = maps.get(&name).await?;
                    say(&format!("saw {name} {} {}", number(&seen), version(&seen)));
                }
                _ => {
                    let patch = Patch::Merge(json!({ "data": data(next) }));
                    say(&format!("try {name} {next}"));
                    let made = maps.patch(&name, &PatchParams::default(), &patch).await?;
                    say(&format!("ack {name} {next} {}", version(&made)));
                    known.insert(name, made);
                }
            },
        }
    }
}

/// Creates an object that has to go with its owner.
async fn attach(maps: &Api<ConfigMap>, owner: &ConfigMap, number: u64) -> kube::Result<()> {
    let reference = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner.name_any(), "uid": owner.uid(),
    });
    let dependent = serde_json::from_value(json!({
        "metadata": { "name": format!("d-{number:x}"), "ownerReferences": [reference] },
    }))
    .expect("the map is well-formed");
    maps.create(&PostParams::default(), &dependent).await?;
    Ok(())
}
