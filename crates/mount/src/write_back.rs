//! When what was written is made durable though nobody asked.

use std::time::{Duration, Instant};

/// How long it waits at most.
const LATEST: Duration = Duration::from_secs(5);
/// How long it waits when nothing more is written: somebody who copies a file and pulls the plug has waited so long.
const QUIET: Duration = Duration::from_millis(200);

/// Watches what waits.
#[derive(Debug, Default)]
pub struct WriteBack(Option<Waiting>);

#[derive(Debug)]
struct Waiting {
    mark: u64,
    first: Instant,
    last: Instant,
}

impl WriteBack {
    /// Whether it is time, where at `now` there waits what `unsaved` marks.
    pub fn is_due(&mut self, unsaved: Option<u64>, now: Instant) -> bool {
        let Some(mark) = unsaved else {
            self.0 = None;
            return false;
        };
        let waiting = self.0.get_or_insert(Waiting { mark, first: now, last: now });
        if waiting.mark != mark {
            (waiting.mark, waiting.last) = (mark, now);
        }
        let is_due = now - waiting.last >= QUIET || now - waiting.first >= LATEST;
        if is_due {
            self.0 = None;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_when_nothing_more_is_written_and_after_five_seconds_at_most() {
        let (mut back, start) = (WriteBack::default(), Instant::now());
        let mut due = |unsaved, ms| back.is_due(unsaved, start + Duration::from_millis(ms));
        assert!(!due(None, 0) && !due(Some(1), 10_000), "it waits since just now");
        assert!(!due(Some(2), 10_190) && !due(Some(2), 10_300) && due(Some(2), 10_390));
        assert!(!due(None, 10_400));
        let mut written = (20_000..26_000).step_by(100).enumerate();
        let first = written.find(|(mark, ms)| due(Some(*mark as u64), *ms));
        assert_eq!(first.map(|(_, ms)| ms), Some(25_000));
        assert!(!due(Some(1000), 25_100), "what was written since waits anew");
    }
}
