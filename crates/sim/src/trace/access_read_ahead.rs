//! A trace of accesses that is read ahead.

use super::{AccessReader, MemoryAccess};
use crate::Result;

/// A trace of accesses that is read ahead.
pub type AccessReadAhead = crate::read_ahead::ReadAhead<MemoryAccess>;

impl AccessReadAhead {
    /// Starts to read `reader` ahead.
    ///
    /// # Errors
    /// The operating system cannot start a thread.
    pub fn new(reader: Box<dyn AccessReader>) -> Result<Self> {
        Self::of(|| Ok(reader), |reader, into| reader.read(into), |reader| reader.is_cut())
    }
}
