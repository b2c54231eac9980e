//! How SSDs become SSDs of a file system, also while it is used.
//!
//! The invariants TI13, TI15 and TI17 (`tier.rs`) are kept here.

use std::sync::Arc;

use ferrite_disk::{Access, Disk, StatsDisk};
use ferrite_memory::{Scheme, Span, planted};
use ferrite_pool::disk_stamp::DiskStamp;
use ferrite_pool::layout::PAGE;
use ferrite_pool::tie::{self, Generation};
use ferrite_pool::{MemberKind, Pool, PoolMember, SpaceNeed, StorePass, Stream, Tag, TagChange, Zone};

use crate::format::segment::{SEGMENT_BYTES, SEGMENTS_AT, SegmentNo};
use crate::format::shape::FsShape;
use crate::format::slot_table::{SlotTable, SsdState, TIER_ROLE, TIER_SSDS_MAX, TierSsd, encode_header};
use crate::format::tier_policy::TierPolicy;
use crate::store::ChunkStore;
use crate::store::tier_members::{
    TierDisk, TierTag, advance_tie, remove_members, stamp_ends, undo_unfinished, write_header,
};
use crate::store::tier_set::TierMember;
use crate::{Error, Result};

/// Segments of an SSD at least.
const SEGMENTS_MIN: u64 = 4;

/// SSDs that join a tier.
struct JoiningSsds<'a> {
    given: &'a [TierDisk],
    /// As the table will list them.
    listed: Vec<TierSsd>,
}

/// Returns the first number from which on `segments` numbers are not used by `ssds`.
fn free_numbers(ssds: &[TierSsd], segments: u64) -> SegmentNo {
    let mut used: Vec<(u64, u64)> = ssds.iter().map(|ssd| (ssd.first.0, ssd.first.0 + ssd.segments)).collect();
    used.sort_unstable();
    let mut first = 0;
    for (start, end) in used {
        if first + segments <= start {
            break;
        }
        first = first.max(end);
    }
    SegmentNo(first)
}

fn end_of(ssds: &[TierSsd]) -> u64 {
    ssds.iter().map(|ssd| ssd.first.0 + ssd.segments).max().unwrap_or(0)
}

/// Returns how many segments an SSD of this size has.
pub(crate) fn segments_in(bytes: u64) -> u64 {
    bytes.saturating_sub(SEGMENTS_AT) / SEGMENT_BYTES
}

/// Refuses an SSD that cannot be one of a tier.
fn listed(ssd: &TierDisk, others: &[TierSsd]) -> Result<TierSsd> {
    let (geometry, address) = (ssd.disk.geometry(), &ssd.address);
    let segments = segments_in(geometry.size);
    let why = if segments < SEGMENTS_MIN {
        format!("has {} bytes: an SSD of a file system has 3 MiB at least", geometry.size)
    } else if u64::from(geometry.sector_bytes) > PAGE || geometry.read_only {
        "is read-only, or has sectors beyond 4 KiB".into()
    } else if address.len() > 280 {
        "has an address beyond 280 bytes".into()
    } else {
        let (uuid, first, address) = (ssd.uuid, free_numbers(others, segments), address.clone());
        return Ok(TierSsd { uuid, first, segments, state: SsdState::Joining, address });
    };
    Err(Error::Refused(format!("{address} {why}")))
}

/// Refuses SSDs with content whose size `lose` does not name.
fn ensure_may_lose(ssds: &[TierDisk], lose: Option<u64>) -> Result<()> {
    let (mut bytes, mut named) = (0, Vec::new());
    for ssd in ssds {
        let mut head = vec![0; SEGMENTS_AT.min(ssd.disk.geometry().size) as usize];
        ssd.disk.read(0, &mut head)?;
        if head.iter().any(|byte| *byte != 0) {
            bytes += ssd.disk.geometry().size;
            named.push(ssd.address.as_str());
        }
    }
    if bytes == 0 || lose == Some(bytes) {
        return Ok(());
    }
    let named = named.join(" and ");
    Err(Error::Refused(format!("{named} may hold data, which would be lost: --lose {bytes} loses it")))
}

/// Refuses SSDs that cannot join those that are `present`.
fn checked<'a>(present: &[TierSsd], given: &'a [TierDisk], lose: Option<u64>) -> Result<JoiningSsds<'a>> {
    if given.is_empty() || present.len() + given.len() > TIER_SSDS_MAX {
        return Err(Error::Invalid("a file system has one to eight SSDs"));
    }
    let mut all = present.to_vec();
    for ssd in given {
        let listed = listed(ssd, &all)?;
        all.push(listed);
    }
    ensure_may_lose(given, lose)?;
    Ok(JoiningSsds { given, listed: all.split_off(present.len()) })
}

