//! The names of a directory.

use std::collections::BTreeMap;

use super::Wrong;
use super::content::Collector;
use crate::inode::Inode;
use crate::leaf::{Entry, Leaf, MAGIC, ORDINAL_BITS};
use crate::names::hash;
use crate::word::{Named, Word};

/// Bits of a hash that the root of a directory stands for.
const HASH_BITS: u32 = 55;

impl Collector<'_> {
    /// The entries of directory `dir`.
    pub fn names(&mut self, dir: &Inode) -> Vec<Entry> {
        let mut found = BTreeMap::new();
        self.names_below(dir, (dir.root_at(0), dir.roots[0]), 0..1 << HASH_BITS, &mut found);
        if dir.size() != found.len() as u64 {
            let what = format!("directory {} says it has {} entries and has {}", dir.ino.0, dir.size(), found.len());
            self.wrong.push(Wrong::new(what, dir.at));
        }
        found.into_values().collect()
    }

    fn names_below(
        &mut self,
        dir: &Inode,
        (at, word): (u64, Word),
        hashes: std::ops::Range<u64>,
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
                let Some((first, words)) = self.node(dir, node, at) else { return };
                let span = (hashes.end - hashes.start) / 512;
                let mut index = 0;
                while index < 512 {
                    let same = words[index..].iter().take_while(|word| **word == words[index]).count();
                    let start = hashes.start + index as u64 * span;
                    let spot = (first + index as u64 * 8, Word(words[index]));
                    self.names_below(dir, spot, start..start + same as u64 * span, found);
                    index += same;
                }
            }
            _ => self.wrong.push(Wrong::new(format!("the tree of names of directory {} is damaged", dir.ino.0), at)),
        }
    }

    fn leaf_names(&mut self, dir: &Inode, at: u64, hashes: std::ops::Range<u64>, found: &mut BTreeMap<u64, Entry>) {
        let memory = self.media.memory;
        if memory.load_word(at) != MAGIC || memory.load_word(at + 8) != dir.ino.0 {
            self.wrong.push(Wrong::new(format!("a page of names of directory {} is another one's", dir.ino.0), at));
            return;
        }
        let leaf = Leaf::load(memory, at);
        for (index, slot) in leaf.used() {
            let Some(entry) = leaf.entry(memory, index, slot) else {
                self.wrong.push(Wrong::new(format!("a name of directory {} is damaged", dir.ino.0), at));
                continue;
            };
            let wanted = hash(self.media.shape.hash_seed, entry.name());
            if entry.position >> ORDINAL_BITS != wanted || !hashes.contains(&wanted) {
                let name = String::from_utf8_lossy(entry.name()).into_owned();
                self.wrong
                    .push(Wrong::new(format!("name {name:?} of directory {} is where nobody finds it", dir.ino.0), at));
            }
            if found.insert(entry.position, entry).is_some() {
                self.wrong.push(Wrong::new(format!("two names of directory {} have one position", dir.ino.0), at));
            }
        }
    }
}
