//! Making durable what was written, and showing it then: where a fence is not durable, sizes wait for that (FW4).

use crate::file::read::apply_waiting;
use crate::format::inode::Inode;
use crate::fs::FileSystem;
use crate::store::locks::Stripe;
use crate::{Ino, Result};

impl FileSystem {
    /// Makes durable what was written to `ino` before, then the size that shows it (FW4). Times show nothing: where they
    /// are all that waits, they go with what was written.
    pub(crate) fn publish_size(&self, stripe: &mut Stripe, inode: &mut Inode) -> Result<()> {
        let is_told = !stripe.waiting.contains_key(&inode.ino.0);
        if is_told || inode.durable_size() != inode.size() {
            self.settle_data()?;
        }
        inode.settle_size();
        if !is_told {
            inode.store_direct(self.memory());
            self.settle()?;
            stripe.waiting.remove(&inode.ino.0);
        }
        Ok(())
    }

    /// Everything written to the file before is durable on return.
    ///
    /// # Errors
    /// [`crate::Error::Pool`] where what was written before may not be durable, or [`crate::Error::NoSpace`] where that
    /// is for want of space on the host. Where a fence is durable no number is looked up, and [`crate::Error::Stale`]
    /// is not given.
    pub fn fsync(&self, ino: Ino) -> Result<()> {
        self.pool().check_poison()?;
        self.fold_times(ino);
        if !self.waits() {
            self.memory().fence();
            return Ok(());
        }
        let _pass = self.gate.pass();
        let mut stripe = self.locks.write(ino);
        let mut inode = self.load(ino)?;
        apply_waiting(&stripe, &mut inode);
        self.publish_size(&mut stripe, &mut inode)
    }

    /// The same for all files.
    ///
    /// # Errors
    /// As [`FileSystem::fsync`].
    pub fn flush(&self) -> Result<()> {
        self.pool().check_poison()?;
        if !self.waits() {
            self.memory().fence();
            return Ok(());
        }
        let _pass = self.gate.pass();
        self.publish_all()
    }

    /// Makes durable what was written to any file, then the sizes that show it (FW4).
    pub(crate) fn publish_all(&self) -> Result<()> {
        let mut waited = Vec::new();
        self.locks.each(|stripe| waited.extend(stripe.waiting.iter().map(|(ino, waiting)| (Ino(*ino), *waiting))));
        self.settle_data()?;
        for (ino, waiting) in waited {
            let mut stripe = self.locks.write(ino);
            let now = stripe.waiting.get(&ino.0).copied().filter(|now| now.serial == waiting.serial);
            let Some(now) = now else { continue };
            let Ok(mut inode) = self.load(ino) else { continue };
            inode.head.size = waiting.size.min(now.size);
            waiting.tell_times(&mut inode);
            inode.store_direct(self.memory());
            if now == waiting {
                stripe.waiting.remove(&ino.0);
            }
        }
        self.settle()
    }
}
