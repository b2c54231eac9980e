//! Values: tags of plain bytes, as `ferrite tag put` stores them.
//!
//! ```text
//! attributes  0 crc u32 (CRC-32 of the content)   4 reserved u32   8 length u64   16 reserved [48]
//! content     the first `length` bytes of the tag's DATA stream; zeros up to the end of the page
//! ```
//!
//! - V1. The content is durable before the transaction that names it. So after a crash a name has its old value or its
//!   new one, whole, or none if it had none.
//! - V2. A reader returns no byte of a value before all of it has verified.
//! - V3. A reader returns a block only if the tag was still current after the block was copied. So it never returns
//!   pages that a later put freed for another use.

use std::io::{Read, Write};
use std::sync::Arc;

use ferrite_memory::{Error as MediumError, Memory, Scheme, Span};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use crate::extent::{Extent, Role, Stream, Zone};
use crate::layout::{CHUNK, PAGE};
use crate::page_allocator::SpaceNeed;
use crate::pool::tag_change::commit_tag;
use crate::reserved_space::ReservedSpace;
use crate::tag::{Tag, TagKind, check_name};
use crate::{Error, Pool, Result};

/// Bytes that are copied out at a time.
const BLOCK_BYTES: u64 = 256 << 10;

/// The options of a put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PutOptions {
    /// The size of the existing value in bytes, which confirms its loss. Without it a name in use is refused.
    pub lose: Option<u64>,
    /// The number of bytes to come, if known: a value that cannot fit is refused before it is read.
    pub size_hint_bytes: Option<u64>,
}

impl PutOptions {
    /// Refuses to lose the value of `old` unless the caller named its size.
    fn ensure_may_replace(&self, old: &Tag) -> Result<()> {
        if old.kind != TagKind::BYTES && self.lose.is_none() {
            return Err(Error::Exists(old.name.clone()));
        }
        old.ensure_kind(TagKind::BYTES)?;
        if old.size == 0 || self.lose == Some(old.size) {
            return Ok(());
        }
        let (name, bytes) = (&old.name, old.size);
        Err(Error::Occupied(format!("tag {name:?} has {bytes} bytes, which would be lost: --lose {bytes} loses them")))
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct ValueAttributes {
    crc: U32,
    reserved: U32,
    length: U64,
    reserved2: [u8; 48],
}

const _: () = assert!(size_of::<ValueAttributes>() == 64);

/// The checksum and length of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ValueContent {
    crc: u32,
    length: u64,
}

impl ValueContent {
    fn encode(self) -> [u8; 64] {
        let mut media = ValueAttributes::new_zeroed();
        media.crc = self.crc.into();
        media.length = self.length.into();
        zerocopy::transmute!(media)
    }

    fn decode(attributes: [u8; 64]) -> Self {
        let media: ValueAttributes = zerocopy::transmute!(attributes);
        Self { crc: media.crc.get(), length: media.length.get() }
    }
}

impl Pool {
    /// Stores all bytes of `input` under `name`. The value is durable on return, and a crash leaves it whole or not at
    /// all (V1). The length need not be known: 2 MiB are held in DRAM at a time, and nothing in the pool waits for
    /// `input`.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::Occupied`] if a value would be lost, [`Error::WrongKind`] if the tag is not a
    /// value, [`Error::Full`] (or a full host), [`Error::Medium`] if `input` fails. The name then has its previous
    /// value. Else as [`Pool`] says.
    pub fn put(&self, name: &str, input: &mut dyn Read, put: &PutOptions) -> Result<Arc<Tag>> {
        check_name(name)?;
        self.check_poison()?;
        self.with_spare(|| ensure_room(self, name, put))?;
        let mut reserved = self.reserve();
        let content = copy_input(self, &mut reserved, input).map_err(|error| as_after_release(error, &reserved))?;
        name_value(self, name, content, reserved, put)
    }

