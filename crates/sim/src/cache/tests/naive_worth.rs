//! The policy `worth` as its rules say: every line's history is kept whole, and everything learned is computed from
//! lists.

use std::collections::HashMap;

use super::naive::Counted;
use crate::cache::CacheEvent;

/// The first step of each age.
const EDGES: [u64; 21] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 256];

/// Returns the age of an event that was `steps` steps ago.
fn after(steps: u64) -> usize {
    EDGES.iter().rposition(|edge| *edge <= steps.min(255)).expect("it begins with 0")
}

/// Returns the age of a line after the next step of its set: an age of four steps ends with every fourth.
fn older(age: usize, step: u64) -> usize {
    let ends = age < 19 && step.is_multiple_of(EDGES[age + 1] - EDGES[age]);
    age + usize::from(ends)
}

/// Returns true if a set is watched: the first of the first 32, the second of the next, and so on.
fn is_watched(set: usize) -> bool {
    set % 32 == set / 32 % 32
}

/// New lines after which a class is learned again.
const FRESH: u64 = 16;

/// The class of a line: the signature and its history.
type Class = (u8, usize);

/// The state of a line in a set.
#[derive(Clone, Copy, Debug)]
struct Story {
    line: u64,
    used: (Class, usize),
    /// The class and age of the last write, if the line is dirty.
    written: Option<(Class, usize)>,
    found: bool,
}

/// The state of a remembered line, by the clock of its set.
#[derive(Clone, Copy, Debug)]
struct Ghost {
    print: u64,
    used: (Class, u64),
    written: Option<(Class, u64)>,
}

/// Counts for each class and age: lines that came back, lines that were lost; 16 a line.
type Tally = HashMap<Class, [(u64, u64); 20]>;

struct Reuse {
    tally: Tally,
    /// The count of a class after its last learning.
    known: HashMap<Class, u64>,
    worth: HashMap<Class, Vec<u64>>,
}

impl Reuse {
    fn new() -> Self {
        Self { tally: HashMap::new(), known: HashMap::new(), worth: HashMap::new() }
    }

    fn note(&mut self, (class, age): (Class, usize), back: bool) {
        let entry = &mut self.tally.entry(class).or_insert([(0, 0); 20])[age];
        *(if back { &mut entry.0 } else { &mut entry.1 }) += 16;
    }

    fn worth(&self, (class, age): (Class, usize)) -> u64 {
        self.worth.get(&class).map_or(655, |worth| worth[age])
    }

    fn learn(&mut self) {
        let mut sum = [(0, 0); 20];
        for entry in self.tally.values() {
            (0..20).for_each(|at| sum[at] = (sum[at].0 + entry[at].0, sum[at].1 + entry[at].1));
        }
        let common = chances(&sum, &[0.0; 20]);
        for (class, entry) in &mut self.tally {
            let total = |entry: &[(u64, u64); 20]| entry.iter().map(|(back, lost)| back + lost).sum::<u64>();
            let known = self.known.entry(*class).or_insert(0);
            if total(entry) < *known + 16 * FRESH {
                continue;
            }
            self.worth.insert(*class, plans(&chances(entry, &common)));
            entry.iter_mut().for_each(|(back, lost)| (*back, *lost) = (*back - *back / 16, *lost - *lost / 16));
            *known = total(entry);
        }
    }
}

fn chances(entry: &[(u64, u64); 20], common: &[f32; 20]) -> [f32; 20] {
    std::array::from_fn(|at| {
        let beyond: u64 = entry[at + 1..].iter().map(|(back, lost)| back + lost).sum();
        let (back, lost) = (entry[at].0 as f32, entry[at].1 as f32);
        (back + 128.0 * common[at]) / (beyond as f32 + back + lost * 0.5 + 128.0)
    })
}

