//! Git sources, from a real server on loopback by the real program.

use std::time::Duration;

use kruntimes_core::api::{Mode, RunPhase, RunSpec, Source, TaskMode};
use kruntimes_node::GitTool;
use kruntimes_proto::testing::{Script, ScriptedServer};
use kube::ResourceExt as _;

use crate::bash::{Real, real_on};
use crate::forge::{Answer, Forge};
use crate::world::{World, conditions, message, script, status};

/// A task that executes a file of a repository.
fn from(url: &str, commit: Option<&str>, entrypoint: &str) -> RunSpec {
    RunSpec {
        runtime: "bash".into(),
        mode: Mode {
            task: Some(TaskMode {
                entrypoint: Some(entrypoint.into()),
                args: vec!["one".into()],
            }),
            ..Mode::default()
        },
        source: Some(Source {
            repo_url: Some(url.into()),
            commit_sha: commit.map(Into::into),
            ..Source::default()
        }),
        ..RunSpec::default()
    }
}

async fn real(forge: &Forge, change: impl FnOnce(&mut GitTool)) -> Real {
    let mut world = World::new(8).await;
    let certificate = ("GIT_SSL_CAINFO".into(), forge.ca().into());
    world.git.env.push(certificate);
    change(&mut world.git);
    real_on(world, Duration::from_millis(200))
}

const APP: &str = "
    mkdir ci outputs artifacts; echo kept > outputs/x; echo kept > artifacts/x
    echo 'echo \"SAYS=$(cat version) $1 $(cat outputs/x artifacts/x | tr \"\\n\" .)\" >> \"$KRUNTIME_OUTPUTS\"' > ci/build.sh
    echo first > version; git add .; git commit -qm 1; git rev-parse HEAD
    git tag v1; echo second > version; git commit -qam 2; git branch feature/x
    echo third > version; git commit -qam 3";

#[tokio::test]
async fn n_50_n_38_case_127_case_128_case_130_revisions_of_every_kind_are_checked_out() {
    let forge = Forge::start().await;
    let first = forge.repository("app", APP).await;
    let real = real(&forge, |_| {}).await;
    for old in [false, true] {
        if old {
            forge.speak_old();
        }
        for (name, commit, want) in [
            ("default", None, "third"),
            ("branch", Some("feature/x"), "second"),
            ("tag", Some("v1"), "first"),
            ("ref", Some("refs/tags/v1"), "first"),
            ("object", Some(&*first), "first"),
            ("short", Some(&first[..8]), "first"),
        ] {
            let name = format!("{name}-{old}");
            let spec = from(&forge.url("app"), commit, "ci/build.sh");
            real.world.submit(&name, spec).await;
            let done = real.world.until_over(&name).await;
            assert_eq!(
                status(&done).phase,
                RunPhase::Succeeded,
                "{name} {}",
                message(&done)
            );
            let want = format!("{want} one kept.kept.");
            assert_eq!(status(&done).outputs["SAYS"], want, "{name}");
        }
    }
    for (name, commit) in [
        ("none", "v9"),
        ("gone", "0123456789012345678901234567890123456789"),
    ] {
        let spec = from(&forge.url("app"), Some(commit), "ci/build.sh");
        real.world.submit(name, spec).await;
        let done = real.world.until_over(name).await;
        let found = message(&done);
        assert!(found.starts_with("prepare source: git clone: "), "{found}");
        assert!(conditions(&done).contains(&"Completed=False PrepareSource".to_owned()));
    }
}

#[tokio::test]
async fn n_17_n_49_n_52_case_131_redirects_prompts_and_credentials_lead_nowhere() {
    let forge = Forge::start().await;
    forge.repository("app", APP).await;
    let marker = forge.dir.path().join("ran");
    let to = format!("ext::touch {}", marker.display());
    forge.answer(
        "away/info/refs",
        Answer::Redirect("http://localhost:1/x".into()),
    );
    forge.answer("ext/info/refs", Answer::Redirect(to));
    let real = real(&forge, |_| {}).await;
    for name in ["away", "ext", "missing"] {
        let address = format!("https://user:t0ken@localhost:{}/{name}", forge.port);
        real.world.submit(name, from(&address, None, "x")).await;
        let done = real.world.until_over(name).await;
        let found = message(&done);
        assert!(found.starts_with("prepare source: git clone: "), "{found}");
        assert!(!found.contains("t0ken"), "{found}");
    }
    assert!(!marker.exists());
    for url in ["http://localhost/x", "ext::sh", "file:///etc", "/etc"] {
        let plain = World::new(1).await;
        let server = ScriptedServer::new(|_| Script::exits(0));
        let _daemon = plain.daemon(server.clone());
        // Admission would refuse some of these; the node does not rely on it (N-17).
        let name = "a";
        let mut run = kruntimes_core::crd::Run::new(name, from("https://a/b", None, "x"));
        run.spec.source.as_mut().unwrap().repo_url = Some(url.into());
        let made = plain
            .runs
            .create(&kube::api::PostParams::default(), &run)
            .await;
        if made.is_ok() {
            plain.assign(name).await;
            let done = plain.until_over(name).await;
            assert!(
                message(&done).starts_with("prepare source: repoURL"),
                "{url}"
            );
        }
        assert!(server.live().is_empty());
    }
}

