//! Descriptions of tags to create.

use ferrite_memory::{Scheme, Span};
use serde::{Deserialize, Serialize};

use crate::extent::{Extent, Role, Stream, Zone};
use crate::layout::CHUNK;
use crate::log::log_head::make_head;
use crate::page_allocator::SpaceNeed;
use crate::tag::{Tag, TagKind};
use crate::{NewTag, Pool, Result};

use std::sync::Arc;

/// The space of one role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleSpace {
    /// The role.
    #[serde(with = "role")]
    pub role: Role,
    /// The size in bytes, rounded up to pages.
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

impl RoleSpace {
    /// Returns the needs: superpages for whole chunks, pages for the rest.
    pub(crate) fn needs(self) -> [SpaceNeed; 2] {
        let need = |zone, bytes| SpaceNeed { role: self.role, zone, bytes };
        [need(Zone::Super, self.bytes / CHUNK * CHUNK), need(Zone::Normal, self.bytes % CHUNK)]
    }
}

/// A tag to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TagSpec {
    /// The name, which no other tag may have.
    pub name: String,
    /// The number of the kind.
    pub kind: u16,
    /// The size in bytes; for a log the size of the ring, whole pages.
    pub size: u64,
    /// The attributes of the service, at most 64 bytes.
    pub attributes: Vec<u8>,
    /// The space of each role.
    pub parts: Vec<RoleSpace>,
    /// True if the MAP stream begins with the head of a log.
    pub has_log: bool,
}

impl TagSpec {
    /// Creates the tag in `pool` (HO3). The tag is durable on return; after an error it does not exist.
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
            None => Ok(pool.memory().drain()?),
        }
    }
}
