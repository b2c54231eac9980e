//! Sampling the possible images if there are too many to try all.
//!
//! The likely bugs come first: nothing landed, everything landed, one store call alone, all but one, one word alone,
//! all but one. Then any mixture follows, sparse, even and dense in turn. Every choice follows from the seed.

use crate::line::{LineBytes, LineStore, PendingLine};
use crate::pages::CowPages;
use crate::possible::Possible;
use crate::possible_disk::DiskLanding;
use crate::seed::Seed;

/// A choice of pending stores that land.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Landing {
    Nothing,
    Everything,
    /// One store call, with the stores that must land before it.
    OnlyCall(u64),
    AllButCall(u64),
    /// One word of one line, with the stores that must land before it.
    OnlyWord(u64, u8),
    AllButWord(u64, u8),
    /// Each store call as a whole, as far as the order allows.
    Calls(Chance),
    /// Each store or word by itself.
    Mixture(Chance),
}

/// The probability that a store lands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chance {
    seed: u64,
    eighths: u64,
}

impl Chance {
    fn lands(self, seed: &mut Seed) -> bool {
        seed.below(8) < self.eighths
    }
}

/// Returns at most `count` landings for `possible`.
pub(crate) fn landings(possible: &Possible, seed: &mut Seed, count: u64) -> Vec<Landing> {
    let mut calls: Vec<u64> = possible.lines.values().flat_map(|line| line.stores.iter().map(|s| s.number)).collect();
    calls.sort_unstable();
    calls.dedup();
    let words: Vec<(u64, u8)> = possible.lines.iter().flat_map(|(&at, line)| line_words(at, line)).collect();
    let quarter = (count / 8) as usize;
    let calls = pick(calls, 2 * quarter, seed);
    let words = pick(words, quarter, seed);
    let mut landings = vec![Landing::Nothing, Landing::Everything];
    landings.extend(calls.iter().flat_map(|&call| [Landing::OnlyCall(call), Landing::AllButCall(call)]));
    landings.extend(words.iter().flat_map(|&(at, word)| [Landing::OnlyWord(at, word), Landing::AllButWord(at, word)]));
    while (landings.len() as u64) < count {
        landings.push(mixture(seed));
    }
    landings.truncate(count as usize);
    landings
}

/// A choice of what lands in the memory and on each disk.
pub(crate) struct JointLanding {
    pub memory: Landing,
    pub disks: Vec<DiskLanding>,
}

/// Returns as many landings as `landings`, each with one of each disk. If no disk has a pending write they are
/// `landings`. Else those come first in which the memory and each disk with pending writes have landed as a whole or not
/// at all, so that each order between two of them is tried.
pub(crate) fn joint_landings(landings: Vec<Landing>, possible: &Possible, seed: &mut Seed) -> Vec<JointLanding> {
    let (count, disks) = (landings.len(), possible.disks.len());
    let pending: Vec<usize> = (0..disks).filter(|disk| possible.disks[*disk].has_pending()).collect();
    let corners = if pending.is_empty() { 0 } else { 1u32 << (pending.len() + 1).min(6) };
    let corner = |bits: u32| {
        let has_landed = |number: usize| bits >> (number % 6) & 1 == 1;
        let memory = if has_landed(0) { Landing::Everything } else { Landing::Nothing };
        let mut landing = JointLanding { memory, disks: vec![DiskLanding::Nothing; disks] };
        let landed = pending.iter().enumerate().filter(|(number, _)| has_landed(number + 1));
        landed.for_each(|(_, disk)| landing.disks[*disk] = DiskLanding::Everything);
        landing
    };
    let mut joint: Vec<JointLanding> = (0..corners).map(corner).collect();
    joint.extend(landings.into_iter().map(|memory| {
        let disks = (0..disks).map(|_| DiskLanding::Mixture(seed.bits())).collect();
        JointLanding { memory, disks }
    }));
    joint.truncate(count);
    joint
}

/// Returns one mixture, by calls or by words.
pub(crate) fn mixture(seed: &mut Seed) -> Landing {
    let kind = [Landing::Calls, Landing::Mixture][seed.below(2) as usize];
    kind(Chance { seed: seed.bits(), eighths: [1, 4, 7][seed.below(3) as usize] })
}

fn line_words(at: u64, line: &PendingLine) -> impl Iterator<Item = (u64, u8)> {
    let words = line.stores.iter().fold(0, |all, store| all | store.words());
    (0..8).filter(move |word| words & 1 << word != 0).map(move |word| (at, word))
}