fn plans(chances: &[f32; 20]) -> Vec<u64> {
    let mut there = 1.0;
    let parts: Vec<(f32, f32)> = (0..20)
        .map(|at| {
            let back = there * chances[at];
            there -= back;
            (back, ((EDGES[at + 1] - EDGES[at]) * 4) as f32 * (back * 0.5 + there) + 1.0 / 1_048_576.0)
        })
        .collect();
    let until = |from: usize, to: usize| {
        let (gain, cost) = parts[from..=to].iter().fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        (gain / cost * 65536.0) as u64
    };
    (0..20).map(|from| (from..20).map(|to| until(from, to)).max().expect("twenty")).collect()
}

/// One bank of sets.
struct Bank {
    ways: usize,
    /// The most ways of this kind of set.
    ways_max: usize,
    sets: Vec<Vec<Story>>,
    /// The lines of the watched sets if the learned worth had always been trusted; lines by hash.
    own: Vec<Vec<Story>>,
    clocks: Vec<u64>,
    ghosts: Vec<Vec<Ghost>>,
    used: Reuse,
    written: Reuse,
    /// The lines of each set under LRU, by hash, and whether they are dirty.
    shadows: Vec<Vec<(u64, bool)>>,
    misses: i64,
    writebacks: i64,
    /// The savings over LRU that may be lost, in parts of 128.
    budget: Budget,
    seen: u64,
    counted: Counted,
}

/// Misses and writebacks that the watched sets may have more than LRU.
struct Budget {
    misses: i64,
    writebacks: i64,
    /// Writebacks that the shadow which always trusts may have more.
    trusting: i64,
}

/// Returns the hash of a ghost: two lines may have the same.
fn print(line: u64) -> u64 {
    line.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 48
}

/// Weights of a writeback, in sixteenths of a miss.
const WEIGHTS: [u64; 24] =
    [8, 10, 11, 13, 16, 19, 23, 27, 32, 38, 45, 54, 64, 76, 91, 108, 128, 152, 181, 215, 256, 304, 362, 431];

impl Bank {
    fn new(ways: usize, sets: usize) -> Self {
        Self {
            ways,
            ways_max: if ways > 16 { 64 } else { 16 },
            sets: vec![Vec::new(); sets],
            own: vec![Vec::new(); sets],
            clocks: vec![0; sets],
            ghosts: vec![Vec::new(); sets],
            used: Reuse::new(),
            written: Reuse::new(),
            shadows: vec![Vec::new(); sets],
            misses: 8 * 64,
            writebacks: 0,
            budget: Budget { misses: 8 * 128, writebacks: 2 * 128, trusting: 2 * 128 },
            seen: 0,
            counted: Counted::default(),
        }
    }

    fn weight(&self) -> u64 {
        WEIGHTS[(self.misses.max(0) / (8 * 64)) as usize]
    }

    /// Returns the trust, up to 16 parts: it grows with the writebacks saved beyond four, and is 0 while the bank
    /// follows LRU.
    fn trust(&self) -> u64 {
        if self.does_as_lru() { 0 } else { (self.writebacks - 4).clamp(0, 16) as u64 }
    }

    /// Returns true while misses are owed, or nothing is left to lose.
    fn does_as_lru(&self) -> bool {
        let at_risk = |all: &[Vec<Story>], name: fn(u64) -> u64| -> i64 {
            128 * (0..all.len()).map(|set| self.at_risk(set, &all[set], name)).sum::<i64>()
        };
        let Budget { misses, writebacks, trusting } = self.budget;
        let is_covered = writebacks >= at_risk(&self.sets, print) || trusting >= 2 * at_risk(&self.own, |print| print);
        self.misses < 0 || misses < 0 || writebacks < 0 || !is_covered
    }

    /// Returns the number of lines of a set that are dirty under LRU and not dirty among `stories`.
    fn at_risk(&self, set: usize, stories: &[Story], name: fn(u64) -> u64) -> i64 {
        let dirty = |story: &Story| story.written.is_some() && self.shadows[set].contains(&(name(story.line), true));
        let held = stories.iter().filter(|story| dirty(story)).count();
        (self.shadows[set].iter().filter(|one| one.1).count() as i64 - held as i64).max(0)
    }

    /// Returns the steps of the set so far: of four accesses, or of sixteen.
    fn steps(&self, set: usize) -> u64 {
        self.clocks[set] / self.step()
    }

