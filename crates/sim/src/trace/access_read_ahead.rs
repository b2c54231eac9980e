//! A trace that is read ahead.

use super::{Access, Reader};
use crate::Result;

/// A trace that is read ahead.
pub type Ahead = crate::read_ahead::Ahead<Access>;

impl Ahead {
    /// Reads `reader` from now on.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn new(reader: Box<dyn Reader>) -> Result<Self> {
        Self::of(|| Ok(reader), |reader, into| reader.read(into), |reader| reader.is_cut())
    }
}
