//! Ferrite's objects for Python: the native half. `python/ferrite` builds Python's own behaviour on it.
//!
//! Bytes are copied in and out: no reference into persistent memory lives in Python. Work that may wait for a disk runs
//! without the interpreter's lock.

mod bundle;
mod draft;
mod handle;
mod log;
mod map;
mod queue;
mod region;
mod store;
mod turn;
mod value;

use pyo3::prelude::*;

/// The native half of `ferrite`.
#[pymodule]
fn _ferrite(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<store::PyStore>()?;
    module.add_class::<value::PyDirectValue>()?;
    module.add_class::<map::PyMap>()?;
    module.add_class::<map::PyMapBatch>()?;
    module.add_class::<queue::PyQueue>()?;
    module.add_class::<bundle::PyBundle>()?;
    module.add_class::<bundle::PyChange>()?;
    module.add_class::<turn::PyTransaction>()?;
    module.add_class::<log::PyLog>()?;
    module.add_class::<region::PyRegion>()?;
    module.add_function(wrap_pyfunction!(store::restore, module)?)?;
    module.add("VALUE_BYTES_MAX", ferrite_object::VALUE_BYTES_MAX)?;
    handle::add_errors(module)
}
