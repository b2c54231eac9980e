//! `worth` as its rules say it: every line's story is kept whole, and all that is learned is worked out from lists.

use std::collections::HashMap;

use super::naive::Counted;
use crate::cache::Event;

/// Where buckets of ages begin.
const EDGES: [u64; 21] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 256];

fn bucket(age: u64) -> usize {
    EDGES.iter().rposition(|edge| *edge <= age.min(255)).expect("it begins with 0")
}

/// What is known of a line that is there or was: when it was used and written, by the clock of its set.
#[derive(Clone, Copy, Debug)]
struct Story {
    line: u64,
    used: u64,
    written: Option<u64>,
    used_class: usize,
    written_class: usize,
    found: usize,
    dirty: bool,
}

/// Per class and bucket: came back, lost; 16 a line.
type Tally = HashMap<usize, [(u64, u64); 20]>;

#[derive(Default)]
struct Reuse {
    tally: Tally,
    worth: HashMap<usize, Vec<u64>>,
}

impl Reuse {
    fn note(&mut self, class: usize, age: u64, back: bool) {
        let entry = &mut self.tally.entry(class).or_insert([(0, 0); 20])[bucket(age)];
        *(if back { &mut entry.0 } else { &mut entry.1 }) += 16;
    }

    fn worth(&self, class: usize, age: u64) -> u64 {
        self.worth.get(&class).map_or(655, |worth| worth[bucket(age)])
    }

    fn learn(&mut self, fade: bool) {
        let mut sum = [(0, 0); 20];
        for entry in self.tally.values() {
            (0..20).for_each(|at| sum[at] = (sum[at].0 + entry[at].0, sum[at].1 + entry[at].1));
        }
        let common = chances(&sum, &[0; 20]);
        for (class, entry) in &mut self.tally {
            self.worth.insert(*class, plans(&chances(entry, &common)));
            if fade {
                entry.iter_mut().for_each(|(back, lost)| (*back, *lost) = (*back - *back / 32, *lost - *lost / 32));
            }
        }
    }
}

fn chances(entry: &[(u64, u64); 20], common: &[u64; 20]) -> [u64; 20] {
    std::array::from_fn(|at| {
        let beyond: u64 = entry[at + 1..].iter().map(|(back, lost)| back + lost).sum();
        let there = beyond + entry[at].0 + entry[at].1 / 2;
        ((entry[at].0 << 20) + 128 * common[at]) / (there + 128)
    })
}

