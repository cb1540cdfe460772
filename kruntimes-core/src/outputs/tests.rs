//! Tables of the grammar, the cases of the trade, and laws.

use proptest::prelude::*;

use super::*;

fn read(file: &str) -> Result<BTreeMap<String, String>, OutputsError> {
    parse(file.as_bytes())
}

fn refused(file: &[u8]) -> (String, &'static str) {
    let error = parse(file).expect_err("refused");
    (error.to_string(), error.reason())
}

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

#[test]
fn n_128_lines_are_trimmed_split_and_replaced() {
    for (file, want) in [
        ("", map(&[])),
        ("a=1", map(&[("a", "1")])),
        ("a=1\nb=2\n", map(&[("a", "1"), ("b", "2")])),
        ("a=1\r\nb=2\r\n", map(&[("a", "1"), ("b", "2")])),
        ("  a = 1 \t\n", map(&[("a", "1")])),
        ("# c\n\n   \n  # d=1\na=1\n", map(&[("a", "1")])),
        ("a=\n", map(&[("a", "")])),
        ("a=1\na=2\n", map(&[("a", "2")])),
        ("a=b<<c\n", map(&[("a", "b<<c")])),
        ("\u{a0}a\u{a0}=\u{a0}1\u{a0}\n", map(&[("a", "1")])),
        ("\u{a0}# c\n\u{a0}#d=1\n", map(&[])),
        (
            "kruntimes.io/env/X=1\n",
            map(&[("kruntimes.io/env/X", "1")]),
        ),
    ] {
        assert_eq!(read(file), Ok(want), "{file:?}");
    }
}

#[test]
fn w_137_n_129_each_fault_names_its_line() {
    for (file, message) in [
        (
            &b"a=1\n\nnonsense\n"[..],
            "outputs line 3 must use KEY=VALUE format",
        ),
        (b"=1", "outputs line 1 has an empty key"),
        (b" <<END\n", "outputs line 1 has an empty key"),
        (b"a=1\nb=\xff\n", "outputs line 2 is not valid UTF-8"),
        (b"# \xff\n", "outputs line 1 is not valid UTF-8"),
        (b"a=\xc3", "outputs line 1 is not valid UTF-8"),
        (b"a<<E\nx\n\xff\nE\n", "outputs line 3 is not valid UTF-8"),
    ] {
        assert_eq!(refused(file), (message.to_owned(), "OutputsInvalid"));
    }
}

#[test]
fn n_130_each_limit_holds_to_the_byte() {
    let value = "x".repeat(8192);
    assert_eq!(read(&format!("k={value}\n")).unwrap()["k"], value);
    assert_eq!(read(&format!("k<<E\n{value}\nE")).unwrap()["k"], value);
    let key = "k".repeat(128);
    assert!(read(&format!("{key}=1")).unwrap().contains_key(&key));
    assert_eq!(
        refused(format!("{key}k=1").as_bytes()),
        (
            "outputs line 1 has a key of 129 bytes, limit 128".to_owned(),
            "OutputsTooLarge"
        )
    );
    let lines: Vec<String> = (0..64).map(|n| format!("k{n}=1\n")).collect();
    let many = lines.concat();
    assert_eq!(read(&many).unwrap().len(), 64);
    assert_eq!(read(&format!("{many}k0=2\n")).unwrap()["k0"], "2");
    assert_eq!(
        refused(format!("{many}one-more=1\n").as_bytes()).1,
        "OutputsTooLarge"
    );
}

#[test]
fn n_130_a_replaced_value_is_deducted() {
    // Eight entries of 8192 bytes, keys included, are exactly 65536 bytes.
    let entry = |key: &str| format!("{key}={}\n", "x".repeat(8191));
    let full: String = ["a", "b", "c", "d", "e", "f", "g", "h"].map(entry).concat();
    assert_eq!(read(&full).unwrap().len(), 8);
    assert!(read(&format!("{full}{}", entry("a"))).is_ok());
    assert!(read(&format!("{full}a=\ni={}\n", "x".repeat(8190))).is_ok());
    assert_eq!(
        refused(format!("{full}i=\n").as_bytes()),
        (
            "outputs line 9 with key \"i\" brings the total to 65537 bytes, limit 65536".to_owned(),
            "OutputsTooLarge"
        )
    );
}

