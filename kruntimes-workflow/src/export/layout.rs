//! Places the jobs of a graph in columns, one per layer.

use std::collections::BTreeMap;

use super::Graph;

/// How often the columns are reordered; each pass costs as much as reading the edges.
const PASSES: usize = 4;

/// The columns of a graph, each with the indexes of its jobs from top to bottom.
///
/// Within a column a job stands near the middle of its neighbours, which keeps
/// lines short and few of them crossed. Ties fall to the name, so that equal
/// graphs give equal columns.
pub(super) fn columns(graph: &Graph) -> Vec<Vec<usize>> {
    let jobs = graph.jobs();
    let depth = jobs.iter().map(|job| job.layer + 1).max().unwrap_or(0);
    let mut columns = vec![Vec::new(); depth];
    for (index, job) in jobs.iter().enumerate() {
        columns[job.layer].push(index);
    }
    let numbers: BTreeMap<&str, usize> = jobs
        .iter()
        .enumerate()
        .map(|(index, job)| (job.name.as_str(), index))
        .collect();
    let mut before = vec![Vec::new(); jobs.len()];
    let mut after = vec![Vec::new(); jobs.len()];
    for (index, job) in jobs.iter().enumerate() {
        for need in job
            .needs
            .iter()
            .filter_map(|need| numbers.get(need.as_str()))
        {
            before[index].push(*need);
            after[*need].push(index);
        }
    }
    for pass in 0..PASSES {
        let (neighbours, forward) = if pass % 2 == 0 {
            (&before, true)
        } else {
            (&after, false)
        };
        let order: Vec<usize> = if forward {
            (0..depth).collect()
        } else {
            (0..depth).rev().collect()
        };
        for column in order {
            let rows = rows(&columns, jobs.len());
            sort(&mut columns[column], neighbours, &rows);
        }
    }
    columns
}

fn rows(columns: &[Vec<usize>], jobs: usize) -> Vec<usize> {
    let mut rows = vec![0; jobs];
    for column in columns {
        for (row, job) in column.iter().enumerate() {
            rows[*job] = row;
        }
    }
    rows
}

/// Sorts by the mean row of the neighbours; a job without any keeps its row.
fn sort(column: &mut [usize], neighbours: &[Vec<usize>], rows: &[usize]) {
    // Rows are compared as fractions in whole numbers: sum × 1024 / count.
    let mean = |job: usize| {
        let near = &neighbours[job];
        if near.is_empty() {
            return rows[job] * 1024;
        }
        near.iter().map(|one| rows[*one] * 1024).sum::<usize>() / near.len()
    };
    column.sort_by_key(|job| (mean(*job), *job));
}
