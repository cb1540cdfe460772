//! Which Pods hold Runs that a selector matches.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::mem;
use std::sync::Arc;

use kruntimes_core::api::RunAffinityTerm;
use kruntimes_core::keys::TOPOLOGY_RUNTIME_POD;
use kruntimes_core::label::{LabelSelector, Selector};

use crate::plugins::compile;
use crate::register::{Keyed, Register};
use crate::run::Labels;

/// Selectors that are followed at a time; more than a Run can have terms.
const MAX_SELECTORS: usize = 1024;

/// Kinds that are found without a look at their labels.
const RECENT: usize = 256;

/// A Pod: number of its pool, then its slot in the pool.
pub(super) type Spot = (usize, usize);

/// Number of matching Runs by slot, by pool.
type Counts = BTreeMap<usize, BTreeMap<u32, u32>>;

/// Where a kind is filed.
#[derive(Debug)]
struct KindAt {
    labels: Arc<Labels>,
    number: usize,
}

impl Keyed for KindAt {
    type Key = Labels;

    fn key(&self) -> &Labels {
        &self.labels
    }
}

/// Runs with equal labels are one target with a count.
#[derive(Debug)]
struct Kind {
    labels: Arc<Labels>,
    /// Runs of the namespace, on known Pods or not.
    total: usize,
    on: Counts,
    /// Followed selectors that match.
    matched: Vec<usize>,
}

/// A selector that is followed.
#[derive(Debug)]
struct Followed {
    text: String,
    anchors: Vec<(String, String)>,
    selector: Selector,
    total: usize,
    on: Counts,
    kinds: BTreeSet<usize>,
    used: u64,
}

/// Numbers filed under labels.
#[derive(Debug, Default)]
struct ByLabel(BTreeMap<String, BTreeMap<String, BTreeSet<usize>>>);

impl ByLabel {
    fn insert(&mut self, key: &str, value: &str, number: usize) {
        let values = self.0.entry(key.to_owned()).or_default();
        values.entry(value.to_owned()).or_default().insert(number);
    }

    fn remove(&mut self, key: &str, value: &str, number: usize) {
        let Some(values) = self.0.get_mut(key) else {
            return;
        };
        if let Some(numbers) = values.get_mut(value) {
            numbers.remove(&number);
            if numbers.is_empty() {
                values.remove(value);
            }
        }
        if values.is_empty() {
            self.0.remove(key);
        }
    }

    fn get(&self, key: &str, value: &str) -> impl Iterator<Item = usize> {
        let numbers = self.0.get(key).and_then(|values| values.get(value));
        numbers.into_iter().flatten().copied()
    }
}

/// All targets of affinity of one namespace, and what the selectors in use match.
///
/// A selector is compiled and evaluated when it is first used; after that its
/// Pods are kept up to date as Runs come and go. The least recently used one
/// makes room for a new one.
#[derive(Debug, Default)]
pub(super) struct Targets {
    kinds: Vec<Option<Kind>>,
    free_kinds: Vec<usize>,
    by_labels: Register<KindAt>,
    /// Kinds by where their labels lie in memory: most Runs of a kind share them.
    recent: Vec<usize>,
    postings: ByLabel,
    followed: Vec<Followed>,
    by_text: BTreeMap<String, usize>,
    anchored: ByLabel,
    /// Followed selectors that ask for no particular label.
    loose: BTreeSet<usize>,
    uses: u64,
    scratch: String,
}

impl Targets {
    pub(super) fn is_empty(&self) -> bool {
        self.by_labels.is_empty()
    }

    /// Counts a Run that came, on a known Pod or not.
    pub(super) fn add(&mut self, labels: &Arc<Labels>, spot: Option<Spot>) {
        let number = self.kind_of(labels);
        let kind = self.kinds[number].as_mut().expect("a filed kind exists");
        kind.total += 1;
        for selector in &kind.matched {
            self.followed[*selector].total += 1;
        }
        if let Some(spot) = spot {
            self.place_at(number, spot);
        }
    }

    /// Finds the kind of a Run, or makes it.
    fn kind_of(&mut self, labels: &Arc<Labels>) -> usize {
        self.recent.resize(RECENT, usize::MAX);
        let place = Arc::as_ptr(labels).addr() / mem::size_of::<Labels>() % RECENT;
        let recent = self.recent[place];
        if let Some(Some(kind)) = self.kinds.get(recent)
            && Arc::ptr_eq(&kind.labels, labels)
        {
            return recent;
        }
        let number = match self.by_labels.get(labels) {
            Some(at) => at.number,
            None => self.add_kind(labels),
        };
        self.recent[place] = number;
        number
    }

