//! An explanation for people.

use std::fmt::{self, Display, Formatter};

use super::{Confidence, Explanation, Loss};
use kruntimes_sched::Stage;

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (kind, namespace, name) = (self.kind, &self.namespace, &self.name);
        writeln!(
            f,
            "{kind} {namespace}/{name} is {} ({}): {}",
            self.phase, self.reason, self.summary
        )?;
        match self.confidence {
            Confidence::Certain => {}
            Confidence::Likely => {
                writeln!(f, "This is the likely reading of what the objects say.")?;
            }
            Confidence::Unknown => {
                writeln!(f, "This reason is not known to krt; it is shown as it is.")?;
            }
        }
        if !self.funnel.is_empty() {
            funnel(f, &self.funnel)?;
        }
        if !self.rejections.is_empty() {
            rejections(f, &self.rejections)?;
        }
        writeln!(f, "\nEvidence:")?;
        for line in &self.evidence {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "\nNext:")?;
        for command in &self.next {
            writeln!(f, "  {command}")?;
        }
        Ok(())
    }
}

fn funnel(f: &mut Formatter<'_>, stages: &[Stage]) -> fmt::Result {
    let width = stages
        .iter()
        .map(|stage| stage.stage.chars().count())
        .max()
        .unwrap_or_default();
    writeln!(f, "\n{:<width$}  LEFT  LOST", "STAGE")?;
    for (index, stage) in stages.iter().enumerate() {
        let lost = if index == 0 {
            "-".to_owned()
        } else {
            stage.lost.to_string()
        };
        writeln!(f, "{:<width$}  {:>4}  {lost:>4}", stage.stage, stage.left)?;
    }
    Ok(())
}

fn rejections(f: &mut Formatter<'_>, losses: &[Loss]) -> fmt::Result {
    let width = losses
        .iter()
        .map(|loss| loss.reason.chars().count())
        .max()
        .unwrap_or_default();
    let width = width.max("REASON".len());
    writeln!(f, "\n{:<width$}  PODS  WHAT WOULD CHANGE IT", "REASON")?;
    for loss in losses {
        writeln!(
            f,
            "{:<width$}  {:>4}  {}",
            loss.reason, loss.pods, loss.change
        )?;
    }
    Ok(())
}
