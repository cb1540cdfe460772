//! The alphabets of names.

use kruntimes_core::limits::{LABEL_MAX, NAME_MAX};

/// Longest output name that fits an annotation (W-103).
const OUTPUT_NAME_MAX: usize = 47;

fn has_label_alphabet(text: &str, max: usize) -> bool {
    let alphanumeric = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= max
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && alphanumeric(text.chars().next())
        && alphanumeric(text.chars().last())
}

/// Tells whether a job, step or runtime name may become a label value (section 2).
pub fn is_label(text: &str) -> bool {
    has_label_alphabet(text, LABEL_MAX)
}

/// Tells whether an output name fits an annotation of a WorkflowRun (W-103).
pub fn is_output_name(text: &str) -> bool {
    has_label_alphabet(text, OUTPUT_NAME_MAX)
}

/// Tells whether a text may name a Workflow or an Action (W-2).
pub fn is_definition_name(text: &str) -> bool {
    let legal = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    text.len() <= NAME_MAX && text.split('.').all(legal)
}

/// Tells whether a text may name an input (W-23).
pub fn is_input_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Which references `uses` may hold beyond names of the same namespace (W-205).
///
/// What stands behind a reference is the business of whoever reads definitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    prefixes: Vec<String>,
}

impl References {
    /// Only names of the same namespace (W-2).
    pub fn local() -> Self {
        Self::default()
    }

    /// Allows every reference that begins so, such as `files/` or `https://definitions.example/`.
    pub fn with_prefix(mut self, prefix: &str) -> Self {
        self.prefixes.push(prefix.to_owned());
        self
    }

    /// Tells whether a text may stand in `uses`.
    pub fn allow(&self, text: &str) -> bool {
        let plain = |text: &str| {
            !text.contains("${{") && !text.contains(|c: char| c.is_whitespace() || c.is_control())
        };
        let mut prefixes = self.prefixes.iter();
        is_definition_name(text)
            || (text.len() <= NAME_MAX
                && plain(text)
                && prefixes.any(|prefix| text.len() > prefix.len() && text.starts_with(prefix)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn w_2_w_23_names_have_the_characters_of_section_2() {
        let long = "a".repeat(63);
        for name in ["a", "A.b_c-9", "build_all", &long] {
            assert!(is_label(name), "{name}");
        }
        for name in [
            "",
            "-a",
            "a-",
            ".a",
            "a b",
            "ä",
            "a/b",
            "${{ inputs.x }}",
            &format!("{long}a"),
        ] {
            assert!(!is_label(name), "{name}");
        }
        for name in ["a", "build-and-test", "a.b-c.d0"] {
            assert!(is_definition_name(name), "{name}");
        }
        for name in [
            "",
            "A",
            "a..b",
            "a/b",
            "./a",
            "https://x",
            "a@v1",
            "-a",
            "a-",
            "a_b",
            "${{ x }}",
        ] {
            assert!(!is_definition_name(name), "{name}");
        }
        assert!(!is_definition_name(&"a".repeat(254)));
        assert!(is_output_name(&"a".repeat(47)) && !is_output_name(&"a".repeat(48)));
        assert!(is_input_name("a.b_c-D") && !is_input_name("a b") && !is_input_name(""));
    }

    #[test]
    fn w_205_only_local_names_unless_a_prefix_is_allowed() {
        let remote = "ci/build@v1";
        assert!(!References::local().allow(remote) && References::local().allow("build"));
        let some = References::local()
            .with_prefix("ci/")
            .with_prefix("https://x/");
        for text in [remote, "https://x/a.yaml", "build"] {
            assert!(some.allow(text), "{text}");
        }
        for text in [
            "ci/",
            "cd/build",
            "ci/a b",
            "ci/${{ x }}",
            &format!("ci/{}", "a".repeat(251)),
        ] {
            assert!(!some.allow(text), "{text}");
        }
    }
}
