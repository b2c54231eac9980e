//! The images that a crash may leave of one disk now: the durable bytes, and the writes that may have landed on them.

use std::collections::BTreeMap;
use std::fmt;

use ferrite_disk::Geometry;
use ferrite_memory::Span;

use crate::disk_write::{Losing, Write};
use crate::pages::CowPages;
use crate::seed::{Seed, mix};

/// The most requests in flight to one unit for which all orders are tried.
const IN_FLIGHT_MAX: usize = 6;

/// One step of a request that changes what a crash may leave of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskEvent {
    /// A write, trim or zeroing of the span is in flight. The trace keeps its bytes.
    Begin(Span),
    /// The request that was begun as `number`, counted from 0, has ended.
    End { number: u64, ending: Ending },
    /// A flush has ended. The first `covered` writes that ended are durable.
    Flush { covered: u64 },
}

/// The end of a request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Nothing was changed.
    Dropped,
    /// The write is in the cache.
    Cached,
    /// The write is durable.
    Durable,
}

impl fmt::Display for DiskEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin(span) => write!(f, "begin to change {} bytes at {}", span.len, span.at),
            Self::End { number, ending } => write!(f, "end of change {number}: {ending:?}"),
            Self::Flush { covered } => write!(f, "flush of the first {covered} changes"),
        }
    }
}

/// The images that a crash may leave of a disk, by CL1 and CL2.
#[derive(Clone)]
pub(crate) struct PossibleDisk {
    pub geometry: Geometry,
    /// Whether submitted requests complete late.
    pub defers: bool,
    /// The durable bytes.
    pub image: CowPages,
    /// Ended writes that are not durable, oldest first. Each has the number of writes that ended before it.
    cached: Vec<(u64, Write)>,
    /// Writes that have not ended, by the number of their beginning.
    in_flight: BTreeMap<u64, Write>,
    begun: u64,
    ended: u64,
}

impl PossibleDisk {
    /// Starts from `image`, all of it durable.
    pub fn new(geometry: Geometry, image: CowPages) -> Self {
        let (cached, in_flight) = Default::default();
        Self { geometry, defers: false, image, cached, in_flight, begun: 0, ended: 0 }
    }

    /// Returns the number of writes that have begun.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Returns the number of writes that have ended and were not dropped.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// Returns the write in flight with `number`.
    pub fn in_flight(&self, number: u64) -> Option<&Write> {
        self.in_flight.get(&number)
    }

    /// Returns true if fewer images are possible after `event` than before.
    pub fn is_narrowed_by(&self, event: DiskEvent) -> bool {
        match event {
            DiskEvent::Begin(_) => false,
            // The write has a place among the cached ones now, and before it had none among those in flight.
            DiskEvent::End { ending: Ending::Cached, .. } => self.in_flight.len() > 1,
            DiskEvent::End { .. } | DiskEvent::Flush { .. } => true,
        }
    }

    /// Applies one event; `bytes` is the content of a write that begins. Returns true if more images are possible afterwards.
    pub fn apply(&mut self, event: DiskEvent, bytes: &[u8]) -> bool {
        match event {
            DiskEvent::Begin(span) => {
                self.in_flight.insert(self.begun, Write { at: span.at, bytes: bytes.to_vec() });
                self.begun += 1;
                return true;
            }
            DiskEvent::End { number, ending } => {
                let write = self.in_flight.remove(&number).expect("a request ends once");
                self.end(write, ending);
            }
            DiskEvent::Flush { covered } => {
                let (durable, cached) = self.cached.drain(..).partition(|(number, _)| *number < covered);
                self.cached = cached;
                durable.iter().for_each(|(_, write): &(u64, Write)| self.image.write(write.at, &write.bytes));
            }
        }
        false
    }

    fn end(&mut self, write: Write, ending: Ending) {
        match ending {
            Ending::Dropped => return,
            Ending::Cached => self.cached.push((self.ended, write)),
            Ending::Durable => {
                self.image.write(write.at, &write.bytes);
                self.cached.iter_mut().for_each(|(_, older)| older.cover(&write));
            }
        }
        self.ended += 1;
    }