#[test]
fn n_130_an_endless_line_is_refused_early_and_without_keeping_it() {
    for (head, message) in [
        ("big=", "big: more than 1048576 bytes, limit 8192"),
        ("b<<E\n", "b: more than 1048576 bytes, limit 8192"),
        ("x", "outputs line 1 has 1048576 bytes, limit 16384"),
    ] {
        let mut parser = Parser::default();
        parser.feed(head.as_bytes()).unwrap();
        let piece = [b'x'; 4096];
        // 10 GiB would be 2621440 pieces.
        let taken = (0..2_621_440)
            .take_while(|_| parser.feed(&piece).is_ok())
            .count();
        assert!(taken <= 257, "{head}: {taken}");
        assert!(parser.line.kept().len() <= KEPT_MAX);
        let error = parser.feed(b"").expect_err("stays refused");
        assert_eq!(error.reason(), "OutputsTooLarge");
        assert_eq!(error.to_string(), message);
        assert_eq!(parser.finish(), Err(error));
    }
}

#[test]
fn blanks_and_comments_of_any_length_cost_nothing() {
    let blanks = " ".repeat(100_000);
    let file = format!("{blanks}a=1{blanks}\n#{}\nb=2", "c".repeat(2_000_000));
    assert_eq!(read(&file), Ok(map(&[("a", "1"), ("b", "2")])));
}

#[test]
fn blocks_keep_their_content_exactly() {
    for (file, want) in [
        ("k<<E\nE\n", ""),
        ("k<<E\n\nE\n", ""),
        ("k<<E\n\n\nE\n", "\n"),
        ("k<<E\n  a \n# b\n\nc=1\nE\n", "  a \n# b\n\nc=1"),
        ("k<<E\n E\nE \nE", " E\nE "),
        ("k<<E\r\na\r\nb\r\nE\r\n", "a\r\nb"),
        (" k <<E\na\nE\n", "a"),
        ("k<<A=B\nx\nA=B\n", "x"),
    ] {
        assert_eq!(read(file), Ok(map(&[("k", want)])), "{file:?}");
    }
    let two = "a<<E\n1\nE\nb=2\na<<F\nE\nF\n";
    assert_eq!(read(two), Ok(map(&[("a", "E"), ("b", "2")])));
}

#[test]
fn case_001_a_marker_glued_to_the_last_line_does_not_close_its_block() {
    let file = "a=1\nnotes<<END_7\nline one\nlast line without newlineEND_7\n";
    let want = "outputs line 2 opens a block for key \"notes\", but its marker \"END_7\" never stands alone on a line";
    assert_eq!(
        refused(file.as_bytes()),
        (want.to_owned(), "OutputsInvalid")
    );
}

#[test]
fn case_002_quotes_belong_to_the_marker() {
    let (message, reason) = refused(b"body<<'STOP'\nhello\nSTOP\n");
    assert_eq!(reason, "OutputsInvalid");
    assert!(message.contains("marker \"'STOP'\""), "{message}");
    assert!(message.ends_with("quotes are part of the marker and are not stripped"));
    assert_eq!(
        read("body<<'STOP'\nhello\n'STOP'\n"),
        Ok(map(&[("body", "hello")]))
    );
}

#[test]
fn case_004_an_empty_marker_is_refused_at_the_opener() {
    for file in ["a=1\nresults<<\n{}\n\n", "a=1\nresults<<  \r\n{}\n"] {
        assert_eq!(
            refused(file.as_bytes()),
            (
                "outputs line 2 opens a block for key \"results\" with an empty marker".to_owned(),
                "OutputsInvalid"
            )
        );
    }
}

#[test]
fn case_005_a_value_of_several_lines_gets_a_hint() {
    let error = read("payload={\n  \"A\": \"1\",\n  \"B\": \"\"\n}\n").expect_err("refused");
    assert_eq!(
        error.to_string(),
        "outputs line 2 must use KEY=VALUE format"
    );
    let hint = error.hint().unwrap();
    assert!(hint.contains("\"payload\""), "{hint}");
    assert!(hint.contains("KEY<<MARKER"), "{hint}");
}

#[test]
fn case_007_the_block_form_drops_nothing() {
    let file = "version<<V\nTool 3\n# home: /opt/tool\n\nlocale=C\nV\n";
    let want = "Tool 3\n# home: /opt/tool\n\nlocale=C";
    assert_eq!(read(file), Ok(map(&[("version", want)])));
}

/// The specification trims values of lines; the block form keeps blanks.
#[test]
fn case_008_values_keep_what_the_written_rule_keeps() {
    assert_eq!(
        read("pad=  two  \nempty=\neq=a=b=c\n"),
        Ok(map(&[("pad", "two"), ("empty", ""), ("eq", "a=b=c")]))
    );
    assert_eq!(read("pad<<E\n  two  \nE\n"), Ok(map(&[("pad", "  two  ")])));
}

