//! The turn of a bundle: one transaction at a time. So no other transaction changes what one has read, or takes what
//! one takes.
//!
//! The context manager holds the turn, and Python's `with` keeps it on its stack and nowhere else. So the end of the
//! `with` drops it, and the drop releases the turn: also at an interrupt for which Python calls no `__exit__`. No
//! Python code runs while a turn is acquired or released.

use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyAny;

use crate::bundle::{PyBundle, PyChange};

/// Time between two checks whether a waiting thread was interrupted.
const LOOK: Duration = Duration::from_millis(10);

/// The thread that has the turn.
#[derive(Default)]
pub struct BundleTurns {
    thread: Mutex<Option<ThreadId>>,
    is_free: Condvar,
}

/// The turn, until it is dropped.
struct BundleTurn(Arc<BundleTurns>);

impl Drop for BundleTurn {
    fn drop(&mut self) {
        *self.0.thread.lock() = None;
        self.0.is_free.notify_one();
    }
}

impl BundleTurns {
    /// Waits for the turn; refuses to wait for this thread's own, and stops at an interrupt.
    fn take(self: &Arc<Self>, py: Python<'_>) -> PyResult<BundleTurn> {
        if *self.thread.lock() == Some(thread::current().id()) {
            return Err(PyValueError::new_err("this thread already has a transaction of the bundle: end that first"));
        }
        let mut patience = Duration::ZERO;
        loop {
            // Without the interpreter's lock: the holder of the turn needs it to release the turn.
            if let Some(turn) = py.detach(|| self.take_within(patience)) {
                return Ok(turn);
            }
            py.check_signals()?;
            patience = LOOK;
        }
    }

    fn take_within(self: &Arc<Self>, patience: Duration) -> Option<BundleTurn> {
        let mut thread = self.thread.lock();
        if thread.is_some() {
            self.is_free.wait_for(&mut thread, patience);
        }
        thread.is_none().then(|| {
            *thread = Some(thread::current().id());
            BundleTurn(Arc::clone(self))
        })
    }
}

/// The state of a transaction.
enum TransactionStage {
    New,
    Begun(BundleTurn),
    Over,
}

/// A transaction as a `with` statement sees it: begun with the turn, and ended with its change committed or cancelled.
#[pyclass(frozen, name = "Transaction", module = "ferrite._ferrite")]
pub struct PyTransaction {
    bundle: Py<PyBundle>,
    change: Py<PyChange>,
    /// The object that the `with` statement passes to its body.
    body: Py<PyAny>,
    stage: Mutex<TransactionStage>,
}

#[pymethods]
impl PyTransaction {
    #[new]
    fn new(bundle: Py<PyBundle>, change: Py<PyChange>, body: Py<PyAny>) -> Self {
        Self { bundle, change, body, stage: Mutex::new(TransactionStage::New) }
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        if !matches!(*self.stage.lock(), TransactionStage::New) {
            return Err(PyValueError::new_err("a transaction can be entered only once"));
        }
        let turn = self.bundle.get().turns()?.take(py)?;
        *self.stage.lock() = TransactionStage::Begun(turn);
        Ok(self.body.clone_ref(py))
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let stage = std::mem::replace(&mut *self.stage.lock(), TransactionStage::Over);
        // Released on return.
        let TransactionStage::Begun(_turn) = stage else {
            return Err(PyValueError::new_err("the transaction has ended, or was not entered"));
        };
        let change = self.change.get().end()?;
        if kind.is_none() { self.bundle.get().make(py, &change) } else { Ok(()) }
    }
}
