//! Objects on disk: one file of the redb library, written by one thread, read only when it is opened.
//!
//! Commits are of the one-phase kind, one `fdatasync` each. A file that was not closed is therefore verified page by
//! page when it is opened; so is every other, because a flipped bit must be found before it is served. Should the
//! newest commit not verify, the library falls back to the one before: right after a crash in the middle of it, but
//! a loss if it had been acknowledged. That is what the mark of the [directory](directory::Directory) tells apart.

mod directory;
mod error;
mod journal;
mod layout;
#[cfg(test)]
mod tests;

use std::{
    any::Any,
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use redb::{
    Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _,
    StorageError, TableError, backends::FileBackend,
};

pub use error::{Cause, StoreError};
pub(crate) use journal::{Change, Journal, Writer};

use self::{
    directory::{Directory, unusable},
    layout::{
        FORMAT, FORMAT_KEY, KINDS, KindNumber, META, OBJECTS, VERSION_KEY, read_key, read_kind,
        read_row, write_key, write_kind, write_row,
    },
};
use crate::object::Object;

/// Memory of the library for pages. All objects are in memory already, so little is enough; more does not make
/// the opening faster.
const CACHE_BYTES: usize = 8 * 1024 * 1024;

/// What a shelf holds.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    /// The resource, such as `runs.kruntimes.io`.
    pub(crate) name: String,
    /// The `apiVersion` of what is stored.
    pub(crate) api_version: String,
}

/// What each shelf holds, in the order of the shelves.
pub(crate) type Resources = Vec<Resource>;

/// How the file knows a resource.
struct KindEntry {
    number: KindNumber,
    /// It has been stored under another `apiVersion`.
    renamed: bool,
}

/// What a directory held when it was opened.
pub(crate) struct Contents {
    /// The version of the latest write.
    pub(crate) version: u64,
    /// The objects of each shelf, in order.
    pub(crate) objects: Vec<Vec<Object>>,
}

/// Opens or initialises a file; tests put faults between the library and the file.
pub(crate) type Library<'a> = &'a dyn Fn(File) -> Result<Database, DatabaseError>;

/// An open file of objects.
pub(crate) struct Disk {
    database: Database,
    file: PathBuf,
    /// The number of each shelf within the file.
    numbers: Vec<KindNumber>,
    // Last, so that the directory is free only when the file is closed.
    directory: Directory,
}

impl Disk {
    /// Opens the directory, or makes one with nothing in it.
    pub(crate) fn open(path: &Path, resources: &Resources) -> Result<(Self, Contents), StoreError> {
        Self::open_through(&library, path, resources)
    }

    pub(crate) fn open_through(
        library: Library,
        path: &Path,
        resources: &Resources,
    ) -> Result<(Self, Contents), StoreError> {
        let directory = Directory::hold(path)?;
        let file = directory.objects();
        // The library promises errors for what checksums catch; a panic must not pass for anything else.
        let load = || load(library, directory, &file, resources);
        catch_unwind(AssertUnwindSafe(load))
            .unwrap_or_else(|panic| Err(damaged(&file, &panic_text(&*panic))))
    }

    /// Writes changes, oldest first, and returns when they are on disk.
    fn commit(&self, changes: &[Change]) -> Result<(), StoreError> {
        let written = catch_unwind(AssertUnwindSafe(|| self.write(changes)));
        let written = written.unwrap_or_else(|panic| Err(Cause::panic(panic_text(&*panic))));
        written.map_err(|source| StoreError::Write {
            file: self.file.clone(),
            source,
        })
    }

    fn write(&self, changes: &[Change]) -> Result<(), Cause> {
        let Some(newest) = changes.last() else {
            return Ok(());
        };
        // Of several writes to one object only the last one matters.
        let latest: BTreeMap<Vec<u8>, &Change> = changes
            .iter()
            .map(|change| {
                let number = self.numbers[change.shelf];
                (write_key(number, &change.object.key), change)
            })
            .collect();
        let transaction = self.database.begin_write().map_err(Cause::of)?;
        {
            let mut objects = transaction.open_table(OBJECTS).map_err(Cause::of)?;
            for (key, change) in latest {
                if change.gone {
                    objects.remove(key.as_slice()).map_err(Cause::of)?;
                } else {
                    let row = write_row(&change.object);
                    objects
                        .insert(key.as_slice(), row.as_slice())
                        .map_err(Cause::of)?;
                }
            }
        }
        if newest.gone {
            let mut meta = transaction.open_table(META).map_err(Cause::of)?;
            let version = newest.object.version.to_le_bytes();
            meta.insert(VERSION_KEY, version.as_slice())
                .map_err(Cause::of)?;
        }
        transaction.commit().map_err(Cause::of)?;
        self.directory
            .acknowledge(newest.object.version)
            .map_err(|error| Cause::of(StorageError::Io(error)))
    }
}

