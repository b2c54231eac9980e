//! Grants to clients that live, stop, die and forget, and crashes of the owner at any point.

mod clients;
mod crashes;
mod in_doubt;
mod recording;
mod removal;

use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::Scheme;

use super::*;
use crate::extent::{Role, Zone, page_at};
use crate::layout::{CHUNK, CHUNK_PAGES, PAGE};
use crate::{Caller, PidFd};
use crate::{Format, NewTag, SpaceNeed, Tag, TagKind};

const THIS_BOOT: [u8; 16] = [1; 16];
const LATER_BOOT: [u8; 16] = [2; 16];
/// Small enough to fill: two chunks of its own and four to give.
const POOL_BYTES: u64 = 6 * CHUNK;

fn formatted(model: Model) -> Arc<LyingMemory> {
    let memory = LyingMemory::new(POOL_BYTES, model);
    Pool::create(&memory, &Format { uuid: [7; 16], boot_id: THIS_BOOT }).expect("create");
    Arc::new(memory)
}

fn opened(memory: &Arc<LyingMemory>, boot_id: [u8; 16]) -> Pool {
    Pool::open(memory.clone(), boot_id).expect("open").0
}

/// An open pool without a trace.
fn pool() -> Pool {
    let memory = formatted(Model::MAPPED);
    memory.keep_trace(false);
    opened(&memory, THIS_BOOT)
}

impl Grants {
    /// Bytes that were freed and are held back.
    fn held_bytes(&self) -> u64 {
        self.0.lock().held.iter().map(|extent| extent.span().len).sum()
    }
}

fn need(zone: Zone, bytes: u64) -> SpaceNeed {
    SpaceNeed { role: Role::DATA, zone, bytes }
}

fn tag(pool: &Pool, name: &str, needs: &[SpaceNeed]) -> Result<Arc<Tag>> {
    let new = NewTag { name, kind: TagKind::BYTES, size: 1, attributes: [0; 64], needs };
    pool.create_tag(&new, |_| Ok(()))
}

fn caller(pid: u32) -> Caller {
    Caller { pid, uid: 0, process: PidFd::open(pid).expect("a living process"), connection: 0 }
}

/// This process, which lives as long as the test.
fn ours() -> Process {
    Process::of(&caller(std::process::id()), THIS_BOOT)
}

/// A process of an earlier boot.
fn long_gone() -> Process {
    let identity = ProcessIdentity { boot_id: [0; 16], ..ours().identity() };
    Process::recall(identity, THIS_BOOT)
}

fn ask<'a>(tag: &'a Tag, process: &'a Process) -> GrantRequest<'a> {
    GrantRequest { tag, extents: &tag.extents, rights: GrantRights::ReadWrite, process }
}

/// Every other page of `tag`, so that no two are neighbours.
fn every_other_page(tag: &Tag, count: usize) -> Vec<Extent> {
    let pages = tag.extents.iter().flat_map(|extent| (extent.page..extent.end()).step_by(2));
    pages.take(count).map(|page| page_at(page * PAGE)).collect()
}

/// Takes every free page of `pool`, and gives back what it took when dropped: what a later owner could be given.
fn all_free(pool: &Pool) -> Coverage {
    let mut reserved = pool.reserve();
    let mut taken = Vec::new();
    for (zone, bytes) in [(Zone::Super, CHUNK), (Zone::Normal, PAGE)] {
        while let Ok(extents) = reserved.take(need(zone, bytes)) {
            taken.extend(extents);
        }
    }
    Coverage::of(&taken)
}

/// G2: no page of `extents` can be allocated.
fn assert_held(pool: &Pool, extents: &[Extent]) {
    let free = all_free(pool);
    for extent in extents {
        assert!(!free.touches(*extent), "{extent:?} is granted, and free");
    }
}

/// Every page in use belongs to exactly one tag or to the pool itself, and nothing in use is unknown.
fn assert_accounted(pool: &Pool) {
    let tags = pool.tags();
    let mut known: Vec<Extent> = tags.iter().flat_map(|tag| tag.extents.clone()).collect();
    known.extend(pool.own_extents());
    let pages: u64 = known.iter().map(|extent| u64::from(extent.pages)).sum();
    let known = Coverage::of(&known);
    let distinct: u64 = known.extents().iter().map(|extent| u64::from(extent.pages)).sum();
    assert_eq!(pages, distinct, "a page with two owners");
    assert_eq!(Coverage::of(&pool.space().runs_in_use()), known, "pages in use are those that somebody has");
}
