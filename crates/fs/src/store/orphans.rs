//! Orphans: inodes with work left to do, so that a crash leaks nothing.
//!
//! An orphan word names an inode that lost its last name, or whose end was cut off while it had more pages than one
//! change frees. The inode names the word.
//!
//! - FO1. An inode without a name that is not freed in the same change has an orphan word, or the last word says that
//!   such inodes exist (FO3).
//! - FO2. After a crash no inode is held: those without a name end step by step, and pages behind the end are freed.
//! - FO3. If words run short, an inode without a name has no word, and the last word says that there may be such
//!   inodes. The next opening looks for them, and clears the last word only if it finds none. So files of others can
//!   be removed and cut, however many files a program keeps open.

use std::collections::BTreeSet;

use ferrite_memory::{Memory, Span, planted};
use parking_lot::Mutex;

use crate::format::inode::Inode;
use crate::format::layout::{LAST_ORPHAN, MapPages, ORPHANS, UNLISTED};
use crate::store::ChunkStore;
use crate::store::change::FsChange;
use crate::{Error, Ino, Result};

/// The nanoseconds within which a kernel releases an inode without a name that no program has open.
const RELEASE_NS: i64 = 1_000_000_000;

/// Words that inodes without a name leave to those that have one and cannot do without.
const KEPT_BACK: usize = 1024;

/// The orphan words in DRAM.
#[derive(Debug)]
pub(crate) struct Orphans(Mutex<OrphanState>);

#[derive(Debug)]
struct OrphanState {
    /// Free words.
    free: Vec<u32>,
    /// Inodes that are not held and have work left.
    ready: BTreeSet<Ino>,
    /// When an inode lost its last name that was held.
    unnamed_at: Option<i64>,
}

impl Orphans {
    /// The words as a crash left them (FO2).
    pub fn load(memory: &dyn Memory, map: &MapPages) -> Self {
        let mut state = OrphanState { free: Vec::new(), ready: BTreeSet::new(), unnamed_at: None };
        for index in (0..ORPHANS).rev() {
            match memory.load_word(map.orphan(index)) {
                0 if index == LAST_ORPHAN => {}
                0 => state.free.push(index as u32),
                UNLISTED => {}
                ino => drop(state.ready.insert(Ino(ino))),
            }
        }
        Self(Mutex::new(state))
    }

    /// Allocates a word, for an inode with a name or without one.
    pub fn take(&self, is_named: bool) -> Option<u32> {
        let mut state = self.0.lock();
        let kept_back = if is_named { 0 } else { KEPT_BACK };
        if state.free.len() > kept_back { state.free.pop() } else { None }
    }

    /// Earlier versions gave the last word to an inode, too.
    pub fn return_word(&self, word: u32) {
        if u64::from(word) < LAST_ORPHAN {
            self.0.lock().free.push(word);
        }
    }

    /// Notes that work is left on `ino`, which is not held.
    pub fn make_ready(&self, ino: Ino) {
        self.0.lock().ready.insert(ino);
    }

    /// Notes that an inode has no name any more at `now`, and is held.
    pub fn note_unnamed(&self, now: i64) {
        self.0.lock().unnamed_at = Some(now);
    }

    /// Returns true if a held inode lost its name a moment before `now`: the kernel is about to release it, unless a
    /// program has it open.
    pub fn has_just_unnamed(&self, now: i64) -> bool {
        self.0.lock().unnamed_at.is_some_and(|at| (at..at.saturating_add(RELEASE_NS)).contains(&now))
    }

    /// All inodes to work on.
    pub fn ready(&self) -> Vec<Ino> {
        self.0.lock().ready.iter().copied().collect()
    }

    /// Inodes to work on, `count` at most.
    pub fn some_ready(&self, count: usize) -> Vec<Ino> {
        self.0.lock().ready.iter().take(count).copied().collect()
    }

    /// Nothing is left to do on `ino`.
    pub fn remove(&self, ino: Ino) {
        self.0.lock().ready.remove(&ino);
    }
}

impl ChunkStore {
    /// Gives `inode` an orphan word (FO1), as far as there are some.
    pub(crate) fn make_orphan(&self, change: &mut FsChange<'_>, inode: &mut Inode) -> Result<()> {
        if inode.head.orphan == 0 {
            let (word, says) = self.orphan_word(change, inode)?;
            planted!("fs: forgotten orphan" => {
                change.write_roots(inode);
                return Ok(());
            });
            change.write_word(self.space.map.orphan(word), says);
        }
        change.write_roots(inode);
        Ok(())
    }

    /// Returns the word that will list `inode`, its own or the last one (FO3), and its content.
    fn orphan_word(&self, change: &mut FsChange<'_>, inode: &mut Inode) -> Result<(u64, u64)> {
        let is_named = inode.head.links > 0;
        if let Some(word) = self.orphans.take(is_named) {
            change.note_orphan(word);
            inode.head.orphan = word + 1;
            return Ok((word.into(), inode.ino.0));
        }
        let last = self.memory().load_word(self.space.map.orphan(LAST_ORPHAN));
        let is_free = matches!(last, 0 | UNLISTED);
        if is_named || !is_free { Err(Error::NoSpace) } else { Ok((LAST_ORPHAN, UNLISTED)) }
    }

    /// Frees the orphan word of `inode` through `change`, if it has one; the caller writes the inode.
    pub(crate) fn free_orphan(&self, change: &mut FsChange<'_>, inode: &mut Inode) -> Result<()> {
        let Some(word) = inode.head.orphan.checked_sub(1) else { return Ok(()) };
        if u64::from(word) >= ORPHANS {
            return Err(self.corrupt("the number of an orphan word", inode.at));
        }
        change.write_word(self.space.map.orphan(word.into()), 0);
        change.free_orphan(word);
        inode.head.orphan = 0;
        Ok(())
    }

    /// Finds the orphans that no word names (FO3). The file system is not in use yet.
    pub(crate) fn find_unlisted(&self) -> Result<()> {
        let last = self.space.map.orphan(LAST_ORPHAN);
        if self.memory().load_word(last) != UNLISTED {
            return Ok(());
        }
        let mut is_any = false;
        for ino in self.space.inodes_in_use(self.memory()).map(Ino) {
            if self.load(ino).is_ok_and(|inode| inode.head.links == 0 && inode.head.orphan == 0) {
                self.orphans.make_ready(ino);
                is_any = true;
            }
        }
        if is_any {
            return Ok(());
        }
        let mut transaction = self.pool().transaction();
        transaction.zero(Span::new(last, 8));
        Ok(transaction.commit()?)
    }
}