#[tokio::test]
async fn n_49_hooks_filters_and_submodules_of_a_repository_do_nothing() {
    let forge = Forge::start().await;
    forge
        .repository("inner", "echo x > x; git add .; git commit -qm 1")
        .await;
    let marker = forge.dir.path().join("ran");
    let setup = format!(
        "git -c protocol.file.allow=always submodule --quiet add ../inner sub
         mkdir .hooks; printf '#!/bin/sh\\ntouch {0}' > .hooks/post-checkout; chmod +x .hooks/post-checkout
         printf '[core]\\nhooksPath = .hooks\\n[filter \"evil\"]\\nsmudge = touch {0}\\n' > .gitconfig
         echo '* filter=evil' > .gitattributes; echo '*.bin filter=lfs' >> .gitattributes
         echo 'version https://git-lfs' > big.bin
         echo 'echo \"SUB=$(ls sub | wc -l) $(cat big.bin)\" >> \"$KRUNTIME_OUTPUTS\"' > run.sh
         git add . ; git commit -qm 1",
        marker.display()
    );
    forge.repository("outer", &setup).await;
    let real = real(&forge, |_| {}).await;
    real.world
        .submit("a", from(&forge.url("outer"), None, "run.sh"))
        .await;
    let done = real.world.until_over("a").await;
    assert_eq!(
        status(&done).phase,
        RunPhase::Succeeded,
        "{}",
        message(&done)
    );
    assert_eq!(status(&done).outputs["SUB"], "0 version https://git-lfs");
    assert!(!marker.exists());
    assert!(!forge.asked().iter().any(|path| path.contains("inner")));
}

#[tokio::test]
async fn n_51_n_54_n_24_a_server_that_hangs_costs_its_run_and_nobody_else() {
    let forge = Forge::start().await;
    forge.answer("hangs/info/refs", Answer::Hang);
    let real = real(&forge, |git| git.fetch_limit = Duration::from_secs(2)).await;
    let slow = real
        .world
        .submit("slow", from(&forge.url("hangs"), None, "x"))
        .await;
    real.world.submit("quick", script("true")).await;
    let quick = real.world.until_over("quick").await;
    assert_eq!(status(&quick).phase, RunPhase::Succeeded);
    assert_eq!(
        status(&real.world.get("slow").await).phase,
        RunPhase::Running,
        "N-36"
    );
    let done = real.world.until_over("slow").await;
    assert_eq!(
        message(&done),
        "prepare source: git clone: timed out after 2s"
    );
    let dir = real.world.run_dir(&slow);
    real.world
        .eventually("nothing is left", || !dir.exists())
        .await;
}

#[tokio::test]
async fn n_36_n_116_a_clone_is_abandoned_by_cancel_and_leaves_nothing() {
    let forge = Forge::start().await;
    forge.answer("hangs/info/refs", Answer::Hang);
    let real = real(&forge, |_| {}).await;
    for end in ["cancel", "delete", "timeout"] {
        let mut spec = from(&forge.url("hangs"), None, "x");
        if end == "timeout" {
            spec.timeout = Some(Duration::from_millis(900).into());
        }
        let before = forge.asked().len();
        let run = real.world.submit(end, spec).await;
        let dir = real.world.run_dir(&run);
        real.world
            .eventually("it clones", || forge.asked().len() > before)
            .await;
        assert!(dir.join("repo/.git").exists());
        match end {
            "cancel" => real.world.cancel(end).await,
            "delete" => real.world.delete(end).await,
            _ => {}
        }
        if end != "delete" {
            let done = real.world.until_over(end).await;
            let want = if end == "cancel" {
                "cancelled by user"
            } else {
                "timeout after 900ms"
            };
            assert_eq!(message(&done), want);
        }
        real.world
            .eventually("nothing is left", || !dir.exists())
            .await;
    }
}

#[tokio::test]
async fn n_53_a_repository_that_is_too_large_stops_while_it_arrives() {
    let forge = Forge::start().await;
    let random = "head -c 6000000 /dev/urandom > blob; git add .; git commit -qm 1";
    forge.repository("large", random).await;
    // Little to fetch, much to write.
    let zeros = "truncate -s 40M zeros; git add .; git commit -qm 1";
    forge.repository("bomb", zeros).await;
    let real = real(&forge, |git| git.size_limit = 4_000_000).await;
    for (name, step) in [("large", "git clone"), ("bomb", "git checkout")] {
        let run = real
            .world
            .submit(name, from(&forge.url(name), None, "x"))
            .await;
        let done = real.world.until_over(name).await;
        let want = format!(
            "prepare source: {step}: git source size limit exceeded: more than 4000000 bytes"
        );
        assert_eq!(message(&done), want);
        let dir = real.world.workspace().join(run.uid().unwrap());
        real.world
            .eventually("nothing is left", || !dir.exists())
            .await;
    }
}

#[tokio::test]
async fn n_37_n_109_a_retry_keeps_the_checkout() {
    let forge = Forge::start().await;
    let text =
        "echo 'test -e mark || { touch mark; exit 3; }' > run.sh; git add .; git commit -qm 1";
    forge.repository("app", text).await;
    let real = real(&forge, |_| {}).await;
    let policy = crate::world::retried("", 2, Duration::from_millis(20)).retry_policy;
    let spec = RunSpec {
        retry_policy: policy,
        ..from(&forge.url("app"), None, "run.sh")
    };
    real.world.submit("a", spec).await;
    let done = real.world.until_over("a").await;
    assert_eq!(
        status(&done).phase,
        RunPhase::Succeeded,
        "{}",
        message(&done)
    );
    assert_eq!(status(&done).attempt, Some(2));
    let fetched = forge
        .asked()
        .iter()
        .filter(|path| path.contains("info/refs"))
        .count();
    assert_eq!(fetched, 1);
}
