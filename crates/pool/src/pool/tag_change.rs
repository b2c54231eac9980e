//! Creating, changing and removing tags.

use std::sync::Arc;

use ferrite_memory::Scheme;

use super::{NewTag, Pool, TagChange};
use crate::extent::{Extent, Role, Zone, dropped};
use crate::host_space::ProgressWatch;
use crate::layout::PAGE;
use crate::page_allocator::SpaceNeed;
use crate::tag::{INLINE, OVERFLOW, SLOT_BYTES, Tag, TagKind, check_name, encode_overflow};
use crate::tag_table::{TagEntry, TagTable, copies, encode_header};
use crate::transaction::Transaction;
use crate::{Error, Result, overflow};

/// The pages of a list of extents that are freed in one transaction. A record has room for their extents, 48 bytes
/// each.
const LISTS_AT_ONCE: usize = 2;

impl Pool {
    /// Creates a tag. `prepare` writes the initial content of its space and settles it (T2). On return the tag exists,
    /// durably; after an error it does not exist.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::Exists`], [`Error::Full`] (or a full host, see [`Error::is_want_of_space`]), and
    /// the errors of `prepare`; else as [`Pool`] says.
    pub fn create_tag(&self, new: &NewTag<'_>, prepare: impl FnOnce(&[Extent]) -> Result<()>) -> Result<Arc<Tag>> {
        self.create_tag_watched(new, &mut |_| true, prepare)
    }

    /// Creates a tag as [`Pool::create_tag`] does. `watch` is called while the host reserves its space, and may stop
    /// that.
    ///
    /// # Errors
    /// As [`Pool::create_tag`]; [`Error::Cancelled`] if `watch` returns false.
    pub fn create_tag_watched(
        &self,
        new: &NewTag<'_>,
        watch: ProgressWatch<'_>,
        prepare: impl FnOnce(&[Extent]) -> Result<()>,
    ) -> Result<Arc<Tag>> {
        check_name(new.name)?;
        let mut transaction = self.transaction();
        let mut table = self.table.lock();
        if table.tags.contains_key(new.name) {
            return Err(Error::Exists(new.name.into()));
        }
        let extents = transaction.take_watched(new.needs, watch)?;
        prepare(&extents)?;
        let (name, attributes) = (new.name.into(), new.attributes);
        let tag = Tag { name, kind: new.kind, size: new.size, generation: 0, attributes, extents };
        self.add_tag(&mut table, transaction, tag)
    }

    /// Commits `tag`, whose name is not in `table`, with a new generation in a free slot.
    pub(crate) fn add_tag(
        &self,
        table: &mut TagTable,
        mut transaction: Transaction<'_>,
        mut tag: Tag,
    ) -> Result<Arc<Tag>> {
        tag.generation = table.next_generation()?;
        let grown = slot_page(self, &mut transaction, table)?;
        let slot = match grown {
            Some(page) => TagTable::slots_of(page).last(),
            None => table.free_slots.last().copied(),
        };
        let entry = self.write_slot(&mut transaction, tag, slot.expect("a page has slots"))?;
        commit_tag(transaction, &entry.tag)?;
        match grown {
            Some(page) => {
                table.pages.push(page);
                let others = TagTable::slots_of(page).filter(|other| *other != entry.slot);
                table.free_slots.extend(others);
            }
            None => drop(table.free_slots.pop()),
        }
        let tag = Arc::clone(&entry.tag);
        table.tags.insert(tag.name.clone(), entry);
        Ok(tag)
    }

