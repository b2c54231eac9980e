//! Which cases of an experiment are measured.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Error, Result};

/// The cases whose name contains a text, or all. It remembers what it was asked for, so that a text that fits none is
/// told with the names there are.
#[derive(Clone, Debug, Default)]
pub struct Only {
    text: Option<String>,
    offered: Arc<Mutex<BTreeSet<String>>>,
}

impl Only {
    /// The cases whose name contains `text`; all without.
    pub fn containing(text: Option<impl Into<String>>) -> Self {
        Self { text: text.map(Into::into), offered: Arc::default() }
    }

    /// Whether any case is left out.
    pub fn is_some(&self) -> bool {
        self.text.is_some()
    }

    /// Whether `case` is one of them.
    pub fn takes(&self, case: &str) -> bool {
        let Some(text) = &self.text else { return true };
        self.offered.lock().unwrap_or_else(PoisonError::into_inner).insert(case.into());
        case.contains(text.as_str())
    }

    /// Refuses a text that none of the cases contained.
    ///
    /// # Errors
    /// [`Error::NoCase`] names them.
    pub fn ensure_some(&self) -> Result<()> {
        let Some(text) = &self.text else { return Ok(()) };
        let offered = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        if offered.iter().any(|case| case.contains(text.as_str())) {
            return Ok(());
        }
        Err(Error::NoCase { text: text.clone(), cases: offered.iter().cloned().collect() })
    }
}
