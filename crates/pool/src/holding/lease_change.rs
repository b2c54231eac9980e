//! Changes of a leased tag that the pool's owner makes: less space, other attributes.

use std::sync::Arc;

use super::{LeaseGround, TagLease};
use crate::extent::{Extent, Role};
use crate::layout::PAGE;
use crate::tag::Tag;
use crate::{Error, Pool, Result, TagChange};

impl TagLease {
    /// Frees the pages of `role` behind its first `bytes`. Durable on return; their content is lost.
    ///
    /// # Errors
    /// [`Error::Busy`] for a lent lease; else as [`TagLease`] says.
    pub fn narrow(&self, role: Role, bytes: u64) -> Result<()> {
        self.narrow_behind(role, bytes, &|| Ok(()))
    }

    /// Frees pages as [`TagLease::narrow`] does, behind `prepare`. `prepare` runs in the transaction: it may store into
    /// the tag, because no freeze of the pool begins before it returns. Its stores have to be durable on its return.
    ///
    /// # Errors
    /// The errors of `prepare`; else as [`TagLease::narrow`].
    pub fn narrow_behind(&self, role: Role, bytes: u64, prepare: &dyn Fn() -> Result<()>) -> Result<()> {
        let (pool, _changing) = (self.own_pool()?, self.changing.lock());
        let tag = self.tag();
        let keep = first_part(&tag, role, bytes.div_ceil(PAGE));
        self.replace(pool, &tag, tag.attributes, &keep, prepare)
    }

    /// Replaces the attributes of the tag. Durable on return.
    ///
    /// # Errors
    /// As [`TagLease::narrow`].
    pub fn set_attributes(&self, attributes: [u8; 64]) -> Result<()> {
        let (pool, _changing) = (self.own_pool()?, self.changing.lock());
        let tag = self.tag();
        self.replace(pool, &tag, attributes, &tag.extents, &|| Ok(()))
    }

    fn own_pool(&self) -> Result<&Pool> {
        match &self.ground {
            LeaseGround::Own { pool, .. } => Ok(pool),
            LeaseGround::Lent { .. } => {
                Err(Error::Busy(format!("tag {:?} is lent: only the pool's owner does that", self.tag().name)))
            }
        }
    }

    fn replace(
        &self,
        pool: &Pool,
        tag: &Tag,
        attributes: [u8; 64],
        keep: &[Extent],
        prepare: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let changed = pool.change_tag(tag, &TagChange { size: tag.size, attributes, add: &[], keep }, |_| prepare())?;
        *self.tag.lock() = Arc::clone(&changed);
        Ok(())
    }
}

/// Returns the extents of `tag` with the first `pages` of `role` at most.
fn first_part(tag: &Tag, role: Role, pages: u64) -> Vec<Extent> {
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
