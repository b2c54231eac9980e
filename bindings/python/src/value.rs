//! Values that are updated in place, for Python.

use std::sync::Arc;

use ferrite_memory::Scheme;
use ferrite_object::DirectBytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::handle::ObjectHandle;

/// A value, and its flush scheme.
#[pyclass(frozen, weakref, name = "Value", module = "ferrite._ferrite")]
pub struct PyDirectValue(ObjectHandle<Arc<DirectBytes>>, Scheme);

impl PyDirectValue {
    pub fn new(value: Arc<DirectBytes>, scheme: Scheme) -> Self {
        Self(ObjectHandle::new(value), scheme)
    }
}

#[pymethods]
impl PyDirectValue {
    fn get<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.0.get()?.get()))
    }

    fn set(&self, py: Python<'_>, new: &[u8]) -> PyResult<()> {
        self.0.work(py, |value| value.set(new))
    }

    fn size(&self) -> PyResult<usize> {
        Ok(self.0.get()?.value_bytes())
    }

    fn scheme(&self) -> &'static str {
        self.1.name()
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn close(&self, py: Python<'_>) {
        self.0.close(py);
    }

    fn abandon(&self) {
        self.0.abandon();
    }
}
