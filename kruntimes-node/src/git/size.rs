//! How much lies below a directory.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType};

use crate::folder::Folder;

/// Directories below which nothing is counted; deeper trees are no sources.
const DEPTH: usize = 256;

/// Adds up the regular files below a directory, following no link; stops counting beyond `enough`.
pub(super) async fn measure(directory: &Path, enough: u64) -> u64 {
    let directory: PathBuf = directory.to_owned();
    let counted = tokio::task::spawn_blocking(move || {
        let mut total = 0;
        if let Ok(folder) = Folder::open(&directory) {
            count(&folder, enough, DEPTH, &mut total);
        }
        total
    });
    counted.await.unwrap_or_default()
}

/// What vanishes or cannot be read while it is counted counts as nothing.
fn count(folder: &Folder, enough: u64, depth: usize, total: &mut u64) {
    for name in folder.names().unwrap_or_default() {
        if *total > enough {
            return;
        }
        let Ok(stat) = rustix::fs::statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                *total = total.saturating_add(u64::try_from(stat.st_size).unwrap_or_default());
            }
            FileType::Directory if depth > 0 => {
                if let Ok(inner) = folder.enter(&name) {
                    count(&inner, enough, depth - 1, total);
                }
            }
            _ => {}
        }
    }
}