    /// Writes the value called `name` to `out`, after all of it has verified (V2). Returns its length in bytes.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::WrongKind`] if the tag is not a value, [`Error::DamagedValue`]: nothing was
    /// written. [`Error::Changed`] if the value was replaced during the read, [`Error::Medium`] if `out` fails: part of
    /// it may have been written.
    pub fn get(&self, name: &str, out: &mut dyn Write) -> Result<u64> {
        let tag = self.tag(name)?;
        tag.ensure_kind(TagKind::BYTES)?;
        if !is_sound(self.memory(), &tag) {
            ensure_current(self, &tag)?;
            return Err(Error::DamagedValue(name.into()));
        }
        let content = ValueContent::decode(tag.attributes);
        for block in blocks(&tag.extents, content.length) {
            let bytes = load(self.memory(), block);
            ensure_current(self, &tag)?;
            out.write_all(&bytes).map_err(|error| MediumError::io(format!("writing out tag {name:?}"), error))?;
        }
        Ok(content.length)
    }
}

fn ensure_room(pool: &Pool, name: &str, put: &PutOptions) -> Result<()> {
    if let Ok(tag) = pool.tag(name) {
        put.ensure_may_replace(&tag)?;
    }
    let (needed_bytes, free_bytes) = (put.size_hint_bytes.unwrap_or(0), pool.usage().free_bytes);
    if needed_bytes > free_bytes { Err(Error::Full { needed_bytes, free_bytes }) } else { Ok(()) }
}

/// Copies all of `input` into space of `reserved`, durable on return.
fn copy_input(pool: &Pool, reserved: &mut ReservedSpace<'_>, input: &mut dyn Read) -> Result<ValueContent> {
    let (mut hasher, mut length, mut step) = (crc32fast::Hasher::new(), 0, Vec::new());
    loop {
        step.clear();
        let read = (&mut *input).take(CHUNK).read_to_end(&mut step);
        let read = read.map_err(|error| MediumError::io("reading the content to store", error))? as u64;
        if read == 0 {
            break;
        }
        hasher.update(&step);
        length += read;
        step.resize(step.len().next_multiple_of(PAGE as usize), 0);
        let mut rest = &step[..];
        for extent in pool.with_spare(|| take(reserved, rest.len() as u64))? {
            let (part, more) = rest.split_at(extent.span().len as usize);
            pool.memory().store(extent.span().at, part, Scheme::Nt);
            rest = more;
        }
        if read < CHUNK {
            break;
        }
    }
    pool.memory().drain()?;
    Ok(ValueContent { crc: hasher.finalize(), length })
}

/// Commits the content of `reserved` as the value of `name`.
fn name_value(
    pool: &Pool,
    name: &str,
    content: ValueContent,
    reserved: ReservedSpace<'_>,
    put: &PutOptions,
) -> Result<Arc<Tag>> {
    let mut transaction = pool.transaction();
    let mut table = pool.table();
    let extents = transaction.adopt(reserved);
    let (kind, attributes) = (TagKind::BYTES, content.encode());
    let mut tag = Tag { name: name.into(), kind, size: content.length, generation: 0, attributes, extents };
    let Some(old) = table.tags.get(name).cloned() else {
        return pool.add_tag(&mut table, transaction, tag);
    };
    put.ensure_may_replace(&old.tag)?;
    tag.generation = table.next_generation()?;
    transaction.free(&old.tag.extents);
    transaction.free(&old.overflow);
    let entry = pool.write_slot(&mut transaction, tag, old.slot)?;
    commit_tag(transaction, &entry.tag)?;
    let tag = Arc::clone(&entry.tag);
    table.tags.insert(name.into(), entry);
    Ok(tag)
}

fn ensure_current(pool: &Pool, tag: &Arc<Tag>) -> Result<()> {
    match pool.tag(&tag.name) {
        Ok(now) if Arc::ptr_eq(&now, tag) => Ok(()),
        _ => Err(Error::Changed(tag.name.clone())),
    }
}

/// Returns true if the content of `tag` verifies.
pub(crate) fn is_sound(memory: &dyn Memory, tag: &Tag) -> bool {
    let content = ValueContent::decode(tag.attributes);
    if content.length != tag.size || content.length > Stream::new(&tag.extents, Role::DATA).len() {
        return false;
    }
    let mut hasher = crc32fast::Hasher::new();
    blocks(&tag.extents, content.length).into_iter().for_each(|block| hasher.update(&load(memory, block)));
    hasher.finalize() == content.crc
}

/// Returns `error`; a lack of space is reported as if `reserved` were free, because it is freed when the put fails.
fn as_after_release(error: Error, reserved: &ReservedSpace<'_>) -> Error {
    let has: u64 = reserved.extents().iter().map(|extent| extent.span().len).sum();
    match error {
        Error::Full { needed_bytes, free_bytes } => {
            Error::Full { needed_bytes: needed_bytes + has, free_bytes: free_bytes + has }
        }
        other => other,
    }
}

/// Takes space for `bytes` bytes: a superpage if they fill one and one is free, so that a long value has few extents.
fn take(reserved: &mut ReservedSpace<'_>, bytes: u64) -> Result<Vec<Extent>> {
    let need = |zone| SpaceNeed { role: Role::DATA, zone, bytes };
    match reserved.take(need(if bytes == CHUNK { Zone::Super } else { Zone::Normal })) {
        Err(Error::Full { .. }) if bytes == CHUNK => reserved.take(need(Zone::Normal)),
        taken => taken,
    }
}

/// Returns the places of the first `length` bytes of a value, in order, in pieces of bounded size.
fn blocks(extents: &[Extent], length: u64) -> Vec<Span> {
    let stream = Stream::new(extents, Role::DATA);
    let runs = stream.runs(Span::new(0, length)).collect::<Vec<_>>();
    let pieces = runs.into_iter().flat_map(|run| {
        let starts = (0..run.len).step_by(BLOCK_BYTES as usize);
        starts.map(move |start| Span::new(run.at + start, BLOCK_BYTES.min(run.len - start)))
    });
    pieces.collect()
}

fn load(memory: &dyn Memory, span: Span) -> Vec<u8> {
    let mut bytes = vec![0; span.len as usize];
    memory.load(span.at, &mut bytes);
    bytes
}

#[cfg(test)]
mod tests;
