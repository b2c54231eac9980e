//! Why an experiment did not come to its end.

use std::io;

/// Result of an experiment.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an experiment did not come to its end.
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
    /// The medium refused.
    #[error(transparent)]
    Medium(#[from] ferrite_memory::Error),
    /// The pool refused.
    #[error(transparent)]
    Pool(#[from] ferrite_pool::Error),
    /// The log refused.
    #[error(transparent)]
    Wal(#[from] ferrite_wal::Error),
    /// The file system refused.
    #[error(transparent)]
    Fs(#[from] ferrite_fs::Error),
    /// The simulator refused.
    #[error(transparent)]
    Simulation(#[from] ferrite_sim::Error),
    /// A server beside which something is measured does not do what it must.
    #[error("{who}: {what}")]
    Server {
        /// Its name.
        who: String,
        /// What it did.
        what: String,
    },
    /// None of the experiment's cases is asked for.
    #[error("no case has {text:?} in its name; there are:\n{}", cases.join("\n"))]
    NoCase {
        /// What was asked for.
        text: String,
        /// The names of the cases.
        cases: Vec<String>,
    },
    /// Whoever watches asked for the end.
    #[error("interrupted: nothing was written")]
    Interrupted,
}

impl Error {
    /// An error of the operating system while doing `what`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
