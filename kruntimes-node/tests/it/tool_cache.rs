//! Downloads into the tool cache, from a server on loopback.

use std::path::Path;
use std::process::Output;

use kruntimes_proto::testing::ScriptedServer;
use tokio::process::Command;

use crate::forge::{Answer, Forge};
use crate::world::World;

/// Modes of a link and of a program, as archives keep them.
const LINK: u32 = 0o120_777;
const FILE: u32 = 0o100_755;

/// Stores files in the ZIP format without compression; a mode of zero leaves the kind open.
fn zip(files: &[(&str, u32, &[u8])]) -> Vec<u8> {
    let (mut data, mut index) = (Vec::new(), Vec::new());
    for (name, mode, content) in files {
        let offset = u32::try_from(data.len()).unwrap();
        let (length, size) = (name.len(), u32::try_from(content.len()).unwrap());
        let length = u16::try_from(length).unwrap();
        let mut common = Vec::new();
        for field in [20_u16, 0, 0, 0, 0x21] {
            common.extend(field.to_le_bytes());
        }
        for field in [crc32(content), size, size] {
            common.extend(field.to_le_bytes());
        }
        common.extend(length.to_le_bytes());
        common.extend([0, 0]);
        data.extend([b"PK\x03\x04", &*common, name.as_bytes(), content].concat());
        index.extend(b"PK\x01\x02\x14\x03");
        index.extend(&common);
        index.extend([0; 6]);
        index.extend((mode << 16).to_le_bytes());
        index.extend(offset.to_le_bytes());
        index.extend(name.as_bytes());
    }
    let count = u16::try_from(files.len()).unwrap().to_le_bytes();
    let (start, size) = (data.len(), index.len());
    data.extend(index);
    data.extend(b"PK\x05\x06\0\0\0\0");
    data.extend([count, count].concat());
    for field in [size, start] {
        data.extend(u32::try_from(field).unwrap().to_le_bytes());
    }
    data.extend([0, 0]);
    data
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

async fn fetch(forge: &Forge, root: &Path, key: &str, path: &str, more: &[&str]) -> Output {
    Command::new(root.join("bin/kruntime-cache"))
        .args(["fetch", key, &forge.url(path)])
        .args(more)
        .env("KRUNTIME_TOOL_CACHE", root)
        .env("CURL_CA_BUNDLE", forge.ca())
        .env("KRUNTIME_CACHE_MAX_BYTES", "100000")
        .output()
        .await
        .unwrap()
}

/// Says that it becomes a million bytes.
fn bomb() -> Vec<u8> {
    let mut bomb = zip(&[("a", FILE, b"x")]);
    let index = bomb
        .windows(4)
        .position(|part| part == b"PK\x01\x02")
        .unwrap();
    bomb[index + 24..index + 28].copy_from_slice(&1_000_000_u32.to_le_bytes());
    bomb
}

#[tokio::test]
async fn n_263_w_143_downloads_are_bounded_and_archives_checked() {
    let (world, forge) = (World::new(1).await, Forge::start().await);
    let _daemon = world.daemon(ScriptedServer::default());
    let root = world.workspace().join(".kruntimes/tool-cache");
    let helper = root.join("bin/kruntime-cache");
    world
        .eventually("the program is there", || helper.exists())
        .await;
    let good = zip(&[
        ("bin/tool", FILE, b"#!/bin/sh\necho tool"),
        ("plain", 0, b"x"),
    ]);
    let bomb = bomb();
    for (path, bytes) in [
        ("tool.bin", b"tool".to_vec()),
        ("good.zip", good),
        ("up.zip", zip(&[("a/../../up", FILE, b"x")])),
        ("absolute.zip", zip(&[("/up", FILE, b"x")])),
        (
            "link.zip",
            zip(&[("link", LINK, b"/etc"), ("link/x", FILE, b"x")]),
        ),
        ("bomb.zip", bomb),
        ("torn.zip", b"PK nothing".to_vec()),
        ("large", vec![0; 200_000]),
    ] {
        forge.answer(path, Answer::Bytes(bytes));
    }
    forge.answer(
        "plain",
        Answer::Redirect(format!("http://localhost:{}/x", forge.port)),
    );
    forge.answer("moved", Answer::Redirect(forge.url("tool.bin")));
    let zip_kind = ["--extract=zip"];
    let done = fetch(&forge, &root, "t/1", "tool.bin?x=1", &[]).await;
    assert!(done.status.success(), "{done:?}");
    assert_eq!(std::fs::read(root.join("t/1/tool.bin")).unwrap(), b"tool");
    let done = fetch(&forge, &root, "m", "moved", &[]).await;
    assert!(done.status.success(), "{done:?}");
    let done = fetch(&forge, &root, "z", "good.zip", &zip_kind).await;
    assert!(done.status.success(), "{done:?}");
    assert!(root.join("z/bin/tool").exists() && !root.join("z/good.zip").exists());
    for path in ["up.zip", "absolute.zip", "link.zip", "bomb.zip", "torn.zip"] {
        let refused = fetch(&forge, &root, path, path, &zip_kind).await;
        assert!(!refused.status.success(), "{path}");
        if path == "bomb.zip" {
            let told = String::from_utf8_lossy(&refused.stderr).into_owned();
            assert!(told.contains("1000000 bytes, 100000 are allowed"), "{told}");
        }
        assert!(!root.join(path).exists(), "{path}");
    }
    for path in ["large", "plain", "missing"] {
        let refused = fetch(&forge, &root, path, path, &[]).await;
        assert!(!refused.status.success(), "{path}: {refused:?}");
    }
    let left = std::fs::read_dir(root.join(".staging")).unwrap().count();
    assert_eq!(left, 0);
}
