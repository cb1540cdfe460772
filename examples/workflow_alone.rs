//! A workflow without Kubernetes: only kruntimes-workflow and the standard library.
//!
//! `cargo run --bin workflow_alone -- DIR [who]` keeps its state in DIR. Its second step kills this very process the
//! first time, so the first run ends with SIGKILL; running it again goes on from there and prints
//! `greeting = hello, world, after a crash`.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints"
)]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{fs, io, thread};

use kruntimes_workflow::driver::{DirectoryStore, Driver, End, Executor, Launch, News, Shelf};
use kruntimes_workflow::{explain, yaml};

const FILE: &str = r#"
apiVersion: kruntimes.io/v1alpha1
kind: Workflow
metadata: {name: greet}
spec:
  inputs:
    who: {default: world}
  outputs:
    greeting: {value: "${{ jobs.say.outputs.greeting }}"}
  jobs:
    prepare:
      runs-on: sh
      outputs: {greeting: "${{ steps.write.outputs.text }}"}
      steps:
      - name: write
        env: {WHO: "${{ inputs.who }}"}
        run: |
          echo write >> steps.log
          echo "text=hello, $WHO" >> "$KRUNTIME_OUTPUTS"
      - name: crash
        run: |
          echo crash >> steps.log
          test -e crashed || { touch crashed; kill -KILL "$PPID"; exit 1; }
    say:
      runs-on: sh
      needs: prepare
      outputs: {greeting: "${{ steps.say.outputs.greeting }}"}
      steps:
      - name: say
        env: {GREETING: "${{ jobs.prepare.outputs.greeting }}"}
        run: |
          echo say >> steps.log
          echo "greeting=$GREETING, after a crash" >> "$KRUNTIME_OUTPUTS"
"#;

/// Runs every step as `sh -c <script>` in one directory.
struct Processes {
    directory: PathBuf,
    sender: Sender<News>,
    news: Receiver<News>,
}

impl Processes {
    fn outputs(&self, run: &str) -> PathBuf {
        self.directory.join(format!("{run}.outputs"))
    }
}

impl Executor for Processes {
    type Error = io::Error;

    fn start(&mut self, launch: &Launch) -> io::Result<()> {
        let outputs = self.outputs(&launch.name);
        fs::write(&outputs, "")?;
        let mut child = Command::new("sh")
            .args(["-c", launch.script()])
            .envs(launch.env())
            .env("KRUNTIME_OUTPUTS", &outputs)
            .current_dir(&self.directory)
            .spawn()?;
        let (sender, run) = (self.sender.clone(), launch.name.clone());
        thread::spawn(move || {
            let end = match child.wait() {
                Ok(status) if status.success() => match fs::read(&outputs) {
                    Ok(file) => End::from_outputs_file(&file),
                    Err(error) => End::failed(error.to_string()),
                },
                Ok(status) => End::failed(status.to_string()),
                Err(error) => End::failed(error.to_string()),
            };
            // Nobody listens any more when the program is about to end.
            let _ = sender.send(News::Ended { run, end });
        });
        Ok(())
    }

    fn cancel(&mut self, run: &str) -> io::Result<()> {
        // A real program would end the process here; this one lets it finish.
        let run = run.to_owned();
        let told = self.sender.send(News::Ended {
            run,
            end: End::cancelled(),
        });
        told.map_err(io::Error::other)
    }

    fn wait(&mut self) -> io::Result<News> {
        self.news.recv().map_err(io::Error::other)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let directory = PathBuf::from(words.next().ok_or("usage: workflow_alone DIR [who]")?);
    let inputs: BTreeMap<_, _> = words
        .next()
        .map(|who| ("who".to_owned(), who))
        .into_iter()
        .collect();
    let store = DirectoryStore::open(&directory)?;
    let (definitions, _) = yaml::read("greet.yaml", FILE).map_err(|findings| {
        let said = |one: &yaml::Finding| format!("{}:{} {}", one.line, one.column, one.message);
        findings.iter().map(said).collect::<Vec<_>>().join("\n")
    })?;
    let (sender, news) = channel();
    let steps = Processes {
        directory: directory.canonicalize()?,
        sender,
        news,
    };
    let mut before = None;
    let mut driver = Driver::new(steps, Shelf::default().with_definitions(definitions), store)
        .observer(move |_, status| {
            for event in explain::changes(&before.take().unwrap_or_default(), status) {
                eprintln!("{event}");
            }
            before = Some(status.clone());
        });
    if driver.load("demo").is_err() {
        driver.trigger("demo", "greet", &inputs)?;
    }
    let end = driver.run("demo")?;
    for (name, value) in &end.status.outputs {
        println!("{name} = {value}");
    }
    Ok(())
}
