//! Output files: read in pieces they are what they are at once.
#![no_main]

use kruntimes_core::outputs;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let whole = outputs::parse(file);
    for size in [1, 3, 4096] {
        let mut parser = outputs::Parser::default();
        let fed = file.chunks(size).try_for_each(|piece| parser.feed(piece));
        assert_eq!(fed.and_then(|()| parser.finish()), whole);
    }
});
