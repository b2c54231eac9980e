//! Proofs of the pool as a whole.

mod bad;
mod bounds;
mod crashes;
mod failures;
mod full;
mod golden;
mod inherited;
mod model;
mod outgrown;
mod page;
mod trusted;

use std::collections::BTreeMap;
use std::sync::Arc;

use ferrite_memory::{Memory, Scheme};

use super::{NewTag, Pool, TagChange};
use crate::layout::{CHUNK, CHUNK_PAGES, PAGE};
use crate::tests::support::CheckVerdict;
use crate::{Error, Extent, Result, Role, SpaceNeed, Tag, TagKind, Zone};

/// Every tag with its size, notes and extents.
type Shot = BTreeMap<String, (u64, u8, Vec<Extent>)>;

fn shot(pool: &Pool) -> Shot {
    let tags = pool.tags();
    tags.iter().map(|tag| (tag.name.clone(), (tag.size, tag.attributes[0], tag.extents.clone()))).collect()
}

/// What every page of a tag starts with: the same for no two names.
fn stamp(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn fill(memory: &dyn Memory, name: &str, extents: &[Extent]) -> Result<()> {
    for at in pages(extents) {
        memory.store(at, &stamp(name).to_le_bytes(), Scheme::Nt);
    }
    Ok(memory.drain()?)
}

/// A few pages of each extent: the first and the last of every chunk.
fn pages(extents: &[Extent]) -> impl Iterator<Item = u64> + '_ {
    let pages = extents.iter().flat_map(|extent| extent.page..extent.end());
    pages.filter(|page| matches!(page % CHUNK_PAGES, 0..8 | 511)).map(|page| page * PAGE)
}

/// T2: what `prepare` wrote is there. What is none of the content may be given up any time.
fn check_content(pool: &Pool) -> CheckVerdict {
    for tag in pool.tags() {
        let content: Vec<Extent> = tag.extents.iter().copied().filter(|extent| extent.role == Role::DATA).collect();
        if let Some(at) = pages(&content).find(|at| pool.memory().load_word(*at) != stamp(&tag.name)) {
            return Err(format!("T2: byte {at:#x} of {:?} is not what was written before it was made", tag.name));
        }
    }
    Ok(())
}

fn need(zone: Zone, bytes: u64) -> SpaceNeed {
    SpaceNeed { role: Role::DATA, zone, bytes }
}

fn create(pool: &Pool, name: &str, needs: &[SpaceNeed]) -> Result<Arc<Tag>> {
    let new = NewTag { name, kind: TagKind::BYTES, size: 77, attributes: [1; 64], needs };
    pool.create_tag(&new, |extents| fill(pool.memory(), name, extents))
}

/// Keeps all but the first extent of `name` and adds `add`.
fn change(pool: &Pool, name: &str, add: &[SpaceNeed]) -> Result<Arc<Tag>> {
    let tag = pool.tag(name)?;
    let size = tag.size + 1;
    let keep = tag.extents.get(1..).unwrap_or_default();
    let change = TagChange { size, attributes: [tag.attributes[0].wrapping_add(1); 64], add, keep };
    pool.change_tag(&tag, &change, |extents| fill(pool.memory(), name, extents))
}

/// A tag of more extents than fit its slot, the last one of two chunks, in a pool that is full then.
fn fill_up(pool: &Pool) -> Result<Arc<Tag>> {
    let mut needs = vec![need(Zone::Normal, PAGE); 10];
    needs.push(need(Zone::Super, 2 * CHUNK));
    let wide = create(pool, "wide", &needs)?;
    create(pool, "rest", &[need(Zone::Super, CHUNK), need(Zone::Normal, CHUNK - 11 * PAGE)])?;
    assert_eq!(pool.usage().free_bytes, 0);
    Ok(wide)
}

/// Gives up the last chunk of the last extent of `name`.
fn give(pool: &Pool, name: &str) -> Result<Arc<Tag>> {
    let tag = pool.tag(name)?;
    let mut keep = tag.extents.clone();
    keep.last_mut().expect("it has some").pages -= CHUNK_PAGES as u32;
    keep.retain(|extent| extent.pages > 0);
    let change = TagChange { size: tag.size, attributes: tag.attributes, add: &[], keep: &keep };
    pool.change_tag(&tag, &change, |_| Ok(()))
}

fn remove(pool: &Pool, name: &str) -> Result<()> {
    pool.remove_tag(&*pool.tag(name)?)
}