/// Returns `tag` with a table that has room for `segments`.
fn fit_table(pool: &Pool, tag: &Arc<Tag>, segments: u64) -> Result<Arc<Tag>> {
    let (have, need) = (Stream::new(&tag.extents, TIER_ROLE).len(), SlotTable::bytes(segments));
    if have >= need {
        return Ok(Arc::clone(tag));
    }
    let need = SpaceNeed { role: TIER_ROLE, zone: Zone::Normal, bytes: need - have };
    let attributes = FsShape::read(tag)?.with_tier(true).attributes();
    let change = TagChange { size: tag.size, attributes, add: &[need], keep: &tag.extents };
    Ok(pool.change_tag(tag, &change, |extents| {
        {
            for extent in extents.iter().filter(|extent| extent.role == TIER_ROLE) {
                pool.memory().zero(extent.span(), Scheme::Nt);
            }
            if have == 0 {
                let added = Tag { extents: extents.to_vec(), ..(**tag).clone() };
                let table = SlotTable::of(&added).expect("it was added");
                pool.memory().store(table.header(), &encode_header(&[], TierPolicy::default()), Scheme::Nt);
            }
            pool.memory().drain()
        }
        .map_err(Into::into)
    })?)
}

/// See [`crate::FileSystem::add_tier`].
pub(crate) fn add_tier(pool: &Pool, name: &str, given: &[TierDisk], lose: Option<u64>, nonce: u16) -> Result<()> {
    let tag = undo_unfinished(pool, pool.tag(name)?)?;
    if FsShape::read(&tag)?.has_tier {
        return Err(Error::Unsupported("the file system has SSDs already: it is mounted to get more"));
    }
    let joining = checked(&[], given, lose)?;
    let tag = fit_table(pool, &tag, end_of(&joining.listed))?;
    let joined = join(pool, &tag, &[], &joining, nonce);
    if joined.is_err() {
        let _ = undo_unfinished(pool, tag);
    }
    joined.map(drop)
}

/// See [`crate::TierUpkeep::add_ssds`].
pub(crate) fn add_ssds(store: &ChunkStore, given: &[TierDisk], lose: Option<u64>, nonce: u16) -> Result<()> {
    store.refuse_if_read_only()?;
    let slots = store
        .slots
        .as_ref()
        .ok_or(Error::Unsupported("the first SSD is given to a file system that is not mounted: unmount it first"))?;
    let _changing = slots.changing()?;
    let present = slots.set().listed();
    let joining = checked(&present, given, lose)?;
    let tag = fit_open_table(store, end_of(&joining.listed).max(end_of(&present)))?;
    let joined = join(store.pool(), &tag, &present, &joining, nonce)?;
    let table = TierTag::read(store.pool(), &tag)?.table;
    slots.replace(|set| {
        let mut members = set.members().to_vec();
        for (ssd, given) in joined.into_iter().zip(given) {
            set.forget_states(&ssd);
            let disk = Some(Arc::new(StatsDisk::new(Arc::clone(&given.disk))));
            members.push(Arc::new(TierMember { ssd, disk }));
        }
        set.with(table, members)
    });
    Ok(())
}

/// Sees to it that the table of an open file system has room for `segments`.
fn fit_open_table(store: &ChunkStore, segments: u64) -> Result<Arc<Tag>> {
    let mut tag = store.tag.lock();
    *tag = fit_table(store.pool(), &tag, segments)?;
    Ok(Arc::clone(&tag))
}

/// Adds `joining` to the SSDs `present`: lists them, stamps them, and uses them then (TI13, TI15). Returns them as they
/// are listed. Durable on return, or not done.
fn join(
    pool: &Pool,
    tag: &Arc<Tag>,
    present: &[TierSsd],
    joining: &JoiningSsds<'_>,
    nonce: u16,
) -> Result<Vec<TierSsd>> {
    let table = TierTag::read(pool, tag)?.table;
    clear_descriptors(pool, &table, &joining.listed)?;
    let with = |state| {
        let joining = joining.listed.iter().map(move |ssd| TierSsd { state, ..ssd.clone() });
        present.iter().cloned().chain(joining).collect::<Vec<TierSsd>>()
    };
    write_header(pool, &table, &with(SsdState::Joining))?;
    planted!("fs: SSD in use before its stamp" => write_header(pool, &table, &with(SsdState::InUse))?);
    if let Err(why) = stamp_all(pool, tag, joining, nonce) {
        remove_members(pool, &joining.listed)?;
        write_header(pool, &table, present)?;
        return Err(why);
    }
    let mut all = with(SsdState::InUse);
    write_header(pool, &table, &all)?;
    Ok(all.split_off(present.len()))
}

