//! The work itself: statements one after the other, rows as lines of text.

use std::io::Write as _;
use std::path::PathBuf;

use async_trait::async_trait;
use kruntimes_runtime::kit::{Failure, Handler, Job, Output};
use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::types::ValueRef;
use rusqlite::{Batch, Connection, Statement};
use tokio_util::sync::CancellationToken;

/// Instructions of SQLite between two looks at the stop sign.
const LOOK_EVERY: i32 = 1_000;

/// Runs the file of the entrypoint, else the arguments, in `run.db` of the working directory.
pub(crate) struct Sqlite;

#[async_trait]
impl Handler for Sqlite {
    async fn run(&self, job: Job) -> Result<(), Failure> {
        let script = Script {
            text: job.text()?,
            database: job.directory.join("run.db"),
            outputs: job.request.env.get("KRUNTIME_OUTPUTS").map(PathBuf::from),
            stdout: job.stdout.clone(),
            stop: job.stop.clone(),
        };
        // SQLite blocks, so it gets a thread. The thread holds an output and is therefore waited for.
        let done = tokio::task::spawn_blocking(move || script.run());
        let done = done.await.map_err(|lost| Failure::new(lost.to_string()))?;
        done.map_err(|error| {
            job.stderr.write(format!("{error}\n"));
            Failure::new(error.to_string())
        })
    }
}

/// Everything a thread needs to run one script.
struct Script {
    text: String,
    database: PathBuf,
    outputs: Option<PathBuf>,
    stdout: Output,
    stop: CancellationToken,
}

type Done = Result<(), Box<dyn std::error::Error + Send + Sync>>;

impl Script {
    fn run(self) -> Done {
        let mut database = Connection::open(&self.database)?;
        let stop = self.stop.clone();
        database.progress_handler(LOOK_EVERY, Some(move || stop.is_cancelled()))?;
        database.execute_batch("CREATE TEMP TABLE outputs (name TEXT NOT NULL, value NOT NULL)")?;
        let mut statements = Batch::new(&database, &self.text);
        while let Some(mut statement) = statements.next()? {
            self.print(&mut statement)?;
        }
        match &self.outputs {
            Some(file) => publish(&database, file),
            None => Ok(()),
        }
    }

    fn print(&self, statement: &mut Statement<'_>) -> Done {
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let mut line = String::new();
            for column in 0..columns {
                if column > 0 {
                    line.push('\t');
                }
                line.push_str(&text(row.get_ref(column)?));
            }
            line.push('\n');
            self.stdout.write(line);
        }
        Ok(())
    }
}

fn text(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => String::new(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(bytes) => format!("<{} bytes>", bytes.len()),
    }
}

/// Appends the rows of the table `outputs` to the file in which a Run publishes outputs.
fn publish(database: &Connection, file: &std::path::Path) -> Done {
    let mut query = database.prepare("SELECT name, CAST(value AS TEXT) FROM outputs")?;
    let mut rows = query.query([])?;
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(file)?;
    while let Some(row) = rows.next()? {
        let (name, value): (String, String) = (row.get(0)?, row.get(1)?);
        if value.contains('\n') {
            return Err(format!("output {name} has several lines").into());
        }
        writeln!(file, "{name}={value}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use kruntimes_proto::{ExecuteRequest, ExecutionState, RuntimeClient as _, connect};
    use kruntimes_runtime::kit::{Options, supervisor};
    use kruntimes_runtime::server::{Listener, ServerHandle};
    use kruntimes_runtime::testing::{Programs, Subject, contract};
    use kruntimes_runtime::{Manners, Supervisor};

    use super::*;

    fn server(work_dir: &std::path::Path) -> Supervisor {
        let options = Options {
            work_dir: work_dir.to_owned(),
            termination_grace: Duration::from_secs(1),
        };
        supervisor(Sqlite, &options).unwrap()
    }

    #[tokio::test]
    async fn n_235_sql_keeps_the_contract() {
        let dir = tempfile::tempdir().unwrap();
        let listener = Listener::unix(&dir.path().join("s")).unwrap();
        let served = ServerHandle::spawn(listener, server(dir.path()), &CancellationToken::new());
        let subject = Subject {
            client: Arc::new(connect(served.endpoint()).unwrap()),
            work_dir: dir.path().join("conformance"),
            wrap: str::to_owned,
            manners: Manners::Keep,
        };
        let programs = Programs {
            print: "SELECT 'out'",
            fail: "SELECT 'before'; SELECT * FROM missing",
            endless: "SELECT 'ready'; WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
                SELECT max(i) FROM n",
            flood: "SELECT 'first'; WITH RECURSIVE n(i) AS
                (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 3000) SELECT printf('%.1000c', 'y') FROM n",
        };
        contract(&subject, &programs).await;
        served.shutdown().await.unwrap();
    }

    #[tokio::test]
    async fn a_database_stays_in_its_working_directory() {
        let dir = tempfile::tempdir().unwrap();
        let server = server(dir.path());
        for (id, place, sql, want) in [
            (
                "a",
                "x",
                "CREATE TABLE t AS SELECT 1 AS one; SELECT NULL, 1.5, x'00', one FROM t",
                Ok("\t1.5\t<1 bytes>\t1\n"),
            ),
            ("b", "x", "SELECT one FROM t", Ok("1\n")),
            ("c", "y", "SELECT one FROM t", Err("no such table: t")),
        ] {
            let request = ExecuteRequest {
                id: id.to_owned(),
                working_dir: dir.path().join(place).to_string_lossy().into_owned(),
                args: vec![sql.to_owned()],
                ..ExecuteRequest::default()
            };
            let mut events = server.watch(&[id.to_owned()]).await.unwrap();
            server.execute(request).await.unwrap();
            while !server.status(id).await.unwrap().state.is_final() {
                futures::StreamExt::next(&mut events)
                    .await
                    .unwrap()
                    .unwrap();
            }
            let end = server.status(id).await.unwrap();
            match want {
                Ok(stdout) => assert_eq!(end.stdout, stdout, "{end:?}"),
                Err(why) => {
                    assert_eq!((end.state, end.exit_code), (ExecutionState::Failed, 1));
                    assert!(
                        end.error_message.contains(why) && end.stderr.contains(why),
                        "{end:?}"
                    );
                }
            }
        }
    }
}