#[test]
fn case_010_a_large_value_is_reported_with_key_size_and_limit() {
    for size in [8193, 9000, 20_000, 1_000_000] {
        let want = (
            format!("report: {size} bytes, limit 8192"),
            "OutputsTooLarge",
        );
        let value = "x".repeat(size);
        assert_eq!(refused(format!("report={value}").as_bytes()), want);
        assert_eq!(refused(format!(" report = {value} \n").as_bytes()), want);
        assert_eq!(refused(format!("report<<E\n{value}\nE\n").as_bytes()), want);
    }
}

/// Every Run has the whole limit for itself: a parser shares nothing.
#[test]
fn case_011_the_limit_does_not_shrink_with_the_number_of_steps() {
    for step in 0..40 {
        let value = "x".repeat(4096);
        assert_eq!(
            read(&format!("out{step}={value}\n")).unwrap()[&format!("out{step}")],
            value
        );
    }
}

#[test]
fn lines_that_were_not_kept_are_told_apart() {
    let long = "x".repeat(20_000);
    for (file, message, reason) in [
        (
            long.clone(),
            "outputs line 1 must use KEY=VALUE format",
            "OutputsInvalid",
        ),
        (
            format!("{long}=1"),
            "outputs line 1 has a key of 20000 bytes, limit 128",
            "OutputsTooLarge",
        ),
        (
            format!("={long}"),
            "outputs line 1 has an empty key",
            "OutputsInvalid",
        ),
        (
            format!("k{}=12", " ".repeat(20_000)),
            "outputs line 1 has a key of 20001 bytes, limit 128",
            "OutputsTooLarge",
        ),
        (
            format!("k<<a={long}"),
            "outputs line 1 has 20005 bytes, limit 16384",
            "OutputsTooLarge",
        ),
    ] {
        assert_eq!(refused(file.as_bytes()), (message.to_owned(), reason));
    }
}

fn in_pieces(file: &[u8], cuts: &[usize]) -> Result<BTreeMap<String, String>, OutputsError> {
    let mut parser = Parser::default();
    let mut rest = file;
    for cut in cuts {
        let (piece, tail) = rest.split_at((*cut).min(rest.len()));
        parser.feed(piece)?;
        rest = tail;
    }
    parser.feed(rest)?;
    parser.finish()
}

/// Pieces of grammar, so that random files reach every state.
fn any_file() -> impl Strategy<Value = Vec<u8>> {
    let token = proptest::sample::select(vec![
        b"k".to_vec(),
        b"=".to_vec(),
        b"<<".to_vec(),
        b"E".to_vec(),
        b"\n".to_vec(),
        b"\nE\n".to_vec(),
        b"\r\n".to_vec(),
        b" ".to_vec(),
        b"#".to_vec(),
        "\u{20ac}".as_bytes().to_vec(),
        b"\xff".to_vec(),
        vec![b'x'; 9000],
        vec![b'x'; 600_000],
    ]);
    proptest::collection::vec(token, 0..24).prop_map(|tokens| tokens.concat())
}

proptest! {
    /// How the file is cut does not matter, and no bytes make the parser panic.
    #[test]
    fn pieces_do_not_matter(
        file in any_file(),
        cuts in proptest::collection::vec(prop_oneof![0_usize..5, Just(500_000)], 0..60),
    ) {
        prop_assert_eq!(in_pieces(&file, &cuts), parse(&file));
    }

    #[test]
    fn arbitrary_bytes_never_panic(file in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Err(error) = parse(&file) {
            prop_assert!(error.reason().starts_with("Outputs"));
        }
    }

    /// Any text survives the block form.
    #[test]
    fn blocks_give_back_what_was_written(value in "[a-z=#\u{20ac} \n]{0,60}") {
        let file = format!("k<<E-O-F\n{value}\nE-O-F\n");
        prop_assert_eq!(read(&file), Ok(map(&[("k", &value)])));
    }

    /// Whatever is accepted is within every limit.
    #[test]
    fn accepted_outputs_are_within_the_limits(file in any_file()) {
        let Ok(outputs) = parse(&file) else { return Ok(()) };
        prop_assert!(outputs.len() <= OUTPUTS_MAX_KEYS);
        let total: usize = outputs.iter().map(|(key, value)| key.len() + value.len()).sum();
        prop_assert!(total <= OUTPUTS_MAX_BYTES);
        prop_assert!(outputs.keys().all(|key| !key.is_empty() && key.len() <= OUTPUT_KEY_MAX_BYTES));
        prop_assert!(outputs.values().all(|value| value.len() <= OUTPUT_VALUE_MAX_BYTES));
    }
}
