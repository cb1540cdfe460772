//! `krt local run`: check the file, start the engine, follow what runs, say how it ended.

use std::error::Error;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{BoxStream, select_all};
use kruntimes_embedded::manifest::{self, Known, Manifest, Severity, has_errors};
use kruntimes_embedded::{
    Embedded, Ending, Failure, Following, Options, OutputStream, Progress, Submission, SubmitError,
    Target,
};
use tokio::time::Instant;

use crate::args::{Format, LocalRun};
use crate::board::Board;
use crate::exit::Exit;
use crate::screen::{self, Screen};
use crate::signals::Signals;
use crate::{diagnostics, failures, file, lines, say, summary, tree};

/// Runtimes that the engine provides.
const PROVIDED: [&str; 1] = ["bash"];

pub(crate) const NO_ISOLATION: &str =
    "krt local: there is no isolation, steps are ordinary processes with your rights";

/// How a command ended.
pub(crate) struct End {
    /// What the process says.
    pub(crate) exit: Exit,
    /// An engine that was not given time to stop; it must outlive the tokio runtime.
    pub(crate) engine: Option<Embedded>,
}

impl From<Exit> for End {
    fn from(exit: Exit) -> Self {
        Self { exit, engine: None }
    }
}

/// Runs a file to its end.
pub(crate) async fn run(request: LocalRun) -> End {
    let mut screen = Screen::open(&request);
    let submission = match prepare(&request, &mut screen) {
        Ok(submission) => submission,
        Err(exit) => {
            screen.close();
            return exit.into();
        }
    };
    let result = execute(&request, submission, &mut screen).await;
    screen.close();
    result.unwrap_or_else(End::from)
}

/// Reads and checks the file; says everything that is wrong with it.
fn prepare(request: &LocalRun, screen: &mut Screen) -> Result<Submission, Exit> {
    let (name, text) = file::read(&request.file).map_err(|error| {
        problem(
            screen,
            &error,
            "check the path, or use `-` for standard input",
        );
        Exit::NotCarriedOut
    })?;
    let refuse = |screen: &mut Screen, findings: &[manifest::Finding]| {
        let width = screen::room().columns.clamp(40, 120);
        let shown = diagnostics::render(&name, &text, findings, screen.err, width);
        screen.notice(&shown);
        if has_errors(findings) {
            screen.notice(&diagnostics::verdict(&name, findings));
        }
    };
    let manifest = manifest::read(&name, &text).map_err(|findings| {
        refuse(screen, &findings);
        Exit::Refused
    })?;
    let mut findings = manifest.check(&known(&manifest, request));
    findings.retain(|finding| finding.severity != Severity::Advice);
    if !findings.is_empty() {
        refuse(screen, &findings);
    }
    if has_errors(&findings) {
        return Err(Exit::Refused);
    }
    manifest
        .submission_with(&request.inputs, &request.extensions)
        .map_err(|findings| {
            refuse(screen, &findings);
            Exit::Refused
        })
}

fn known(manifest: &Manifest, request: &LocalRun) -> Known {
    let provided = PROVIDED.into_iter().map(str::to_owned);
    let brought = manifest.runtimes().map(str::to_owned);
    Known {
        runtimes: Some(provided.chain(brought).collect()),
        local: true,
        inputs: Some(request.inputs.clone()),
        extensions: request.extensions.clone(),
    }
}

async fn execute(
    request: &LocalRun,
    submission: Submission,
    screen: &mut Screen,
) -> Result<End, Exit> {
    let mut signals = Signals::listen().map_err(|error| {
        problem(
            screen,
            &error,
            "signals cannot be received; nothing was run",
        );
        Exit::NotCarriedOut
    })?;
    screen.notice(NO_ISOLATION);
    let options = Options {
        runtime_dir: request.runtime_dir.clone(),
        keep: request.keep,
        slots: request.slots,
        extensions: request.extensions.clone(),
        ..Options::default()
    };
    let engine = Embedded::start(options).await.map_err(|error| {
        problem(screen, &error, "try another directory with --runtime-dir");
        Exit::NotCarriedOut
    })?;
    let board = Board::new(&submission.targets);
    let exit = match engine.submit_followed(submission).await {
        Err(error) => {
            let exit = match error {
                SubmitError::Refused { .. } | SubmitError::UnknownKind(_) => Exit::Refused,
                _ => Exit::NotCarriedOut,
            };
            problem(
                screen,
                &error,
                "the file passed every check, so please report this",
            );
            exit
        }
        Ok(followed) => {
            let (targets, news): (Vec<_>, Vec<_>) = followed.into_iter().unzip();
            let mut watch = Watch::new(&engine, &targets, board, screen);
            let end = watch.until_the_end(news, &mut signals).await;
            let exit = watch.conclude(request);
            if end == Until::Killed {
                let engine = Some(engine);
                return Ok(End { exit, engine });
            }
            exit
        }
    };
    let report = engine.shutdown().await;
    if let Some(kept) = &report.kept {
        screen.notice(&format!("files of the steps are in {}", kept.display()));
    }
    if let Some(said) = &report.problem {
        screen.notice(&format!("krt: files of the steps are left behind: {said}"));
    }
    Ok(exit.into())
}

