//! Pods by load, then by name, with counting.

use std::cmp::Ordering;

use crate::load::Load;

/// Stands for no entry.
const NIL: usize = usize::MAX;

#[derive(Clone, Debug)]
struct Node {
    load: Load,
    /// Stands for the name: numbers compare as names do.
    name: u64,
    /// Fixed by the slot; parents have the larger one.
    priority: u64,
    left: usize,
    right: usize,
    /// Entries below and including this one.
    count: usize,
    /// Slot with the smallest name below and including this one.
    least: usize,
}

/// An ordered set of slots that knows the position of each, and the smallest name between two positions.
///
/// It is a treap: a search tree that random priorities keep balanced. The
/// priorities are a hash of the slot, so that the shape, which nothing
/// observes, is the same in every run. Every operation takes logarithmic time.
#[derive(Clone, Debug)]
pub(super) struct Order {
    nodes: Vec<Option<Node>>,
    root: usize,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            root: NIL,
        }
    }
}

impl Order {
    pub(super) fn len(&self) -> usize {
        self.count(self.root)
    }

    pub(super) fn contains(&self, slot: usize) -> bool {
        self.load(slot).is_some()
    }

    /// Returns the load under which a slot is filed.
    pub(super) fn load(&self, slot: usize) -> Option<&Load> {
        let node = self.nodes.get(slot)?.as_ref();
        node.map(|node| &node.load)
    }

    /// Files a slot, in place of an earlier load.
    pub(super) fn insert(&mut self, slot: usize, name: u64, load: Load) {
        if self.load(slot) == Some(&load) && self.node(slot).name == name {
            return;
        }
        self.remove(slot);
        if self.nodes.len() <= slot {
            self.nodes.resize(slot + 1, None);
        }
        self.nodes[slot] = Some(Node {
            load,
            name,
            priority: priority(slot),
            left: NIL,
            right: NIL,
            count: 1,
            least: slot,
        });
        self.root = self.insert_at(self.root, slot);
    }

    pub(super) fn remove(&mut self, slot: usize) {
        if self.contains(slot) {
            self.root = self.remove_at(self.root, slot);
            self.nodes[slot] = None;
        }
    }

    /// Compares two filed slots by load, then by name.
    pub(super) fn compare(&self, a: usize, b: usize) -> Ordering {
        let (a, b) = (self.node(a), self.node(b));
        a.load.cmp(&b.load).then_with(|| a.name.cmp(&b.name))
    }

    /// Returns the number that stands for the name of a filed slot.
    pub(super) fn name(&self, slot: usize) -> u64 {
        self.node(slot).name
    }

    /// Gives a slot, if it is filed, another number. In the end all names must compare as before.
    pub(super) fn rename(&mut self, slot: usize, name: u64) {
        if let Some(Some(node)) = self.nodes.get_mut(slot) {
            node.name = name;
        }
    }

    /// Returns how many entries come before a filed slot.
    pub(super) fn position(&self, slot: usize) -> usize {
        let mut at = self.root;
        let mut before = 0;
        while at != slot {
            let node = self.node(at);
            if self.compare(slot, at) == Ordering::Less {
                at = node.left;
            } else {
                before += self.count(node.left) + 1;
                at = node.right;
            }
        }
        before + self.count(self.node(slot).left)
    }

    /// Returns the slot at a position.
    pub(super) fn select(&self, position: usize) -> Option<usize> {
        let (mut at, mut left) = (self.root, position);
        while at != NIL {
            let node = self.node(at);
            let before = self.count(node.left);
            match left.cmp(&before) {
                Ordering::Less => at = node.left,
                Ordering::Equal => return Some(at),
                Ordering::Greater => {
                    left -= before + 1;
                    at = node.right;
                }
            }
        }
        None
    }

    /// Returns how many entries have a smaller load.
    pub(super) fn below(&self, load: &Load) -> usize {
        self.before(|node| node.load < *load)
    }

    /// Returns how many entries have this load or a smaller one.
    pub(super) fn through(&self, load: &Load) -> usize {
        self.before(|node| node.load <= *load)
    }

    fn before(&self, is_before: impl Fn(&Node) -> bool) -> usize {
        let (mut at, mut count) = (self.root, 0);
        while at != NIL {
            let node = self.node(at);
            if is_before(node) {
                count += self.count(node.left) + 1;
                at = node.right;
            } else {
                at = node.left;
            }
        }
        count
    }

    /// Returns the slot with the smallest name among the positions from `start` up to but not including `end`.
    pub(super) fn least(&self, start: usize, end: usize) -> Option<usize> {
        let found = self.least_at(self.root, start, end);
        (found != NIL).then_some(found)
    }

    fn least_at(&self, at: usize, start: usize, end: usize) -> usize {
        if at == NIL || start >= end {
            return NIL;
        }
        let node = self.node(at);
        if start == 0 && end >= node.count {
            return node.least;
        }
        let before = self.count(node.left);
        let left = self.least_at(node.left, start.min(before), end.min(before));
        let own = if start <= before && before < end {
            at
        } else {
            NIL
        };
        let skipped = before + 1;
        let right = self.least_at(
            node.right,
            start.saturating_sub(skipped),
            end.saturating_sub(skipped),
        );
        self.lesser(self.lesser(left, own), right)
    }

    fn lesser(&self, a: usize, b: usize) -> usize {
        if b == NIL || (a != NIL && self.node(a).name <= self.node(b).name) {
            a
        } else {
            b
        }
    }

