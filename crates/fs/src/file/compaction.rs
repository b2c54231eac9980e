//! Sparse chunks of content are emptied into others when a chunk is needed and none is left.
//!
//! Names, words and inodes are taken from chunks of their own (FC1). Where small files come and go, or holes are
//! punched, half of all may be free and no chunk without something in it: then pages of files move together.
//!
//! - FE1. A page moves as a block does (FS2, FS3): its copy is durable before one change names it and frees what was
//!   copied; readers go on, and writers wait.
//! - FE2. No page of a chunk that is being emptied is allocated, and the other chunks have room for all its pages. A
//!   page that cannot move, because a client appends to its file directly, stays.

use ferrite_memory::planted;
use std::collections::BTreeSet;

use ferrite_pool::layout::{CHUNK_PAGES, PAGE};

use crate::file::index::{self, IndexEntry};
use crate::file::new_pages::{self, RenewedPage};
use crate::file::{FileLayer, fsync};
use crate::format::inode::Inode;
use crate::format::word::{IndexWord, NamedBy};
use crate::store::bits::pages_of;
use crate::store::change::FsChange;
use crate::store::copy_bytes;
use crate::{FileKind, Ino, Result};

/// Pages that one change moves at most. Few in tests, so that small files too are moved by steps.
const MOVED_PAGES_MAX: usize = if cfg!(test) { 8 } else { 128 };
/// Chunks that are emptied at a time: of all, and at least.
const EMPTIED_SHARE: u64 = 16;
const EMPTIED_MIN: u64 = 4;

/// Empties sparse chunks of content, if the others have room. Returns true if one is empty now. The caller has no
/// lock, and has not passed the gate.
pub(crate) fn compact(files: &FileLayer) -> Result<bool> {
    if files.clients.has_orphaned_clients() {
        return Ok(false);
    }
    if files.waits() {
        fsync::flush(files)?;
    }
    files.space.drain_deferred_frees();
    let closed = files.space.close_sparse((files.space.chunks() / EMPTIED_SHARE).max(EMPTIED_MIN));
    let moved = if closed.is_empty() { Ok(()) } else { move_out_of(files, &closed) };
    files.space.drain_deferred_frees();
    let is_one_empty = files.space.reopen(&closed);
    match moved {
        Err(error) if !error.is_no_space() => Err(error),
        _ => Ok(is_one_empty),
    }
}

fn move_out_of(files: &FileLayer, closed: &BTreeSet<u64>) -> Result<()> {
    files.space.inodes_in_use(files.memory()).try_for_each(|number| move_pages_of(files, Ino(number), closed))
}

/// Moves what a file has in `closed`, a few pages at a time.
fn move_pages_of(files: &FileLayer, ino: Ino, closed: &BTreeSet<u64>) -> Result<()> {
    loop {
        let _pass = files.gate.pass();
        let has_some = {
            let _reading = files.locks.read(ino);
            files.load(ino).is_ok_and(|inode| pages_in(files, &inode, closed, 1).is_ok_and(|found| !found.is_empty()))
        };
        if !has_some || !move_some(files, ino, closed)? {
            return Ok(());
        }
    }
}

/// Returns true if it moved any.
fn move_some(files: &FileLayer, ino: Ino, closed: &BTreeSet<u64>) -> Result<bool> {
    let copying = files.locks.copying(ino);
    let Ok(mut inode) = files.load(ino) else { return Ok(false) };
    let stripe = copying.stripe();
    let is_busy = stripe.waiting.contains_key(&ino.0) || stripe.has_appender(ino);
    if is_busy || stripe.stopped_appends.contains_key(&ino.0) {
        return Ok(false);
    }
    let mut moving = pages_in(files, &inode, closed, MOVED_PAGES_MAX)?;
    if moving.is_empty() {
        return Ok(false);
    }
    let mut change = FsChange::new(files);
    let runs = change.allocate_data(moving.len() as u64)?;
    for (one, new) in moving.iter_mut().zip(pages_of(&runs)) {
        one.new = new;
        if let NamedBy::Page(old) = one.old.named() {
            copy_bytes(files.memory(), files.place(old)?, files.place(new)?, PAGE);
        }
    }
    persist_copies(files)?;
    let _writing = copying.upgrade();
    new_pages::name_new(&mut change, &mut inode, &moving);
    change.commit_head(&mut inode)?;
    Ok(true)
}

fn persist_copies(files: &FileLayer) -> Result<()> {
    planted!("fs: move before copy" => return Ok(()));
    files.drain()
}

/// Returns the pages of a file in `closed`, including those behind its end: `wanted` or more, if it has as many.
fn pages_in(files: &FileLayer, inode: &Inode, closed: &BTreeSet<u64>, wanted: usize) -> Result<Vec<RenewedPage>> {
    let (mut found, mut page) = (Vec::new(), 0);
    if inode.kind() != Some(FileKind::File) {
        return Ok(found);
    }
    while found.len() < wanted {
        page += match index::walk(files, inode, page)? {
            IndexEntry::Words { at, left } => {
                let places = (0..left).map(|index| at + index * 8);
                found.extend(
                    places.filter_map(|word_at| moving_page(files, word_at, closed)).take(wanted - found.len()),
                );
                left
            }
            IndexEntry::Nothing { at: 0, .. } => break,
            IndexEntry::Super { left, .. } | IndexEntry::Nothing { left, .. } => left,
        };
    }
    Ok(found)
}

fn moving_page(files: &FileLayer, word_at: u64, closed: &BTreeSet<u64>) -> Option<RenewedPage> {
    let word = IndexWord(files.memory().load_word(word_at));
    let NamedBy::Page(page) = word.named() else { return None };
    closed.contains(&(page / CHUNK_PAGES)).then(|| RenewedPage::at(word_at, word))
}
