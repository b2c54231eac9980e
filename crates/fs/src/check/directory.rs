//! The names of a directory.

use std::collections::BTreeMap;
use std::ops::Range;

use super::content::Collector;
use super::{Fix, FsFinding};
use crate::Ino;
use crate::format::inode::Inode;
use crate::format::layout::ChunkKind;
use crate::format::leaf::{HASH_BITS, Leaf, LeafEntry, MAGIC, ORDINAL_BITS, name_hash};
use crate::format::word::{IndexWord, NamedBy};

/// The report on names that are given up.
const LOST_NAMES: &str = "it is gone; what only it named is found in lost+found";

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
                let Some((first, words)) = self.node(dir, node, at) else { return };
                if words[0] == MAGIC {
                    let what = format!("directory {} names page {node} of its names as one of words", dir.ino.0);
                    self.wrong.push(FsFinding::doubt(what, at));
                    return;
                }
                let span = (hashes.end - hashes.start) / 512;
                let words = self.filled(dir, first, words);
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

    /// Returns the `words` of the node at `first`, with those that name no page of `dir` repaired where they lie between
    /// two that name one page: the words that name a page lie side by side (FN1).
    fn filled(&mut self, dir: &Inode, first: u64, mut words: Vec<u64>) -> Vec<u64> {
        let mut before = 0;
        for index in 0..words.len() {
            if !self.is_of_names(dir, IndexWord(words[index])) {
                continue;
            }
            if words[before] == words[index] {
                for lost in before + 1..index {
                    words[lost] = words[index];
                    let (at, done) = (first + lost as u64 * 8, "it names the page of those around it again");
                    let what = format!("a word of the tree of names of directory {} is lost", dir.ino.0);
                    self.wrong.push(FsFinding::new(what, at).fixed_by(Fix::word(at, words[index], done)));
                }
            }
            before = index;
        }
        words
    }

    /// Returns true if `word` names a page of names of `dir`, by the head of the page.
    fn is_of_names(&self, dir: &Inode, word: IndexWord) -> bool {
        let NamedBy::Page(page) = word.named() else { return false };
        self.media.place(page, ChunkKind::Index).is_some_and(|at| self.is_own(dir, at))
    }

    /// Returns true if one of the two first words of the page of names at `at` says that it is one of `dir`, and the
    /// other does not contradict that.
    fn is_own(&self, dir: &Inode, at: u64) -> bool {
        let [magic, of] = self.head_of(at);
        let is_anothers = || self.media.inode(Ino(of)).is_some_and(|other| other.is_directory());
        of == dir.ino.0 || magic == MAGIC && !is_anothers()
    }

    fn head_of(&self, at: u64) -> [u64; 2] {
        [at, at + 8].map(|at| self.media.memory.load_word(at))
    }

    fn leaf_names(&mut self, dir: &Inode, at: u64, hashes: Range<u64>, found: &mut BTreeMap<u64, LeafEntry>) {
        let memory = self.media.memory;
        let head = [MAGIC, dir.ino.0];
        if !self.is_own(dir, at) {
            let what = format!("a page of names of directory {} says that it is not its own", dir.ino.0);
            self.wrong.push(FsFinding::doubt(what, at));
            return;
        }
        if self.head_of(at) != head {
            let writes = vec![(at, head.map(u64::to_le_bytes).concat())];
            let fix = Fix { writes, copy: None, done: "it is whole again".into() };
            let what = format!("a page of names of directory {} has a damaged head", dir.ino.0);
            self.wrong.push(FsFinding::new(what, at).fixed_by(fix));
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
            let text = String::from_utf8_lossy(&name);
            if entry.position >> ORDINAL_BITS != wanted {
                let what = format!("name {text:?} of directory {} is damaged: its hash is another one", dir.ino.0);
                self.wrong.push(FsFinding::new(what, at).fixed_by(Fix::word(entry.slot_at, 0, LOST_NAMES)));
                continue;
            }
            if !hashes.contains(&wanted) {
                let what = format!("the tree of names of directory {} does not lead to name {text:?}", dir.ino.0);
                self.wrong.push(FsFinding::doubt(what, at));
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
