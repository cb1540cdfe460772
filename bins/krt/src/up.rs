//! `krt local up`: an engine that stays, until a signal.

use std::net::{Ipv4Addr, SocketAddr};

use kruntimes_embedded::{Embedded, NAMESPACE, Options, StartError};

use crate::args::Up;
use crate::background;
use crate::exit::Exit;
use crate::local::{End, NO_ISOLATION};
use crate::place::{Place, quoted};
use crate::say;
use crate::signals::Signals;

/// Serves until a signal, or starts the process that does.
pub(crate) async fn run(request: Up) -> End {
    let place = match Place::find_or_say(request.dir.clone()) {
        Ok(place) => place,
        Err(exit) => return exit.into(),
    };
    if request.detach {
        return background::start(&request, &place).await.into();
    }
    if request.background {
        background::leave_session();
    }
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(error) => {
            let text = say::problem(&error, "signals cannot be received; nothing was started");
            return failed(&request, &text).into();
        }
    };
    say::notice(NO_ISOLATION);
    let options = Options {
        data_dir: Some(place.dir.clone()),
        listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, request.port))),
        slots: request.slots,
        extensions: request.extensions.clone(),
        ..Options::default()
    };
    let started = tokio::select! {
        biased;
        exit = signals.next() => return exit.into(),
        started = Box::pin(Embedded::start(options)) => started,
    };
    let engine = match started {
        Ok(engine) => engine,
        Err(error) => {
            let next = match &error {
                StartError::Home(error) => place.next(error),
                StartError::Listen { .. } => "choose another port with --port".to_owned(),
                _ => {
                    "see what KRT_LOG=debug says, or start with a new directory (--dir)".to_owned()
                }
            };
            return failed(&request, &say::problem(&error, &next)).into();
        }
    };
    welcome(&engine, &place);
    if request.background {
        background::report_ready();
    }
    let exit = tokio::select! {
        biased;
        exit = signals.next() => exit,
        error = engine.failed() => {
            let next = "make room on the disk, then start again; nothing acknowledged is lost";
            say::notice(&say::problem(&error, next));
            Exit::NotCarriedOut
        }
    };
    end(engine, exit, &mut signals).await
}

/// Ends the engine in order, unless a second signal comes.
async fn end(engine: Embedded, exit: Exit, signals: &mut Signals) -> End {
    let busy = match engine.running() {
        0 => String::new(),
        1 => "; one Run has up to 20 s to come to its end, Ctrl-C again kills it".to_owned(),
        n => format!("; {n} Runs have up to 20 s to come to their end, Ctrl-C again kills them"),
    };
    say::notice(&format!("krt: the engine ends{busy}"));
    let drained = tokio::select! {
        biased;
        _ = signals.next() => false,
        () = engine.drain() => true,
    };
    if !drained {
        say::notice("krt: killing everything");
        let engine = Some(engine);
        return End { exit, engine };
    }
    match engine.running() {
        0 => {}
        1 => say::notice("krt: one Run is lost"),
        n => say::notice(&format!("krt: {n} Runs are lost")),
    }
    tokio::select! {
        biased;
        _ = signals.next() => say::notice("krt: killing everything"),
        _ = Box::pin(engine.shutdown()) => say::notice("krt: the engine has ended"),
    }
    exit.into()
}

fn failed(request: &Up, text: &str) -> Exit {
    say::notice(text);
    if request.background {
        background::report_failure(text);
    }
    Exit::NotCarriedOut
}

/// Says where the engine serves and how to talk to it.
fn welcome(engine: &Embedded, place: &Place) {
    if let (Some(endpoint), Some(kubeconfig)) = (engine.endpoint(), engine.kubeconfig()) {
        let kubeconfig = quoted(kubeconfig);
        say::notice(&how_to_use(endpoint, &kubeconfig, place));
    }
}

/// What to type once an engine serves.
pub(crate) fn how_to_use(endpoint: &str, kubeconfig: &str, place: &Place) -> String {
    let (dir, flag) = (quoted(&place.dir), &place.flag);
    format!(
        "krt: the engine serves {endpoint} from {dir}
  the Runtime bash is there, in namespace {NAMESPACE}; try
    export KUBECONFIG={kubeconfig}
    kubectl apply -f workflow.yaml
    kubectl get workflowruns --watch
  end it with Ctrl-C or `krt local down{flag}`"
    )
}