fn load(
    library: Library,
    directory: Directory,
    file: &Path,
    resources: &Resources,
) -> Result<(Disk, Contents), StoreError> {
    let database = match OpenOptions::new().read(true).write(true).open(file) {
        Ok(found) => open(library, file, found)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            check_acknowledged(&directory, file, 0)?;
            create(library, &directory, file)?
        }
        Err(error) => return Err(unusable("open", file)(error)),
    };
    let kinds = number_kinds(&database, file, resources)?;
    let contents = read(&database, file, resources, &kinds)?;
    check_acknowledged(&directory, file, contents.version)?;
    directory
        .acknowledge(contents.version)
        .map_err(unusable("write the mark beside", file))?;
    let disk = Disk {
        database,
        file: file.to_owned(),
        numbers: kinds.iter().map(|kind| kind.number).collect(),
        directory,
    };
    Ok((disk, contents))
}

/// Opens a file that must be one of ours, verifying all of it.
fn open(library: Library, path: &Path, file: File) -> Result<Database, StoreError> {
    let foreign = |detail: String| StoreError::Foreign {
        file: path.to_owned(),
        detail,
    };
    let length = file.metadata().map_err(unusable("read", path))?.len();
    if length == 0 {
        return Err(foreign("it is empty".to_owned()));
    }
    let database = library(file).map_err(|error| match error {
        DatabaseError::Storage(StorageError::Io(error)) => match error.kind() {
            io::ErrorKind::InvalidData => foreign(error.to_string()),
            io::ErrorKind::UnexpectedEof => damaged(path, "it is cut short"),
            _ => unusable("read", path)(error),
        },
        DatabaseError::UpgradeRequired(_) => foreign(error.to_string()),
        other => damaged(path, &other.to_string()),
    })?;
    let format = format(&database).map_err(|error| match error {
        TableError::Storage(error) => damaged(path, &error.to_string()),
        other => foreign(other.to_string()),
    })?;
    match format {
        None => Err(foreign("it names no format".to_owned())),
        Some(found) if found > FORMAT => Err(StoreError::Newer {
            file: path.to_owned(),
            found,
            known: FORMAT,
        }),
        Some(_) => Ok(database),
    }
}

fn library(file: File) -> Result<Database, DatabaseError> {
    Database::builder()
        .set_cache_size(CACHE_BYTES)
        .set_check_integrity_on_open(true)
        .create_with_backend(FileBackend::new(file)?)
}

fn format(database: &Database) -> Result<Option<u32>, TableError> {
    let reading = database
        .begin_read()
        .map_err(|error| TableError::Storage(storage(error)))?;
    let found = reading.open_table(META)?.get(FORMAT_KEY)?;
    let bytes = found.and_then(|found| found.value().try_into().ok());
    Ok(bytes.map(u32::from_le_bytes))
}

/// Makes a file that is complete before it gets its name.
fn create(library: Library, directory: &Directory, file: &Path) -> Result<Database, StoreError> {
    let draft = directory.draft()?;
    let begun = || -> Result<Database, Cause> {
        let database = library(draft).map_err(Cause::of)?;
        let transaction = database.begin_write().map_err(Cause::of)?;
        {
            let mut meta = transaction.open_table(META).map_err(Cause::of)?;
            meta.insert(FORMAT_KEY, FORMAT.to_le_bytes().as_slice())
                .map_err(Cause::of)?;
            transaction.open_table(KINDS).map_err(Cause::of)?;
            transaction.open_table(OBJECTS).map_err(Cause::of)?;
        }
        transaction.commit().map_err(Cause::of)?;
        Ok(database)
    };
    let database = begun().map_err(|source| StoreError::Write {
        file: file.to_owned(),
        source,
    })?;
    directory.publish()?;
    Ok(database)
}

