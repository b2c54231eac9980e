//! The cases of an experiment that are measured.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Error, Result};

/// A filter of cases by a text in their names. The filter remembers the names that it was asked about, so that an error can
/// list them.
#[derive(Clone, Debug, Default)]
pub struct CaseFilter {
    text: Option<String>,
    offered: Arc<Mutex<BTreeSet<String>>>,
}

impl CaseFilter {
    /// A filter that takes names that contain `text`, or every name if `text` is `None`.
    pub fn containing(text: Option<impl Into<String>>) -> Self {
        Self { text: text.map(Into::into), offered: Arc::default() }
    }

    /// Whether there is a text.
    pub fn is_some(&self) -> bool {
        self.text.is_some()
    }

    /// Whether the filter takes `case`.
    pub fn takes(&self, case: &str) -> bool {
        let Some(text) = &self.text else { return true };
        self.offered.lock().unwrap_or_else(PoisonError::into_inner).insert(case.into());
        case.contains(text.as_str())
    }

    /// Refuses a text that no name contained.
    ///
    /// # Errors
    /// [`Error::NoCase`] lists the names.
    pub fn ensure_some(&self) -> Result<()> {
        let Some(text) = &self.text else { return Ok(()) };
        let offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        if offered.iter().any(|case| case.contains(text.as_str())) {
            return Ok(());
        }
        Err(Error::NoCase { text: text.clone(), cases: offered.iter().cloned().collect() })
    }
}

#[cfg(test)]
mod tests;
