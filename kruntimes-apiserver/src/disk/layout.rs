//! What the file looks like inside: three tables, and the bytes of a key and of a row.
//!
//! - `meta`: the format, and the version counter as of the last deletion.
//! - `kinds`: for each resource the number its keys start with, and the `apiVersion` of its first texts.
//! - `objects`: key (number, namespace, zero byte, name) to row (version, facts, text).
//!
//! The counter of a file is the highest version in it: of the counter and of all rows. A put needs no write to the
//! counter, because its row carries the new version; a deletion leaves nothing else behind that would.

use std::sync::Arc;

use bytes::Bytes;
use redb::TableDefinition;

use crate::object::{Facts, Key, Object};

/// The format this program writes, and the newest it reads.
pub(super) const FORMAT: u32 = 1;

pub(super) type Table = TableDefinition<'static, &'static [u8], &'static [u8]>;
pub(super) const META: Table = TableDefinition::new("meta");
pub(super) const KINDS: Table = TableDefinition::new("kinds");
pub(super) const OBJECTS: Table = TableDefinition::new("objects");
/// Key in `meta`: a `u32`.
pub(super) const FORMAT_KEY: &[u8] = b"format";
/// Key in `meta`: a `u64`.
pub(super) const VERSION_KEY: &[u8] = b"version";

/// Number of a resource within one file.
pub(super) type KindNumber = u16;

/// Bit of the first byte of a row: the object carries a deletion timestamp.
const ENDING: u8 = 1;

/// Writes what the file says of a resource.
pub(super) fn write_kind(number: KindNumber, api_version: &str) -> Vec<u8> {
    [&number.to_be_bytes()[..], api_version.as_bytes()].concat()
}

/// Reads what [`write_kind`] wrote.
pub(super) fn read_kind(bytes: &[u8]) -> Option<(KindNumber, String)> {
    let (number, api_version) = bytes.split_first_chunk()?;
    let api_version = str::from_utf8(api_version).ok()?;
    Some((KindNumber::from_be_bytes(*number), api_version.to_owned()))
}

/// Writes the key of an object. A namespace is a DNS label, so the first zero byte ends it.
pub(super) fn write_key(kind: KindNumber, key: &Key) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(3 + key.namespace.len() + key.name.len());
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(key.namespace.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(key.name.as_bytes());
    bytes
}

/// Reads what [`write_key`] wrote.
pub(super) fn read_key(bytes: &[u8]) -> Option<(KindNumber, Key)> {
    let (kind, rest) = bytes.split_first_chunk()?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let namespace = str::from_utf8(&rest[..end]).ok()?;
    let name = str::from_utf8(&rest[end + 1..]).ok()?;
    Some((KindNumber::from_be_bytes(*kind), Key::new(namespace, name)))
}

/// Writes the row of an object.
pub(super) fn write_row(object: &Object) -> Vec<u8> {
    let text = object.json();
    let facts = &object.facts;
    let words = facts.owners.iter().map(|owner| owner.len() + 4);
    let mut bytes = Vec::with_capacity(17 + facts.uid.len() + words.sum::<usize>() + text.len());
    bytes.push(if facts.ending { ENDING } else { 0 });
    bytes.extend_from_slice(&object.version.to_le_bytes());
    write_word(&mut bytes, &facts.uid);
    write_length(&mut bytes, facts.owners.len());
    for owner in &*facts.owners {
        write_word(&mut bytes, owner);
    }
    bytes.extend_from_slice(&text);
    bytes
}

/// Reads what [`write_row`] wrote. The text is not parsed.
pub(super) fn read_row(key: Key, bytes: &[u8]) -> Option<Object> {
    let (flags, rest) = bytes.split_first()?;
    let (version, mut rest) = rest.split_first_chunk()?;
    let uid = read_word(&mut rest)?;
    let owners = read_length(&mut rest)?;
    let owners: Option<Arc<[Arc<str>]>> = (0..owners).map(|_| read_word(&mut rest)).collect();
    let facts = Facts {
        uid,
        owners: owners?,
        ending: flags & ENDING != 0,
    };
    let text = Bytes::copy_from_slice(rest);
    Some(Object::stored(
        key,
        u64::from_le_bytes(*version),
        facts,
        text,
    ))
}

fn write_word(bytes: &mut Vec<u8>, word: &str) {
    write_length(bytes, word.len());
    bytes.extend_from_slice(word.as_bytes());
}

fn write_length(bytes: &mut Vec<u8>, length: usize) {
    let length = u32::try_from(length).expect("an object is smaller than its request, 3 MiB");
    bytes.extend_from_slice(&length.to_le_bytes());
}

fn read_word(bytes: &mut &[u8]) -> Option<Arc<str>> {
    let length = read_length(bytes)?;
    let (word, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(Arc::from(str::from_utf8(word).ok()?))
}

fn read_length(bytes: &mut &[u8]) -> Option<usize> {
    let (length, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    usize::try_from(u32::from_le_bytes(*length)).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    proptest! {
        #[test]
        fn rows_and_keys_are_read_as_they_were_written(
            namespace in "[a-z]{0,8}", name in ".{0,20}", version: u64, ending: bool,
            owners in prop::collection::vec(".{0,40}", 0..4),
        ) {
            let key = Key::new(namespace, name);
            let references: Vec<_> = owners.iter().map(|uid| json!({ "uid": uid })).collect();
            let mut value = json!({ "metadata": { "uid": "u-1", "ownerReferences": references } });
            if ending {
                value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            let object = Object::new(key.clone(), version, value.clone());
            prop_assert_eq!(read_key(&write_key(7, &key)), Some((7, key.clone())));
            let read = read_row(key, &write_row(&object)).unwrap();
            prop_assert_eq!(read.version, version);
            prop_assert_eq!(&read.facts, &object.facts);
            prop_assert_eq!(&*read.value, &value);
        }

        #[test]
        fn a_cut_row_is_refused_or_shorter_but_never_a_panic(cut in 0..80_usize) {
            let value = json!({ "metadata": { "uid": "u-1", "ownerReferences": [{ "uid": "o" }] } });
            let object = Object::new(Key::new("a", "b"), 1, value);
            let row = write_row(&object);
            let cut = cut.min(row.len());
            let read = read_row(Key::new("a", "b"), &row[..cut]);
            prop_assert_eq!(read.is_some(), cut >= row.len() - object.json().len());
        }
    }

    #[test]
    fn keys_sort_as_objects_do() {
        let keys = [("", "z"), ("a", "b"), ("a", "c"), ("a-b", "a"), ("b", "")];
        let keys = keys.map(|(namespace, name)| Key::new(namespace, name));
        assert!(keys.is_sorted());
        assert!(keys.map(|key| write_key(1, &key)).is_sorted());
    }
}