    /// Returns true if a request is in flight.
    pub fn is_busy(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Returns true if a crash may leave more than one image.
    pub fn has_pending(&self) -> bool {
        !self.cached.is_empty() || self.is_busy()
    }

    /// Ends the requests in flight after their process died: the kernel completes any part of them, in any order.
    pub fn kill(&mut self, seed: &mut Seed) {
        for write in shuffled(std::mem::take(&mut self.in_flight).into_values().collect(), seed) {
            let kept: Vec<Span> = write.units(self.geometry.atomic_bytes).filter(|_| seed.below(2) == 0).collect();
            kept.into_iter().for_each(|unit| self.end(write.part(unit), Ending::Cached));
        }
    }

    /// Returns the bytes as a reader sees them.
    pub fn visible(&self) -> CowPages {
        let mut visible = self.image.clone();
        self.cached.iter().for_each(|(_, write)| visible.write(write.at, &write.bytes));
        visible
    }

    /// Returns the image of the disk that `landing` leaves.
    pub fn landed(&self, landing: DiskLanding) -> CowPages {
        let mut image = self.image.clone();
        let (mut seed, mut losing) = match landing {
            DiskLanding::Nothing => return image,
            DiskLanding::Everything => (Seed::new(0), Losing::keeping_all(self.geometry.atomic_bytes)),
            DiskLanding::Mixture(seed) => {
                let mut seed = Seed::new(seed);
                let losing = Losing::new(&mut seed, self.geometry.atomic_bytes);
                (seed, losing)
            }
        };
        let in_flight = shuffled(self.in_flight.values().collect(), &mut seed);
        self.cached.iter().map(|(_, write)| write).chain(in_flight).for_each(|write| losing.land(write, &mut image));
        image
    }

    /// Returns a number that differs for images that differ in what pending writes changed.
    pub fn hash(&self) -> u64 {
        let writes = self.cached.iter().map(|(_, write)| write).chain(self.in_flight.values());
        writes.fold(1, |hash, write| {
            let mut bytes = vec![0; write.bytes.len()];
            self.image.read(write.at, &mut bytes);
            bytes.iter().fold(hash, |hash, byte| mix(hash ^ u64::from(*byte)))
        })
    }

    /// Returns the units that a crash may leave with one of several contents, each with its contents, of which the first
    /// is the durable one. `None` if so many requests are in flight to one unit that their orders cannot all be tried.
    pub fn units(&self) -> Option<Vec<(u64, Vec<Vec<u8>>)>> {
        let unit_bytes = u64::from(self.geometry.atomic_bytes.max(1));
        let mut units: BTreeMap<u64, [Vec<&Write>; 2]> = BTreeMap::new();
        let cached = self.cached.iter().map(|(_, write)| (0, write));
        for (kind, write) in cached.chain(self.in_flight.values().map(|write| (1, write))) {
            for part in write.units(self.geometry.atomic_bytes) {
                units.entry(part.at / unit_bytes).or_default()[kind].push(write);
            }
        }
        let contents = |(number, [cached, in_flight]): (u64, [Vec<&Write>; 2])| {
            let at = number * unit_bytes;
            let mut durable = vec![0; unit_bytes.min(self.image.size() - at) as usize];
            self.image.read(at, &mut durable);
            if in_flight.len() > IN_FLIGHT_MAX {
                return None;
            }
            Some((at, unit_contents(at, durable, &cached, &in_flight)))
        };
        units.into_iter().map(contents).collect()
    }
}

/// Returns the contents of the unit at `at`: after any prefix of the cached writes, and after all of them and any of
/// those in flight, in any order.
fn unit_contents(at: u64, durable: Vec<u8>, cached: &[&Write], in_flight: &[&Write]) -> Vec<Vec<u8>> {
    let mut content = durable.clone();
    let mut contents = vec![durable];
    for write in cached {
        write.lay_over(at, &mut content);
        contents.push(content.clone());
    }
    let mut reached = vec![(0u32, content)];
    let mut next = 0;
    while let Some((landed, content)) = reached.get(next).cloned() {
        for (number, write) in in_flight.iter().enumerate().filter(|(number, _)| landed >> number & 1 == 0) {
            let mut after = content.clone();
            write.lay_over(at, &mut after);
            let state = (landed | 1 << number, after);
            if !reached.contains(&state) {
                reached.push(state);
            }
        }
        next += 1;
    }
    contents.extend(reached.into_iter().map(|(_, content)| content));
    let mut distinct: Vec<Vec<u8>> = Vec::new();
    for content in contents {
        if !distinct.contains(&content) {
            distinct.push(content);
        }
    }
    distinct
}

/// A choice of pending writes of a disk that land.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DiskLanding {
    Nothing,
    Everything,
    /// Any part, by seed.
    Mixture(u64),
}

fn shuffled<T>(mut from: Vec<T>, seed: &mut Seed) -> Vec<T> {
    (1..from.len()).rev().for_each(|at| from.swap(at, seed.below(at as u64 + 1) as usize));
    from
}
