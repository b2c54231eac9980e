//! Logs for Python.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::handle::{ObjectHandle, raised};

/// A log.
#[pyclass(frozen, weakref, name = "Log", module = "ferrite._ferrite")]
pub struct PyLog(ObjectHandle<Arc<ferrite_object::ObjectLog>>);

impl PyLog {
    pub fn new(log: Arc<ferrite_object::ObjectLog>) -> Self {
        Self(ObjectHandle::new(log))
    }
}

#[pymethods]
impl PyLog {
    fn append(&self, py: Python<'_>, entry: &[u8]) -> PyResult<u64> {
        self.0.work(py, |log| log.append(entry))
    }

    fn extend(&self, py: Python<'_>, entries: Vec<Vec<u8>>) -> PyResult<u64> {
        let entries: Vec<&[u8]> = entries.iter().map(Vec::as_slice).collect();
        self.0.work(py, |log| log.extend(&entries))
    }

    fn get<'py>(&self, py: Python<'py>, number: u64) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let entry = self.0.get()?.get(number).map_err(raised)?;
        Ok(entry.map(|entry| PyBytes::new(py, &entry)))
    }

    fn first(&self) -> PyResult<u64> {
        Ok(self.0.get()?.first())
    }

    fn end(&self) -> PyResult<u64> {
        Ok(self.0.get()?.end())
    }

    fn capacity_bytes(&self) -> PyResult<u64> {
        Ok(self.0.get()?.capacity_bytes())
    }

    fn used_bytes(&self) -> PyResult<u64> {
        Ok(self.0.get()?.used_bytes())
    }

    fn cut(&self, py: Python<'_>, number: u64) -> PyResult<()> {
        self.0.work(py, |log| log.cut(number))
    }

    fn losses(&self) -> PyResult<Vec<String>> {
        let log = self.0.get()?;
        Ok(log.losses().iter().map(|loss| format!("{} at byte {:#x}", loss.what, loss.at)).collect())
    }

    fn rescued<'py>(&self, py: Python<'py>) -> PyResult<Vec<(u64, Bound<'py, PyBytes>)>> {
        let log = self.0.get()?;
        Ok(log.rescued().iter().map(|(number, entry)| (*number, PyBytes::new(py, entry))).collect())
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
