//! Reading in one thread, simulating in the others.

use super::Study;
use super::event_queue::EventQueue;
use crate::Result;
use crate::cache::CacheEvent;
use crate::trace::EventSource;

/// The progress of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StudyProgress {
    /// Events of the last level.
    pub events: u64,
    /// Accesses of the program.
    pub accesses: u64,
}

/// The end of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StudyEnd {
    /// The trace ended.
    Whole,
    /// The caller of [`Study::consume`] stopped it.
    Stopped,
}

impl Study {
    /// Applies all events of `source`. `on_events` sees each batch first. `watch` gets the progress at least ten times
    /// a second, and returns false to stop. Events before an error stay applied.
    ///
    /// # Errors
    /// The errors of `source` and of `on_events`; the operating system cannot start a thread.
    pub fn consume(
        &mut self,
        source: Box<dyn EventSource>,
        mut on_events: impl FnMut(&[CacheEvent]) -> Result<()>,
        watch: &mut dyn FnMut(StudyProgress) -> bool,
    ) -> Result<StudyEnd> {
        let gathered = EventQueue::of(source)?;
        loop {
            let batch = gathered.take();
            on_events(&batch.events)?;
            self.feed(&batch.events);
            (self.accesses, self.is_cut) = (batch.accesses, batch.is_cut);
            let goes_on = watch(self.seen());
            match batch.end {
                Some(end) => return end.map(|()| StudyEnd::Whole),
                None if !goes_on => return Ok(StudyEnd::Stopped),
                None => {}
            }
        }
    }

    fn seen(&self) -> StudyProgress {
        StudyProgress { events: self.events, accesses: self.accesses }
    }
}
