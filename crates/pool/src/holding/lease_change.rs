//! Changes of a leased tag: less space, and what only the pool's owner changes, other attributes and another size.

use std::sync::Arc;

use super::{LeaseGround, RoleSpace, TagLease};
use crate::extent::{Extent, Role};
use crate::layout::PAGE;
use crate::tag::Tag;
use crate::{Error, Pool, Result, TagChange};

impl TagLease {
    /// Frees the pages of `role` behind its first `bytes`. Durable on return; their content is lost.
    ///
    /// # Errors
    /// Those of the owner of a lent tag: the caller then uses the pages no longer, because they may be free (HO8). Else as
    /// [`TagLease`] says.
    pub fn narrow(&self, role: Role, bytes: u64) -> Result<()> {
        let LeaseGround::Lent { lease, watch, .. } = &self.ground else {
            return self.narrow_behind(role, bytes, &|| Ok(()));
        };
        let _changing = self.changing.lock();
        watch.check(false)?;
        let lent = lease.narrow(&self.tag(), RoleSpace { role, bytes })?;
        watch.turn_to(&lent.watch);
        *self.tag.lock() = lent.tag;
        Ok(())
    }

    /// Frees pages as [`TagLease::narrow`] does, behind `prepare`. `prepare` runs in the transaction: it may store into
    /// the tag, because no freeze of the pool begins before it returns. Its stores have to be durable on its return.
    ///
    /// # Errors
    /// [`Error::Busy`] for a lent lease, and the errors of `prepare`; else as [`TagLease`] says.
    pub fn narrow_behind(&self, role: Role, bytes: u64, prepare: &dyn Fn() -> Result<()>) -> Result<()> {
        let (pool, _changing) = (self.own_pool()?, self.changing.lock());
        let tag = self.tag();
        let keep = first_part(&tag, role, bytes.div_ceil(PAGE));
        let (size, attributes) = (tag.size, tag.attributes);
        self.replace(pool, &tag, &TagChange { size, attributes, add: &[], keep: &keep }, prepare)
    }

    /// Replaces the attributes of the tag. Durable on return.
    ///
    /// # Errors
    /// [`Error::Busy`] for a lent lease; else as [`TagLease`] says.
    pub fn set_attributes(&self, attributes: [u8; 64]) -> Result<()> {
        let (pool, _changing) = (self.own_pool()?, self.changing.lock());
        let tag = self.tag();
        self.replace(pool, &tag, &TagChange { size: tag.size, attributes, add: &[], keep: &tag.extents }, &|| Ok(()))
    }

    /// Replaces the size and the attributes of the tag in one transaction, behind `prepare` as in
    /// [`TagLease::narrow_behind`]. Durable on return.
    ///
    /// # Errors
    /// As [`TagLease::narrow_behind`].
    pub fn set_size_behind(&self, size: u64, attributes: [u8; 64], prepare: &dyn Fn() -> Result<()>) -> Result<()> {
        let (pool, _changing) = (self.own_pool()?, self.changing.lock());
        let tag = self.tag();
        self.replace(pool, &tag, &TagChange { size, attributes, add: &[], keep: &tag.extents }, prepare)
    }

    fn own_pool(&self) -> Result<&Pool> {
        match &self.ground {
            LeaseGround::Own { pool, .. } => Ok(pool),
            LeaseGround::Lent { .. } => {
                Err(Error::Busy(format!("tag {:?} is lent: only the pool's owner does that", self.tag().name)))
            }
        }
    }

    fn replace(&self, pool: &Pool, tag: &Tag, change: &TagChange<'_>, prepare: &dyn Fn() -> Result<()>) -> Result<()> {
        let changed = pool.change_tag(tag, change, |_| prepare())?;
        *self.tag.lock() = Arc::clone(&changed);
        Ok(())
    }
}

/// Returns the extents of `tag` with the first `pages` of `role` at most.
pub(super) fn first_part(tag: &Tag, role: Role, pages: u64) -> Vec<Extent> {
    let mut left = pages;
    let cut = |extent: &Extent| {
        let mut part = *extent;
        if part.role == role {
            part.pages = u64::from(part.pages).min(left) as u32;
            left -= u64::from(part.pages);
        }
        (part.pages > 0).then_some(part)
    };
    tag.extents.iter().filter_map(cut).collect()
}
