//! Reading in one thread, simulating in the others.

use super::Study;
use super::event_queue::EventQueue;
use crate::Result;
use crate::cache::CacheEvent;
use crate::trace::EventSource;

/// How far a study is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StudyProgress {
    /// Events of the last level.
    pub events: u64,
    /// Accesses of the program.
    pub accesses: u64,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StudyEnd {
    /// With the trace.
    Whole,
    /// Because whoever watches wanted it.
    Stopped,
}

impl Study {
    /// Takes all that `source` gives. `on_events` sees it first; `watch` is told how far it is, at least ten times a
    /// second, and says whether to go on. What was seen before an error stays.
    ///
    /// # Errors
    /// The source's, or that of `on_events`; there is no thread to read it.
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
