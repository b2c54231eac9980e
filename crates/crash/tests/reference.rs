//! Random short runs, compared with a reference without lines, sites or deltas. The reference tries every subset of the
//! stored words and keeps those that the rules CP1-CP7 allow.

use std::collections::BTreeSet;

use ferrite_crash::{ExploreOptions, LyingMemory, Model, explore};
use ferrite_memory::{Memory, Scheme, Span};

/// Words in use: three in each of two lines.
const WORDS: [u64; 6] = [0, 1, 2, 8, 9, 10];
type Image = [u64; WORDS.len()];

/// One word of one store.
#[derive(Clone, Copy, Debug)]
struct Atom {
    event: u64,
    thread: u32,
    word: u64,
    /// The scheme of the store, or `None` for a plain cached word.
    how: Option<Scheme>,
    settled: bool,
}

impl Atom {
    fn is_nt(&self) -> bool {
        self.how == Some(Scheme::Nt)
    }

    fn same_line(&self, other: &Self) -> bool {
        self.word / 8 == other.word / 8
    }
}

#[derive(Default)]
struct Reference {
    file: bool,
    event: u64,
    atoms: Vec<Atom>,
    flushes: Vec<(u32, u64, u64)>,
}

impl Reference {
    fn store(&mut self, thread: u32, words: &[u64], how: Option<Scheme>) {
        let kept = if self.file { Some(Scheme::Nt) } else { how };
        let atom = |&word| Atom { event: self.event, thread, word, how: kept, settled: false };
        self.atoms.extend(words.iter().map(atom));
        if matches!(how, Some(Scheme::Flush | Scheme::Writethrough)) {
            self.flush(thread, words[0] / 8);
        }
    }

    fn flush(&mut self, thread: u32, line: u64) {
        self.flushes.push((thread, line, self.event));
    }

    fn fence(&mut self, thread: u32) {
        let flushes = &self.flushes;
        let flushed = |atom: &Atom| {
            flushes.contains(&(thread, atom.word / 8, atom.event))
                || flushes.iter().any(|&(by, line, at)| by == thread && line == atom.word / 8 && at > atom.event)
        };
        for atom in self.atoms.iter_mut().filter(|_| !self.file) {
            atom.settled |= if atom.is_nt() { atom.thread == thread } else { flushed(atom) };
        }
        self.flushes.retain(|&(by, ..)| by != thread);
    }

    fn barrier(&mut self, thread: u32) {
        self.atoms.iter_mut().for_each(|atom| atom.settled |= self.file);
        let is_tracked = |atom: &&Atom| matches!(atom.how, Some(Scheme::Writeback | Scheme::WritebackAll));
        let tracked: Vec<Atom> = self.atoms.iter().filter(is_tracked).copied().collect();
        self.flushes.extend(tracked.iter().map(|atom| (thread, atom.word / 8, atom.event)));
        self.fence(thread);
    }

    fn settle_line(&mut self, thread: u32, line: u64) {
        let file = self.file;
        self.atoms.iter_mut().filter(|atom| atom.word / 8 == line).for_each(|atom| atom.settled |= file);
        self.fence(thread);
    }

    /// Returns every image, or `None` if there are too many subsets to try.
    fn images(&self) -> Option<BTreeSet<Image>> {
        let open: Vec<usize> = (0..self.atoms.len()).filter(|&number| !self.atoms[number].settled).collect();
        let landed = |mask: u32| -> Vec<bool> {
            let chosen = |number| open.iter().position(|&o| o == number).is_none_or(|bit| mask >> bit & 1 == 1);
            (0..self.atoms.len()).map(chosen).collect()
        };
        let all = (0..1u32 << open.len().min(13)).map(landed).filter(|landed| self.allowed(landed));
        (open.len() <= 12).then(|| all.map(|landed| self.image(&landed)).collect())
    }