    /// Changes the current state of `tag`, which may be newer than the caller's. `prepare` gets the added extents and
    /// settles their initial content (T2). The change is durable on return; after an error it did not happen, except
    /// that with a long list of kept extents the dropped space may have been overwritten (T6).
    ///
    /// # Errors
    /// [`Error::NotFound`] if the name now belongs to another tag or to none, [`Error::Busy`] if the tag no longer has
    /// the extents to keep; else as [`Pool::create_tag`].
    pub fn change_tag(
        &self,
        tag: &Tag,
        change: &TagChange<'_>,
        prepare: impl FnOnce(&[Extent]) -> Result<()>,
    ) -> Result<Arc<Tag>> {
        let mut transaction = self.transaction();
        let mut table = self.table.lock();
        let entry = table.current(tag)?;
        let mut dropped = dropped(&entry.tag.extents, change.keep)
            .ok_or_else(|| Error::Busy(format!("tag {:?} was changed by another caller: read it again", tag.name)))?;
        let added = transaction.take(change.add)?;
        prepare(&added)?;
        let extents = change.keep.iter().copied().chain(added).collect();
        let changed = Tag { size: change.size, attributes: change.attributes, extents, ..(*entry.tag).clone() };
        let overflow = take_overflow(&mut transaction, &changed, &mut dropped)?;
        transaction.free(&dropped);
        transaction.free(&entry.overflow);
        let entry = self.write_slot_with(&mut transaction, changed, entry.slot, overflow)?;
        commit_tag(transaction, &entry.tag)?;
        let tag = Arc::clone(&entry.tag);
        table.tags.insert(tag.name.clone(), entry);
        Ok(tag)
    }

    /// Gives `tag` the name `name` and new attributes; its generation and its space stay. The change is durable on
    /// return, and after an error it did not happen.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::Exists`], [`Error::NotFound`] if the name of `tag` now belongs to another tag or to
    /// none; else as [`Pool`] says.
    pub fn rename_tag(&self, tag: &Tag, name: &str, attributes: [u8; 64]) -> Result<Arc<Tag>> {
        check_name(name)?;
        let mut transaction = self.transaction();
        let mut table = self.table.lock();
        let TagEntry { tag: old, slot, overflow } = table.current(tag)?;
        if table.tags.contains_key(name) {
            return Err(Error::Exists(name.into()));
        }
        let renamed = Tag { name: name.into(), attributes, ..(*old).clone() };
        let first = overflow.first().map_or(0, |page| page.span().at);
        write_slot(&mut transaction, slot, &renamed.encode_slot(first));
        commit_tag(transaction, &renamed)?;
        let renamed = Arc::new(renamed);
        table.tags.remove(&old.name);
        table.tags.insert(name.into(), TagEntry { tag: Arc::clone(&renamed), slot, overflow });
        Ok(renamed)
    }

    /// Removes `tag` and frees its space. The host gets back chunks that are free then. Durable on return. Grants on
    /// the tag are revoked, and their pages stay held until they end (grant G2). A tag of very many extents is removed
    /// in parts: a crash leaves an empty value with the rest of the extents (T7).
    ///
    /// # Errors
    /// [`Error::NotFound`] if the name now belongs to another tag or to none; else as [`Pool`] says.
    pub fn remove_tag(&self, tag: &Tag) -> Result<()> {
        loop {
            match remove_at_once(self, tag) {
                Err(Error::Limit(_)) => remove_end(self, tag)?,
                removed => {
                    if removed.is_ok() {
                        self.holdings.counters.lock().forget(tag.generation);
                    }
                    return removed;
                }
            }
        }
    }

    /// Adds the change of `slot` to `tag` to `transaction`.
    pub(crate) fn write_slot(&self, transaction: &mut Transaction<'_>, tag: Tag, slot: u64) -> Result<TagEntry> {
        let overflow = take_overflow(transaction, &tag, &mut Vec::new())?;
        self.write_slot_with(transaction, tag, slot, overflow)
    }

    /// Adds the change of `slot` as [`Pool::write_slot`] does, with `overflow` as the pages for the extents that do not
    /// fit the slot.
    pub(crate) fn write_slot_with(
        &self,
        transaction: &mut Transaction<'_>,
        tag: Tag,
        slot: u64,
        overflow: Vec<Extent>,
    ) -> Result<TagEntry> {
        let first = if transaction.brings(&overflow) {
            write_overflow(transaction, tag.rest(), &overflow)
        } else {
            overflow::store(&*self.memory, tag.rest(), &overflow)?
        };
        write_slot(transaction, slot, &tag.encode_slot(first));
        Ok(TagEntry { tag: Arc::new(tag), slot, overflow })
    }
}

fn remove_at_once(pool: &Pool, tag: &Tag) -> Result<()> {
    let mut transaction = pool.transaction();
    let mut table = pool.table.lock();
    let entry = table.current(tag)?;
    write_slot(&mut transaction, entry.slot, &[0; SLOT_BYTES]);
    transaction.free(&entry.tag.extents);
    transaction.free(&entry.overflow);
    transaction.commit()?;
    table.tags.remove(&tag.name);
    table.free_slots.push(entry.slot);
    pool.grants.revoke_tag(entry.tag.generation);
    drop(table);
    pool.return_free_chunks(&entry.tag.extents);
    pool.return_free_chunks(&entry.overflow);
    Ok(())
}

