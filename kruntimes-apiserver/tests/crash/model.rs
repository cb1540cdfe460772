//! What the driver knows must be there, from what the writer has said.

use std::{collections::BTreeMap, path::Path};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kruntimes_apiserver::ApiServer;
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, WatchParams},
};
use tokio::time::{Duration, timeout};

use crate::writer::{LABEL, causes, data, number};

/// Longest time the collector may take after a restart.
const PATIENCE: Duration = Duration::from_secs(20);

/// A state of one object: its number, zero when it is gone, and its version.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    number: u64,
    version: u64,
}

/// What is known of one object.
#[derive(Clone, Debug, Default)]
struct Account {
    /// The newest state that somebody was told of.
    told: State,
    /// What was being written and not yet answered.
    tried: Option<u64>,
}

/// The accounts of one directory.
#[derive(Debug, Default)]
pub(crate) struct Model {
    accounts: BTreeMap<String, Account>,
    /// The newest version that anybody was told of.
    version: u64,
}

/// What came of listening to one life.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) acknowledged: usize,
    pub(crate) problems: Vec<String>,
}

impl Model {
    /// Takes down what a writer has said.
    pub(crate) fn hear(&mut self, lines: &[String]) -> Said {
        let mut said = Said::default();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words.as_slice() {
                ["open", version] => {
                    let version = read(version);
                    if version < self.version {
                        said.problems
                            .push(format!("opened at {version}, told {}", self.version));
                    }
                }
                ["try", name, number] => self.account(name).tried = Some(read(number)),
                ["ack", name, number, version] => {
                    said.acknowledged += 1;
                    self.told(name, read(number), read(version));
                    let account = self.account(name);
                    account.tried = None;
                    if read(number) == 0 {
                        // The answer to a deletion names no version; it is newer than everything before.
                        account.told.number = 0;
                    }
                }
                ["saw", name, number, version] => self.told(name, read(number), read(version)),
                _ => said.problems.push(format!("the writer said {line:?}")),
            }
        }
        said
    }

    fn account(&mut self, name: &str) -> &mut Account {
        self.accounts.entry(name.to_owned()).or_default()
    }

    fn told(&mut self, name: &str, number: u64, version: u64) {
        self.version = self.version.max(version);
        let account = self.account(name);
        if version > account.told.version {
            account.told = State { number, version };
        }
    }

    /// Opens the directory and names everything that is not as it must be.
    pub(crate) fn compare(&mut self, directory: &Path) -> Vec<String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be built");
        runtime.block_on(async {
            let server = match ApiServer::builder().data_dir(directory).build() {
                Ok(server) => server,
                Err(error) => return vec![format!("cannot be opened: {}", causes(&error))],
            };
            let mut problems = Vec::new();
            if server.resource_version() < self.version {
                problems.push(format!(
                    "version {} was told, the server is at {}",
                    self.version,
                    server.resource_version()
                ));
            }
            self.version = server.resource_version();
            let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
            match maps.list(&ListParams::default().labels(LABEL)).await {
                Ok(found) => problems.extend(self.check(found.items)),
                Err(error) => problems.push(error.to_string()),
            }
            let _background = server.spawn_background();
            if !matches!(timeout(PATIENCE, collected(&maps)).await, Ok(Ok(()))) {
                problems.push("dependents outlive their owners".to_owned());
            }
            problems
        })
    }

    /// Compares every account with what was found, which becomes what is known.
    fn check(&mut self, found: Vec<ConfigMap>) -> Vec<String> {
        let mut problems = Vec::new();
        let mut found: BTreeMap<String, ConfigMap> =
            found.into_iter().map(|map| (map.name_any(), map)).collect();
        for (name, account) in &mut self.accounts {
            let map = found.remove(name);
            problems.extend(judge(name, account, map.as_ref()));
            account.tried = None;
            if let Some(map) = map {
                account.told = State {
                    number: number(&map),
                    version: read(&map.resource_version().unwrap_or_default()),
                };
            } else {
                account.told.number = 0;
            }
        }
        problems.extend(found.keys().map(|name| format!("{name} came from nowhere")));
        problems
    }
}

/// Says what is wrong with an object as it was found.
fn judge(name: &str, account: &Account, found: Option<&ConfigMap>) -> Option<String> {
    let told = account.told;
    let Some(map) = found else {
        let may_be_gone = told.number == 0 || account.tried == Some(0);
        return (!may_be_gone).then(|| format!("{name} is gone, it was {told:?}"));
    };
    let state = State {
        number: number(map),
        version: read(&map.resource_version().unwrap_or_default()),
    };
    let told_so = state.version == told.version && state.number == told.number;
    let tried_so = state.version > told.version && account.tried == Some(state.number);
    if state.number == 0 || !(told_so || tried_so) {
        return Some(format!("{name} is {state:?}, it was {account:?}"));
    }
    let whole = serde_json::to_value(&map.data).ok() == Some(data(state.number));
    (!whole).then(|| format!("{name} is a mixture of states"))
}

fn read(text: &str) -> u64 {
    text.parse().unwrap_or_default()
}

/// Waits until no object names an owner that is gone.
async fn collected(maps: &Api<ConfigMap>) -> kube::Result<()> {
    loop {
        let found = maps.list(&ListParams::default()).await?;
        let version = found.metadata.resource_version.clone().unwrap_or_default();
        let uids: Vec<&str> = found
            .iter()
            .filter_map(|map| map.metadata.uid.as_deref())
            .collect();
        let orphaned = |map: &ConfigMap| {
            let owners = map.owner_references();
            !owners.is_empty()
                && owners
                    .iter()
                    .all(|owner| !uids.contains(&owner.uid.as_str()))
        };
        if !found.iter().any(orphaned) {
            return Ok(());
        }
        let events = maps.watch(&WatchParams::default(), &version).await?;
        events.boxed().try_next().await?;
    }
}
