//! Bundles for Python.

use std::sync::Arc;

use ferrite_object::{BundleChange, QueueEnd};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::draft::ChangeDraft;
use crate::handle::ObjectHandle;
use crate::turn::BundleTurns;

/// A bundle, and the turns of its transactions.
#[pyclass(frozen, weakref, name = "Bundle", module = "ferrite._ferrite")]
pub struct PyBundle(ObjectHandle<ferrite_object::Bundle>, Arc<BundleTurns>);

/// Changes of a bundle's members that are made together.
#[pyclass(frozen, name = "Change", module = "ferrite._ferrite")]
pub struct PyChange(ChangeDraft<BundleChange>);

impl PyBundle {
    pub fn new(bundle: ferrite_object::Bundle) -> Self {
        Self(ObjectHandle::new(bundle), Arc::default())
    }

    /// Returns the turns, while the bundle is open.
    pub fn turns(&self) -> PyResult<&Arc<BundleTurns>> {
        self.0.get().map(|_| &self.1)
    }

    /// Commits `change`.
    pub fn make(&self, py: Python<'_>, change: &BundleChange) -> PyResult<()> {
        self.0.work(py, |bundle| bundle.commit(change))
    }
}

impl PyChange {
    /// Ends the draft and returns the change.
    pub fn end(&self) -> PyResult<BundleChange> {
        self.0.end()
    }
}

fn end(is_front: bool) -> QueueEnd {
    if is_front { QueueEnd::Front } else { QueueEnd::Back }
}

#[pymethods]
impl PyChange {
    #[new]
    fn new() -> Self {
        Self(ChangeDraft::new())
    }

    fn put(&self, map: &str, key: &[u8], value: &[u8]) -> PyResult<()> {
        self.0.add(|change| _ = change.map(map).put(key, value))
    }

    fn remove(&self, map: &str, key: &[u8]) -> PyResult<()> {
        self.0.add(|change| _ = change.map(map).remove(key))
    }

    fn clear_map(&self, map: &str) -> PyResult<()> {
        self.0.add(|change| _ = change.map(map).clear())
    }

    fn push(&self, queue: &str, is_front: bool, entry: &[u8]) -> PyResult<()> {
        self.0.add(|change| _ = change.queue(queue).push(end(is_front), entry))
    }

    fn pop(&self, queue: &str, is_front: bool) -> PyResult<()> {
        self.0.add(|change| _ = change.queue(queue).pop(end(is_front)))
    }

    fn clear_queue(&self, queue: &str) -> PyResult<()> {
        self.0.add(|change| _ = change.queue(queue).clear())
    }

    fn ensure_open(&self) -> PyResult<()> {
        self.0.ensure_open()
    }
}

type PairPage<'py> = Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>;

#[pymethods]
impl PyBundle {
    fn get<'py>(&self, py: Python<'py>, map: &str, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = self.0.get()?.read(|members| members.map(map).get(key));
        Ok(found.map(|value| PyBytes::new(py, &value)))
    }

    fn map_len(&self, map: &str) -> PyResult<usize> {
        Ok(self.0.get()?.read(|members| members.map(map).len()))
    }

    fn page<'py>(&self, py: Python<'py>, map: &str, after: Option<&[u8]>, count: usize) -> PyResult<PairPage<'py>> {
        let page = self.0.get()?.read(|members| members.map(map).page(after, count));
        Ok(page.iter().map(|(key, value)| (PyBytes::new(py, key), PyBytes::new(py, value))).collect())
    }

    fn entry<'py>(&self, py: Python<'py>, queue: &str, index: usize) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = self.0.get()?.read(|members| members.queue(queue).get(index));
        Ok(found.map(|entry| PyBytes::new(py, &entry)))
    }

    fn queue_len(&self, queue: &str) -> PyResult<usize> {
        Ok(self.0.get()?.read(|members| members.queue(queue).len()))
    }

    fn maps(&self) -> PyResult<Vec<String>> {
        Ok(self.0.get()?.read(|members| members.maps().map(str::to_owned).collect()))
    }

    fn queues(&self) -> PyResult<Vec<String>> {
        Ok(self.0.get()?.read(|members| members.queues().map(str::to_owned).collect()))
    }

    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        self.0.work(py, |bundle| bundle.checkpoint())
    }

    fn losses(&self) -> PyResult<Vec<String>> {
        let bundle = self.0.get()?;
        Ok(bundle.losses().iter().map(|loss| format!("{} at byte {:#x}", loss.what, loss.at)).collect())
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