    /// Forgets a Run that [`Targets::add`] counted.
    pub(super) fn remove(&mut self, labels: &Arc<Labels>, spot: Option<Spot>) {
        let Some(number) = self.number_of(labels) else {
            return;
        };
        if let Some(spot) = spot {
            self.displace_at(number, spot);
        }
        let kind = self.kinds[number].as_mut().expect("a filed kind exists");
        kind.total -= 1;
        for selector in &kind.matched {
            self.followed[*selector].total -= 1;
        }
        if kind.total == 0 {
            self.drop_kind(number);
        }
    }

    /// Says that a Run that is counted is on a Pod that has become known.
    pub(super) fn place(&mut self, labels: &Labels, spot: Spot) {
        if let Some(number) = self.number_of(labels) {
            self.place_at(number, spot);
        }
    }

    /// Takes [`Targets::place`] back.
    pub(super) fn displace(&mut self, labels: &Labels, spot: Spot) {
        if let Some(number) = self.number_of(labels) {
            self.displace_at(number, spot);
        }
    }

    fn number_of(&self, labels: &Labels) -> Option<usize> {
        self.by_labels.get(labels).map(|at| at.number)
    }

    fn place_at(&mut self, number: usize, spot: Spot) {
        let Some(kind) = &mut self.kinds[number] else {
            return;
        };
        increment(&mut kind.on, spot);
        for selector in &kind.matched {
            increment(&mut self.followed[*selector].on, spot);
        }
    }

    fn displace_at(&mut self, number: usize, spot: Spot) {
        let Some(kind) = &mut self.kinds[number] else {
            return;
        };
        decrement(&mut kind.on, spot);
        for selector in &kind.matched {
            decrement(&mut self.followed[*selector].on, spot);
        }
    }

    /// Follows the selector of a term; nothing when the term has no meaning.
    pub(super) fn follow(&mut self, term: &RunAffinityTerm) -> Option<usize> {
        let stated = term.label_selector.as_ref()?;
        if term.topology_key != TOPOLOGY_RUNTIME_POD {
            return None;
        }
        self.uses += 1;
        self.scratch.clear();
        write_text(&mut self.scratch, stated);
        if let Some(&number) = self.by_text.get(&self.scratch) {
            self.followed[number].used = self.uses;
            return Some(number);
        }
        let selector = compile(term).ok()?;
        Some(self.follow_new(stated, selector))
    }

    /// Tells whether no Run of the namespace is matched.
    pub(super) fn is_unmatched(&self, selector: usize) -> bool {
        self.followed[selector].total == 0
    }

    /// Tells whether the selector matches some labels.
    pub(super) fn matches(&self, selector: usize, labels: &Labels) -> bool {
        self.followed[selector].selector.matches(labels)
    }

    /// Tells whether a Pod holds a matched Run.
    pub(super) fn is_on(&self, selector: usize, spot: Spot) -> bool {
        let pool = self.followed[selector].on.get(&spot.0);
        pool.is_some_and(|slots| slots.contains_key(&short(spot.1)))
    }

    /// Returns how many Pods of a pool hold a matched Run.
    pub(super) fn pods(&self, selector: usize, pool: usize) -> usize {
        self.followed[selector]
            .on
            .get(&pool)
            .map_or(0, BTreeMap::len)
    }

    /// Returns the slots of a pool that hold a matched Run.
    pub(super) fn slots(&self, selector: usize, pool: usize) -> impl Iterator<Item = usize> {
        let slots = self.followed[selector].on.get(&pool);
        let slots = slots.into_iter().flat_map(|slots| slots.keys().copied());
        slots.filter_map(|slot| usize::try_from(slot).ok())
    }

    fn add_kind(&mut self, labels: &Arc<Labels>) -> usize {
        let number = self.free_kinds.pop().unwrap_or_else(|| {
            self.kinds.push(None);
            self.kinds.len() - 1
        });
        let anchored = labels.iter().flat_map(|(k, v)| self.anchored.get(k, v));
        let mut matched: Vec<usize> = anchored
            .chain(self.loose.iter().copied())
            .filter(|selector| self.matches(*selector, labels))
            .collect();
        matched.sort_unstable();
        matched.dedup();
        for selector in &matched {
            self.followed[*selector].kinds.insert(number);
        }
        for (key, value) in labels.iter() {
            self.postings.insert(key, value, number);
        }
        self.by_labels.insert(KindAt {
            labels: Arc::clone(labels),
            number,
        });
        self.kinds[number] = Some(Kind {
            labels: Arc::clone(labels),
            total: 0,
            on: Counts::new(),
            matched,
        });
        number
    }

