//! Changes the texts of a corpus at random, the same way in every run.

use std::fs;
use std::path::PathBuf;

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap_or_default() % sides.max(1)
    }
}

/// Pieces that mean something to one of the grammars.
const TOKENS: [&[u8]; 24] = [
    b"${{",
    b"}}",
    b"'",
    b"''",
    b".outputs.",
    b"inputs.",
    b"steps.",
    b"jobs.",
    b"<<",
    b"=",
    b"\n",
    b"\r\n",
    b": ",
    b"- ",
    b"{",
    b"}",
    b"[",
    b"]",
    b"&a ",
    b"*a",
    b"\\u0000",
    b"\xff",
    "é".as_bytes(),
    b"null",
];

/// Runs a target over its corpus and over so many changed texts.
pub(crate) fn run(target: &str, rounds: usize, check: impl Fn(&[u8])) {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/corpus")
        .join(target);
    let mut paths: Vec<PathBuf> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let corpus: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(!corpus.is_empty(), "{target} has a corpus");
    for text in &corpus {
        check(text);
    }
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    for _ in 0..rounds {
        let mut text = corpus[dice.roll(corpus.len())].clone();
        for _ in 0..=dice.roll(4) {
            change(&mut text, &corpus, &mut dice);
        }
        check(&text);
    }
}

fn change(text: &mut Vec<u8>, corpus: &[Vec<u8>], dice: &mut Dice) {
    let at = dice.roll(text.len() + 1);
    let end = (at + dice.roll(24)).min(text.len());
    match dice.roll(6) {
        0 => {
            let token = TOKENS[dice.roll(TOKENS.len())];
            text.splice(at..at, token.iter().copied());
        }
        1 => drop(text.drain(at..end)),
        2 => text.truncate(at),
        3 => {
            let piece = text[at..end].to_vec();
            text.splice(
                at..at,
                piece
                    .iter()
                    .copied()
                    .cycle()
                    .take(piece.len() * dice.roll(9)),
            );
        }
        4 => {
            let other = &corpus[dice.roll(corpus.len())];
            let from = dice.roll(other.len() + 1);
            let to = (from + dice.roll(64)).min(other.len());
            text.splice(at..at, other[from..to].iter().copied());
        }
        _ => {
            if let Some(byte) = text.get_mut(at) {
                *byte = u8::try_from(dice.roll(256)).unwrap_or_default();
            }
        }
    }
}
