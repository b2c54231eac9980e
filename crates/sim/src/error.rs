//! The errors of a simulation.

use std::io;
use std::path::{Path, PathBuf};

use crate::ftl::LayerFault;

/// Result of a simulation.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a simulation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system reported an error.
    #[error("{what}: {source}")]
    Io {
        /// The operation that failed, and its subject.
        what: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A malformed trace.
    #[error("{}:{line}: {reason}", file.display())]
    Malformed {
        /// The trace.
        file: PathBuf,
        /// The line, counted from 1; in a binary trace the record.
        line: u64,
        /// The reason.
        reason: String,
    },
    /// A trace that ends within a line or record.
    #[error("{}: truncated after {line} lines or records: {reason}", file.display())]
    Truncated {
        /// The trace.
        file: PathBuf,
        /// The number of whole lines or records.
        line: u64,
        /// The missing part.
        reason: String,
    },
    /// Sizes or names that describe no model.
    #[error("{0}")]
    Model(String),
    /// A page beyond the end of a flash drive.
    #[error(
        "page {page} lies beyond the {pages} pages that the drive has: give a larger --size, or --wrap to take pages modulo it"
    )]
    Beyond {
        /// The page.
        page: u64,
        /// The pages of the drive.
        pages: u32,
    },
    /// A request that is larger than the flash drive.
    #[error("a request of {request} pages is larger than the drive, which has {pages}: give a larger --size")]
    Larger {
        /// The pages of the request.
        request: u64,
        /// The pages of the drive.
        pages: u32,
    },
    /// A translation layer lost a page, so its figures are invalid.
    #[error("the translation layer is wrong: {0}")]
    Lost(LayerFault),
    /// The thread that reads a trace panicked; its panic message says where.
    #[error("the thread that reads the trace panicked: this is a bug of ferrite; please report it")]
    Reader,
    /// A program could not be recorded.
    #[error("{0}")]
    Recording(String),
}

impl Error {
    /// Returns a function that makes an error of the operating system while doing `what`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// Returns the error that `line` of `file` is malformed.
    pub fn malformed(file: &Path, line: u64, reason: impl Into<String>) -> Self {
        Self::Malformed { file: file.into(), line, reason: reason.into() }
    }

    /// Returns the error that `file` is empty.
    pub fn empty(file: &Path) -> Self {
        Self::Truncated { file: file.into(), line: 0, reason: "it is empty".into() }
    }

    /// Returns the error of reading `file` after `line` whole lines. Compressed data that ends early is a truncated
    /// trace.
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