    /// Returns the step that begins with this access, if one does.
    fn step_begun(&self, set: usize) -> Option<u64> {
        self.clocks[set].is_multiple_of(self.step()).then(|| self.steps(set))
    }

    fn step(&self) -> u64 {
        self.ways_max as u64 / 4
    }

    /// Returns the place of the line of the least worth in a full set. The least recent clean line of the last `asked`
    /// lines, or the last line, counts for `trust` parts of 16.
    fn least(&self, stories: &[Story], trust: u64, asked: usize) -> usize {
        let mut last = (self.ways - asked..self.ways).rev();
        let own = last.find(|place| stories[*place].written.is_none()).unwrap_or(self.ways - 1);
        if trust == 0 {
            return own;
        }
        let saved = |story: &Story| story.written.map_or(0, |written| self.written.worth(written));
        let worth = |story: &Story| 16 * self.used.worth(story.used) + self.weight() * saved(story);
        let mut values: Vec<u64> = stories.iter().map(worth).collect();
        values[own] = values[own] * trust / 16;
        let least = values.iter().min().expect("it is full");
        values.iter().rposition(|value| value == least).expect("it is there")
    }

    fn evict(&mut self, set: usize) {
        let asked = if self.does_as_lru() { 1 } else { 1 + self.ways / 8 };
        let place = self.least(&self.sets[set], self.trust(), asked);
        let story = self.sets[set].remove(place);
        if !is_watched(set) {
            self.used.note(story.used, false);
            story.written.into_iter().for_each(|written| self.written.note(written, false));
        }
        self.counted.written.extend(story.written.map(|_| story.line));
    }

    fn access(&mut self, set: usize, event: CacheEvent) {
        let (line, is_write) = (event.line(), event.is_write());
        let place = self.sets[set].iter().position(|story| story.line == line);
        match (place, is_write) {
            (Some(_), _) => self.counted.hits += 1,
            (None, true) => self.counted.write_misses += 1,
            (None, false) => self.counted.read_misses += 1,
        }
        if place.is_none() && self.sets[set].len() == self.ways {
            self.evict(set);
        }
        self.clocks[set] += 1;
        let step = self.step_begun(set);
        grow_older(&mut self.sets[set], step);
        let before = place.map(|place| self.sets[set].remove(place));
        if let Some(before) = before.filter(|_| !is_watched(set)) {
            self.used.note(before.used, true);
            before.written.filter(|_| is_write).into_iter().for_each(|written| self.written.note(written, true));
        }
        let story = renewed(before, event);
        self.sets[set].insert(0, story);
        if is_watched(set) {
            let was_dirty = before.is_some_and(|before| before.written.is_some());
            self.budget.misses -= if place.is_none() { 128 } else { 0 };
            self.budget.writebacks -= if is_write && !was_dirty { 128 } else { 0 };
            self.watch(set, event);
        }
    }

    /// Updates the two shadows: under LRU, and under the learned worth.
    fn watch(&mut self, set: usize, event: CacheEvent) {
        let (print, is_write) = (print(event.line()), event.is_write());
        let shadow = &mut self.shadows[set];
        let place = shadow.iter().position(|one| one.0 == print);
        let was_dirty = place.is_some_and(|place| shadow.remove(place).1);
        shadow.insert(0, (print, was_dirty || is_write));
        shadow.truncate(self.ways);
        let own = self.own[set].iter().position(|story| story.line == print);
        if own.is_none() && self.own[set].len() == self.ways {
            let place = self.least(&self.own[set], if self.seen < 384 { 0 } else { 16 }, 1);
            self.own[set].remove(place);
        }
        let step = self.step_begun(set);
        grow_older(&mut self.own[set], step);
        let before = own.map(|place| self.own[set].remove(place));
        let story = Story { line: print, ..renewed(before, event) };
        self.own[set].insert(0, story);
        let dirties = is_write && before.is_none_or(|before| before.written.is_none());
        let count = |yes: bool, parts: i64| if yes { parts } else { 0 };
        self.misses += count(place.is_none(), 67) - count(own.is_none(), 64);
        self.writebacks += count(is_write && !was_dirty, 1) - count(dirties, 1);
        self.misses = self.misses.clamp(-16 * 64, 24 * 8 * 64 - 1);
        self.writebacks = self.writebacks.clamp(-1, 20);
        let most = 128 * (self.sets.len().div_ceil(32) * self.ways) as i64;
        self.budget.misses = (self.budget.misses + count(place.is_none(), 134)).min(most);
        let by_lru = count(is_write && !was_dirty, 129);
        self.budget.writebacks = (self.budget.writebacks + by_lru).min(most);
        self.budget.trusting = (self.budget.trusting + by_lru - count(dirties, 128)).min(2 * most);
        self.sample(set, story, is_write);
    }

