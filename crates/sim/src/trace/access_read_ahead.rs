//! A trace that is read ahead.

use super::{AccessReader, MemoryAccess};
use crate::Result;

/// A trace that is read ahead.
pub type AccessReadAhead = crate::read_ahead::ReadAhead<MemoryAccess>;

impl AccessReadAhead {
    /// Reads `reader` from now on.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn new(reader: Box<dyn AccessReader>) -> Result<Self> {
        Self::of(|| Ok(reader), |reader, into| reader.read(into), |reader| reader.is_cut())
    }
}
