//! Messages of bounded length.

/// Cuts `text` to `max_bytes` bytes, on a character boundary, ending in `...` when cut (N-18, W-71).
///
/// # Panics
///
/// Panics when `max_bytes` is below three: there is no room for the mark.
pub fn bounded(text: &str, max_bytes: usize) -> String {
    assert!(max_bytes >= 3, "a bounded message needs room for its mark");
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(max_bytes - 3);
    format!("{}...", &text[..end])
}

/// Keeps the end of `text`: at most `max_bytes` bytes, starting with `... ` when cut (N-99).
///
/// # Panics
///
/// Panics when `max_bytes` is below four: there is no room for the mark.
pub fn tail(text: &str, max_bytes: usize) -> String {
    assert!(max_bytes >= 4, "a bounded message needs room for its mark");
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let start = text.ceil_char_boundary(text.len() - (max_bytes - 4));
    format!("... {}", &text[start..])
}

/// Quotes a user's text for a message: `"`, `\` and control characters are escaped.
pub fn quoted(text: &str) -> String {
    use std::fmt::Write as _;

    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n_18_long_text_is_cut_on_a_character_boundary() {
        assert_eq!(bounded("abc", 3), "abc");
        assert_eq!(bounded("abcdef", 5), "ab...");
        assert_eq!(bounded("ééé", 5), "é...");
        assert_eq!(bounded("ééé", 4), "...");
        assert!(bounded(&"\u{1F600}".repeat(400), 1024).len() <= 1024);
    }

    #[test]
    fn n_99_the_tail_is_cut_at_the_front() {
        assert_eq!(tail("abcdef", 6), "abcdef");
        assert_eq!(tail("abcdefgh", 7), "... fgh");
        assert_eq!(tail("aéé", 7), "aéé".to_owned());
        assert_eq!(tail("aaaaéé", 7), "... é");
    }

    #[test]
    fn quotes_escape_what_would_break_a_line() {
        assert_eq!(quoted("a\"b\\c\n\u{1}"), "\"a\\\"b\\\\c\\n\\u0001\"");
    }
}
