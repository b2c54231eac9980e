//! A grant while it is being taken back.

use crate::extent::Extent;
use crate::space::Space;

use super::grants::Grants;
use super::slot::GrantId;

/// A grant whose end is part of a transaction that has not committed yet. Dropped without [`Ending::done`], the grant
/// goes on.
#[derive(Debug)]
#[must_use = "a grant ends when its transaction has committed and `done` was called"]
pub struct Ending<'grants> {
    grants: &'grants Grants,
    id: GrantId,
    reserve: Vec<Extent>,
}

impl<'grants> Ending<'grants> {
    pub(super) fn new(grants: &'grants Grants, id: GrantId, reserve: Vec<Extent>) -> Self {
        Self { grants, id, reserve }
    }

    /// The space that was reserved for the grant.
    pub fn reserve(&self) -> &[Extent] {
        &self.reserve
    }

    /// The transaction has committed: what was held back for this grant alone is free now (G3).
    pub fn done(self, space: &Space) {
        self.grants.0.lock().finish(space, self.id);
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if let Ok(live) = self.grants.0.lock().find(self.id) {
            live.unsettled = false;
        }
    }
}
