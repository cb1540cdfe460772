//! A graph of jobs as numbers: built once, walked without looking at a name again.

use std::collections::BTreeMap;

use kruntimes_core::api::Job;

use super::places::Places;
use super::{Invalid, cycle};

/// What a graph asks of a job; one's own type becomes a node by implementing it.
pub trait Node {
    /// Iterates over the names of the jobs that must end before it, repeated or not.
    fn needs(&self) -> impl Iterator<Item = &str>;
}

impl Node for Job {
    fn needs(&self) -> impl Iterator<Item = &str> {
        self.needs.iter().map(String::as_str)
    }
}

/// The place of a job among the sorted names of its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u32);

impl JobId {
    /// Returns the place as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    fn at(index: usize) -> Self {
        Self(u32::try_from(index).expect("a graph has fewer than 2^32 jobs"))
    }
}

/// Who needs whom, in both directions, without cycles.
///
/// There is no limit to the number of jobs, and building takes time in
/// proportion to jobs and edges.
#[derive(Clone, Debug)]
pub struct Graph<'a> {
    names: Vec<&'a str>,
    places: Places,
    needs: Edges,
    dependents: Edges,
    order: Vec<JobId>,
}

/// Lists of edges, one after the other.
#[derive(Clone, Debug)]
struct Edges {
    /// Edges of job `n` lie between `first[n]` and `first[n + 1]`.
    first: Vec<u32>,
    ends: Vec<JobId>,
}

impl Edges {
    fn of(&self, job: JobId) -> &[JobId] {
        let at = job.index();
        &self.ends[self.first[at] as usize..self.first[at + 1] as usize]
    }

    /// Turns every edge round.
    fn reversed(&self) -> Self {
        let jobs = self.first.len() - 1;
        let mut first = vec![0u32; jobs + 1];
        for end in &self.ends {
            first[end.index() + 1] += 1;
        }
        for at in 0..jobs {
            first[at + 1] += first[at];
        }
        let mut next = first.clone();
        let mut ends = vec![JobId(0); self.ends.len()];
        for at in 0..jobs {
            let job = JobId::at(at);
            for end in self.of(job) {
                let slot = &mut next[end.index()];
                ends[*slot as usize] = job;
                *slot += 1;
            }
        }
        Self { first, ends }
    }
}

impl<'a> Graph<'a> {
    /// Builds the graph of jobs by name.
    ///
    /// # Errors
    ///
    /// Fails on the first dependency that is no job, or on a cycle (W-14).
    ///
    /// # Panics
    ///
    /// Panics when jobs or edges do not fit 32 bits.
    pub fn compile<J: Node>(jobs: &'a BTreeMap<String, J>) -> Result<Self, Invalid> {
        let names: Vec<&str> = jobs.keys().map(String::as_str).collect();
        let places = Places::of(&names);
        let Some(needs) = edges(jobs, &names, &places) else {
            return Err(explained(jobs));
        };
        let dependents = needs.reversed();
        let Some(order) = order(&needs, &dependents) else {
            return Err(explained(jobs));
        };
        Ok(Self {
            names,
            places,
            needs,
            dependents,
            order,
        })
    }

    /// Returns the number of jobs.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Tells whether there is no job.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Iterates over all jobs, sorted by name.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> + use<> {
        (0..self.names.len()).map(JobId::at)
    }

    /// Returns the name of a job.
    ///
    /// # Panics
    ///
    /// Panics when the job belongs to a larger graph.
    pub fn name(&self, job: JobId) -> &'a str {
        self.names[job.index()]
    }

    /// Finds a job by its name.
    pub fn find(&self, name: &str) -> Option<JobId> {
        self.places.find(&self.names, name).map(JobId::at)
    }

    /// Returns the jobs that must end before a job, sorted by name, each once (W-15).
    ///
    /// # Panics
    ///
    /// Panics when the job belongs to a larger graph.
    pub fn needs(&self, job: JobId) -> &[JobId] {
        self.needs.of(job)
    }

    /// Returns the jobs that wait for a job, sorted by name.
    ///
    /// # Panics
    ///
    /// Panics when the job belongs to a larger graph.
    pub fn dependents(&self, job: JobId) -> &[JobId] {
        self.dependents.of(job)
    }

    /// Returns all jobs in an order in which they could run.
    pub fn order(&self) -> &[JobId] {
        &self.order
    }
}

