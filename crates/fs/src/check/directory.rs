//! The names of a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::blocks::{self, PageOwner};
use super::content::Collector;
use super::{Fix, FsFinding};
use crate::Ino;
use crate::format::inode::Inode;
use crate::format::layout::ChunkKind;
use crate::format::layout::NODE_WORDS;
use crate::format::leaf::name_hash;
use crate::format::leaf::{Leaf, LeafEntry, MAGIC, NameSlot, ORDINAL_BITS, SLOTS};
use crate::format::word::{IndexWord, NamedBy};

/// The report on names that are given up.
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
    pub fn names(&mut self, dir: &Inode) -> Vec<LeafEntry> {
        let mut found = BTreeMap::new();
        self.names_below(dir, dir.root_at(0), dir.roots[0], 0..1 << HASH_BITS, &mut found);
        if dir.size() != found.len() as u64 && !self.is_hidden {
            let what = format!("directory {} says it has {} entries and has {}", dir.ino.0, dir.size(), found.len());
            let mut counted = *dir;
            counted.head.size = found.len() as u64;
            self.wrong.push(FsFinding::new(what, dir.at).fixed_by(Fix::inode(counted, "it says what was counted")));
        }
        found.into_values().collect()
    }

    fn names_below(
        &mut self,
        dir: &Inode,
        at: u64,
        word: IndexWord,
        hashes: Range<u64>,
        found: &mut BTreeMap<u64, LeafEntry>,
    ) {
        match word.named() {
            NamedBy::Nothing => {}
            NamedBy::Page(page) => {
                if let Some(leaf) = self.leaf(dir, page, at) {
                    self.leaf_names(dir, leaf, hashes, found);
                }
            }
            NamedBy::Node(node) if hashes.end - hashes.start >= 512 => {
                let Some((first, mut words)) = self.node(dir, node, at) else { return };
                let span = (hashes.end - hashes.start) / 512;
                let right = blocks::right(&words, &self.owners(dir, &words, &hashes));
                for (index, right) in right.iter().enumerate().filter(|(index, right)| **right != words[*index]) {
                    let at = first + index as u64 * 8;
                    let done = if *right == 0 { LOST_NAMES } else { "it names the page of those around it again" };
                    let wrong =
                        FsFinding::new(format!("a word of the tree of names of directory {} is lost", dir.ino.0), at);
                    self.wrong.push(wrong.fixed_by(Fix::word(at, *right, done)));
                }
                words = right;
                let mut index = 0;
                while index < 512 {
                    let same = words[index..].iter().take_while(|word| **word == words[index]).count();
                    let start = hashes.start + index as u64 * span;
                    let (word_at, word) = (first + index as u64 * 8, IndexWord(words[index]));
                    let message = self.wrong.len();
                    self.names_below(dir, word_at, word, start..start + same as u64 * span, found);
                    // Giving up the first of several equal words gives up all of them.
                    let fixes = self.wrong[message..].iter_mut().filter_map(|wrong| wrong.fix.as_mut());
                    let of_first = fixes.flat_map(|fix| &mut fix.writes).filter(|(at, _)| *at == word_at);
                    of_first.for_each(|(_, bytes)| *bytes = bytes.repeat(same));
                    index += same;
                }
            }
            _ => {
                let wrong = FsFinding::new(format!("the tree of names of directory {} is damaged", dir.ino.0), at);
                self.wrong.push(wrong.fixed_by(Fix::word(at, 0, LOST_NAMES)));
            }
        }
    }

    /// What the `words` of a node of `dir`, which stands for `hashes`, name that can be its own.
    fn owners(&self, dir: &Inode, words: &[u64], hashes: &Range<u64>) -> Vec<PageOwner> {
        let named: BTreeSet<u64> = words.iter().copied().filter(|word| !self.is_lost(dir, IndexWord(*word))).collect();
        named.into_iter().map(|word| self.owner(dir, word, words, hashes)).collect()
    }

    fn owner(&self, dir: &Inode, word: u64, words: &[u64], hashes: &Range<u64>) -> PageOwner {
        let mut all = Vec::new();
        let span = (hashes.end - hashes.start) / NODE_WORDS;
        self.hashes_below(dir, IndexWord(word), span, &mut BTreeSet::new(), &mut all);
        let place = |hash: &u64| ((hash - hashes.start) / span) as usize;
        let mut names: Vec<usize> = all.iter().filter(|hash| hashes.contains(hash)).map(place).collect();
        names.sort_unstable();
        let (is_node, says) = match IndexWord(word).named() {
            NamedBy::Page(page) => (false, self.media.place(page, ChunkKind::Index).map(|at| self.head_of(at)[1])),
            _ => (true, None),
        };
        // A page that does not say whose it is has names of this directory if one is found here.
        if !is_node && says != Some(dir.ino.0) && !names.iter().any(|name| words[*name] == word) {
            all.clear();
            names.clear();
        }
        let places: Vec<usize> = (0..words.len()).filter(|index| words[*index] == word).collect();
        let middle = |places: &[usize]| places.get(places.len() / 2).copied();
        let middle = middle(if all.is_empty() { &places } else { &names });
        PageOwner { word, is_node, names, middle }
    }

    /// Returns true if `word` of a node of `dir` names nothing, or what is none of its pages.
    fn is_lost(&self, dir: &Inode, word: IndexWord) -> bool {
        let place = |page| self.media.place(page, ChunkKind::Index);
        match word.named() {
            NamedBy::Page(page) => place(page).is_none_or(|at| !self.is_own(dir, at)),
            NamedBy::Node(node) => place(node).is_none_or(|at| {
                let [magic, of] = self.head_of(at);
                magic == MAGIC || of == dir.ino.0
            }),
            _ => true,
        }
    }

    fn head_of(&self, at: u64) -> [u64; 2] {
        [at, at + 8].map(|at| self.media.memory.load_word(at))
    }

    /// Returns true if the page of names at `at` is one of `dir`, which names it: it says one of the two, or is of no
    /// directory that there is; or it says neither, as where its head is zeros, and has names that lie where they are
    /// found.
    fn is_own(&self, dir: &Inode, at: u64) -> bool {
        let [magic, of] = self.head_of(at);
        let is_nobodys = || !self.media.inode(Ino(of)).is_some_and(|other| other.is_directory());
        of == dir.ino.0 || magic == MAGIC && is_nobodys() || of == 0 && self.has_names(at)
    }

    /// Returns true if any name in the page at `at` is whole and found by its slot.
    fn has_names(&self, at: u64) -> bool {
        let mut all = Vec::new();
        self.hashes_in(at, &mut all);
        !all.is_empty()
    }

    /// Collects the hashes of the whole names of `dir` below `word`, which stands for `span` hashes, except those
    /// `seen`. A node for too few hashes has no words.
    fn hashes_below(&self, dir: &Inode, word: IndexWord, span: u64, seen: &mut BTreeSet<u64>, all: &mut Vec<u64>) {
        let (NamedBy::Page(page) | NamedBy::Node(page)) = word.named() else { return };
        let Some(at) = self.media.place(page, ChunkKind::Index) else { return };
        if !seen.insert(page) || self.is_lost(dir, word) {
            return;
        }
        match word.named() {
            NamedBy::Node(_) if span < NODE_WORDS => {}
            NamedBy::Node(_) => {
                let words = (0..NODE_WORDS).map(|index| IndexWord(self.media.memory.load_word(at + index * 8)));
                words.for_each(|word| self.hashes_below(dir, word, span / NODE_WORDS, seen, all));
            }
            _ => self.hashes_in(at, all),
        }
    }

    /// Collects the hashes of the names in the page at `at` that are whole and found by their slots.
    fn hashes_in(&self, at: u64, all: &mut Vec<u64>) {
        let (memory, leaf) = (self.media.memory, Leaf::load(self.media.memory, at));
        let found = |(index, slot): (usize, NameSlot)| {
            let entry = leaf.entry(memory, index, slot).filter(|entry| slot.is_at(entry.position))?;
            let hash = name_hash(self.media.shape.hash_seed, &entry.name(memory));
            (entry.position >> ORDINAL_BITS == hash).then_some(hash)
        };
        all.extend(leaf.used().filter_map(found));
    }

    fn leaf_names(&mut self, dir: &Inode, at: u64, hashes: Range<u64>, found: &mut BTreeMap<u64, LeafEntry>) {
        let memory = self.media.memory;
        if self.head_of(at) != [MAGIC, dir.ino.0] {
            // It alone names it.
            let is_own = self.is_own(dir, at);
            let (what, writes, done) = if is_own {
                ("has a damaged head", vec![(at, head(dir))], "it is whole again")
            } else {
                ("is another one's", own_page(dir, at), LOST_NAMES)
            };
            let wrong = FsFinding::new(format!("a page of names of directory {} {what}", dir.ino.0), at);
            self.wrong.push(wrong.fixed_by(Fix { writes, copy: None, done: done.into() }));
            if !is_own {
                return;
            }
        }
        let leaf = Leaf::load(memory, at);
        for (index, slot) in leaf.used() {
            let Some(entry) = leaf.entry(memory, index, slot) else {
                let wrong = FsFinding::new(format!("a name of directory {} is damaged", dir.ino.0), at);
                self.wrong.push(wrong.fixed_by(Fix::word(leaf.slot_at(index), 0, LOST_NAMES)));
                continue;
            };
            let name = entry.name(memory);
            let wanted = name_hash(self.media.shape.hash_seed, &name);
            if entry.position >> ORDINAL_BITS != wanted || !hashes.contains(&wanted) {
                let name = String::from_utf8_lossy(&name).into_owned();
                let wrong =
                    FsFinding::new(format!("name {name:?} of directory {} is where nobody finds it", dir.ino.0), at);
                self.wrong.push(wrong.fixed_by(Fix::word(entry.slot_at, 0, LOST_NAMES)));
                continue;
            }
            if !slot.is_at(entry.position) {
                let wrong = FsFinding::new(format!("a name of directory {} is not found by its slot", dir.ino.0), at);
                let right = slot.with_position(entry.position);
                self.wrong.push(wrong.fixed_by(Fix::word(entry.slot_at, right.0, "it is found again")));
            }
            let slot_at = entry.slot_at;
            if found.insert(entry.position, entry).is_some() {
                let wrong = FsFinding::new(format!("two names of directory {} have one position", dir.ino.0), at);
                self.wrong.push(wrong.fixed_by(Fix::word(slot_at, 0, LOST_NAMES)));
            }
        }
    }
}
