//! A trace that is read ahead by a thread of its own.

use super::{Access, Reader};
use crate::Result;
use crate::ahead::{Next, Parts};

/// Batches that wait.
const WAITING: usize = 4;

/// A trace that is read ahead.
pub struct Ahead(Parts<Result<Vec<Access>>>);

impl Ahead {
    /// Reads `reader` from now on.
    pub fn new(mut reader: Box<dyn Reader>) -> Self {
        Self(Parts::of(WAITING, move |to| {
            let mut more = Ok(true);
            while matches!(more, Ok(true)) {
                let mut accesses = Vec::new();
                more = reader.read(&mut accesses);
                if to.send(Ok(accesses)).is_err() {
                    return;
                }
            }
            // Whoever has gone needs no error.
            let _ = more.map_err(|error| to.send(Err(error)));
        }))
    }

    /// The next accesses. While the trace gives nothing `goes_on` is asked.
    ///
    /// # Errors
    /// As [`Reader::read`], after all accesses before it were given.
    pub fn batch(&mut self, goes_on: &mut dyn FnMut() -> bool) -> Result<Next<Vec<Access>>> {
        Ok(match self.0.next(goes_on) {
            Next::Part(accesses) => Next::Part(accesses?),
            Next::End => Next::End,
            Next::Stopped => Next::Stopped,
        })
    }
}