/// Why following ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Everything has ended.
    Ended,
    /// Somebody does not want to wait for that.
    Killed,
}

/// Everything needed while things run.
struct Watch<'a> {
    engine: &'a Embedded,
    targets: &'a [Target],
    board: Board,
    screen: &'a mut Screen,
    started: Instant,
    endings: Vec<Option<Box<Ending>>>,
    stopped: Option<Exit>,
}

impl<'a> Watch<'a> {
    fn new(
        engine: &'a Embedded,
        targets: &'a [Target],
        board: Board,
        screen: &'a mut Screen,
    ) -> Self {
        Self {
            engine,
            targets,
            board,
            screen,
            started: Instant::now(),
            endings: targets.iter().map(|_| None).collect(),
            stopped: None,
        }
    }

    /// Follows everything until it has ended, or until the second signal.
    async fn until_the_end(&mut self, news: Vec<Following>, signals: &mut Signals) -> Until {
        let streams = news.into_iter().enumerate().map(|(index, news)| {
            let news = news.map(move |progress| (index, progress));
            news.boxed()
        });
        let streams: Vec<BoxStream<'static, (usize, Progress)>> = streams.collect();
        let mut news = select_all(streams);
        loop {
            let due = self.screen.due();
            let frame = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                exit = signals.next() => {
                    if self.stopped.is_some() {
                        self.screen.notice("krt: killing everything");
                        return Until::Killed;
                    }
                    self.stopped = Some(exit);
                    self.cancel().await;
                }
                () = frame => self.draw(),
                next = news.next() => match next {
                    Some((index, progress)) => self.see(index, progress),
                    None => return Until::Ended,
                },
            }
        }
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn draw(&mut self) {
        let frame = tree::frame(&self.board, self.now(), screen::room(), self.screen.err);
        self.screen.draw(frame);
    }

    async fn cancel(&mut self) {
        let said = "krt: cancelling; press Ctrl-C again to kill everything at once";
        self.screen.notice(said);
        for (target, ending) in self.targets.iter().zip(&self.endings) {
            if ending.is_some() {
                continue;
            }
            if let Err(error) = self.engine.cancel(target).await {
                problem(self.screen, &error, "press Ctrl-C again to kill everything");
            }
        }
    }

    fn see(&mut self, index: usize, progress: Progress) {
        let before = match &progress {
            Progress::Transition { path, .. } => self.board.phase(index, path),
            Progress::Output { .. } | Progress::Ended(_) => "-",
        };
        self.board.apply(index, &progress, self.now());
        self.screen.touch();
        match &progress {
            Progress::Transition { path, .. } => {
                let path = self.board.path(index, path);
                let line = lines::transition(&path, before, &progress, self.screen.err);
                if let (Some(line), false) = (line, self.screen.is_live()) {
                    self.screen.notice(&line);
                }
            }
            Progress::Output { path, stream, line } => {
                let path = self.board.path(index, path);
                match stream {
                    OutputStream::Stdout => {
                        let text = lines::output(&path, line, self.screen.out);
                        self.screen.workload(&text);
                    }
                    OutputStream::Stderr => {
                        let text = lines::output(&path, line, self.screen.err);
                        self.screen.notice(&text);
                    }
                }
            }
            Progress::Ended(_) => {}
        }
        if let Progress::Ended(ending) = progress {
            self.endings[index] = Some(ending);
        }
    }

    /// Says how everything ended.
    fn conclude(self, request: &LocalRun) -> Exit {
        let screen = self.screen;
        screen.close();
        for (index, ending) in self.endings.iter().enumerate() {
            let Some(ending) = ending else { continue };
            let name = |failure: &Failure| self.board.path(index, &failure.path);
            let text = failures::render(&ending.failures, name, screen.err);
            if !text.is_empty() {
                screen.notice(&text);
            }
        }
        if self.stopped.is_some() {
            screen.notice("krt: cancelled:");
            for target in &self.board.targets {
                for line in summary::cancelled(target, screen.err) {
                    screen.notice(&format!("  {line}"));
                }
            }
        }
        let endings = self.endings.iter().flatten();
        match request.format {
            Format::Json => {
                let objects = endings.map(|ending| ending.object.clone()).collect();
                screen.data(&summary::json(objects));
            }
            Format::Table => {
                for (item, ending) in self.board.targets.iter().zip(&self.endings) {
                    if let Some(ending) = ending {
                        screen.data(&summary::table(item, &ending.object, screen.out));
                    }
                }
            }
        }
        let phases = self.endings.iter().map(|ending| match ending {
            Some(ending) => ending.phase,
            None => "Unknown",
        });
        self.stopped.unwrap_or_else(|| Exit::of_phases(phases))
    }
}

/// Says what failed, why, and what to do next (C-15).
fn problem(screen: &mut Screen, error: &dyn Error, next: &str) {
    screen.notice(&say::problem(error, next));
}
