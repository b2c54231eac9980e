//! Drafts: changes that are collected until they are committed or cancelled.

use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Changes of a transaction, until it is over.
pub struct ChangeDraft<T>(Mutex<Option<T>>);

impl<T: Default> ChangeDraft<T> {
    /// Returns an empty draft.
    pub fn new() -> Self {
        Self(Mutex::new(Some(T::default())))
    }

    /// Adds to the draft.
    pub fn add(&self, add: impl FnOnce(&mut T)) -> PyResult<()> {
        self.0.lock().as_mut().map(add).ok_or_else(over)
    }

    /// Refuses a call after the transaction is over.
    pub fn ensure_open(&self) -> PyResult<()> {
        if self.0.lock().is_some() { Ok(()) } else { Err(over()) }
    }

    /// Ends the draft and returns the changes.
    pub fn end(&self) -> PyResult<T> {
        self.0.lock().take().ok_or_else(over)
    }
}

fn over() -> PyErr {
    PyValueError::new_err("the transaction has ended")
}