    fn allowed(&self, landed: &[bool]) -> bool {
        let before = |older: &Atom, newer: &Atom| {
            older.event < newer.event
                && older.is_nt() == newer.is_nt()
                && if newer.is_nt() { older.word == newer.word } else { older.same_line(newer) }
        };
        let pairs = self.atoms.iter().enumerate().filter(|(newer, _)| landed[*newer]);
        pairs
            .flat_map(|(_, newer)| self.atoms.iter().enumerate().filter(move |(_, older)| before(older, newer)))
            .all(|(older, _)| landed[older])
    }

    fn image(&self, landed: &[bool]) -> Image {
        WORDS.map(|word| {
            let atoms = self.atoms.iter().zip(landed).filter(|(atom, landed)| **landed && atom.word == word);
            atoms.map(|(atom, _)| atom.event).max().unwrap_or(0)
        })
    }
}

/// Runs the same random calls on both. The value of each store is its event's number.
fn run(seed: u64, model: Model) -> (LyingMemory, Reference) {
    let memory = LyingMemory::new(128, model);
    let mut reference = Reference { file: !model.fence_is_durable, ..Reference::default() };
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    for event in 1..=12 {
        let (thread, line) = (below(2) as u32, below(2));
        let _played = memory.as_thread(thread);
        reference.event = event;
        let (first, count) = (line * 8 + below(2), 1 + below(2));
        let hows = [Scheme::Nt, Scheme::Flush, Scheme::Writeback, Scheme::WritebackAll, Scheme::Writethrough];
        let how = hows.get(below(6) as usize).copied();
        match (below(10), how) {
            (0, _) => (memory.fence(), reference.fence(thread)).0,
            (1, _) => (memory.barrier().unwrap(), reference.barrier(thread)).0,
            (2 | 3, _) => (memory.flush(Span::new(line * 64, 64)), reference.flush(thread, line)).0,
            (4, _) => {
                memory.drain_range(Span::new(line * 64 + 8, 16)).unwrap();
                reference.settle_line(thread, line);
            }
            (_, None) => (memory.store_word(first * 8, event), reference.store(thread, &[first], None)).0,
            (_, Some(scheme)) => {
                memory.store(first * 8, &event.to_le_bytes().repeat(count as usize), scheme);
                reference.store(thread, &[first, first + 1][..count as usize], how);
            }
        }
    }
    memory.forget_trace();
    (memory, reference)
}

fn explored(memory: &LyingMemory, options: &ExploreOptions) -> (BTreeSet<Image>, u64) {
    let mut images = BTreeSet::new();
    let report = explore(memory, options, |crash| {
        images.insert(WORDS.map(|word| crash.load_word(word * 8)));
        Ok(())
    });
    report.assert_clean();
    (images, report.images)
}

/// M1-M3 and CP1-CP7: an exhaustive exploration gives each allowed image once and no other. Sampling gives only allowed
/// images.
#[test]
fn explored_images_are_those_the_rules_allow() {
    let (mut compared, mut largest) = (0, 0);
    for (seed, model) in (0..1500).flat_map(|seed| Model::ALL.map(|model| (seed, model))) {
        let (memory, reference) = run(seed, model);
        let Some(allowed) = reference.images() else { continue };
        let (every, count) = explored(&memory, &ExploreOptions::default());
        assert_eq!(every, allowed, "seed {seed}, {model:?}: {:?}", reference.atoms);
        assert_eq!(count, every.len() as u64, "seed {seed}, {model:?}: an image came twice");
        let sampling =
            ExploreOptions { seed, images_per_point_max: 1, samples_per_point: 40, ..ExploreOptions::default() };
        let (some, _) = explored(&memory, &sampling);
        assert!(some.is_subset(&allowed), "seed {seed}, {model:?}: {:?}", some.difference(&allowed));
        assert!((0..4).all(|crash| allowed.contains(&read(&memory.crash(crash)))), "seed {seed}, {model:?}");
        (compared, largest) = (compared + 1, largest.max(allowed.len()));
    }
    assert!(compared > 1000 && largest > 100, "{compared} runs compared, {largest} images in the largest");
}

fn read(memory: &LyingMemory) -> Image {
    WORDS.map(|word| memory.load_word(word * 8))
}
