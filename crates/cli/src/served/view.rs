//! What a socket shows: one disk, or all of the pool.

use std::sync::Arc;

use ferrite_disk::{Disk, ReadOnlyDisk};
use ferrite_nbd::{Exports, Refusal};
use ferrite_pool::{Pool, TagKind};

use super::{Front, Served};
use crate::request::Serving;

/// The exports of one socket. A disk whose node is mounted is read-only to who connects (AT3): two who write would
/// destroy what the mount holds. It is asked once: who connected before the mount writes on.
pub(super) struct View {
    pub served: Arc<Served>,
    pub only: Option<(String, Arc<Front>)>,
    pub serving: Serving,
}

impl Exports for View {
    fn list(&self) -> Vec<String> {
        match &self.only {
            Some((name, _)) => vec![name.clone()],
            None => disk_names(&self.served.pool),
        }
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Disk>, Refusal> {
        let front = match &self.only {
            Some((only, front)) if only == name => Arc::clone(front),
            None if disk_names(&self.served.pool).iter().any(|known| known == name) => {
                self.served.open(name, &self.serving).map_err(Refusal::Denied)?
            }
            _ => return Err(Refusal::Unknown),
        };
        let claimed = !self.served.claims(name).is_empty();
        Ok(if claimed { Arc::new(ReadOnlyDisk::new(front)) } else { front })
    }

    fn description(&self, name: &str) -> Option<String> {
        let claims = self.served.claims(name);
        (!claims.is_empty()).then(|| format!("read-only, for its node is in use: {}", claims.join(", ")))
    }
}

/// The disks of `pool`, by name.
pub fn disk_names(pool: &Pool) -> Vec<String> {
    let tags = pool.tags();
    tags.iter().filter(|tag| tag.kind == TagKind::DISK).map(|tag| tag.name.clone()).collect()
}
