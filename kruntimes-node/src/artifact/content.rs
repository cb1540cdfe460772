//! Media types of files (N-151).

const UNKNOWN: &str = "application/octet-stream";
/// Bytes that are looked at when the name tells nothing.
pub(super) const SNIFF_BYTES: usize = 512;

const BY_EXTENSION: &[(&str, &str)] = &[
    ("bz2", "application/x-bzip2"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("log", "text/plain; charset=utf-8"),
    ("md", "text/markdown; charset=utf-8"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("tgz", "application/gzip"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("webp", "image/webp"),
    ("xml", "text/xml; charset=utf-8"),
    ("xz", "application/x-xz"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

const BY_START: &[(&[u8], &str)] = &[
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"\0asm", "application/wasm"),
];

/// Tells the media type of a file from its name, else from its first bytes.
pub(super) fn media_type(name: &str, start: &[u8]) -> &'static str {
    let extension = name.rsplit_once('.').map(|(_, e)| e.to_ascii_lowercase());
    let known = extension.and_then(|extension| {
        let found = BY_EXTENSION.iter().find(|(known, _)| *known == extension);
        found.map(|(_, kind)| *kind)
    });
    if let Some(kind) = known {
        return kind;
    }
    if let Some((_, kind)) = BY_START.iter().find(|(magic, _)| start.starts_with(magic)) {
        return kind;
    }
    // The last character may be cut off in the middle.
    let text = match std::str::from_utf8(start) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    let control = |&byte: &u8| byte < 0x20 && !matches!(byte, b'\t' | b'\n' | 0x0c | b'\r' | 0x1b);
    if !start.is_empty() && text && !start.iter().any(control) {
        return "text/plain; charset=utf-8";
    }
    UNKNOWN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n_151_the_name_comes_first_then_the_content() {
        for (name, start, want) in [
            ("report.JSON", &b""[..], "application/json"),
            ("a.tar.gz", b"", "application/gzip"),
            ("binary", b"\x89PNG\r\n\x1a\nxx", "image/png"),
            ("notes", b"hello\n", "text/plain; charset=utf-8"),
            ("notes", "\u{e9}".as_bytes(), "text/plain; charset=utf-8"),
            (
                "notes",
                &"x\u{e9}".as_bytes()[..2],
                "text/plain; charset=utf-8",
            ),
            ("core", b"\x7fELF\0\0", UNKNOWN),
            ("latin", b"\xe9\xe9", UNKNOWN),
            ("empty", b"", UNKNOWN),
            ("odd.unheard", b"", UNKNOWN),
        ] {
            assert_eq!(media_type(name, start), want, "{name}");
        }
    }
}
