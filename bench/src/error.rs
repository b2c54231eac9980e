//! The errors of experiments.

use std::io;

/// Result of an experiment.
pub type Result<T> = std::result::Result<T, Error>;

/// The error that ended an experiment.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An operation of the operating system failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation and its object.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// An error of the medium.
    #[error(transparent)]
    Medium(#[from] ferrite_memory::Error),
    /// An error of the pool.
    #[error(transparent)]
    Pool(#[from] ferrite_pool::Error),
    /// An error of the log.
    #[error(transparent)]
    Wal(#[from] ferrite_wal::Error),
    /// An error of the file system.
    #[error(transparent)]
    Fs(#[from] ferrite_fs::Error),
    /// An error of the cache.
    #[error(transparent)]
    Cache(#[from] ferrite_cache::CacheError),
    /// An error of the guest.
    #[error(transparent)]
    Guest(#[from] ferrite_guest::GuestError),
    /// An error of the simulator.
    #[error(transparent)]
    Simulation(#[from] ferrite_sim::Error),
    /// A program beside which something is measured failed.
    #[error("{who}: {what}")]
    Server {
        /// The program's name.
        who: String,
        /// The failure.
        what: String,
    },
    /// No case of the experiment has the text in its name.
    #[error("no case has {text:?} in its name; there are:\n{}", cases.join("\n"))]
    NoCase {
        /// The text.
        text: String,
        /// The names of the cases.
        cases: Vec<String>,
    },
    /// The caller asked the experiment to end.
    #[error("interrupted: nothing was written")]
    Interrupted,
}

impl Error {
    /// Makes the error of the program `who`.
    pub fn server(who: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Server { who: who.into(), what: what.into() }
    }

    /// Makes the error of the operation `what`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

#[cfg(test)]
mod tests;