fn pick<T>(mut from: Vec<T>, count: usize, seed: &mut Seed) -> Vec<T> {
    for at in 0..count.min(from.len()) {
        let other = at as u64 + seed.below((from.len() - at) as u64);
        from.swap(at, other as usize);
    }
    from.truncate(count);
    from
}

impl Landing {
    /// Returns the bytes of the memory that a crash with this landing leaves.
    pub fn image(self, possible: &Possible) -> CowPages {
        let mut image = possible.image.clone();
        for (&at, line) in &possible.lines {
            *image.line_mut(at) = self.content(at, line, possible.image.line(at));
        }
        image
    }

    /// Returns the content of the line at `at`.
    pub fn content(self, at: u64, line: &PendingLine, image: &LineBytes) -> LineBytes {
        let landed = match self {
            Self::Nothing => return *image,
            Self::Everything => vec![0xff; line.stores.len()],
            Self::OnlyCall(call) => last_of(line, |number| line.stores[number].number == call)
                .map_or_else(|| none(line), |last| only(line, last, 0xff)),
            Self::AllButCall(call) => {
                let first = line.stores.iter().position(|store| store.number == call);
                first.map_or_else(|| all(line), |first| all_but(line, first, 0xff))
            }
            Self::OnlyWord(of, word) if of == at => last_of(line, |number| touches(line, number, word))
                .map_or_else(|| none(line), |last| only(line, last, 1 << word)),
            Self::OnlyWord(..) => return *image,
            Self::AllButWord(of, word) if of == at => {
                let first = (0..line.stores.len()).find(|&number| touches(line, number, word));
                first.map_or_else(|| all(line), |first| all_but(line, first, 1 << word))
            }
            Self::AllButWord(..) => all(line),
            Self::Calls(chance) => by_call(line, chance),
            Self::Mixture(chance) => mixed(line, chance, &mut Seed::of(chance.seed, at)),
        };
        line.content(image, &landed)
    }
}

fn none(line: &PendingLine) -> Vec<u8> {
    vec![0; line.stores.len()]
}

fn all(line: &PendingLine) -> Vec<u8> {
    vec![0xff; line.stores.len()]
}

fn last_of(line: &PendingLine, which: impl Fn(usize) -> bool) -> Option<usize> {
    (0..line.stores.len()).rev().find(|&number| which(number))
}

fn touches(line: &PendingLine, number: usize, word: u8) -> bool {
    line.stores[number].words() & 1 << word != 0
}

/// Returns `words` of store `which`, with the older stores that must land before it.
fn only(line: &PendingLine, which: usize, words: u8) -> Vec<u8> {
    let words = line.stores[which].words() & words;
    let mut landed = none(line);
    for (number, store) in line.stores.iter().enumerate().take(which) {
        landed[number] = match (store.is_cached(), line.stores[which].is_cached()) {
            (true, true) => 0xff,
            (false, false) => words,
            _ => 0,
        };
    }
    landed[which] = words;
    landed
}

/// Returns everything except `words` of store `which` and the newer stores that cannot land without it.
fn all_but(line: &PendingLine, which: usize, words: u8) -> Vec<u8> {
    let words = line.stores[which].words() & words;
    let mut landed = all(line);
    landed[which] = !words;
    for (number, store) in line.stores.iter().enumerate().skip(which + 1) {
        landed[number] = match (store.is_cached(), line.stores[which].is_cached()) {
            (true, true) => 0,
            (false, false) => !words,
            _ => 0xff,
        };
    }
    landed
}

/// Returns the words of each store that `words` selects, reduced to those that rules CP1 and CP2 allow.
fn allowed(line: &PendingLine, mut words: impl FnMut(&LineStore) -> u8) -> Vec<u8> {
    let (mut cached_goes_on, mut nt_goes_on) = (true, 0xffu8);
    let land = |store: &LineStore| {
        let picked = words(store);
        if !store.is_cached() {
            let landed = picked & nt_goes_on;
            nt_goes_on &= landed | !store.words();
            return landed;
        }
        let landed = if cached_goes_on { picked } else { 0 };
        cached_goes_on &= store.words() & !picked == 0;
        landed
    };
    line.stores.iter().map(land).collect()
}

fn by_call(line: &PendingLine, chance: Chance) -> Vec<u8> {
    allowed(line, |store| if chance.lands(&mut Seed::of(chance.seed, store.number)) { 0xff } else { 0 })
}

fn mixed(line: &PendingLine, chance: Chance, seed: &mut Seed) -> Vec<u8> {
    allowed(line, |store| {
        if store.is_cached() && chance.lands(seed) {
            return 0xff;
        }
        (0..8).filter(|_| chance.lands(seed)).fold(0, |words, word| words | 1 << word)
    })
}
