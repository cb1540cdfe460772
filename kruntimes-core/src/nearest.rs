//! Finds the known name that a misspelt one was meant to be.

/// Returns the candidate nearest to `name`, if one is near enough to be meant.
///
/// Case, `-` and `_` count for nothing. Of equally near candidates the first wins.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = folded(name);
    let limit = (wanted.len().max(3) / 3).min(3);
    candidates
        .into_iter()
        .filter(|candidate| *candidate != name)
        .map(|candidate| (distance(&wanted, &folded(candidate)), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Says which name was probably meant, else which names there are.
pub fn meant<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let candidates: Vec<&str> = candidates.into_iter().collect();
    if let Some(found) = nearest(name, candidates.iter().copied()) {
        return Some(format!("did you mean `{found}`?"));
    }
    listed(&candidates).map(|list| format!("known here: {list}"))
}

/// Lists names, cut where the list gets too long to read.
pub fn listed(names: &[&str]) -> Option<String> {
    const SHOWN: usize = 12;
    if names.is_empty() {
        return None;
    }
    let shown: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{name}`"))
        .collect();
    let more = if names.len() > SHOWN { ", …" } else { "" };
    Some(format!("{}{more}", shown.join(", ")))
}

fn folded(name: &str) -> Vec<char> {
    name.chars()
        .filter(|c| !"-_".contains(*c))
        .flat_map(char::to_lowercase)
        .collect()
}

/// Counts insertions, deletions, substitutions and swaps of neighbours.
fn distance(a: &[char], b: &[char]) -> usize {
    let width = b.len() + 1;
    let mut rows: Vec<usize> = vec![0; (a.len() + 1) * width];
    for (column, cell) in rows[..width].iter_mut().enumerate() {
        *cell = column;
    }
    for row in 1..=a.len() {
        rows[row * width] = row;
        for column in 1..width {
            let here = row * width + column;
            let same = usize::from(a[row - 1] != b[column - 1]);
            let mut best = (rows[here - width] + 1)
                .min(rows[here - 1] + 1)
                .min(rows[here - width - 1] + same);
            let swapped =
                row > 1 && column > 1 && a[row - 1] == b[column - 2] && a[row - 2] == b[column - 1];
            if swapped {
                best = best.min(rows[here - 2 * width - 2] + 1);
            }
            rows[here] = best;
        }
    }
    rows[rows.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered_only_when_it_is_near() {
        let fields = ["needs", "outputs", "runs-on", "steps", "uses", "with"];
        for (written, want) in [
            ("stpes", Some("steps")),
            ("runsOn", Some("runs-on")),
            ("runs_on", Some("runs-on")),
            ("need", Some("needs")),
            ("output", Some("outputs")),
            ("Steps", Some("steps")),
            ("if", None),
            ("container", None),
            ("timeout-minutes", None),
        ] {
            assert_eq!(nearest(written, fields), want, "{written}");
        }
    }

    #[test]
    fn without_a_near_name_the_known_ones_are_listed() {
        assert_eq!(
            meant("python", ["bash"]).as_deref(),
            Some("known here: `bash`")
        );
        assert_eq!(
            meant("bahs", ["bash"]).as_deref(),
            Some("did you mean `bash`?")
        );
        assert_eq!(meant("x", []), None);
    }
}
