//! Orphans: inodes with work left to do, so that a crash leaks nothing.
//!
//! An orphan word names an inode that lost its last name, or whose end was cut off while it had more pages than one
//! change frees. The inode names the word.
//!
//! - FO1. An inode without a name that is not freed in the same change has an orphan word in it.
//! - FO2. After a crash nobody holds an inode: those without a name end, step by step; pages behind the end go.

use ferrite_medium::Memory;
use parking_lot::Mutex;
use std::collections::BTreeSet;

use crate::Ino;
use crate::layout::{MapPages, ORPHANS};

/// The orphan words in DRAM.
#[derive(Debug)]
pub(crate) struct Orphans(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Words that nobody uses.
    free: Vec<u32>,
    /// Inodes to work on: those that nobody holds.
    ready: BTreeSet<Ino>,
}

impl Orphans {
    /// The words as a crash left them (FO2).
    pub fn load(memory: &dyn Memory, map: &MapPages) -> Self {
        let mut state = State { free: Vec::new(), ready: BTreeSet::new() };
        for index in (0..ORPHANS).rev() {
            match memory.load_word(map.orphan(index)) {
                0 => state.free.push(index as u32),
                ino => drop(state.ready.insert(Ino(ino))),
            }
        }
        Self(Mutex::new(state))
    }

    /// A word that nobody uses.
    pub fn take(&self) -> Option<u32> {
        self.0.lock().free.pop()
    }

    pub fn give_back(&self, word: u32) {
        self.0.lock().free.push(word);
    }

    /// There is work to do on `ino`, and nobody holds it back.
    pub fn make_ready(&self, ino: Ino) {
        self.0.lock().ready.insert(ino);
    }

    /// All inodes to work on.
    pub fn ready(&self) -> Vec<Ino> {
        self.0.lock().ready.iter().copied().collect()
    }

    /// An inode to work on.
    pub fn next_ready(&self) -> Option<Ino> {
        self.0.lock().ready.first().copied()
    }

    /// Nothing is left to do on `ino`.
    pub fn remove(&self, ino: Ino) {
        self.0.lock().ready.remove(&ino);
    }
}