    fn drop_kind(&mut self, number: usize) {
        let Some(kind) = self.kinds[number].take() else {
            return;
        };
        for selector in kind.matched {
            self.followed[selector].kinds.remove(&number);
        }
        for (key, value) in kind.labels.iter() {
            self.postings.remove(key, value, number);
        }
        self.by_labels.remove(&kind.labels);
        self.free_kinds.push(number);
    }

    fn follow_new(&mut self, stated: &LabelSelector, selector: Selector) -> usize {
        let anchors = anchors(stated);
        let candidates: BTreeSet<usize> = if anchors.is_empty() {
            self.by_labels.values().map(|at| at.number).collect()
        } else {
            let found = anchors.iter().flat_map(|(k, v)| self.postings.get(k, v));
            found.collect()
        };
        let number = self.room();
        let mut followed = Followed {
            text: self.scratch.clone(),
            anchors,
            selector,
            total: 0,
            on: Counts::new(),
            kinds: BTreeSet::new(),
            used: self.uses,
        };
        for at in candidates {
            let kind = self.kinds[at].as_mut().expect("a filed kind exists");
            if !followed.selector.matches(&kind.labels) {
                continue;
            }
            kind.matched.push(number);
            followed.kinds.insert(at);
            followed.total += kind.total;
            for (pool, slots) in &kind.on {
                for (slot, count) in slots {
                    let slots = followed.on.entry(*pool).or_default();
                    *slots.entry(*slot).or_default() += count;
                }
            }
        }
        self.by_text.insert(followed.text.clone(), number);
        if followed.anchors.is_empty() {
            self.loose.insert(number);
        }
        for (key, value) in &followed.anchors {
            self.anchored.insert(key, value, number);
        }
        if number == self.followed.len() {
            self.followed.push(followed);
        } else {
            self.followed[number] = followed;
        }
        number
    }

    /// Returns a number for a new selector, that of the least recently used one if need be.
    fn room(&mut self) -> usize {
        if self.followed.len() < MAX_SELECTORS {
            return self.followed.len();
        }
        let numbered = self.followed.iter().enumerate();
        let oldest = numbered.min_by_key(|(_, followed)| followed.used);
        let number = oldest.map_or(0, |(number, _)| number);
        let followed = &mut self.followed[number];
        for at in mem::take(&mut followed.kinds) {
            if let Some(kind) = &mut self.kinds[at] {
                kind.matched.retain(|other| *other != number);
            }
        }
        for (key, value) in &followed.anchors {
            self.anchored.remove(key, value, number);
        }
        self.loose.remove(&number);
        self.by_text.remove(&followed.text);
        number
    }
}

/// Slots are counted in 32 bits to save memory; no pool has that many Pods.
fn short(slot: usize) -> u32 {
    u32::try_from(slot).unwrap_or(u32::MAX)
}

fn increment(counts: &mut Counts, (pool, slot): Spot) {
    let slots = counts.entry(pool).or_default();
    *slots.entry(short(slot)).or_default() += 1;
}

fn decrement(counts: &mut Counts, (pool, slot): Spot) {
    let Some(slots) = counts.get_mut(&pool) else {
        return;
    };
    if let Some(count) = slots.get_mut(&short(slot)) {
        *count -= 1;
        if *count == 0 {
            slots.remove(&short(slot));
        }
    }
    if slots.is_empty() {
        counts.remove(&pool);
    }
}

/// Returns labels of which everything matched has at least one; nothing, if the selector asks for none.
fn anchors(stated: &LabelSelector) -> Vec<(String, String)> {
    if let Some((key, value)) = stated.match_labels.iter().next() {
        return vec![(key.clone(), value.clone())];
    }
    let mut expressions = stated.match_expressions.iter();
    let one_of = expressions.find(|expression| expression.operator == "In");
    let pairs = one_of.into_iter().flat_map(|expression| {
        let values = expression.values.iter();
        values.map(|value| (expression.key.clone(), value.clone()))
    });
    pairs.collect()
}

/// Writes a selector so that different ones have different texts.
fn write_text(text: &mut String, stated: &LabelSelector) {
    let mut word = |mark: char, word: &str| {
        // Writing to a string does not fail.
        let _ = write!(text, "{mark}{}:{word}", word.len());
    };
    for (key, value) in &stated.match_labels {
        word('k', key);
        word('v', value);
    }
    for expression in &stated.match_expressions {
        word('e', &expression.key);
        word('o', &expression.operator);
        for value in &expression.values {
            word('v', value);
        }
    }
}
