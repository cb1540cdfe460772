//! Who owns what: `metadata.managedFields`, read, kept and written.

use serde_json::{Map, Value};

use super::fields::FieldSet;
use crate::object::meta_mut;

/// Longest name of a manager or a subresource.
pub(crate) const NAME_MAX_BYTES: usize = 128;
/// Most managers of one object that only update; the oldest beyond that become one.
const UPDATERS_MAX: usize = 10;
/// The manager that the oldest updaters become.
const ANCIENT: &str = "ancient-changes";

/// How a manager came to own its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn word(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Whoever writes: the identity of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manager {
    pub(crate) name: String,
    pub(crate) operation: Operation,
    pub(crate) api_version: String,
    /// Empty for the object itself.
    pub(crate) subresource: String,
}

impl Manager {
    /// Whether both are the same manager; an applier stays itself in another version.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }
}

/// What one manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) manager: Manager,
    pub(crate) time: Option<String>,
    /// `FieldsV1`, known to be well-formed.
    pub(crate) fields: Map<String, Value>,
}

impl Entry {
    /// Reads the fields as a set.
    pub(crate) fn set(&self) -> FieldSet {
        FieldSet::parse(&self.fields).unwrap_or_default()
    }

    /// Takes apart what is stored or was sent; `None` if it is no entry.
    fn read(entry: Value) -> Option<Self> {
        let Value::Object(mut entry) = entry else {
            return None;
        };
        let mut text = |name: &str| match entry.remove(name) {
            None | Some(Value::Null) => Some(String::new()),
            Some(Value::String(text)) => Some(text),
            Some(_) => None,
        };
        let operation = match text("operation")?.as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        let manager = Manager {
            name: text("manager")?,
            operation,
            api_version: text("apiVersion")?,
            subresource: text("subresource")?,
        };
        let time = Some(text("time")?).filter(|time| !time.is_empty());
        if text("fieldsType")? != "FieldsV1" {
            return None;
        }
        let fields = match entry.remove("fieldsV1") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(fields)) => fields,
            Some(_) => return None,
        };
        Some(Self {
            manager,
            time,
            fields,
        })
    }

    /// Checks an entry that a client sent and spells its fields the way we do.
    fn check(mut self) -> Option<Self> {
        self.fields = FieldSet::parse(&self.fields).ok()?.to_json();
        let timed = self
            .time
            .as_ref()
            .is_none_or(|time| time.parse::<jiff::Timestamp>().is_ok());
        let named = self.manager.name.len() <= NAME_MAX_BYTES
            && self.manager.subresource.len() <= NAME_MAX_BYTES
            && !self.manager.api_version.is_empty();
        (timed && named).then_some(self)
    }

    fn write(self) -> Value {
        let mut entry = Map::new();
        let mut put = |name: &str, text: String| {
            if !text.is_empty() {
                entry.insert(name.to_owned(), Value::from(text));
            }
        };
        put("manager", self.manager.name);
        put("operation", self.manager.operation.word().to_owned());
        put("apiVersion", self.manager.api_version);
        put("subresource", self.manager.subresource);
        put("time", self.time.unwrap_or_default());
        put("fieldsType", "FieldsV1".to_owned());
        entry.insert("fieldsV1".to_owned(), Value::Object(self.fields));
        Value::Object(entry)
    }

    /// Orders entries as Kubernetes shows them: appliers first, then by time, then by name.
    fn rank(&self) -> (Operation, &str, &str, &str, &str) {
        (
            self.manager.operation,
            self.time.as_deref().unwrap_or_default(),
            &self.manager.name,
            &self.manager.api_version,
            &self.manager.subresource,
        )
    }
}

/// All entries of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger(Vec<Entry>);

