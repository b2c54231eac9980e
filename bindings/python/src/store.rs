//! Stores for Python.

use std::path::PathBuf;
use std::sync::Arc;

use ferrite_guest::GuestService;
use ferrite_memory::Scheme;
use ferrite_object::{Finish, Logging, NewStore, ObjectService, OpenStore};
use ferrite_owner::{ServiceRegistry, machine};
use ferrite_pool::TagKind;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::bundle::PyBundle;
use crate::handle::{ObjectHandle, closed, raised};
use crate::log::PyLog;
use crate::map::PyMap;
use crate::queue::PyQueue;
use crate::value::PyDirectValue;

/// A store.
#[pyclass(frozen, name = "Store", module = "ferrite._ferrite")]
pub struct PyStore(ObjectHandle<ferrite_object::Store>);

/// The services that a Python process serves while it owns a store's pool.
fn opening() -> OpenStore {
    let services = ServiceRegistry::default().with(ObjectService).with(GuestService::of_files());
    #[cfg(feature = "example")]
    let services = services.with(ferrite_counters::CounterService);
    OpenStore { guard: None, services: Some(Arc::new(services)) }
}

fn logging(log_bytes: u64, checkpoint_records: u64, checkpoint_bytes: Option<u64>, salvage: bool) -> Logging {
    let checkpoint_bytes = checkpoint_bytes.unwrap_or(log_bytes / 4 * 3);
    Logging { log_bytes, checkpoint_records, checkpoint_bytes, salvage }
}

#[pymethods]
impl PyStore {
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let store = py.detach(|| ferrite_object::Store::open(&path, &opening())).map_err(raised)?;
        Ok(Self(ObjectHandle::new(store)))
    }

    #[staticmethod]
    fn create(py: Python<'_>, path: PathBuf, size: u64) -> PyResult<Self> {
        let new = NewStore { bytes: size, uuid: machine::random_uuid()? };
        let store = py.detach(|| ferrite_object::Store::initialize(&path, &new, &opening()));
        Ok(Self(ObjectHandle::new(store.map_err(raised)?)))
    }

    fn map(
        &self,
        py: Python<'_>,
        name: &str,
        log_bytes: u64,
        checkpoint_records: u64,
        checkpoint_bytes: Option<u64>,
        salvage: bool,
    ) -> PyResult<PyMap> {
        let logging = logging(log_bytes, checkpoint_records, checkpoint_bytes, salvage);
        self.0.work(py, |store| store.map(name, logging)).map(PyMap::new)
    }

    fn queue(
        &self,
        py: Python<'_>,
        name: &str,
        log_bytes: u64,
        checkpoint_records: u64,
        checkpoint_bytes: Option<u64>,
        salvage: bool,
    ) -> PyResult<PyQueue> {
        let logging = logging(log_bytes, checkpoint_records, checkpoint_bytes, salvage);
        self.0.work(py, |store| store.queue(name, logging)).map(PyQueue::new)
    }

    fn bundle(
        &self,
        py: Python<'_>,
        name: &str,
        log_bytes: u64,
        checkpoint_records: u64,
        checkpoint_bytes: Option<u64>,
        salvage: bool,
    ) -> PyResult<PyBundle> {
        let logging = logging(log_bytes, checkpoint_records, checkpoint_bytes, salvage);
        self.0.work(py, |store| store.bundle(name, logging)).map(PyBundle::new)
    }

    fn log(&self, py: Python<'_>, name: &str, log_bytes: u64, salvage: bool) -> PyResult<PyLog> {
        let logging = logging(log_bytes, 0, None, salvage);
        self.0.work(py, |store| store.log(name, logging)).map(PyLog::new)
    }

    fn value(&self, py: Python<'_>, name: &str, initial: &[u8], scheme: &str) -> PyResult<PyDirectValue> {
        let scheme =
            Scheme::from_name(scheme).ok_or_else(|| PyValueError::new_err(format!("unknown scheme {scheme:?}")))?;
        self.0
            .work(py, |store| store.direct_bytes(name, initial, scheme))
            .map(|value| PyDirectValue::new(value, scheme))
    }

    fn tags(&self, py: Python<'_>) -> PyResult<Vec<(String, &'static str, u64)>> {
        let notes = self.0.work(py, |store| store.tags())?;
        Ok(notes.into_iter().map(|note| (note.name, TagKind(note.kind).name(), note.size)).collect())
    }

    fn free(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.0.work(py, |store| store.free(name))
    }

    fn backup(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let image = machine::random_uuid()?;
        self.0.work(py, |store| store.backup(&path, image))
    }

    fn owner_pid(&self) -> PyResult<Option<u32>> {
        Ok(self.0.get()?.owner_pid())
    }

    fn describe(&self) -> PyResult<String> {
        Ok(self.0.get()?.describe())
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn finalize(&self, py: Python<'_>, defragment: bool, backup: Option<PathBuf>) -> PyResult<()> {
        let backup = backup.map(|path| machine::random_uuid().map(|image| (path, image))).transpose()?;
        // What fails here leaves the store open.
        let finish = Finish { defragment, backup };
        self.0.work(py, |store| store.prepare(&finish))?;
        let rest = Finish { defragment, backup: None };
        self.0.end(py, |store| store.finalize(&rest)).ok_or_else(closed)?.map(drop).map_err(raised)
    }

    fn abandon(&self) {
        self.0.abandon();
    }
}

/// Restores a backup.
#[pyfunction]
pub fn restore(py: Python<'_>, image: PathBuf, path: PathBuf, lose: Option<u64>) -> PyResult<()> {
    py.detach(|| ferrite_object::Store::restore(&image, &path, lose)).map_err(raised)
}
