//! Exploring every crash point, and every image at each.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::crash::{Crash, CrashPlace};
use crate::event::{Action, EventTrace};
use crate::memory::LyingMemory;
use crate::pages::CowPages;
use crate::panic_text::panic_text;
use crate::possible::Possible;
use crate::possible_disk::PossibleDisk;
use crate::recorded::record;
use crate::report::{CrashFailure, CrashReport};
use crate::sample::{joint_landings, landings};
use crate::seed::{Seed, mix};
use crate::sites::{Site, sites};

/// The ways in which requests in flight end at each death of the process.
const KILLS_PER_POINT: u64 = 8;

/// The crash points to explore. A point lies before, between or after events. A point is skipped if the event before it
/// allows no new image and no new mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Points {
    /// All points.
    Every,
    /// The points before a fence, a barrier, a mark or a step of a disk that leaves fewer images, and the end. Every image of another point is possible at the
    /// next of these, with the same marks. So this choice is as strong as `Every` if each point is explored
    /// exhaustively, and cheaper.
    Widest,
    /// This many points, by seed, and the end.
    Sampled(u64),
}

/// Options of an exploration.
#[derive(Clone, Debug)]
pub struct ExploreOptions {
    /// The seed that chooses the sampled points and images.
    pub seed: u64,
    /// A point with at most this many images is explored exhaustively.
    pub images_per_point_max: u64,
    /// The number of images tried at a point with more.
    pub samples_per_point: u64,
    /// The crash points to explore.
    pub points: Points,
    /// Explore only the image at this position, which a failure printed.
    pub only: Option<CrashPlace>,
}

impl Default for ExploreOptions {
    fn default() -> Self {
        Self { seed: 1, images_per_point_max: 1 << 16, samples_per_point: 256, points: Points::Every, only: None }
    }
}

