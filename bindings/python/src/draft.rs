//! Drafts: changes that are put together until they are made or given up.

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Changes of a transaction, until it is over.
pub struct ChangeDraft<T>(Mutex<Option<T>>);

impl<T: Default> ChangeDraft<T> {
    /// One with nothing in it.
    pub fn new() -> Self {
        Self(Mutex::new(Some(T::default())))
    }

    /// Adds to it.
    pub fn add(&self, add: impl FnOnce(&mut T)) -> PyResult<()> {
        self.0.lock().as_mut().map(add).ok_or_else(over)
    }

    /// Refuses what comes when the transaction is over.
    pub fn ensure_open(&self) -> PyResult<()> {
        if self.0.lock().is_some() { Ok(()) } else { Err(over()) }
    }

    /// Ends it; what was put together.
    pub fn end(&self) -> PyResult<T> {
        self.0.lock().take().ok_or_else(over)
    }
}

fn over() -> PyErr {
    PyValueError::new_err("the transaction is over")
}
