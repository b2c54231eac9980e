//! Queues for Python.

use ferrite_object::QueueEnd;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::handle::ObjectHandle;

/// A queue.
#[pyclass(frozen, weakref, name = "Queue", module = "ferrite._ferrite")]
pub struct PyQueue(ObjectHandle<ferrite_object::Queue>);

impl PyQueue {
    pub fn new(queue: ferrite_object::Queue) -> Self {
        Self(ObjectHandle::new(queue))
    }
}

fn end(is_front: bool) -> QueueEnd {
    if is_front { QueueEnd::Front } else { QueueEnd::Back }
}

#[pymethods]
impl PyQueue {
    fn push(&self, py: Python<'_>, is_front: bool, entries: Vec<Vec<u8>>) -> PyResult<()> {
        let entries: Vec<&[u8]> = entries.iter().map(Vec::as_slice).collect();
        self.0.work(py, |queue| queue.push_all(end(is_front), &entries))
    }

    fn pop<'py>(&self, py: Python<'py>, is_front: bool) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.0.work(py, |queue| queue.pop(end(is_front)))?.map(|entry| PyBytes::new(py, &entry)))
    }

    fn get<'py>(&self, py: Python<'py>, index: usize) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.0.get()?.get(index).map(|entry| PyBytes::new(py, &entry)))
    }

    fn len(&self) -> PyResult<usize> {
        Ok(self.0.get()?.len())
    }

    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.0.work(py, |queue| queue.clear())
    }

    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        self.0.work(py, |queue| queue.checkpoint())
    }

    fn losses(&self) -> PyResult<Vec<String>> {
        let queue = self.0.get()?;
        Ok(queue.losses().iter().map(|loss| format!("{} at byte {:#x}", loss.what, loss.at)).collect())
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
