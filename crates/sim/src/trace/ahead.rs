//! A trace that is read ahead by a thread of its own.

use std::sync::mpsc::SyncSender;

use super::{Access, Reader};
use crate::ahead::{Next, Parts};
use crate::{Error, Result};

/// Batches that wait.
const WAITING: usize = 4;

/// What the thread hands over.
enum Handed {
    Accesses(Vec<Access>),
    /// The trace ended well; whether its last line had no end.
    End(bool),
    Failure(Error),
}

/// A trace that is read ahead.
pub struct Ahead {
    handed: Parts<Handed>,
    is_cut: bool,
}

impl Ahead {
    /// Reads `reader` from now on.
    pub fn new(reader: Box<dyn Reader>) -> Self {
        Self { handed: Parts::of(WAITING, move |to| read(reader, to)), is_cut: false }
    }

    /// Whether the last line had no end: maybe the trace was cut there. Known at the end.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The next accesses. While the trace gives nothing `goes_on` is asked.
    ///
    /// # Errors
    /// As [`Reader::read`], after all accesses before it were given.
    pub fn batch(&mut self, goes_on: &mut dyn FnMut() -> bool) -> Result<Next<Vec<Access>>> {
        Ok(match self.handed.next(goes_on) {
            Next::Part(Handed::Accesses(accesses)) => Next::Part(accesses),
            Next::Part(Handed::Failure(error)) => return Err(error),
            Next::Part(Handed::End(is_cut)) => {
                self.is_cut = is_cut;
                Next::End
            }
            Next::End => Next::End,
            Next::Stopped => Next::Stopped,
        })
    }
}

/// Hands over all of a trace, for as long as somebody takes it.
fn read(mut reader: Box<dyn Reader>, to: &SyncSender<Handed>) {
    let mut more = Ok(true);
    while matches!(more, Ok(true)) {
        let mut accesses = Vec::new();
        more = reader.read(&mut accesses);
        if to.send(Handed::Accesses(accesses)).is_err() {
            return;
        }
    }
    // Whoever has gone needs no end.
    let _ = to.send(more.map_or_else(Handed::Failure, |_| Handed::End(reader.is_cut())));
}
