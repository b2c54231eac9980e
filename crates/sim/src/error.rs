//! What can go wrong in a simulation.

use std::io;
use std::path::{Path, PathBuf};

use crate::ftl::LayerFault;

/// Result of a simulation.
pub type Result<T> = std::result::Result<T, Error>;

/// What can go wrong in a simulation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, and to what.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// A trace that cannot be understood. Lines count from 1; in a binary trace it is the record.
    #[error("{}:{line}: {reason}", file.display())]
    Malformed {
        /// The trace.
        file: PathBuf,
        /// Where in it.
        line: u64,
        /// What is wrong there.
        reason: String,
    },
    /// A trace that ends in the middle of something.
    #[error("{}: truncated after {line} lines or records: {reason}", file.display())]
    Truncated {
        /// The trace.
        file: PathBuf,
        /// What was read whole.
        line: u64,
        /// What is missing.
        reason: String,
    },
    /// Sizes or names that make no model.
    #[error("{0}")]
    Model(String),
    /// A page of a flash drive that it does not have.
    #[error(
        "page {page} lies beyond the {pages} pages that the drive has: a larger --size has it, --wrap takes it modulo them"
    )]
    Beyond {
        /// The page.
        page: u64,
        /// How many there are.
        pages: u32,
    },
    /// A request that is larger than the flash drive.
    #[error("a request of {request} pages is larger than the drive, which has {pages}: a larger --size holds it")]
    Larger {
        /// Its pages.
        request: u64,
        /// Those of the drive.
        pages: u32,
    },
    /// A translation layer lost a page: its figures are worth nothing.
    #[error("the translation layer is wrong: {0}")]
    Lost(LayerFault),
    /// The thread that reads a trace panicked, and has said where.
    #[error("the thread that reads the trace ended in the middle of it: this is a fault of ferrite; report it")]
    Reader,
    /// A program could not be recorded.
    #[error("{0}")]
    Recording(String),
}

impl Error {
    /// An error of the operating system while doing `what`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// Says that `line` of `file` is not understood.
    pub fn malformed(file: &Path, line: u64, reason: impl Into<String>) -> Self {
        Self::Malformed { file: file.into(), line, reason: reason.into() }
    }

    /// Says that there is nothing in `file`.
    pub fn empty(file: &Path) -> Self {
        Self::Truncated { file: file.into(), line: 0, reason: "it is empty".into() }
    }

    /// What reading `file` gave after `line` whole lines: compressed data that ends early is a truncated trace.
    pub fn reading(file: &Path, line: u64, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                Self::Truncated { file: file.into(), line, reason: "the compressed data ends early".into() }
            }
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other => {
                Self::malformed(file, line + 1, format!("the compressed data is damaged: {source}"))
            }
            _ => Self::Io { what: format!("reading {}", file.display()), source },
        }
    }
}
