//! The names of a directory.

use std::collections::BTreeMap;
use std::ops::Range;

use super::content::Collector;
use super::{Fix, Wrong};
use crate::Ino;
use crate::inode::Inode;
use crate::leaf::{Entry, Leaf, MAGIC, ORDINAL_BITS, SLOTS};
use crate::names::hash;
use crate::space::ChunkKind;
use crate::word::{Named, Word};

/// What is told of names that are given up.
const LOST_NAMES: &str = "it is gone; what only it named is found in lost+found";

/// Makes the page at `at` a page of `dir` without names.
fn own_page(dir: &Inode, at: u64) -> Vec<(u64, Vec<u8>)> {
    let mut bytes = head(dir);
    bytes.resize(64 + SLOTS * 8, 0);
    vec![(at, bytes)]
}

/// The first words of a page of names of `dir`.
fn head(dir: &Inode) -> Vec<u8> {
    [MAGIC.to_le_bytes(), dir.ino.0.to_le_bytes()].concat()
}

/// Bits of a hash that the root of a directory stands for.
const HASH_BITS: u32 = 55;

impl Collector<'_> {
    /// The entries of directory `dir`.
    pub fn names(&mut self, dir: &Inode) -> Vec<Entry> {
        let mut found = BTreeMap::new();
        self.names_below(dir, (dir.root_at(0), dir.roots[0]), 0..1 << HASH_BITS, &mut found);
        if dir.size() != found.len() as u64 && !self.is_hidden {
            let what = format!("directory {} says it has {} entries and has {}", dir.ino.0, dir.size(), found.len());
            let mut counted = *dir;
            counted.head.size = found.len() as u64;
            self.wrong.push(Wrong::new(what, dir.at).fixed_by(Fix::inode(counted, "it says what was counted")));
        }
        found.into_values().collect()
    }

    fn names_below(
        &mut self,
        dir: &Inode,
        (at, word): (u64, Word),
        hashes: Range<u64>,
        found: &mut BTreeMap<u64, Entry>,
    ) {
        match word.named() {
            Named::Nothing => {}
            Named::Page(page) => {
                if let Some(leaf) = self.leaf(dir, page, at) {
                    self.leaf_names(dir, leaf, hashes, found);
                }
            }
            Named::Node(node) if hashes.end - hashes.start >= 512 => {
                let Some((first, mut words)) = self.node(dir, node, at) else { return };
                let span = (hashes.end - hashes.start) / 512;
                for (index, right) in self.lost_words(dir, &words, &hashes) {
                    let at = first + index as u64 * 8;
                    let wrong =
                        Wrong::new(format!("a word of the tree of names of directory {} is lost", dir.ino.0), at);
                    self.wrong.push(wrong.fixed_by(Fix::word(at, right, "it names the page of those around it again")));
                    words[index] = right;
                }
                let mut index = 0;
                while index < 512 {
                    let same = words[index..].iter().take_while(|word| **word == words[index]).count();
                    let start = hashes.start + index as u64 * span;
                    let spot = (first + index as u64 * 8, Word(words[index]));
                    self.names_below(dir, spot, start..start + same as u64 * span, found);
                    index += same;
                }
            }
            _ => {
                let wrong = Wrong::new(format!("the tree of names of directory {} is damaged", dir.ino.0), at);
                self.wrong.push(wrong.fixed_by(Fix::word(at, 0, LOST_NAMES)));
            }
        }
    }

    /// Those of the `words` of a node that name no page of `dir` where one must be, and what they are to say. The words that
    /// name a page are one aligned block, in which all names of the page lie (FN1).
    fn lost_words(&self, dir: &Inode, words: &[u64], hashes: &Range<u64>) -> Vec<(usize, u64)> {
        let lost: Vec<bool> = words.iter().map(|word| self.is_lost(dir, Word(*word))).collect();
        if !lost.contains(&true) {
            return Vec::new();
        }
        let mut spans: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
        for (index, word) in words.iter().enumerate().filter(|(index, _)| !lost[*index]) {
            spans.entry(*word).or_insert((index, index)).1 = index;
        }
        let mut found = Vec::new();
        for (word, (mut first, mut last)) in spans {
            let Named::Page(page) = Word(word).named() else { continue };
            for hash in self.hashes_in(page).into_iter().filter(|hash| hashes.contains(hash)) {
                let index = ((hash - hashes.start) / ((hashes.end - hashes.start) / 512)) as usize;
                (first, last) = (first.min(index), last.max(index));
            }
            let bits = usize::BITS - (first ^ last).leading_zeros();
            let start = first >> bits << bits;
            let others = || (start..start + (1 << bits)).filter(|index| words[*index] != word);
            if others().all(|index| lost[index]) {
                found.extend(others().map(|index| (index, word)));
            }
        }
        found
    }

    /// Whether `word` of a node of `dir` names nothing, or what is none of its pages.
    fn is_lost(&self, dir: &Inode, word: Word) -> bool {
        let head = |page| {
            self.media.place(page, ChunkKind::Index).map(|at| [at, at + 8].map(|at| self.media.memory.load_word(at)))
        };
        match word.named() {
            Named::Page(page) => head(page).is_none_or(|head| head != [MAGIC, dir.ino.0]),
            Named::Node(node) => head(node).is_none_or(|head| head[0] == MAGIC),
            _ => true,
        }
    }

    /// The hashes of the names in page `page` that are whole.
    fn hashes_in(&self, page: u64) -> Vec<u64> {
        let Some(at) = self.media.place(page, ChunkKind::Index) else { return Vec::new() };
        let (memory, leaf) = (self.media.memory, Leaf::load(self.media.memory, at));
        let entries = leaf.used().filter_map(|(index, slot)| leaf.entry(memory, index, slot));
        let hashed = entries
            .map(|entry| (entry.position >> ORDINAL_BITS, hash(self.media.shape.hash_seed, &entry.name(memory))));
        hashed.filter(|(said, hash)| said == hash).map(|(_, hash)| hash).collect()
    }

    fn leaf_names(&mut self, dir: &Inode, at: u64, hashes: Range<u64>, found: &mut BTreeMap<u64, Entry>) {
        let memory = self.media.memory;
        let (is_page, of) = (memory.load_word(at) == MAGIC, Ino(memory.load_word(at + 8)));
        if !is_page || of != dir.ino {
            // It says one of the two, or is of no directory that there is: it is this one's, which alone names it.
            let is_own = of == dir.ino || is_page && !self.media.inode(of).is_some_and(|other| other.is_directory());
            let (what, writes, done) = if is_own {
                ("has a damaged head", vec![(at, head(dir))], "it is whole again")
            } else {
                ("is another one's", own_page(dir, at), LOST_NAMES)
            };
            let wrong = Wrong::new(format!("a page of names of directory {} {what}", dir.ino.0), at);
            self.wrong.push(wrong.fixed_by(Fix { writes, copy: None, done: done.into() }));
            if !is_own {
                return;
            }
        }
        let leaf = Leaf::load(memory, at);
        for (index, slot) in leaf.used() {
            let Some(entry) = leaf.entry(memory, index, slot) else {
                let wrong = Wrong::new(format!("a name of directory {} is damaged", dir.ino.0), at);
                self.wrong.push(wrong.fixed_by(Fix::word(leaf.slot_at(index), 0, LOST_NAMES)));
                continue;
            };
            let name = entry.name(memory);
            let wanted = hash(self.media.shape.hash_seed, &name);
            if entry.position >> ORDINAL_BITS != wanted || !hashes.contains(&wanted) {
                let name = String::from_utf8_lossy(&name).into_owned();
                let wrong =
                    Wrong::new(format!("name {name:?} of directory {} is where nobody finds it", dir.ino.0), at);
                self.wrong.push(wrong.fixed_by(Fix::word(entry.slot_at, 0, LOST_NAMES)));
                continue;
            }
            if !slot.is_at(entry.position) {
                let wrong = Wrong::new(format!("a name of directory {} is not found by its slot", dir.ino.0), at);
                let right = slot.with_position(entry.position);
                self.wrong.push(wrong.fixed_by(Fix::word(entry.slot_at, right.0, "it is found again")));
            }
            let slot_at = entry.slot_at;
            if found.insert(entry.position, entry).is_some() {
                let wrong = Wrong::new(format!("two names of directory {} have one position", dir.ino.0), at);
                self.wrong.push(wrong.fixed_by(Fix::word(slot_at, 0, LOST_NAMES)));
            }
        }
    }
}
