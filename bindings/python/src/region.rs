//! Regions of guests for Python.

use std::path::PathBuf;

use ferrite_guest::{GuestError, ParaRegion};
use ferrite_memory::Span;
use ferrite_object::Error;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::handle::{ObjectHandle, raised};

/// A region.
#[pyclass(frozen, name = "Region", module = "ferrite._ferrite")]
pub struct PyRegion(ObjectHandle<ParaRegion>);

/// Returns `error` as an error of this module.
fn of_guest(error: GuestError) -> Error {
    Error::Pool(error.into())
}

impl PyRegion {
    fn call<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&ParaRegion) -> Result<R, GuestError> + Send,
    ) -> PyResult<R> {
        self.0.work(py, |region| call(region).map_err(of_guest))
    }
}

#[pymethods]
impl PyRegion {
    #[staticmethod]
    fn open(py: Python<'_>, pool: PathBuf, name: &str) -> PyResult<Self> {
        let region = py.detach(|| ParaRegion::open_in_pool(&pool, name)).map_err(of_guest).map_err(raised)?;
        Ok(Self(ObjectHandle::new(region)))
    }

    fn size(&self) -> PyResult<u64> {
        Ok(self.0.get()?.region().size())
    }

    fn load<'py>(&self, py: Python<'py>, at: u64, size: usize) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.call(py, |region| {
            let mut bytes = vec![0; size];
            region.load(at, &mut bytes).map(|()| bytes)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn store(&self, py: Python<'_>, at: u64, from: &[u8]) -> PyResult<()> {
        self.call(py, |region| region.store(at, from))
    }

    fn persist(&self, py: Python<'_>, at: u64, size: u64) -> PyResult<()> {
        self.call(py, |region| region.persist(Span::new(at, size)))
    }

    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, ParaRegion::barrier)
    }

    fn lock(&self, py: Python<'_>, at: u64, size: u64) -> PyResult<()> {
        self.call(py, |region| region.lock(Span::new(at, size)))
    }

    fn unlock(&self, py: Python<'_>, at: u64, size: u64) -> PyResult<()> {
        self.call(py, |region| region.unlock(Span::new(at, size)))
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let closed = self.0.end(py, ParaRegion::close);
        closed.unwrap_or(Ok(())).map_err(of_guest).map_err(raised)
    }

    fn abandon(&self) {
        self.0.abandon();
    }
}
