//! The numbered items of the specification, and the tests that name them.
//!
//! A test names an item by its function name: `s_118_…`, or several: `w_12_w_13_…`. A function that a list macro
//! (`every_…!`) turns into a test counts as one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::{fmt, fs};

use crate::root;

/// Option that leaves out what has a test.
const MISSING: &str = "--missing";

/// Why the items could not be counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Error {
    /// A file cannot be accessed.
    #[error(transparent)]
    Access(#[from] root::Error),
    /// A word of the command is no list.
    #[error("there is no list \"{word}\"; there are {}", names())]
    UnknownList {
        /// What was asked for.
        word: String,
    },
    /// The report cannot be written.
    #[error("cannot write")]
    Write(#[from] io::Error),
}

/// One list of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct List {
    name: &'static str,
    letter: char,
    /// Items are numbered from one to this.
    last: u32,
}

const LISTS: [List; 5] = [
    List::new("scheduler", 's', 178),
    List::new("workflow", 'w', 222),
    List::new("node", 'n', 264),
    List::new("dataplane", 'd', 237),
    List::new("cli", 'c', 164),
];

impl List {
    const fn new(name: &'static str, letter: char, last: u32) -> Self {
        Self { name, letter, last }
    }
}

fn names() -> String {
    LISTS.map(|list| list.name).join(", ")
}

/// One item: the letter of its list and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Item {
    letter: char,
    number: u32,
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.letter.to_ascii_uppercase(), self.number)
    }
}

/// The tests that name each item, as `crate::function`.
type Named = BTreeMap<Item, BTreeSet<String>>;

/// Prints every item with its tests, those without, and totals.
///
/// # Errors
///
/// Fails on an unknown list, and when a file cannot be read.
pub(crate) fn run(words: &[&str]) -> Result<(), Error> {
    let lists = lists(words)?;
    let root = root::path();
    let mut texts = Vec::new();
    for path in root::files(&root)? {
        if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).map_err(root::Error::at(&path))?;
            texts.push((room(path.strip_prefix(&root).unwrap_or(&path)), text));
        }
    }
    let report = report(&lists, &named(&texts), words.contains(&MISSING));
    io::stdout().write_all(report.as_bytes())?;
    Ok(())
}

/// The lists that were asked for; all when none was.
fn lists(words: &[&str]) -> Result<Vec<List>, Error> {
    let mut asked = Vec::new();
    for word in words.iter().filter(|word| **word != MISSING) {
        let list = LISTS.iter().find(|list| list.name == *word);
        let word = (*word).to_owned();
        asked.push(*list.ok_or(Error::UnknownList { word })?);
    }
    if asked.is_empty() {
        asked = LISTS.to_vec();
    }
    Ok(asked)
}

/// The crate a file belongs to.
fn room(path: &Path) -> String {
    let text = path.to_string_lossy();
    let mut parts = text.split('/');
    let first = parts.next().unwrap_or_default();
    let room = match first {
        "bins" => parts.next().unwrap_or(first),
        other => other,
    };
    room.to_owned()
}

/// Finds all tests that name items; texts come with the crate they belong to.
fn named(texts: &[(String, String)]) -> Named {
    let listed: BTreeSet<(&str, &str)> = texts
        .iter()
        .flat_map(|(room, text)| listed(text).map(move |name| (room.as_str(), name)))
        .collect();
    let mut named = Named::new();
    for (room, text) in texts {
        for (name, is_test) in functions(text) {
            if !is_test && !listed.contains(&(room.as_str(), name)) {
                continue;
            }
            for item in items(name) {
                let tests = named.entry(item).or_default();
                tests.insert(format!("{room}::{name}"));
            }
        }
    }
    named
}

/// The words in the list macros of a file.
fn listed(text: &str) -> impl Iterator<Item = &str> {
    let macros = text.split("macro_rules! every_").skip(1);
    let bodies = macros.map(|body| body.split("\n}").next().unwrap_or_default());
    bodies
        .flat_map(|body| body.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .filter(|word| !word.is_empty())
}

/// The functions of a file, and whether each has an attribute that makes it a test.
fn functions(text: &str) -> Vec<(&str, bool)> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[") {
            is_test |= ["#[test]", "::test", "#[rstest"]
                .iter()
                .any(|mark| line.contains(mark));
        } else if let Some(name) = function(line) {
            found.push((name, is_test));
            is_test = false;
        }
    }
    found
}

/// The name of the function that a line declares.
fn function(line: &str) -> Option<&str> {
    let words = ["pub(crate) ", "pub(super) ", "pub ", "async "];
    let rest = words
        .iter()
        .fold(line, |line, word| line.strip_prefix(word).unwrap_or(line));
    let rest = rest.strip_prefix("fn ")?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    Some(&rest[..end])
}