    fn sample(&mut self, set: usize, story: Story, is_write: bool) {
        let (now, known) = (self.steps(set), 255);
        let place = self.ghosts[set].iter().position(|ghost| ghost.print == story.line);
        let before = place.map(|place| self.ghosts[set].remove(place));
        let lost = (self.ghosts[set].len() == 8 * self.ways_max).then(|| self.ghosts[set].pop()).flatten();
        let own = story.written.filter(|_| is_write).map(|(class, _)| (class, now));
        let written = own.or(before.and_then(|before| before.written));
        self.ghosts[set].insert(0, Ghost { print: story.line, used: (story.used.0, now), written });
        if let Some(Ghost { used: (class, since), written, .. }) = before {
            self.used.note((class, after(now - since)), true);
            if let Some((class, since)) = written.filter(|written| is_write && now - written.1 < known) {
                self.written.note((class, after(now - since)), true);
            }
        }
        if let Some(Ghost { used: (class, _), written, .. }) = lost {
            self.used.note((class, 19), false);
            if let Some((class, _)) = written.filter(|written| now - written.1 < known) {
                self.written.note((class, 19), false);
            }
        }
        self.seen += 1;
        if self.seen.is_multiple_of(384) {
            self.used.learn();
            self.written.learn();
        }
    }
}

fn grow_older(stories: &mut [Story], step: Option<u64>) {
    let Some(step) = step else { return };
    for story in stories {
        story.used.1 = older(story.used.1, step);
        story.written = story.written.map(|(class, age)| (class, older(age, step)));
    }
}

/// Returns the state of a line after an access.
fn renewed(before: Option<Story>, event: CacheEvent) -> Story {
    let (signature, is_write) = (event.signature() / 2, event.is_write());
    let is_dirty = is_write || before.is_some_and(|before| before.written.is_some());
    let found = before.is_some_and(|before| before.found || !is_write);
    let used = ((signature, usize::from(found) * 2 + usize::from(is_dirty)), 0);
    let written = before.and_then(|before| before.written);
    let how_long_before = match written {
        Some((_, 0..=3)) => 0,
        Some((_, 4..=10)) => 1,
        Some((_, 11..=17)) => 2,
        _ => 3,
    };
    let written = if is_write { Some(((signature, how_long_before), 0)) } else { written };
    Story { line: event.line(), used, written, found }
}

/// Runs each bank by itself: line `n` is in bank `n % 4`, or in one of as many banks as there are sets.
pub fn run(sets: u64, ways: usize, events: &[CacheEvent]) -> Counted {
    let banks = sets.min(4);
    let mut all: Vec<Bank> = (0..banks).map(|_| Bank::new(ways, (sets / banks) as usize)).collect();
    for event in events {
        let line = event.line();
        let set = (line % sets / banks) as usize;
        all[(line % banks) as usize].access(set, *event);
    }
    let mut counted = Counted::default();
    for bank in all {
        let Counted { read_misses, write_misses, hits, written } = bank.counted;
        counted.read_misses += read_misses;
        counted.write_misses += write_misses;
        counted.hits += hits;
        counted.written.extend(written);
        counted
            .written
            .extend(bank.sets.iter().flatten().filter(|story| story.written.is_some()).map(|story| story.line));
    }
    counted
}