impl Ledger {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.0
    }

    pub(crate) fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.0
    }

    /// Reads what the server itself has written.
    pub(crate) fn of_object(object: &Value) -> Self {
        Self::read(object["metadata"]["managedFields"].clone())
    }

    /// Takes the entries out of an object that the server itself has put together.
    pub(crate) fn take(object: &mut Value) -> Self {
        Self::read(meta_mut(object).remove("managedFields").unwrap_or_default())
    }

    fn read(list: Value) -> Self {
        match list {
            Value::Array(list) => Self(list.into_iter().filter_map(Entry::read).collect()),
            _ => Self::default(),
        }
    }

    /// Reads what a client sent; `None` if anything in it is malformed or it names one manager twice.
    pub(crate) fn parse(list: Value) -> Option<Self> {
        let Value::Array(list) = list else {
            return None;
        };
        let mut ledger = Self::default();
        for entry in list {
            let entry = Entry::read(entry)?.check()?;
            if ledger.find(&entry.manager).is_some() {
                return None;
            }
            ledger.0.push(entry);
        }
        Some(ledger)
    }

    /// Writes the entries into an object, in order and without those that own nothing.
    pub(crate) fn put(mut self, object: &mut Value) {
        self.0.retain(|entry| !entry.fields.is_empty());
        self.bound();
        self.0.sort_by(|one, other| one.rank().cmp(&other.rank()));
        let list: Vec<Value> = self.0.into_iter().map(Entry::write).collect();
        if list.is_empty() {
            meta_mut(object).remove("managedFields");
        } else {
            meta_mut(object).insert("managedFields".to_owned(), Value::Array(list));
        }
    }

    pub(crate) fn find(&self, manager: &Manager) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.manager.is(manager))
    }

    /// Returns the position of a manager, giving it an entry that owns nothing if it has none.
    pub(crate) fn place(&mut self, manager: &Manager) -> usize {
        let known = self.0.iter().position(|entry| entry.manager.is(manager));
        known.unwrap_or_else(|| {
            self.0.push(Entry {
                manager: manager.clone(),
                time: None,
                fields: Map::new(),
            });
            self.0.len() - 1
        })
    }

    /// Whether both say the same, times and entries without fields aside.
    pub(crate) fn agrees(&self, other: &Self) -> bool {
        let owning = |ledger: &Self| {
            let owners = ledger.0.iter().filter(|entry| !entry.fields.is_empty());
            owners.count()
        };
        let told = |entry: &&Entry| {
            let same = |one: &Entry| one.manager == entry.manager && one.fields == entry.fields;
            entry.fields.is_empty() || other.0.iter().any(same)
        };
        owning(self) == owning(other) && self.0.iter().all(|entry| told(&entry))
    }

    /// Joins the oldest updaters of a version until there are few enough of them.
    fn bound(&mut self) {
        let mut updaters = self
            .0
            .iter()
            .filter(|entry| entry.manager.operation == Operation::Update)
            .count();
        if updaters <= UPDATERS_MAX {
            return;
        }
        self.0.sort_by(|one, other| one.rank().cmp(&other.rank()));
        let first = self
            .0
            .iter()
            .position(|entry| entry.manager.operation == Operation::Update)
            .unwrap_or_default();
        let mut oldest: Vec<Entry> = Vec::new();
        while updaters > UPDATERS_MAX && first < self.0.len() {
            let entry = self.0.remove(first);
            let version = entry.manager.api_version.clone();
            match oldest
                .iter_mut()
                .find(|one| one.manager.api_version == version)
            {
                None => oldest.push(entry),
                Some(joined) => {
                    let mut set = joined.set();
                    set.union(&entry.set());
                    joined.fields = set.to_json();
                    joined.time = entry.time;
                    ANCIENT.clone_into(&mut joined.manager.name);
                    joined.manager.subresource.clear();
                    updaters -= 1;
                }
            }
        }
        self.0.extend(oldest);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, time: &str) -> Value {
        json!({
            "manager": manager, "operation": operation, "apiVersion": "v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": { "f:data": { (format!("f:{manager}")): {} } },
        })
    }

    fn names(object: &Value) -> Vec<&str> {
        object["metadata"]["managedFields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["manager"].as_str().unwrap())
            .collect()
    }

    #[test]
    fn appliers_come_first_and_older_entries_before_newer() {
        let list = json!([
            entry("u", "Update", "2026-01-01T00:00:00Z"),
            entry("late", "Apply", "2026-01-02T00:00:00Z"),
            entry("early", "Apply", "2026-01-01T00:00:00Z"),
        ]);
        let mut object = json!({ "metadata": {} });
        Ledger::parse(list).unwrap().put(&mut object);
        assert_eq!(names(&object), ["early", "late", "u"]);
        assert_eq!(Ledger::of_object(&object), Ledger::take(&mut object));
        assert_eq!(object, json!({ "metadata": {} }));
    }

    #[test]
    fn the_oldest_updaters_become_one() {
        let list: Vec<Value> = (0..14)
            .map(|n| {
                entry(
                    &format!("m{n:02}"),
                    "Update",
                    &format!("2026-01-01T00:00:{n:02}Z"),
                )
            })
            .chain([entry("a", "Apply", "2026-01-01T00:00:00Z")])
            .collect();
        let mut object = json!({ "metadata": {} });
        Ledger::parse(Value::from(list)).unwrap().put(&mut object);
        let names = names(&object);
        assert_eq!(names[..3], ["a", ANCIENT, "m05"]);
        assert_eq!(names.len(), 11);
        let ancient = &object["metadata"]["managedFields"][1];
        assert_eq!(ancient["fieldsV1"]["f:data"].as_object().unwrap().len(), 5);
        assert_eq!(ancient["time"], "2026-01-01T00:00:04Z");
    }

    #[test]
    fn what_is_no_ledger_is_not_read() {
        let good = entry("m", "Update", "2026-01-01T00:00:00Z");
        let with = |field: &str, value: Value| {
            let mut changed = good.clone();
            changed[field] = value;
            json!([changed])
        };
        assert!(Ledger::parse(json!([good])).is_some());
        for list in [
            json!("x"),
            json!([1]),
            json!([{}]),
            with("operation", json!("Other")),
            with("fieldsType", json!("FieldsV2")),
            with("fieldsV1", json!({ "spec": {} })),
            with("time", json!("yesterday")),
            with("apiVersion", json!("")),
            with("manager", json!("m".repeat(129))),
            json!([good, good]),
        ] {
            assert!(Ledger::parse(list.clone()).is_none(), "{list}");
        }
    }
}