fn plans(chances: &[u64; 20]) -> Vec<u64> {
    let mut there = 1 << 20;
    let parts: Vec<(u64, u64)> = (0..20)
        .map(|at| {
            let back = (there * chances[at]) >> 20;
            there -= back;
            (back, (EDGES[at + 1] - EDGES[at]) * 4 * (back / 2 + there))
        })
        .collect();
    let until = |from: usize, to: usize| {
        let (gain, cost) = parts[from..=to].iter().fold((0, 1), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        (gain << 16) / cost
    };
    (0..20).map(|from| (from..20).map(|to| until(from, to)).max().expect("twenty")).collect()
}

/// One bank.
struct Bank {
    ways: usize,
    /// Of the kind of its sets.
    ways_max: usize,
    sets: Vec<Vec<Story>>,
    clocks: Vec<u64>,
    ghosts: Vec<Vec<Story>>,
    used: Reuse,
    written: Reuse,
    averages: HashMap<(u64, bool), i64>,
    /// What LRU would have in each set, by hash, and whether it is dirty.
    shadows: Vec<Vec<(u64, bool)>>,
    misses: i64,
    writebacks: i64,
    is_spent: bool,
    seen: u64,
    counted: Counted,
}

/// What ghosts are known by: two lines may be taken for one.
fn print(line: u64) -> u64 {
    line.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 48
}

/// By the average after which its lines come back.
fn level(average: i64) -> usize {
    [40, 70, 115, 160].into_iter().filter(|edge| average >= *edge).count()
}

/// Of a writeback, in sixteenths of a miss.
const WEIGHTS: [u64; 24] =
    [8, 10, 11, 13, 16, 19, 23, 27, 32, 38, 45, 54, 64, 76, 91, 108, 128, 152, 181, 215, 256, 304, 362, 431];

impl Bank {
    fn new(ways: usize, sets: usize) -> Self {
        Self {
            ways,
            ways_max: if ways > 16 { 64 } else { 16 },
            sets: vec![Vec::new(); sets],
            clocks: vec![0; sets],
            ghosts: vec![Vec::new(); sets],
            used: Reuse::default(),
            written: Reuse::default(),
            averages: HashMap::new(),
            shadows: vec![Vec::new(); sets],
            misses: 4 * 64,
            writebacks: 32,
            is_spent: false,
            seen: 0,
            counted: Counted::default(),
        }
    }

    fn average(&mut self, line: u64, is_write: bool) -> &mut i64 {
        let region = (line >> 13).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55;
        self.averages.entry((region, is_write)).or_insert(96)
    }

    fn learn_region(&mut self, line: u64, is_write: bool, bucket: usize) {
        let average = self.average(line, is_write);
        let off = bucket as i64 * 12 - *average;
        *average += if off.abs() < 8 { off.signum() } else { off / 8 };
    }

    fn weight(&self) -> u64 {
        WEIGHTS[(self.misses / (4 * 64)) as usize]
    }

    /// In steps of four accesses, or of sixteen.
    fn age(&self, set: usize, since: u64) -> u64 {
        let step = self.ways_max as u64 / 4;
        (self.clocks[set] / step - since / step).min(255)
    }

    fn written_age(&self, set: usize, story: &Story) -> u64 {
        story.written.map_or(255, |since| self.age(set, since))
    }

    /// Takes the line that is worth least out of a full set.
    fn evict(&mut self, set: usize) {
        let worth = |story: &Story| {
            let saved = self.written.worth(story.written_class, self.written_age(set, story));
            let used = self.used.worth(story.used_class, self.age(set, story.used));
            16 * used + if story.dirty { self.weight() * saved } else { 0 }
        };
        let place = if self.is_spent || self.seen < 256 {
            self.ways - 1
        } else {
            let values: Vec<u64> = self.sets[set].iter().map(worth).collect();
            let least = values.iter().min().expect("it is full");
            values.iter().rposition(|value| value == least).expect("it is there")
        };
        let story = self.sets[set].remove(place);
        if !set.is_multiple_of(16) {
            self.used.note(story.used_class, self.age(set, story.used), false);
            if story.dirty {
                self.written.note(story.written_class, self.written_age(set, &story), false);
            }
        }
        self.counted.written.extend(story.dirty.then_some(story.line));
    }

    fn access(&mut self, set: usize, line: u64, is_write: bool) {
        let place = self.sets[set].iter().position(|story| story.line == line);
        let new = Story { line, used: 0, written: None, used_class: 0, written_class: 0, found: 0, dirty: false };
        let mut story = place.map_or(new, |place| self.sets[set].remove(place));
        let own = (place.is_none(), is_write && !story.dirty);
        match (place, is_write) {
            (Some(_), _) => self.counted.hits += 1,
            (None, true) => self.counted.write_misses += 1,
            (None, false) => self.counted.read_misses += 1,
        }
        if place.is_none() && self.sets[set].len() == self.ways {
            self.evict(set);
        }
        self.clocks[set] += 1;
        if place.is_some() && !set.is_multiple_of(16) {
            self.used.note(story.used_class, self.age(set, story.used), true);
            if is_write && story.dirty {
                self.written.note(story.written_class, self.written_age(set, &story), true);
            }
        }
        self.renew(set, &mut story, is_write, place.is_some());
        self.sets[set].insert(0, story);
        if set.is_multiple_of(16) {
            self.watch(set, story.line, is_write, own);
            self.sample(set, story, is_write);
        }
    }

    fn renew(&mut self, set: usize, story: &mut Story, is_write: bool, is_hit: bool) {
        story.found = (story.found + usize::from(is_hit && !is_write)).min(3);
        story.dirty |= is_write;
        let level_used = level(*self.average(story.line, false));
        story.used_class = level_used * 16 + story.found * 4 + usize::from(story.dirty) * 2 + usize::from(is_write);
        if is_write {
            let before = match self.written_age(set, story) {
                0..2 => 0,
                2..4 => 1,
                4..8 => 2,
                8..16 => 3,
                16..40 => 4,
                40..100 => 5,
                100..255 => 6,
                _ => 7,
            };
            story.written_class = level(*self.average(story.line, true)) * 16 + before * 2 + story.found.min(1);
            story.written = Some(self.clocks[set]);
        }
        story.used = self.clocks[set];
    }

    /// `own` is whether the access missed, and whether it made a clean line dirty.
    fn watch(&mut self, set: usize, line: u64, is_write: bool, own: (bool, bool)) {
        let shadow = &mut self.shadows[set];
        let place = shadow.iter().position(|one| one.0 == print(line));
        let was_dirty = place.is_some_and(|place| shadow.remove(place).1);
        shadow.insert(0, (print(line), was_dirty || is_write));
        shadow.truncate(self.ways);
        let count = |yes: bool, parts: i64| if yes { parts } else { 0 };
        self.misses += count(place.is_none(), 67) - count(own.0, 64);
        self.writebacks += count(is_write && !was_dirty, 65) - count(own.1, 64);
        self.misses = self.misses.clamp(-16 * 64, 24 * 4 * 64 - 1);
        self.writebacks = self.writebacks.clamp(-16 * 64, 64 * 64);
        self.is_spent = match self.is_spent {
            true => self.misses < 4 * 64 || self.writebacks < 32,
            false => self.misses < 0 || self.writebacks < 0,
        };
    }

    fn sample(&mut self, set: usize, story: Story, is_write: bool) {
        let place = self.ghosts[set].iter().position(|ghost| print(ghost.line) == print(story.line));
        let before = place.map(|place| self.ghosts[set].remove(place));
        let lost = (self.ghosts[set].len() == 8 * self.ways_max).then(|| self.ghosts[set].pop()).flatten();
        let mut ghost = story;
        if let Some(before) = before.filter(|_| !is_write) {
            (ghost.written, ghost.written_class) = (before.written, before.written_class);
        }
        self.ghosts[set].insert(0, ghost);
        if let Some(before) = before {
            let age = self.age(set, before.used);
            self.used.note(before.used_class, age, true);
            self.learn_region(story.line, false, bucket(age));
            let age = self.written_age(set, &before);
            if is_write && age < 255 {
                self.written.note(before.written_class, age, true);
                self.learn_region(story.line, true, bucket(age));
            }
        }
        if let Some(lost) = lost {
            self.used.note(lost.used_class, 255, false);
            self.learn_region(lost.line, false, 21);
            if self.written_age(set, &lost) < 255 {
                self.written.note(lost.written_class, 255, false);
                self.learn_region(lost.line, true, 21);
            }
        }
        self.seen += 1;
        if self.seen == 256 || self.seen.is_multiple_of(512) {
            self.used.learn(self.seen > 256);
            self.written.learn(self.seen > 256);
        }
    }
}

/// Each bank by itself: line `n` is in bank `n % 4`, or in one of as many as there are sets.
pub fn run(sets: u64, ways: usize, events: &[Event]) -> Counted {
    let banks = sets.min(4);
    let mut all: Vec<Bank> = (0..banks).map(|_| Bank::new(ways, (sets / banks) as usize)).collect();
    for event in events {
        let line = event.line();
        let set = (line % sets / banks) as usize;
        all[(line % banks) as usize].access(set, line, event.is_write());
    }
    let mut counted = Counted::default();
    for bank in all {
        let Counted { read_misses, write_misses, hits, written } = bank.counted;
        counted.read_misses += read_misses;
        counted.write_misses += write_misses;
        counted.hits += hits;
        counted.written.extend(written);
        counted.written.extend(bank.sets.iter().flatten().filter(|story| story.dirty).map(|story| story.line));
    }
    counted
}