fn check_acknowledged(directory: &Directory, file: &Path, found: u64) -> Result<(), StoreError> {
    let acknowledged = directory.acknowledged();
    if found < acknowledged {
        return Err(StoreError::Lost {
            file: file.to_owned(),
            found,
            acknowledged,
        });
    }
    Ok(())
}

/// Finds each resource in the file, giving a number to those that are new.
fn number_kinds(
    database: &Database,
    file: &Path,
    resources: &Resources,
) -> Result<Vec<KindEntry>, StoreError> {
    let numbered = || -> Result<Vec<KindEntry>, redb::Error> {
        let transaction = database.begin_write()?;
        let mut entries = Vec::new();
        let news;
        {
            let mut kinds = transaction.open_table(KINDS)?;
            let known = kinds.len()?;
            let mut next = KindNumber::try_from(known).unwrap_or(KindNumber::MAX);
            for Resource { name, api_version } in resources {
                let found = kinds.get(name.as_bytes())?;
                let found = found.and_then(|found| read_kind(found.value()));
                entries.push(if let Some((number, stored)) = found {
                    KindEntry {
                        number,
                        renamed: stored != *api_version,
                    }
                } else {
                    let entry = write_kind(next, api_version);
                    kinds.insert(name.as_bytes(), entry.as_slice())?;
                    next += 1;
                    KindEntry {
                        number: next - 1,
                        renamed: false,
                    }
                });
            }
            news = kinds.len()? > known;
        }
        if news {
            transaction.commit()?;
        } else {
            transaction.abort()?;
        }
        Ok(entries)
    };
    numbered().map_err(|error| damaged(file, &error.to_string()))
}

/// Reads all objects, in order.
fn read(
    database: &Database,
    file: &Path,
    resources: &Resources,
    kinds: &[KindEntry],
) -> Result<Contents, StoreError> {
    let broken = |error: redb::Error| damaged(file, &error.to_string());
    let reading = database
        .begin_read()
        .map_err(|error| broken(error.into()))?;
    let mut version = counter(&reading).map_err(broken)?;
    let shelves: BTreeMap<KindNumber, usize> = kinds
        .iter()
        .enumerate()
        .map(|(shelf, kind)| (kind.number, shelf))
        .collect();
    let mut objects: Vec<Vec<Object>> = kinds.iter().map(|_| Vec::new()).collect();
    let rows = reading
        .open_table(OBJECTS)
        .map_err(|error| broken(error.into()))?;
    for row in rows.iter().map_err(|error| broken(error.into()))? {
        let (key, row) = row.map_err(|error| broken(error.into()))?;
        let (number, key) = read_key(key.value()).ok_or_else(|| damaged(file, "a key is cut"))?;
        let Some(&shelf) = shelves.get(&number) else {
            return Err(StoreError::Unserved {
                file: file.to_owned(),
                resource: name_kind(&reading, number).unwrap_or_else(|| number.to_string()),
            });
        };
        let mut object = read_row(key, row.value()).ok_or_else(|| damaged(file, "a row is cut"))?;
        if kinds[shelf].renamed {
            object = object.renamed(&resources[shelf].api_version);
        }
        version = version.max(object.version);
        objects[shelf].push(object);
    }
    Ok(Contents { version, objects })
}

fn counter(reading: &redb::ReadTransaction) -> Result<u64, redb::Error> {
    let meta = reading.open_table(META)?;
    let found = meta.get(VERSION_KEY)?;
    let bytes = found.and_then(|found| found.value().try_into().ok());
    Ok(bytes.map_or(0, u64::from_le_bytes))
}

fn name_kind(reading: &redb::ReadTransaction, number: KindNumber) -> Option<String> {
    let kinds = reading.open_table(KINDS).ok()?;
    let mut found = kinds.iter().ok()?.flatten();
    let (name, _) = found
        .find(|(_, entry)| read_kind(entry.value()).is_some_and(|(found, _)| found == number))?;
    Some(String::from_utf8_lossy(name.value()).into_owned())
}

fn storage(error: redb::TransactionError) -> StorageError {
    match error {
        redb::TransactionError::Storage(error) => error,
        other => StorageError::Corrupted(other.to_string()),
    }
}

fn damaged(file: &Path, detail: &str) -> StoreError {
    StoreError::Damaged {
        file: file.to_owned(),
        detail: detail.to_owned(),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!(
        "the library panicked: {}",
        text.unwrap_or("no reason given")
    )
}