/// Clears what SSDs that had the numbers of `joining` left in the table. Durable on return.
fn clear_descriptors(pool: &Pool, table: &SlotTable, joining: &[TierSsd]) -> Result<()> {
    let _pass = StorePass::of(pool);
    let memory = pool.memory();
    let numbers = joining.iter().flat_map(|ssd| ssd.first.0..ssd.first.0 + ssd.segments);
    for at in numbers.map(|number| table.sequence(SegmentNo(number))) {
        if memory.load_word(at) != 0 {
            memory.store_word(at, 0);
            memory.persist(Span::new(at, 8))?;
        }
    }
    Ok(())
}

/// Makes all SSDs members of the pool, and stamps them.
fn stamp_all(pool: &Pool, tag: &Tag, joining: &JoiningSsds<'_>, nonce: u16) -> Result<()> {
    for (ssd, given) in joining.listed.iter().zip(joining.given) {
        // An SSD that ignores trims, or cannot trim, is as good.
        _ = given.disk.trim(Span::new(SEGMENTS_AT, ssd.segments * SEGMENT_BYTES), Access::Cached);
        DiskStamp::erase(&*given.disk, 0)?;
        let member = PoolMember {
            uuid: ssd.uuid,
            kind: MemberKind::Ssd,
            generation: Generation::first(nonce),
            previous: None,
            size: given.disk.geometry().size,
            label: label_of(&ssd.address),
        };
        planted!("fs: SSD that is no member" => continue);
        pool.add_member(&member)?;
        advance_tie(pool, tag, ssd, &*given.disk, nonce)?;
    }
    Ok(())
}

/// See [`crate::TierUpkeep::grow_ssd`].
pub(crate) fn grow_ssd(store: &ChunkStore, address: &str, disk: &Arc<dyn Disk>, nonce: u16) -> Result<u64> {
    store.refuse_if_read_only()?;
    let slots = store.slots.as_ref().ok_or(Error::Unsupported("the file system has no SSDs"))?;
    let _changing = slots.changing()?;
    let set = slots.set();
    let member = set.member_at(address)?;
    let (tag, segments) = (store.tag(), segments_in(disk.geometry().size));
    let ends = stamp_ends(store.pool(), &tag, &member.ssd, &**disk, nonce);
    let verdict = tie::compare(&tie::PoolSide::load(&ends)?, tie::TieEnds::read(&ends)?.as_ref());
    if !verdict.is_good() {
        return Err(Error::Refused(format!("{address} is another SSD by now")));
    }
    if segments <= member.ssd.segments {
        return Ok(0);
    }
    let grown = TierSsd { segments, ..member.ssd.clone() };
    let numbers = grown.first.0..grown.first.0 + segments;
    let others = || set.members().iter().filter(|other| other.ssd.uuid != grown.uuid);
    if others().any(|other| other.numbers().start < numbers.end && other.numbers().end > numbers.start) {
        return Err(Error::Refused(format!(
            "{address} was not the last SSD that was added, and only that one can grow: remove it and add it again"
        )));
    }
    let tag = fit_open_table(store, numbers.end)?;
    let table = TierTag::read(store.pool(), &tag)?.table;
    let added =
        TierSsd { first: SegmentNo(member.numbers().end), segments: segments - member.ssd.segments, ..grown.clone() };
    clear_descriptors(store.pool(), &table, std::slice::from_ref(&added))?;
    let listed = set.listed().into_iter().map(|ssd| if ssd.uuid == grown.uuid { grown.clone() } else { ssd });
    if !planted!("fs: unlisted growth") {
        write_header(store.pool(), &table, &listed.collect::<Vec<_>>())?;
    }
    slots.replace(|set| {
        set.forget_states(&added);
        let disk = Some(Arc::new(StatsDisk::new(Arc::clone(disk))));
        let grown = Arc::new(TierMember { ssd: grown.clone(), disk });
        let with = |member: &Arc<TierMember>| if member.ssd.uuid == grown.ssd.uuid { &grown } else { member }.clone();
        set.with(table, set.members().iter().map(with).collect())
    });
    Ok(added.segments * SEGMENT_BYTES)
}

/// Returns the label of a member: the end of its address, as far as a label may be long.
fn label_of(address: &str) -> String {
    let clean: Vec<char> = address.chars().filter(|letter| !letter.is_control()).collect();
    let mut label = String::new();
    for start in 0..clean.len() {
        label = clean[start..].iter().collect();
        if label.len() <= 64 {
            break;
        }
    }
    if label.is_empty() { "ssd".into() } else { label }
}
