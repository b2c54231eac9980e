//! The common parts of this module's objects: they can be closed, and fail as Python objects do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ferrite_object::Error;
use ferrite_owner::Error as OwnerError;
use ferrite_pool::{Error as PoolError, FailureKind};
use parking_lot::Mutex;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;

create_exception!(ferrite, FerriteError, PyException, "An error of a store or an object.");
create_exception!(ferrite, NotFoundError, FerriteError, "The store has no object of that name.");
create_exception!(ferrite, BusyError, FerriteError, "The resource is in use. The message names the user.");
create_exception!(ferrite, FullError, FerriteError, "There is no space in the store, on its host, or in a log.");
create_exception!(
    ferrite,
    DamagedError,
    FerriteError,
    "Bytes differ from the stored ones. The message names the object."
);
create_exception!(
    ferrite,
    PoisonedError,
    FerriteError,
    "An earlier change could not be made durable: open the store again."
);
create_exception!(
    ferrite,
    RevokedError,
    FerriteError,
    "The owner of the store ended or revoked the object: close the store and open it again."
);
create_exception!(ferrite, WrongTypeError, FerriteError, "The object has another type.");

/// Adds the exceptions to `module`.
pub fn add_errors(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("FerriteError", py.get_type::<FerriteError>())?;
    module.add("NotFoundError", py.get_type::<NotFoundError>())?;
    module.add("BusyError", py.get_type::<BusyError>())?;
    module.add("FullError", py.get_type::<FullError>())?;
    module.add("DamagedError", py.get_type::<DamagedError>())?;
    module.add("PoisonedError", py.get_type::<PoisonedError>())?;
    module.add("RevokedError", py.get_type::<RevokedError>())?;
    module.add("WrongTypeError", py.get_type::<WrongTypeError>())
}

/// Returns `error` as a Python exception.
pub fn raised(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Pool(PoolError::LogFull { .. }) => FullError::new_err(text),
        Error::Pool(PoolError::Revoked(_) | PoolError::OwnerEnded) | Error::Owner(OwnerError::Died) => {
            RevokedError::new_err(text)
        }
        Error::Pool(error) => match error.kind() {
            FailureKind::NotFound => NotFoundError::new_err(text),
            FailureKind::Busy => BusyError::new_err(text),
            FailureKind::Full => FullError::new_err(text),
            FailureKind::Damaged => DamagedError::new_err(text),
            FailureKind::Poisoned => PoisonedError::new_err(text),
            FailureKind::BadName => PyValueError::new_err(text),
            _ => FerriteError::new_err(text),
        },
        Error::Damaged { .. } => DamagedError::new_err(text),
        Error::WrongType { .. } => WrongTypeError::new_err(text),
        Error::TooLarge { .. } | Error::WrongLength { .. } => PyValueError::new_err(text),
        _ => FerriteError::new_err(text),
    }
}

/// Returns the exception of any use of a closed object.
pub fn closed() -> PyErr {
    PyValueError::new_err("the object is closed")
}

/// An object until it is closed. Calls hold it while they work, also without the interpreter's lock.
pub struct ObjectHandle<T> {
    object: Mutex<Option<Arc<T>>>,
    /// True while a thread has taken the object and waits for other calls.
    is_ending: AtomicBool,
}

/// Time between two checks whether other calls are done.
const LOOK: Duration = Duration::from_millis(1);

/// Returns the object when the calls of other threads are done.
fn alone<T>(mut object: Arc<T>) -> T {
    loop {
        match Arc::try_unwrap(object) {
            Ok(alone) => return alone,
            Err(shared) => object = shared,
        }
        std::thread::sleep(LOOK);
    }
}

impl<T> ObjectHandle<T> {
    /// Returns an open handle.
    pub fn new(object: T) -> Self {
        Self { object: Mutex::new(Some(Arc::new(object))), is_ending: AtomicBool::new(false) }
    }

    /// Returns true if the handle is closed.
    pub fn is_closed(&self) -> bool {
        self.object.lock().is_none()
    }

    /// Forgets the object, as a forked child must: the object belongs to its parent, and so do its lock and its grant.
    /// Threads that waited do not exist in the child.
    pub fn abandon(&self) {
        std::mem::forget(self.object.lock().take());
        self.is_ending.store(false, Ordering::Release);
    }
}

impl<T: Send + Sync> ObjectHandle<T> {
    /// Returns the object for a call. No Python code runs while it is held: that might close it.
    pub fn get(&self) -> PyResult<Arc<T>> {
        self.object.lock().clone().ok_or_else(closed)
    }

    /// Does work that may wait for a disk, while other Python threads run.
    pub fn work<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&T) -> Result<R, Error> + Send) -> PyResult<R> {
        let object = self.get()?;
        py.detach(move || work(&object)).map_err(raised)
    }

    /// Takes the object, and calls `end` with it when the calls that have begun are done. Returns `None` if another
    /// thread took it, and has finished.
    pub fn end<R: Send>(&self, py: Python<'_>, end: impl FnOnce(T) -> R + Send) -> Option<R> {
        let taken = {
            let mut object = self.object.lock();
            self.is_ending.fetch_or(object.is_some(), Ordering::Relaxed);
            object.take()
        };
        py.detach(|| match taken {
            Some(object) => {
                let ended = end(alone(object));
                self.is_ending.store(false, Ordering::Release);
                Some(ended)
            }
            None => {
                while self.is_ending.load(Ordering::Acquire) {
                    std::thread::sleep(LOOK);
                }
                None
            }
        })
    }

    /// Closes the handle; the object is gone on return.
    pub fn close(&self, py: Python<'_>) {
        self.end(py, drop);
    }
}
