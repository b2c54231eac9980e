//! What a tag to be held is made of.

use ferrite_memory::{Scheme, Span};
use serde::{Deserialize, Serialize};

use crate::extent::{Extent, Role, Stream, Zone};
use crate::layout::CHUNK;
use crate::log::log_head::make_head;
use crate::page_allocator::SpaceNeed;
use crate::tag::{Tag, TagKind};
use crate::{NewTag, Pool, Result};

use std::sync::Arc;

/// Space of one role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// What for.
    #[serde(with = "role")]
    pub role: Role,
    /// How much; rounded up to pages.
    pub bytes: u64,
}

/// Roles as numbers.
mod role {
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::Role;

    pub fn serialize<S: Serializer>(role: &Role, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u8(role.0)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Role, D::Error> {
        u8::deserialize(from).map(Role)
    }
}

impl Part {
    /// Superpages for whole ones, pages for the rest.
    pub(crate) fn needs(self) -> [SpaceNeed; 2] {
        let need = |zone, bytes| SpaceNeed { role: self.role, zone, bytes };
        [need(Zone::Super, self.bytes / CHUNK * CHUNK), need(Zone::Normal, self.bytes % CHUNK)]
    }
}

/// A tag to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Its name, not yet in use.
    pub name: String,
    /// Its kind's number.
    pub kind: u16,
    /// Its size in bytes; where it has a log that of the ring, whole pages.
    pub size: u64,
    /// The service's notes, at most 64 bytes.
    pub attributes: Vec<u8>,
    /// Its space.
    pub parts: Vec<Part>,
    /// Whether its MAP stream begins with the head of a log.
    pub has_log: bool,
}

impl Spec {
    /// Makes the tag in `pool` (HO3). Durable on return, or not there.
    ///
    /// # Errors
    /// As [`Pool::create_tag`].
    pub fn create(&self, pool: &Pool) -> Result<Arc<Tag>> {
        let mut attributes = [0; 64];
        attributes.iter_mut().zip(&self.attributes).for_each(|(to, from)| *to = *from);
        let needs: Vec<SpaceNeed> = self.parts.iter().flat_map(|part| part.needs()).collect();
        let new = NewTag { name: &self.name, kind: TagKind(self.kind), size: self.size, attributes, needs: &needs };
        pool.with_spare(|| pool.create_tag(&new, |extents| self.prepare(pool, extents)))
    }

    fn prepare(&self, pool: &Pool, extents: &[Extent]) -> Result<()> {
        let map = Stream::new(extents, Role::MAP);
        map.runs(Span::new(0, map.len())).for_each(|run| pool.memory().zero(run, Scheme::Nt));
        match map.locate(0).filter(|_| self.has_log) {
            Some(page) => make_head(pool, page.at),
            None => Ok(pool.memory().settle()?),
        }
    }
}
