//! A disk behind its cache, as a [`Disk`].

use std::sync::Arc;

use ferrite_disk::{Access, Disk, Geometry, Op, Queue, Request, Wait, Zeroing};
use ferrite_memory::{Error, Result, Span};
use parking_lot::Mutex;

use crate::CacheMode;
use crate::cache_core::CacheCore;
use crate::cache_layout::BLOCK;
use crate::cache_queue::CacheQueue;

/// A disk behind a cache of SSDs.
///
/// A completed write survives a crash if it is in a slot and the pool's fences are durable, else after the next flush.
/// Requests of whole blocks of 4 KiB are served best: a change of a part of a block may have to read the rest first.
pub struct CachedDisk {
    core: Arc<CacheCore>,
    number: u8,
    /// Queues for callers that wait for each request.
    queues: Mutex<Vec<CacheQueue>>,
}

impl CachedDisk {
    pub(crate) fn new(core: Arc<CacheCore>, number: u8) -> Self {
        Self { core, number, queues: Mutex::default() }
    }

    pub(crate) fn core(&self) -> &Arc<CacheCore> {
        &self.core
    }

    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    fn run(&self, op: Op, span: Span, buffer: Vec<u8>) -> Result<Vec<u8>> {
        let kept = self.queues.lock().pop();
        let mut queue = match kept {
            Some(queue) => queue,
            None => CacheQueue::new(self)?,
        };
        let mut completion = queue.submit(Request { token: 0, op, span, buffer });
        let mut completions = Vec::new();
        while completion.is_none() {
            queue.collect(Wait::Forever, &mut completions)?;
            completion = completions.pop();
        }
        self.queues.lock().push(queue);
        let completion = completion.expect("the loop ends with a completion");
        completion.result.map(|()| completion.buffer)
    }
}

impl Disk for CachedDisk {
    fn geometry(&self) -> Geometry {
        let disk = &self.core.disks[usize::from(self.number)];
        let inner = disk.disk().map(|disk| disk.geometry());
        let settings = self.core.settings();
        let is_write_back = settings.mode == CacheMode::WriteBack;
        let is_durable = is_write_back && settings.bypass_bytes == 0 && self.core.memory.memory().fence_is_durable();
        Geometry {
            size: disk.config.size,
            sector_bytes: inner.as_ref().map_or(BLOCK as u32, |inner| inner.sector_bytes),
            atomic_bytes: inner.as_ref().map_or(1, |inner| inner.atomic_bytes.min(BLOCK as u32)),
            preferred_bytes: BLOCK as u32,
            volatile_cache: !is_durable || inner.as_ref().is_none_or(|inner| inner.volatile_cache),
            read_only: settings.mode == CacheMode::ReadOnly || inner.as_ref().is_some_and(|inner| inner.read_only),
            trim: inner.as_ref().is_some_and(|inner| inner.trim),
            identity: disk.config.uuid,
        }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let span = Span::new(at, into.len() as u64);
        into.copy_from_slice(&self.run(Op::Read, span, vec![0; into.len()])?);
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        self.run(Op::Write(access), Span::new(at, from.len() as u64), from.to_vec()).map(|_| ())
    }

    fn flush(&self) -> Result<()> {
        self.run(Op::Flush, Span::new(0, 0), Vec::new()).map(|_| ())
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.run(Op::Trim(access), span, Vec::new()).map(|_| ())
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.run(Op::Zero(how), span, Vec::new()).map(|_| ())
    }

    fn queue(&self) -> Result<Option<Box<dyn Queue>>> {
        Ok(Some(Box::new(CacheQueue::new(self)?)))
    }

    fn check(&self, span: Span) -> Result<()> {
        let Geometry { size, sector_bytes, .. } = self.geometry();
        match span.fits(size) && span.aligned_to(u64::from(sector_bytes)) {
            true => Ok(()),
            false => Err(Error::OutOfRange { at: span.at, len: span.len, size, sector_bytes }),
        }
    }
}
