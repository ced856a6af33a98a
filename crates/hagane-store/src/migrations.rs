//! The tables and how they came to be. A new version is a new entry at the end; entries never change once released.

use rusqlite::{Connection, TransactionBehavior};

/// Each script leads from the version of its index to the next one; version 0 is an empty file.
const SCRIPTS: &[&str] = &[
    // 1: the tables.
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
     CREATE TABLE current (
         resource TEXT NOT NULL,
         namespace TEXT NOT NULL,
         name TEXT NOT NULL,
         revision INTEGER NOT NULL,
         value BLOB NOT NULL,
         UNIQUE (resource, namespace, name)
     );
     CREATE TABLE log (
         revision INTEGER PRIMARY KEY,
         resource TEXT NOT NULL,
         namespace TEXT NOT NULL,
         name TEXT NOT NULL,
         previous_revision INTEGER NOT NULL,
         value BLOB
     );
     INSERT INTO meta (key, value) VALUES ('compacted_revision', 1);",
    // 2: compaction by age needs to know when a revision was written (milliseconds since 1970).
    "ALTER TABLE log ADD COLUMN written_at INTEGER NOT NULL DEFAULT 0;",
];

/// The newest version this program knows.
pub(crate) fn known() -> u64 {
    SCRIPTS.len() as u64
}

/// The version of the file; 0 if it is empty.
pub(crate) fn version(connection: &Connection) -> rusqlite::Result<u64> {
    let exists = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'meta')";
    if !connection.query_row(exists, (), |row| row.get::<_, bool>(0))? {
        return Ok(0);
    }
    connection.query_row("SELECT value FROM meta WHERE key = 'schema_version'", (), |row| row.get(0))
}

/// Brings the file from `version` to the newest one, all steps or none.
pub(crate) fn migrate(connection: &mut Connection, version: u64) -> rusqlite::Result<()> {
    migrate_to(connection, version, known())
}

fn migrate_to(connection: &mut Connection, version: u64, wanted: u64) -> rusqlite::Result<()> {
    if version == wanted {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (step, script) in (1u64..).zip(SCRIPTS) {
        if step > version && step <= wanted {
            transaction.execute_batch(script)?;
        }
    }
    transaction.execute("INSERT OR REPLACE INTO meta (key, value) VALUES ('schema_version', ?1)", (wanted,))?;
    transaction.commit()?;
    tracing::debug!(from = version, to = wanted, "migrated the database");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carries_rows_of_the_first_version_over() {
        let mut connection = Connection::open_in_memory().expect("memory database opens");
        let version_found = version(&connection).expect("version is read");
        migrate_to(&mut connection, version_found, 1).expect("first version is made");
        let row = "INSERT INTO log (revision, resource, namespace, name, previous_revision, value)
                   VALUES (7, 'r', '', 'a', 0, x'7b7d')";
        connection.execute(row, ()).expect("a row of version 1 is taken");

        let version_found = version(&connection).expect("version is read");
        assert_eq!(version_found, 1);
        migrate(&mut connection, version_found).expect("migrates");

        assert_eq!(version(&connection), Ok(known()));
        let read = connection.query_row("SELECT revision, written_at FROM log", (), |row| {
            Ok((row.get::<_, u64>(0)?, row.get::<_, u64>(1)?))
        });
        assert_eq!(read, Ok((7, 0)));
    }
}