    fn insert_at(&mut self, at: usize, slot: usize) -> usize {
        if at == NIL {
            return slot;
        }
        if self.node(slot).priority > self.node(at).priority {
            let (left, right) = self.split(at, slot);
            let node = self.node_mut(slot);
            (node.left, node.right) = (left, right);
            self.recount(slot);
            return slot;
        }
        if self.compare(slot, at) == Ordering::Less {
            let left = self.insert_at(self.node(at).left, slot);
            self.node_mut(at).left = left;
        } else {
            let right = self.insert_at(self.node(at).right, slot);
            self.node_mut(at).right = right;
        }
        self.recount(at);
        at
    }

    fn remove_at(&mut self, at: usize, slot: usize) -> usize {
        if at == slot {
            let node = self.node(at);
            return self.merge(node.left, node.right);
        }
        if self.compare(slot, at) == Ordering::Less {
            let left = self.remove_at(self.node(at).left, slot);
            self.node_mut(at).left = left;
        } else {
            let right = self.remove_at(self.node(at).right, slot);
            self.node_mut(at).right = right;
        }
        self.recount(at);
        at
    }

    /// Divides a subtree into what comes before `slot` and what comes after it.
    fn split(&mut self, at: usize, slot: usize) -> (usize, usize) {
        if at == NIL {
            return (NIL, NIL);
        }
        if self.compare(at, slot) == Ordering::Less {
            let (left, right) = self.split(self.node(at).right, slot);
            self.node_mut(at).right = left;
            self.recount(at);
            (at, right)
        } else {
            let (left, right) = self.split(self.node(at).left, slot);
            self.node_mut(at).left = right;
            self.recount(at);
            (left, at)
        }
    }

    /// Joins two subtrees, all of `a` before all of `b`.
    fn merge(&mut self, a: usize, b: usize) -> usize {
        if a == NIL || b == NIL {
            return if a == NIL { b } else { a };
        }
        if self.node(a).priority > self.node(b).priority {
            let right = self.merge(self.node(a).right, b);
            self.node_mut(a).right = right;
            self.recount(a);
            a
        } else {
            let left = self.merge(a, self.node(b).left);
            self.node_mut(b).left = left;
            self.recount(b);
            b
        }
    }

    fn recount(&mut self, at: usize) {
        let (left, right) = (self.node(at).left, self.node(at).right);
        let count = self.count(left) + self.count(right) + 1;
        let below = self.lesser(self.least_of(left), self.least_of(right));
        let least = self.lesser(below, at);
        let node = self.node_mut(at);
        (node.count, node.least) = (count, least);
    }

    fn count(&self, at: usize) -> usize {
        if at == NIL { 0 } else { self.node(at).count }
    }

    fn least_of(&self, at: usize) -> usize {
        if at == NIL { NIL } else { self.node(at).least }
    }

    fn node(&self, at: usize) -> &Node {
        let node = self.nodes.get(at).and_then(Option::as_ref);
        node.expect("only filed slots are linked")
    }

    fn node_mut(&mut self, at: usize) -> &mut Node {
        let node = self.nodes.get_mut(at).and_then(Option::as_mut);
        node.expect("only filed slots are linked")
    }
}

/// Spreads slots over all priorities (the finalizer of `SplitMix64`).
fn priority(slot: usize) -> u64 {
    let mut mixed = (slot as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use kruntimes_core::quantity::Quantity;
    use kruntimes_core::resources::Amounts;
    use proptest::prelude::*;

    use super::*;

    fn load(used: i64) -> Load {
        let runs = |amount| Amounts::from([("runs".to_owned(), Quantity::from_whole(amount))]);
        Load::of(&Amounts::new(), &runs(used), &runs(7))
    }

    fn name(slot: usize) -> u64 {
        // Names in another order than slots.
        (slot * 7 % 40) as u64
    }

    proptest! {
        #[test]
        fn an_order_answers_like_a_sorted_list(
            steps in prop::collection::vec((0..40_usize, prop::option::weighted(0.8, 0..4_i64)), 0..120),
            start in 0..40_usize,
            length in 0..40_usize,
        ) {
            let mut order = Order::default();
            let mut plain: Vec<(i64, u64, usize)> = Vec::new();
            for (slot, filed) in steps {
                plain.retain(|(_, _, other)| *other != slot);
                match filed {
                    Some(used) => {
                        order.insert(slot, name(slot), load(used));
                        plain.push((used, name(slot), slot));
                    }
                    None => order.remove(slot),
                }
                plain.sort_unstable();
                prop_assert_eq!(order.len(), plain.len());
            }
            for (position, (used, _, slot)) in plain.iter().enumerate() {
                prop_assert_eq!(order.select(position), Some(*slot));
                prop_assert_eq!(order.position(*slot), position);
                prop_assert_eq!(order.load(*slot), Some(&load(*used)));
            }
            prop_assert_eq!(order.select(plain.len()), None);
            for used in 0..4 {
                let below = plain.iter().filter(|(other, ..)| *other < used).count();
                let through = plain.iter().filter(|(other, ..)| *other <= used).count();
                prop_assert_eq!(order.below(&load(used)), below);
                prop_assert_eq!(order.through(&load(used)), through);
            }
            let end = start + length;
            let range = plain.iter().skip(start).take(length);
            let least = range.min_by_key(|(_, name, _)| name).map(|(.., slot)| *slot);
            prop_assert_eq!(order.least(start, end), least);
        }
    }

    #[test]
    fn an_order_filed_in_sequence_stays_shallow() {
        fn depth(order: &Order, at: usize) -> usize {
            if at == NIL {
                return 0;
            }
            let node = order.node(at);
            1 + depth(order, node.left).max(depth(order, node.right))
        }
        let mut order = Order::default();
        for slot in 0..10_000 {
            order.insert(slot, slot as u64, load(1));
        }
        assert!(depth(&order, order.root) < 60);
    }
}
