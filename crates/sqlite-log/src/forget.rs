//! Giving up the log of a database if the log is lost or not wanted: the database goes on with the content of its file.
//!
//! The pool forgets the log, and then the header gets its versions again (WF5). After an interruption the whole work is done
//! again.

use std::fs::File as OsFile;
use std::io::ErrorKind;

use serde::{Deserialize, Serialize};

use super::give_back::exclude;
use super::tied::give_versions;
use super::{DatabaseIdentity, DatabasePool, DatabaseRequest, PlainFile};
use crate::{Error, Result};

/// The message about a database whose log is not in the given pool.
pub const ELSEWHERE: &str = "its log is in another pool, or was when it was copied or moved here: open it with that pool \
                             and at its place, or give it back there with `ferrite wal drain`; where that log is lost, \
                             `ferrite wal forget` gives it up";

/// The versions that a database gets if its pool does not know them: the versions of write-ahead logging, with
/// which SQLite opens every database.
const USUAL: [u8; 2] = [2, 2];

/// What the pool had of a log that it has forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgotten {
    /// True if the pool had a log.
    pub was_here: bool,
    /// Bytes in it that the database may have nowhere else.
    pub lost_bytes: u64,
    /// The versions that the header would have.
    pub versions: Option<[u8; 2]>,
    /// True if the stamp in the file belongs to another log: the header stays as it is.
    pub is_of_another: bool,
}

/// Gives up the log of the database at `path`: removes what the pool `log_pool` has of it, and gives the header
/// its versions back. A header with the stamp of another log stays as it is: that log is elsewhere. Returns what was there,
/// and whether the header said that the log is in a pool. A log in this pool with content is given up only if the
/// caller names its bytes in `lose`.
///
/// # Errors
/// [`Error::Refused`] if a process uses the database, if the database has another place here, or if `lose` is not the
/// number of bytes in the log. [`Error::Io`] if the file cannot be read or written. Else as [`DatabasePool::ask`].
pub fn forget(log_pool: &DatabasePool, path: &str, lose: Option<u64>) -> Result<(Forgotten, bool)> {
    let opening = |error| Error::io(format!("opening {path}"), error);
    let database = match OsFile::options().read(true).write(true).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        opened => Some(opened.map_err(opening)?),
    };
    let plain = database.as_ref().map(|file| PlainFile {
        file,
        path,
        fail: |doing, error| Error::io(format!("{doing}: give the log up again"), error),
    });
    let (mut identity, mut is_marked) = (None, false);
    if let Some(plain) = &plain {
        exclude(plain.file, path)?;
        let found = DatabaseIdentity::of_file(plain)?;
        (identity, is_marked) = (Some(found), found.is_marked);
    }
    let (forgotten, _) = log_pool.ask::<Forgotten>(&DatabaseRequest::Forget { path: path.into(), identity, lose })?;
    if let Some(plain) = plain.filter(|_| is_marked && !forgotten.is_of_another) {
        give_versions(&plain, forgotten.versions.unwrap_or(USUAL))?;
    }
    Ok((forgotten, is_marked))
}
