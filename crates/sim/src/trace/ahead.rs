//! A trace that is read ahead.

use super::{Access, Reader};

/// A trace that is read ahead.
pub type Ahead = crate::ahead::Ahead<Access>;

impl Ahead {
    /// Reads `reader` from now on.
    pub fn new(reader: Box<dyn Reader>) -> Self {
        Self::of(|| Ok(reader), |reader, into| reader.read(into), |reader| reader.is_cut())
    }
}
