//! Counters, gauges and histograms, and their text for Prometheus.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Upper bounds of latency histograms, in seconds (S-121, C-127).
pub const LATENCY_BUCKETS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 120.0, 300.0,
];

/// The metrics of one component. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    families: Arc<Mutex<BTreeMap<&'static str, Arc<dyn Collect>>>>,
}

impl Registry {
    /// Makes a registry without metrics.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a counter; one of the same name is replaced.
    pub fn counter(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> Counter {
        Counter(self.family(name, help, labels))
    }

    /// Adds a gauge; one of the same name is replaced.
    pub fn gauge(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> Gauge {
        Gauge(self.family(name, help, labels))
    }

    /// Adds a histogram of seconds with [`LATENCY_BUCKETS`]; one of the same name is replaced.
    pub fn histogram(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> Histogram {
        Histogram(self.family(name, help, labels))
    }

    /// Adds a gauge of one series that is read whenever somebody asks; `None` leaves no sample. One of the
    /// same name is replaced.
    pub fn reading(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&'static str, &str)],
        read: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) {
        let labels = labels.iter();
        let reading = Reading {
            name,
            help,
            labels: labels.map(|(label, value)| pair(label, value)).collect(),
            read: Box::new(read),
        };
        lock(&self.families).insert(name, Arc::new(reading));
    }

    /// Writes everything in the text format of Prometheus, in the order of the names.
    pub fn text(&self) -> String {
        let families: Vec<_> = lock(&self.families).values().map(Arc::clone).collect();
        let mut text = String::new();
        for family in families {
            // Writing to a string cannot fail.
            let _ = family.write(&mut text);
        }
        text
    }

    fn family<V: Value>(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> Arc<Family<V>> {
        let family = Arc::new(Family {
            name,
            help,
            labels,
            series: Mutex::default(),
        });
        let collected = Arc::clone(&family) as Arc<dyn Collect>;
        lock(&self.families).insert(name, collected);
        family
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done under the lock leaves a value half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number per set of label values that only grows.
#[derive(Clone, Debug)]
pub struct Counter(Arc<Family<u64>>);

impl Counter {
    /// Adds to the series of these label values, given in the order of the labels; adding zero starts no series.
    pub fn add(&self, values: &[&str], amount: u64) {
        if amount > 0 {
            self.0
                .change(values, |total| *total = total.saturating_add(amount));
        }
    }

    /// Returns the series of these label values; zero when there is none.
    pub fn get(&self, values: &[&str]) -> u64 {
        let key: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
        lock(&self.0.series).get(&key).copied().unwrap_or_default()
    }
}

/// A number per set of label values that goes up and down.
#[derive(Clone, Debug)]
pub struct Gauge(Arc<Family<f64>>);

impl Gauge {
    /// Sets the series of these label values, given in the order of the labels.
    pub fn set(&self, values: &[&str], value: f64) {
        self.0.change(values, |known| *known = value);
    }
}

/// A distribution of durations per set of label values.
#[derive(Clone, Debug)]
pub struct Histogram(Arc<Family<Spread>>);

impl Histogram {
    /// Takes one duration into the series of these label values, given in the order of the labels.
    pub fn observe(&self, values: &[&str], took: Duration) {
        self.0.change(values, |spread| spread.observe(took));
    }
}

/// All series of one name.
#[derive(Debug)]
struct Family<V> {
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    series: Mutex<BTreeMap<Vec<String>, V>>,
}

impl<V: Value> Family<V> {
    fn change(&self, values: &[&str], change: impl FnOnce(&mut V)) {
        let key = values.iter().map(|&value| value.to_owned()).collect();
        change(lock(&self.series).entry(key).or_default());
    }
}

/// What can be written for Prometheus.
trait Collect: fmt::Debug + Send + Sync {
    fn write(&self, text: &mut String) -> fmt::Result;
}

impl<V: Value> Collect for Family<V> {
    fn write(&self, text: &mut String) -> fmt::Result {
        writeln!(text, "# HELP {} {}", self.name, self.help)?;
        writeln!(text, "# TYPE {} {}", self.name, V::KIND)?;
        for (values, value) in lock(&self.series).iter() {
            let pairs = self.labels.iter().zip(values);
            let labels: Vec<String> = pairs.map(|(label, value)| pair(label, value)).collect();
            value.write(text, self.name, &labels)?;
        }
        Ok(())
    }
}

/// A level that is not kept but read.
struct Reading {
    name: &'static str,
    help: &'static str,
    labels: Vec<String>,
    read: Box<dyn Fn() -> Option<f64> + Send + Sync>,
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading")
            .field("name", &self.name)
            .field("labels", &self.labels)
            .finish_non_exhaustive()
    }
}

impl Collect for Reading {
    fn write(&self, text: &mut String) -> fmt::Result {
        writeln!(text, "# HELP {} {}", self.name, self.help)?;
        writeln!(text, "# TYPE {} {}", self.name, f64::KIND)?;
        match (self.read)() {
            Some(value) => value.write(text, self.name, &self.labels),
            None => Ok(()),
        }
    }
}

/// What one series holds.
trait Value: Default + fmt::Debug + Send + Sync + 'static {
    const KIND: &'static str;

    fn write(&self, text: &mut String, name: &str, labels: &[String]) -> fmt::Result;
}

impl Value for u64 {
    const KIND: &'static str = "counter";

    fn write(&self, text: &mut String, name: &str, labels: &[String]) -> fmt::Result {
        writeln!(text, "{name}{} {self}", braced(labels))
    }
}

impl Value for f64 {
    const KIND: &'static str = "gauge";

    fn write(&self, text: &mut String, name: &str, labels: &[String]) -> fmt::Result {
        writeln!(text, "{name}{} {self}", braced(labels))
    }
}

/// Durations by bucket, each counted in the first bucket that holds it.
#[derive(Debug, Default)]
struct Spread {
    buckets: [u64; LATENCY_BUCKETS.len()],
    count: u64,
    sum: f64,
}

impl Spread {
    fn observe(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        let bucket = LATENCY_BUCKETS.iter().position(|bound| seconds <= *bound);
        if let Some(bucket) = bucket {
            self.buckets[bucket] += 1;
        }
        self.count += 1;
        self.sum += seconds;
    }
}

impl Value for Spread {
    const KIND: &'static str = "histogram";

    fn write(&self, text: &mut String, name: &str, labels: &[String]) -> fmt::Result {
        let mut below = 0;
        for (bound, count) in LATENCY_BUCKETS.iter().zip(self.buckets) {
            below += count;
            let labels = [labels, &[format!("le=\"{bound}\"")]].concat();
            writeln!(text, "{name}_bucket{} {below}", braced(&labels))?;
        }
        let all = [labels, &["le=\"+Inf\"".to_owned()]].concat();
        writeln!(text, "{name}_bucket{} {}", braced(&all), self.count)?;
        writeln!(text, "{name}_sum{} {}", braced(labels), self.sum)?;
        writeln!(text, "{name}_count{} {}", braced(labels), self.count)
    }
}

fn braced(labels: &[String]) -> String {
    if labels.is_empty() {
        String::new()
    } else {
        format!("{{{}}}", labels.join(","))
    }
}

fn pair(label: &str, value: &str) -> String {
    format!("{label}=\"{}\"", escaped(value))
}

fn escaped(value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"");
    value.replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_prometheus_reads() {
        let registry = Registry::new();
        let counter = registry.counter("b_total", "Things.", &["kind", "how"]);
        counter.add(&["x", "a\"b\\c\nd"], 2);
        counter.add(&["x", "y"], 0);
        registry.gauge("a", "Level.", &[]).set(&[], 0.5);
        assert_eq!(
            registry.text(),
            "# HELP a Level.\n# TYPE a gauge\na 0.5\n\
             # HELP b_total Things.\n# TYPE b_total counter\n\
             b_total{kind=\"x\",how=\"a\\\"b\\\\c\\nd\"} 2\n"
        );
    }

    #[test]
    fn a_reading_is_taken_when_somebody_asks() {
        let registry = Registry::new();
        let level = Arc::new(Mutex::new(None));
        let read = Arc::clone(&level);
        let labels = [("runtime", "a\"b")];
        registry.reading("a", "Level.", &labels, move || *lock(&read));
        assert_eq!(registry.text(), "# HELP a Level.\n# TYPE a gauge\n");
        *lock(&level) = Some(2.5);
        assert!(registry.text().ends_with("\na{runtime=\"a\\\"b\"} 2.5\n"));
    }

    #[test]
    fn s_121_c_127_buckets_add_up_and_keep_every_boundary() {
        let registry = Registry::new();
        let histogram = registry.histogram("d", "Time.", &["runtime"]);
        for millis in [0, 5, 7, 300_000, 300_001] {
            histogram.observe(&["r"], Duration::from_millis(millis));
        }
        let text = registry.text();
        for (bound, count) in [
            ("0.0005", 1),
            ("0.005", 2),
            ("0.01", 3),
            ("0.025", 3),
            ("0.05", 3),
            ("0.1", 3),
            ("0.25", 3),
            ("0.5", 3),
            ("1", 3),
            ("2.5", 3),
            ("5", 3),
            ("10", 3),
            ("300", 4),
            ("+Inf", 5),
        ] {
            let line = format!("d_bucket{{runtime=\"r\",le=\"{bound}\"}} {count}\n");
            assert!(text.contains(&line), "{line} is not in {text}");
        }
        assert!(text.contains("d_count{runtime=\"r\"} 5\n"), "{text}");
        let sum = 0.005 + 0.007 + 300.0 + 300.001;
        let line = format!("d_sum{{runtime=\"r\"}} {sum}\n");
        assert!(text.contains(&line), "{line} is not in {text}");
    }

    #[test]
    fn s_123_registries_of_one_process_know_nothing_of_each_other() {
        let (one, other) = (Registry::new(), Registry::new());
        let mine = one.counter("n_total", "N.", &[]);
        let theirs = other.counter("n_total", "N.", &[]);
        mine.add(&[], 3);
        assert_eq!((mine.get(&[]), theirs.get(&[])), (3, 0));
        assert!(one.text().ends_with("n_total 3\n"));
        assert!(!other.text().contains("n_total 3"));
    }
}