/// Finds the ends of all edges; `None` when a name is unknown.
fn edges<J: Node>(jobs: &BTreeMap<String, J>, names: &[&str], places: &Places) -> Option<Edges> {
    let mut first = Vec::with_capacity(names.len() + 1);
    let mut ends: Vec<JobId> = Vec::with_capacity(names.len());
    first.push(0);
    for job in jobs.values() {
        let start = ends.len();
        for need in job.needs() {
            ends.push(JobId::at(places.find(names, need)?));
        }
        ends[start..].sort_unstable();
        let mut kept = start;
        for at in start..ends.len() {
            if at == start || ends[at] != ends[kept - 1] {
                ends[kept] = ends[at];
                kept += 1;
            }
        }
        ends.truncate(kept);
        first.push(u32::try_from(kept).expect("a graph has fewer than 2^32 edges"));
    }
    Some(Edges { first, ends })
}

/// Puts every job behind those it needs; `None` when jobs need each other.
fn order(needs: &Edges, dependents: &Edges) -> Option<Vec<JobId>> {
    let jobs = needs.first.len() - 1;
    let count = |at: usize| needs.first[at + 1] - needs.first[at];
    let mut open: Vec<u32> = (0..jobs).map(count).collect();
    let mut order: Vec<JobId> = Vec::with_capacity(jobs);
    order.extend((0..jobs).filter(|at| open[*at] == 0).map(JobId::at));
    let mut done = 0;
    while let Some(job) = order.get(done).copied() {
        done += 1;
        for dependent in dependents.of(job) {
            let open = &mut open[dependent.index()];
            *open -= 1;
            if *open == 0 {
                order.push(*dependent);
            }
        }
    }
    (done == jobs).then_some(order)
}

/// Says what is wrong; the search is slower, and its words are always the same.
fn explained<J: Node>(jobs: &BTreeMap<String, J>) -> Invalid {
    let checked = cycle::check(jobs);
    checked.expect_err("a graph that cannot be ordered has an unknown name or a cycle")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{a_job, jobs};

    #[test]
    fn w_15_edges_are_sorted_and_unique_in_both_directions() {
        let graph = jobs([
            ("a", a_job()),
            ("b", a_job().needs(&["a", "a"])),
            ("c", a_job().needs(&["b", "a"])),
        ]);
        let graph = Graph::compile(&graph).unwrap();
        let id = |name| graph.find(name).unwrap();
        assert_eq!(graph.needs(id("c")), [id("a"), id("b")]);
        assert_eq!(graph.needs(id("b")), [id("a")]);
        assert_eq!(graph.dependents(id("a")), [id("b"), id("c")]);
        assert_eq!(graph.order(), [id("a"), id("b"), id("c")]);
        assert_eq!(graph.find("d"), None);
        assert_eq!(graph.name(id("b")), "b");
    }

    /// A job of somebody else.
    struct Task(Vec<&'static str>);

    impl Node for Task {
        fn needs(&self) -> impl Iterator<Item = &str> {
            self.0.iter().copied()
        }
    }

    #[test]
    fn w_181_w_187_tasks_of_ones_own_are_nodes() {
        let task = |name: &str, needs: &[&'static str]| (name.to_owned(), Task(needs.to_vec()));
        let tasks = BTreeMap::from([task("wash", &[]), task("dry", &["wash"])]);
        let graph = Graph::compile(&tasks).unwrap();
        let names: Vec<_> = graph.order().iter().map(|job| graph.name(*job)).collect();
        assert_eq!(names, ["wash", "dry"]);
        let tasks = BTreeMap::from([task("wash", &["dry"]), task("dry", &["wash"])]);
        assert_eq!(
            Graph::compile(&tasks).unwrap_err().to_string(),
            "workflow job dependency cycle: dry -> wash -> dry"
        );
    }

    proptest! {
        #[test]
        fn w_14_w_196_a_random_graph_is_ordered_or_refused_like_the_search_says(
            edges in prop::collection::vec((0usize..12, 0usize..12), 0..24),
        ) {
            let name = |at: usize| format!("j{at}");
            let mut graph: BTreeMap<String, Job> =
                (0..12).map(|at| (name(at), Job::default())).collect();
            for (from, to) in edges {
                graph.get_mut(&name(from)).unwrap().needs.push(name(to));
            }
            match (Graph::compile(&graph), cycle::check(&graph)) {
                (Ok(compiled), Ok(())) => {
                    prop_assert_eq!(compiled.order().len(), graph.len());
                    let mut seen = vec![false; graph.len()];
                    for job in compiled.order() {
                        for need in compiled.needs(*job) {
                            prop_assert!(seen[need.index()], "{} too early", compiled.name(*job));
                        }
                        seen[job.index()] = true;
                    }
                }
                (Err(one), Err(other)) => prop_assert_eq!(one.to_string(), other.to_string()),
                (one, other) => prop_assert!(false, "{one:?} and {other:?}"),
            }
        }
    }
}
