//! One result.

use std::fmt;

/// On which side of the goal a value has to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reach {
    AtMost(f64),
    /// Not the median but every round.
    AllAtMost(f64),
    AtLeast(f64),
    /// Told for comparison.
    Nothing,
}

/// What was measured in every round, and what was to be reached.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) goal: &'static str,
    pub(crate) what: String,
    pub(crate) rounds: Vec<f64>,
    pub(crate) unit: &'static str,
    pub(crate) reach: Reach,
}

impl Line {
    pub(crate) const HEADING: &str = "goal | what | median | least | greatest | unit | to be reached | reached\n\
         ---- | ---- | -----: | ----: | -------: | ---- | ------------- | -------";
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.rounds.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |position: usize| sorted.get(position).copied().unwrap_or(f64::NAN);
        let (least, median) = (at(0), at(sorted.len() / 2));
        let greatest = at(sorted.len().saturating_sub(1));
        let places = if greatest.abs() < 20.0 { 2 } else { 0 };
        let (wanted, reached) = match self.reach {
            Reach::AtMost(goal) => (format!("<= {goal}"), Some(median <= goal)),
            Reach::AllAtMost(goal) => (format!("<= {goal}"), Some(greatest <= goal)),
            Reach::AtLeast(goal) => (format!(">= {goal}"), Some(median >= goal)),
            Reach::Nothing => (String::new(), None),
        };
        let reached = reached.map_or("", |reached| if reached { "yes" } else { "no" });
        write!(
            f,
            "{} | {} | {median:.places$} | {least:.places$} | {greatest:.places$} | {} | {wanted} | {reached}",
            self.goal, self.what, self.unit
        )
    }
}