/// Calls `check` with each image that a power failure in the run recorded in `memory` may leave, together with each image
/// of the disks of its world. The image has the marks acknowledged before the crash. `check` returns an error if the image is wrong, and a panic counts as an error. The
/// exploration stops at the first error.
pub fn explore(
    memory: &LyingMemory,
    options: &ExploreOptions,
    check: impl FnMut(&Crash<'_>) -> Result<(), String>,
) -> CrashReport {
    explored(memory, options, false, check)
}

/// Calls `check` with what the death of the process at any instant leaves in `memory` and the disks of its world (CW3).
/// What the [`Crash`] gives can be crashed again: it loses what the next process has not made durable.
pub fn explore_kills(
    memory: &LyingMemory,
    options: &ExploreOptions,
    check: impl FnMut(&Crash<'_>) -> Result<(), String>,
) -> CrashReport {
    explored(memory, options, true, check)
}

fn explored(
    memory: &LyingMemory,
    options: &ExploreOptions,
    is_kill: bool,
    check: impl FnMut(&Crash<'_>) -> Result<(), String>,
) -> CrashReport {
    let trace = memory.trace();
    let report = CrashReport::default();
    let mut exploration = Exploration { options, trace: &trace, is_kill, check, report, point: 0 };
    exploration.run();
    record(&exploration.report);
    exploration.report
}

struct Exploration<'a, C> {
    options: &'a ExploreOptions,
    trace: &'a EventTrace,
    is_kill: bool,
    check: C,
    report: CrashReport,
    point: u64,
}

impl<C: FnMut(&Crash<'_>) -> Result<(), String>> Exploration<'_, C> {
    fn run(&mut self) {
        let chosen = self.chosen_points();
        let mut possible = self.trace.start.clone();
        let mut wider = true;
        for number in 0..=self.trace.events.len() {
            self.point = number as u64;
            if wider && self.is_chosen(number, &possible, chosen.as_ref()) {
                self.try_point(&mut possible);
                wider = false;
            }
            if self.report.failure.is_some() {
                return;
            }
            if number < self.trace.events.len() {
                wider |= self.trace.apply(number, &mut possible);
                // The end of a request shows its bytes to a reader, and a power failure could leave them before.
                wider |= self.is_kill && matches!(self.trace.events[number].action, Action::Disk(..));
            }
        }
    }

    fn chosen_points(&self) -> Option<HashSet<u64>> {
        let Points::Sampled(count) = self.options.points else { return None };
        let all = self.trace.events.len() as u64 + 1;
        let mut seed = Seed::of(self.options.seed, u64::MAX);
        let mut chosen: HashSet<u64> = (0..count).map(|_| seed.below(all)).collect();
        chosen.insert(all - 1);
        Some(chosen)
    }

    fn is_chosen(&self, number: usize, possible: &Possible, chosen: Option<&HashSet<u64>>) -> bool {
        if let Some(place) = self.options.only {
            return place.point == number as u64;
        }
        let next = self.trace.events.get(number).map(|event| event.action);
        match self.options.points {
            Points::Every => true,
            // After a death no bytes are missing, so no later point has this point's image.
            Points::Widest if self.is_kill => true,
            Points::Widest => next.is_none_or(|action| action.narrows(possible) || action.is_mark()),
            Points::Sampled(_) => chosen.is_some_and(|chosen| chosen.contains(&(number as u64))),
        }
    }

    fn try_point(&mut self, possible: &mut Possible) {
        self.report.points += 1;
        if self.is_kill {
            return self.try_kills(possible);
        }
        if let Some(sites) = sites(possible, self.options.images_per_point_max) {
            return self.try_all(possible, &sites);
        }
        self.report.sampled_points += 1;
        self.try_some(possible);
    }

    /// Counts through the choices of all sites like an odometer, which ends at its start.
    fn try_all(&mut self, possible: &mut Possible, sites: &[Site]) {
        let mut choices = vec![0; sites.len()];
        let mut variant = 0;
        loop {
            if !self.try_image(possible, variant) {
                return;
            }
            variant += 1;
            let turned = sites.iter().zip(&mut choices).any(|(site, choice)| {
                *choice = (*choice + 1) % site.choices();
                site.put(*choice, possible);
                *choice != 0
            });
            if !turned {
                return;
            }
        }
    }

    /// Tries sampled landings, each image once, and undoes each.
    fn try_some(&mut self, possible: &mut Possible) {
        let mut seed = Seed::of(self.options.seed, self.point);
        let (mut tried, mut undo) = (HashSet::new(), Vec::new());
        let durable: Vec<CowPages> = possible.disks.iter().map(|disk| disk.image.clone()).collect();
        let landings = landings(possible, &mut seed, self.options.samples_per_point);
        for (variant, landing) in joint_landings(landings, possible, &mut seed).into_iter().enumerate() {
            let mut hash = 0;
            for (&at, line) in &possible.lines {
                let before = *possible.image.line(at);
                let after = landing.memory.content(at, line, &before);
                if after != before {
                    hash ^= after.chunks(8).fold(mix(at + 1), |hash, word| mix(hash ^ word_of(word)));
                    *possible.image.line_mut(at) = after;
                    undo.push((at, before));
                }
            }
            for (disk, choice) in possible.disks.iter_mut().zip(landing.disks) {
                disk.image = disk.landed(choice);
                hash = mix(hash ^ disk.hash());
            }
            let goes_on = !tried.insert(hash) || self.try_image(possible, variant as u64);
            for (at, before) in undo.drain(..) {
                *possible.image.line_mut(at) = before;
            }
            possible.disks.iter_mut().zip(&durable).for_each(|(disk, image)| disk.image = image.clone());
            if !goes_on {
                return;
            }
        }
    }

    /// Tries the death of the process: the visible bytes, with the requests in flight ended in several ways.
    fn try_kills(&mut self, possible: &Possible) {
        let is_busy = possible.disks.iter().any(PossibleDisk::is_busy);
        for variant in 0..if is_busy { KILLS_PER_POINT } else { 1 } {
            let mut killed = possible.clone();
            killed.kill(&mut Seed::of(self.options.seed ^ variant, self.point));
            if !self.try_image(&killed, variant) {
                return;
            }
        }
    }

    /// Returns false if the exploration ends.
    fn try_image(&mut self, possible: &Possible, variant: u64) -> bool {
        let place = CrashPlace { point: self.point, variant };
        if self.options.only.is_some_and(|only| only != place) {
            return true;
        }
        self.report.images += 1;
        let found = if self.is_kill { possible.visible() } else { possible.image.clone() };
        let crash = Crash { possible, found, place, seed: self.options.seed, is_kill: self.is_kill };
        let verdict = catch_unwind(AssertUnwindSafe(|| (self.check)(&crash)));
        let error = match verdict {
            Ok(Ok(())) => return self.options.only.is_none(),
            Ok(Err(error)) => error,
            Err(panic) => format!("panic: {}", panic_text(panic.as_ref())),
        };
        self.report.failure = Some(CrashFailure::new(self.trace, self.options, place, error));
        false
    }
}

fn word_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("eight bytes"))
}
