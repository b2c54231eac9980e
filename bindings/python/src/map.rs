//! Maps for Python.

use ferrite_object::MapBatch;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::draft::ChangeDraft;
use crate::handle::ObjectHandle;

/// A map.
#[pyclass(frozen, weakref, name = "Map", module = "ferrite._ferrite")]
pub struct PyMap(ObjectHandle<ferrite_object::Map>);

/// Changes of a map that are made together.
#[pyclass(frozen, name = "Batch", module = "ferrite._ferrite")]
pub struct PyMapBatch(ChangeDraft<MapBatch>);

impl PyMap {
    pub fn new(map: ferrite_object::Map) -> Self {
        Self(ObjectHandle::new(map))
    }
}

#[pymethods]
impl PyMapBatch {
    #[new]
    fn new() -> Self {
        Self(ChangeDraft::new())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> PyResult<()> {
        self.0.add(|batch| _ = batch.put(key, value))
    }

    fn remove(&self, key: &[u8]) -> PyResult<()> {
        self.0.add(|batch| _ = batch.remove(key))
    }

    fn clear(&self) -> PyResult<()> {
        self.0.add(|batch| _ = batch.clear())
    }

    fn ensure_open(&self) -> PyResult<()> {
        self.0.ensure_open()
    }

    fn end(&self) -> PyResult<()> {
        self.0.end().map(drop)
    }
}

#[pymethods]
impl PyMap {
    fn get<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.0.get()?.get(key).map(|value| PyBytes::new(py, &value)))
    }

    fn contains(&self, key: &[u8]) -> PyResult<bool> {
        Ok(self.0.get()?.contains(key))
    }

    fn len(&self) -> PyResult<usize> {
        Ok(self.0.get()?.len())
    }

    fn page<'py>(
        &self,
        py: Python<'py>,
        after: Option<&[u8]>,
        count: usize,
    ) -> PyResult<Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let page = self.0.get()?.page(after, count);
        Ok(page.iter().map(|(key, value)| (PyBytes::new(py, key), PyBytes::new(py, value))).collect())
    }

    fn put(&self, py: Python<'_>, key: &[u8], value: &[u8]) -> PyResult<()> {
        self.0.work(py, |map| map.put(key, value))
    }

    fn remove<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        Ok(self.0.work(py, |map| map.remove(key))?.map(|value| PyBytes::new(py, &value)))
    }

    fn commit(&self, py: Python<'_>, batch: &PyMapBatch) -> PyResult<()> {
        let batch = batch.0.end()?;
        self.0.work(py, |map| map.commit(&batch))
    }

    fn checkpoint(&self, py: Python<'_>) -> PyResult<()> {
        self.0.work(py, |map| map.checkpoint())
    }

    fn losses(&self) -> PyResult<Vec<String>> {
        let map = self.0.get()?;
        Ok(map.losses().iter().map(|loss| format!("{} at byte {:#x}", loss.what, loss.at)).collect())
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
