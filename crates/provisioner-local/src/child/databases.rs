//! The databases of an instance by name, stored in `db/databases.json` beside the database files.

use std::io;

use branchyard_deployments::values::ServedName;
use branchyard_domain::values::DatabaseId;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::confined_dir::ConfinedDir;
use crate::folder;

/// A database with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedDatabase {
    pub(crate) name: ServedName,
    pub(crate) id: DatabaseId,
}

#[derive(Serialize, Deserialize)]
struct DatabaseEntry {
    name: String,
    id: String,
}

/// Name of the file that lists the databases.
pub(crate) const LIST: &str = "databases.json";

/// Reads the databases of a folder. The first one is the default.
pub(crate) fn read(db: &ConfinedDir) -> io::Result<Vec<NamedDatabase>> {
    let unreadable = |why: &dyn std::fmt::Display| io::Error::new(io::ErrorKind::InvalidData, why.to_string());
    let bytes = db.read(LIST, folder::MOST_BYTES)?;
    let entries: Vec<DatabaseEntry> = serde_json::from_slice(&bytes).map_err(|error| unreadable(&error))?;
    entries
        .into_iter()
        .map(|entry| {
            let name = ServedName::parse(&entry.name).map_err(|error| unreadable(&error))?;
            Ok(NamedDatabase { name, id: DatabaseId::parse(&entry.id).map_err(|error| unreadable(&error))? })
        })
        .collect()
}

/// Writes the list of databases atomically.
pub(crate) fn write(db: &ConfinedDir, databases: &[NamedDatabase]) -> io::Result<()> {
    let entries: Vec<DatabaseEntry> = databases
        .iter()
        .map(|database| DatabaseEntry { name: database.name.to_string(), id: database.id.to_string() })
        .collect();
    let mut bytes = Vec::new();
    crate::hrana::values::append(&mut bytes, &entries);
    db.write(LIST, &bytes)
}

/// The databases that a process serves.
pub(crate) struct ServedDatabases {
    db: ConfinedDir,
    all: Mutex<Vec<NamedDatabase>>,
}

impl ServedDatabases {
    pub(crate) fn open(db: ConfinedDir) -> io::Result<Self> {
        let all = read(&db)?;
        Ok(Self { db, all: Mutex::new(all) })
    }

    /// Returns the database of this name, ignoring case. Without a name, returns the default database.
    pub(crate) fn find(&self, name: Option<&str>) -> Option<DatabaseId> {
        let all = self.all.lock();
        match name {
            None => all.first(),
            Some(name) => all.iter().find(|database| database.name.as_str().eq_ignore_ascii_case(name)),
        }
        .map(|database| database.id)
    }

    pub(crate) fn all(&self) -> Vec<NamedDatabase> {
        self.all.lock().clone()
    }

    /// Adds a database whose file is in place.
    pub(crate) fn add(&self, database: NamedDatabase) -> io::Result<()> {
        let mut all = self.all.lock();
        let mut more = all.clone();
        more.push(database);
        write(&self.db, &more)?;
        *all = more;
        Ok(())
    }

    /// Removes a database from the list. The caller may then remove the file.
    pub(crate) fn take_away(&self, name: &ServedName) -> io::Result<Option<DatabaseId>> {
        let mut all = self.all.lock();
        let Some(at) = all.iter().position(|database| database.name.key() == name.key()) else { return Ok(None) };
        let mut fewer = all.clone();
        let taken = fewer.remove(at);
        write(&self.db, &fewer)?;
        *all = fewer;
        Ok(Some(taken.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_whatever_their_case_and_survive() {
        let folder = tempfile::tempdir().unwrap();
        let db = || ConfinedDir::open(folder.path()).unwrap();
        write(&db(), &[]).unwrap();
        let databases = ServedDatabases::open(db()).unwrap();
        assert_eq!(databases.find(None), None);
        let id = |n: u8| DatabaseId::parse(&format!("0199c3a7-1111-7222-8333-4444555566{n:02x}")).unwrap();
        for (name, n) in [("rivers", 1), ("Lakes", 2)] {
            databases.add(NamedDatabase { name: ServedName::parse(name).unwrap(), id: id(n) }).unwrap();
        }
        assert_eq!((databases.find(None), databases.find(Some("LAKES"))), (Some(id(1)), Some(id(2))));
        assert_eq!(databases.find(Some("../rivers")), None);
        let again = ServedDatabases::open(db()).unwrap();
        assert_eq!(again.all(), databases.all());
        assert_eq!(databases.take_away(&ServedName::parse("lakes").unwrap()).unwrap(), Some(id(2)));
        assert_eq!(databases.take_away(&ServedName::parse("lakes").unwrap()).unwrap(), None);
        assert_eq!(read(&db()).unwrap().len(), 1);
    }
}
