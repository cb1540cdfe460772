//! Colour and glyphs (C-10). State is always a word too, so that output can be searched.

use clap::ValueEnum;

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What the environment says about colour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    /// `NO_COLOR` is set to something.
    pub(crate) no_color: bool,
    /// `TERM` is `dumb`.
    pub(crate) dumb: bool,
}

impl Wishes {
    /// Reads the environment.
    pub(crate) fn read() -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        Self {
            no_color: set("NO_COLOR"),
            dumb: std::env::var_os("TERM").is_some_and(|term| term == "dumb"),
        }
    }
}

/// How one stream is written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paint {
    /// Colour escapes are written.
    pub(crate) color: bool,
    /// Nothing but ASCII is written.
    pub(crate) ascii: bool,
}

impl Paint {
    /// Decides for a stream that is a terminal or not. A wish on the command line wins.
    pub(crate) fn decide(when: When, wishes: Wishes, terminal: bool, ascii: bool) -> Self {
        let color = match when {
            When::Always => true,
            When::Never => false,
            When::Auto => terminal && !wishes.no_color && !wishes.dumb,
        };
        Self { color, ascii }
    }

    /// The sign in front of a phase.
    pub(crate) fn glyph(self, phase: &str) -> &'static str {
        let (fine, plain) = match phase {
            "Succeeded" | "Ready" => ("✔", "+"),
            "Failed" | "Timeout" => ("✘", "x"),
            "Cancelled" => ("■", "!"),
            "Skipped" => ("⊘", "-"),
            "Running" | "Finalizing" => ("▶", ">"),
            _ => ("·", "."),
        };
        if self.ascii { plain } else { fine }
    }

    /// The lines of a tree: in front of a member, of the last one, and of their members.
    pub(crate) fn branches(self) -> [&'static str; 4] {
        if self.ascii {
            ["|- ", "`- ", "|  ", "   "]
        } else {
            ["├─ ", "└─ ", "│  ", "   "]
        }
    }

    /// The arrow between two phases.
    pub(crate) fn arrow(self) -> &'static str {
        if self.ascii { "->" } else { "→" }
    }

    /// What stands for text that was left out.
    pub(crate) fn ellipsis(self) -> &'static str {
        if self.ascii { "..." } else { "…" }
    }

    /// Colours a text by the phase it speaks of.
    pub(crate) fn phase(self, phase: &str, text: &str) -> String {
        match phase {
            "Succeeded" | "Ready" => self.escaped("32", text),
            "Failed" | "Timeout" => self.escaped("31", text),
            "Cancelled" => self.escaped("33", text),
            "Running" | "Finalizing" => self.escaped("36", text),
            _ => self.faint(text),
        }
    }

    /// Makes a text stand back.
    pub(crate) fn faint(self, text: &str) -> String {
        self.escaped("2", text)
    }

    /// Makes a text stand out.
    pub(crate) fn strong(self, text: &str) -> String {
        self.escaped("1", text)
    }

    fn escaped(self, code: &str, text: &str) -> String {
        if self.color {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_10_colour_follows_terminal_environment_and_flag() {
        let wishes = |no_color, dumb| Wishes { no_color, dumb };
        for (when, wishes, terminal, want) in [
            (When::Auto, wishes(false, false), true, true),
            (When::Auto, wishes(false, false), false, false),
            (When::Auto, wishes(true, false), true, false),
            (When::Auto, wishes(false, true), true, false),
            (When::Always, wishes(true, true), false, true),
            (When::Never, wishes(false, false), true, false),
        ] {
            let paint = Paint::decide(when, wishes, terminal, false);
            assert_eq!(paint.color, want, "{when:?} {wishes:?} {terminal}");
        }
    }

    #[test]
    fn c_10_ascii_replaces_every_glyph() {
        let paint = Paint {
            color: false,
            ascii: true,
        };
        let phases = [
            "Succeeded",
            "Failed",
            "Cancelled",
            "Skipped",
            "Running",
            "Waiting",
        ];
        let mut all: Vec<&str> = phases.iter().map(|phase| paint.glyph(phase)).collect();
        all.extend(paint.branches());
        all.extend([paint.arrow(), paint.ellipsis()]);
        assert!(all.iter().all(|text| text.is_ascii()), "{all:?}");
    }
}
