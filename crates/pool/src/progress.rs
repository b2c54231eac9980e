//! How far long work has come.

use serde::{Deserialize, Serialize};

/// How far a long call has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Units of work done.
    pub done: u64,
    /// Units of work in all; 0 where that is not known.
    pub total: u64,
    /// What is being done.
    pub what: String,
}
