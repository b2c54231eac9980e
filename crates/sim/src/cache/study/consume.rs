//! Reading in one thread, simulating in the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Study;
use crate::ahead::{Next, Parts};
use crate::cache::Event;
use crate::trace::Source;
use crate::{Error, Result};

/// Events that are simulated at once.
const BATCH: usize = 1 << 20;

/// Batches that may wait.
const WAITING: usize = 2;

/// How far a study is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Events of the last level.
    pub events: u64,
    /// Accesses of the program.
    pub accesses: u64,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With the trace.
    Whole,
    /// Because whoever watches wanted it.
    Stopped,
}

/// Some events, how many accesses there were by then, and whether the last line had no end.
struct Batch {
    events: Vec<Event>,
    accesses: u64,
    is_cut: bool,
}

impl Study {
    /// Takes all that `source` gives. `on_events` sees it first; `watch` is told how far it is, at least ten times a
    /// second, and says whether to go on. What was seen before an error stays.
    ///
    /// # Errors
    /// The source's, or that of `on_events`.
    pub fn consume(
        &mut self,
        source: Box<dyn Source>,
        mut on_events: impl FnMut(&[Event]) -> Result<()>,
        watch: &mut dyn FnMut(Seen) -> bool,
    ) -> Result<End> {
        let waits = Arc::new(AtomicBool::new(false));
        let batches = batches(source, Arc::clone(&waits));
        loop {
            let seen = self.seen();
            let mut goes_on = || {
                waits.store(true, Ordering::Relaxed);
                watch(seen)
            };
            match batches.next(&mut goes_on) {
                Next::Part(batch) => {
                    let batch = batch?;
                    on_events(&batch.events)?;
                    self.feed(&batch.events);
                    (self.accesses, self.is_cut) = (batch.accesses, batch.is_cut);
                }
                Next::End => return Ok(End::Whole),
                Next::Stopped => return Ok(End::Stopped),
            }
            if !watch(self.seen()) {
                return Ok(End::Stopped);
            }
        }
    }

    fn seen(&self) -> Seen {
        Seen { events: self.events, accesses: self.accesses }
    }
}

/// Reads ahead; where somebody waits, a batch is what there is.
fn batches(mut source: Box<dyn Source>, waits: Arc<AtomicBool>) -> Parts<Result<Batch>> {
    Parts::of(WAITING, move |sender| {
        loop {
            let mut events = Vec::with_capacity(BATCH + BATCH / 8);
            let read = read(&mut *source, &mut events, &waits);
            let (accesses, is_cut) = (source.accesses(), source.is_cut());
            let ends = !matches!(read, Ok(true));
            let sent = sender.send(Ok(Batch { events, accesses, is_cut }));
            let sent = read.err().map_or(sent, |error: Error| sender.send(Err(error)));
            if ends || sent.is_err() {
                return;
            }
        }
    })
}

fn read(source: &mut dyn Source, events: &mut Vec<Event>, waits: &AtomicBool) -> Result<bool> {
    while events.len() < BATCH && !waits.swap(false, Ordering::Relaxed) {
        if !source.read(events)? {
            return Ok(false);
        }
    }
    Ok(true)
}
