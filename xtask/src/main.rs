//! Repository rules and generators, as ordinary Rust.

mod proto;

use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let check = words.iter().any(|word| word == "--check");
    let end: Result<(), Box<dyn Error>> = match words.first().map(String::as_str) {
        Some("proto") => proto::run(check).map_err(Into::into),
        Some(_) | None => Err("usage: cargo xtask proto [--check]".into()),
    };
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}
