//! The exports of a socket: one disk, or all disks of the pool.

use std::sync::Arc;

use ferrite_disk::{Disk, ReadOnlyDisk};
use ferrite_nbd::{Exports, Refusal};
use ferrite_pool::{Pool, TagKind};

use super::{CountedDisk, OpenDisks, Serving};

/// The exports of one socket. While its node is mounted a disk is read-only for new clients (AT3): a second writer
/// would destroy the mounted content. Only the connection is checked: clients that connected before the mount can still
/// write.
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

/// Returns the names of the disks of `pool`, by name.
pub fn disk_names(pool: &Pool) -> Vec<String> {
    let tags = pool.tags();
    tags.iter().filter(|tag| tag.kind == TagKind::DISK).map(|tag| tag.name.clone()).collect()
}
