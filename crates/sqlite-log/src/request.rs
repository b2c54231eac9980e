//! The requests to the service "database", and the grant that it answers with.

use std::sync::Arc;

use ferrite_memory::Memory;
use ferrite_owner::TypedRequest;
use ferrite_pool::Extent;
use ferrite_pool::grant::GrantId;
use ferrite_pool::layout::PAGE;
use serde::{Deserialize, Serialize};

use super::journal_files::JournalFiles;
use super::{DatabaseIdentity, JournalFile};
use crate::{Error, Result};

/// A request to the service.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum DatabaseRequest {
    /// Grants the log of a database, and makes the log if it does not exist.
    Open {
        /// The absolute path of the database file.
        path: String,
        /// The identity of that file.
        identity: DatabaseIdentity,
        /// True to refuse while another process has the log, and to refuse other processes from now on.
        alone: bool,
        /// A random number, from which a new log makes its identity and its generation.
        fresh: u64,
    },
    /// Grants more space: `file` can have `bytes` bytes.
    Extend {
        /// The present grant, which ends.
        id: GrantId,
        /// The log file that grows.
        file: JournalFile,
        /// The length in bytes that the file must have space for.
        bytes: u64,
    },
    /// Gives a grant back. With the last grant a log without content is removed.
    Close {
        /// The identity of the grant.
        id: GrantId,
    },
    /// Lists the databases with a log in the pool: the answer is a list of [`DatabaseEntry`].
    List,
    /// Removes the log of a database with its content; the answer is a [`super::Forgotten`].
    Forget {
        /// The path of the database file.
        path: String,
        /// The identity of the file at that path now, or `None` if no file is there.
        identity: Option<DatabaseIdentity>,
        /// The number of bytes in the log, which confirms their loss.
        lose: Option<u64>,
    },
}

impl TypedRequest for DatabaseRequest {
    const SERVICE: &'static str = DATABASE;
}

/// The grant of a log to a process, which may write to the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LogLease {
    pub id: GrantId,
    pub generation: u64,
    pub extents: Vec<Extent>,
    /// The identity of the log.
    pub log: u64,
    /// The slot of the grant's counters in the shared words; `None` from an owner of a version that shares none.
    #[serde(default)]
    pub slot: Option<usize>,
}

impl LogLease {
    /// Returns the log files that the lease covers, in `memory`.
    pub fn files(&self, memory: &Arc<dyn Memory>) -> Result<JournalFiles> {
        let fit = self.extents.iter().all(|it| it.is_within(memory.size() / PAGE));
        let files = JournalFiles::new(Arc::clone(memory), &self.extents, self.generation).filter(|_| fit);
        let files = files.map(|files| files.of_log(self.log));
        files.ok_or_else(|| Error::Refused("the pool's owner answers what this program cannot use".into()))
    }
}

/// The name of the service.
pub const DATABASE: &str = "database";