/// The items at the front of a name.
fn items(name: &str) -> Vec<Item> {
    let mut items = Vec::new();
    let mut parts = name.split('_');
    while let (Some(letter), Some(number)) = (parts.next(), parts.next()) {
        let mut letters = letter.chars();
        let (Some(letter), None, Ok(number)) = (letters.next(), letters.next(), number.parse())
        else {
            break;
        };
        if !LISTS.iter().any(|list| list.letter == letter) {
            break;
        }
        items.push(Item { letter, number });
    }
    items
}

fn report(lists: &[List], named: &Named, only_missing: bool) -> String {
    let mut out = String::new();
    let mut totals = String::new();
    for list in lists {
        let all = (1..=list.last).map(|number| Item {
            letter: list.letter,
            number,
        });
        let (with, without): (Vec<Item>, Vec<Item>) =
            all.partition(|item| named.contains_key(item));
        if !only_missing {
            for item in &with {
                let tests: Vec<&str> = named[item].iter().map(String::as_str).collect();
                let _ = writeln!(out, "{item}  {}", tests.join(", "));
            }
        }
        let missing: Vec<String> = without.iter().map(ToString::to_string).collect();
        if !missing.is_empty() {
            let _ = writeln!(out, "{} without a test: {}\n", list.name, missing.join(" "));
        }
        let _ = writeln!(
            totals,
            "{:<11}{:>4} of {:>3}",
            list.name,
            with.len(),
            list.last
        );
        let beyond = named.iter().filter(|(item, _)| {
            item.letter == list.letter && (item.number == 0 || item.number > list.last)
        });
        for (item, tests) in beyond {
            let tests: Vec<&str> = tests.iter().map(String::as_str).collect();
            let _ = writeln!(out, "{item} is no item: {}", tests.join(", "));
        }
    }
    out + &totals
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(letter: char, number: u32) -> Item {
        Item { letter, number }
    }

    #[test]
    fn a_name_may_begin_with_several_items() {
        for (name, want) in [
            ("s_118_a_wait", vec![item('s', 118)]),
            ("w_12_w_13_both", vec![item('w', 12), item('w', 13)]),
            (
                "s_61_s_99_n_3",
                vec![item('s', 61), item('s', 99), item('n', 3)],
            ),
            ("s_17_case_092_a_queued_key", vec![item('s', 17)]),
            ("c_50_1800_steps_fit", vec![item('c', 50)]),
            ("a_12_is_no_list", vec![]),
            ("the_s_12", vec![]),
        ] {
            assert_eq!(items(name), want, "{name}");
        }
    }

    #[test]
    fn tests_and_listed_functions_count_and_others_do_not() {
        let texts = [
            (
                "one",
                "#[test]\n#[cfg(x)]\nfn s_1_a() {}\nfn s_2_b() {}\n#[cfg(test)]\nfn s_3_c() {}",
            ),
            (
                "one",
                "#[tokio::test(start_paused = true)]\nasync fn s_1_d() {}",
            ),
            (
                "two",
                "macro_rules! every_x {\n  s_4_e, s_5_f;\n}\npub(crate) async fn s_4_e(x: u8) {}",
            ),
            ("three", "pub(crate) async fn s_5_f() {}"),
        ];
        let texts = texts.map(|(room, text)| (room.to_owned(), text.to_owned()));
        let named = named(&texts);
        let keys: Vec<u32> = named.keys().map(|item| item.number).collect();
        assert_eq!(keys, [1, 4]);
        let first: Vec<&String> = named[&item('s', 1)].iter().collect();
        assert_eq!(first, ["one::s_1_a", "one::s_1_d"]);
    }

    #[test]
    fn the_report_ends_with_what_is_missing_and_totals() {
        let list = List::new("small", 's', 3);
        let tests = |name: &str| BTreeSet::from([name.to_owned()]);
        let named = Named::from([
            (item('s', 2), tests("x::s_2_a")),
            (item('s', 9), tests("x::s_9_b")),
        ]);
        let told =
            "small without a test: S-1 S-3\n\nS-9 is no item: x::s_9_b\nsmall         1 of   3\n";
        assert_eq!(report(&[list], &named, true), told);
        assert_eq!(
            report(&[list], &named, false),
            format!("S-2  x::s_2_a\n{told}")
        );
    }

    #[test]
    fn an_unknown_list_is_named_with_those_there_are() {
        let said = lists(&["schedulr", MISSING]).unwrap_err().to_string();
        assert!(
            said.contains("\"schedulr\"; there are scheduler, "),
            "{said}"
        );
        assert_eq!(lists(&["cli"]).unwrap(), [LISTS[4]]);
        assert_eq!(lists(&[MISSING]).unwrap().len(), 5);
    }
}
