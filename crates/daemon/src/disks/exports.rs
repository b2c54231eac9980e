//! What a socket shows: one disk, or all of the pool.

use std::sync::Arc;

use ferrite_disk::{Disk, ReadOnlyDisk};
use ferrite_nbd::{Exports, Refusal};
use ferrite_pool::{Pool, TagKind};

use super::{CountedDisk, OpenDisks, Serving};

/// The exports of one socket. A disk whose node is mounted is read-only to who connects (AT3): two who write would
/// destroy what the mount holds. It is asked once: who connected before the mount writes on.
pub(super) struct SocketExports {
    pub disks: Arc<OpenDisks>,
    pub only: Option<(String, Arc<CountedDisk>)>,
    pub serving: Serving,
}

impl Exports for SocketExports {
    fn list(&self) -> Vec<String> {
        match &self.only {
            Some((name, _)) => vec![name.clone()],
            None => self.disks.all_names(),
        }
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Disk>, Refusal> {
        let front = match &self.only {
            Some((only, front)) if only == name => Arc::clone(front),
            None if self.disks.all_names().iter().any(|known| known == name) => {
                self.disks.open(name, &self.serving).map_err(|why| Refusal::Denied(why.message))?
            }
            _ => return Err(Refusal::Unknown),
        };
        let claimed = !self.disks.claims(name).is_empty();
        Ok(if claimed { Arc::new(ReadOnlyDisk::new(front)) } else { front })
    }

    fn description(&self, name: &str) -> Option<String> {
        let claims = self.disks.claims(name);
        (!claims.is_empty()).then(|| format!("read-only, for its node is in use: {}", claims.join(", ")))
    }
}

/// The disks of `pool`, by name.
pub fn disk_names(pool: &Pool) -> Vec<String> {
    let tags = pool.tags();
    tags.iter().filter(|tag| tag.kind == TagKind::DISK).map(|tag| tag.name.clone()).collect()
}