/// Turns `tag` into an empty value without the extents on the last pages of its list, and frees these pages. The
/// earlier pages stay as they are, so no space is needed.
fn remove_end(pool: &Pool, tag: &Tag) -> Result<()> {
    let mut transaction = pool.transaction();
    let mut table = pool.table.lock();
    let TagEntry { tag: old, slot, mut overflow } = table.current(tag)?;
    let lists = overflow.split_off(overflow.len().saturating_sub(LISTS_AT_ONCE));
    let (kept, gone) = old.extents.split_at(INLINE + overflow.len() * OVERFLOW);
    let (name, generation, extents) = (old.name.clone(), old.generation, kept.to_vec());
    let left = Tag { name, kind: TagKind::BYTES, size: 0, generation, attributes: [0; 64], extents };
    let first = overflow.first().map_or(0, |page| page.span().at);
    write_slot(&mut transaction, slot, &left.encode_slot(first));
    transaction.free(gone);
    transaction.free(&lists);
    transaction.commit()?;
    table.tags.insert(tag.name.clone(), TagEntry { tag: Arc::new(left), slot, overflow });
    pool.grants.revoke_tag(generation);
    drop(table);
    pool.return_free_chunks(gone);
    pool.return_free_chunks(&lists);
    Ok(())
}

/// If no slot is free, allocates a new page of slots and chains it in the same transaction.
fn slot_page(pool: &Pool, transaction: &mut Transaction<'_>, table: &TagTable) -> Result<Option<u64>> {
    if !table.free_slots.is_empty() {
        return Ok(None);
    }
    let need = SpaceNeed { role: Role::MAP, zone: Zone::Normal, bytes: PAGE };
    let page = transaction.take(&[need])?[0].span();
    pool.memory.zero(page, Scheme::Nt);
    pool.memory.store(page.at, &encode_header(0), Scheme::Nt);
    pool.memory.drain()?;
    let last = table.pages.last().expect("the first page is always there");
    transaction.write(*last, &encode_header(page.at));
    Ok(Some(page.at))
}

/// Takes pages for the extents of `tag` that do not fit its slot. The old pages are in use until the change commits. If
/// the pool is full, the new ones come from `dropped`, the space that the tag frees (T6), so that a full pool can free
/// space.
fn take_overflow(transaction: &mut Transaction<'_>, tag: &Tag, dropped: &mut Vec<Extent>) -> Result<Vec<Extent>> {
    let count = overflow::count(tag.rest());
    if count == 0 {
        return Ok(Vec::new());
    }
    let runs = match transaction.take(&[overflow::need(count)]) {
        Err(why) if why.is_want_of_space() => match transaction.take_of(dropped, count)? {
            none if none.is_empty() => return Err(why),
            pages => pages,
        },
        taken => taken?,
    };
    Ok(overflow::pages_of(&runs))
}

/// Writes `bytes` to both copies of `slot` (T5).
fn write_slot(transaction: &mut Transaction<'_>, slot: u64, bytes: &[u8; SLOT_BYTES]) {
    copies(slot).into_iter().for_each(|at| transaction.write(at, bytes));
}

/// Makes `transaction` write the list of `extents` to `pages`. Returns the list's byte offset, or 0 for an empty list.
fn write_overflow(transaction: &mut Transaction<'_>, extents: &[Extent], pages: &[Extent]) -> u64 {
    let places: Vec<u64> = pages.iter().map(|page| page.span().at).collect();
    for (place, bytes) in places.iter().zip(encode_overflow(extents, &places)) {
        transaction.write(*place, &bytes);
    }
    places.first().copied().unwrap_or(0)
}

/// Commits a change of `tag`. If it is larger than a record, the error says what helps.
pub(crate) fn commit_tag(transaction: Transaction<'_>, tag: &Tag) -> Result<()> {
    transaction.commit().map_err(|error| match error {
        Error::Limit(why) => Error::Limit(format!(
            "the space of tag {:?} has too many extents ({why}): run `ferrite pool defrag` and try again",
            tag.name
        )),
        other => other,
    })
}
