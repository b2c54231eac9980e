//! The region of a program: how its loads, stores and syncs are done.

use std::cell::RefCell;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use ferrite_disk::{FileDisk, FileDiskOptions};
use ferrite_guest::{BorrowedGuest, DemotionPolicy, GuestCounts, GuestEngine, GuestRegion, ParaRegion};
use ferrite_memory::{Guard, MapOptions, Mapped, Memory, Pace, Paced, Span, Speed, Tsc};
use ferrite_owner::machine;
use ferrite_pool::{Freeze, Pool};

use super::file_mapping::{FileMapping, RawBytes};
use super::region_order::{RegionFigures, RegionKind, RegionSetup};
use super::store_pace::StorePace;
use crate::{Error, Result};

/// The memory of a region.
enum RegionMemory {
    Full(GuestRegion),
    Para(ParaRegion),
    Bare(FileMapping),
    FileSync(FileMapping),
}

/// A region as a program uses it.
pub struct ProgramRegion {
    memory: RegionMemory,
    pace: StorePace,
    /// Bytes of a mapped file that a sync has to make durable.
    unsynced: RefCell<Vec<Span>>,
}

fn nonce() -> u16 {
    machine::random() as u16
}

fn open_file(path: &Path) -> Result<File> {
    let file = File::options().read(true).write(true).open(path);
    file.map_err(Error::io(format!("opening {}", path.display())))
}

/// Opens the pool of `setup` in this process.
fn open_pool(setup: &RegionSetup) -> Result<Arc<Pool>> {
    let options = MapOptions { guard: Guard::best(), name: setup.path.display().to_string(), ..MapOptions::default() };
    let mapped = Mapped::map(open_file(&setup.path)?, &options)?;
    let memory: Arc<dyn Memory> = if setup.write_times > 1.0 {
        let begun = Instant::now();
        let ticks = Tsc::calibrate(|| begun.elapsed().as_nanos() as u64)?;
        let pace = Pace { read: Speed::DRAM, write: Speed::relative(setup.write_times) };
        Arc::new(Paced::new(mapped, pace, ticks)?)
    } else {
        Arc::new(mapped)
    };
    let boot_id = machine::boot_id().map_err(Error::io("reading the identity of this boot"))?;
    Ok(Arc::new(Pool::open(memory, boot_id)?.0))
}

impl RegionMemory {
    fn open(setup: &RegionSetup) -> Result<Self> {
        match setup.kind {
            RegionKind::Bare => FileMapping::map(&open_file(&setup.path)?, setup.size).map(Self::Bare),
            RegionKind::FileSync => FileMapping::map(&open_file(&setup.path)?, setup.size).map(Self::FileSync),
            RegionKind::Full | RegionKind::Para if setup.is_lent => {
                let lent = BorrowedGuest { pool: &setup.path, name: &setup.name, place: None, begin: || () };
                match setup.kind {
                    RegionKind::Para => Ok(Self::Para(ParaRegion::borrow(lent)?)),
                    _ => Ok(Self::Full(GuestRegion::borrow(lent)?)),
                }
            }
            RegionKind::Full | RegionKind::Para => {
                let pool = open_pool(setup)?;
                let disk = Arc::new(FileDisk::open(&setup.disk, &FileDiskOptions::default())?);
                match setup.kind {
                    RegionKind::Para => Ok(Self::Para(ParaRegion::open(&pool, &setup.name, disk, nonce)?)),
                    _ => Ok(Self::Full(GuestRegion::open(&pool, &setup.name, disk, nonce)?)),
                }
            }
        }
    }

    fn bytes(&self) -> RawBytes<'_> {
        match self {
            Self::Full(region) => RawBytes::of_region(region.region()),
            Self::Para(region) => RawBytes::of_region(region.region()),
            Self::Bare(file) | Self::FileSync(file) => file.bytes(),
        }
    }

    fn engine(&self) -> Option<&GuestEngine> {
        match self {
            Self::Full(region) => Some(region.engine()),
            Self::Para(region) => Some(region.engine()),
            Self::Bare(_) | Self::FileSync(_) => None,
        }
    }
}

impl ProgramRegion {
    /// Opens the region of `setup`.
    ///
    /// # Errors
    /// The errors of the pool and the guest, and those of the system.
    pub fn open(setup: &RegionSetup) -> Result<Self> {
        let memory = RegionMemory::open(setup)?;
        let usual = DemotionPolicy::default();
        let batch_pages = if setup.has_batches { usual.batch_pages } else { 1 };
        if let Some(engine) = memory.engine() {
            engine.set_demotion(DemotionPolicy { batch_pages, keeps_copies: setup.keeps_copies });
        }
        // Stores to DRAM, and those that only a disk makes durable, are as fast as DRAM.
        let is_persistent = matches!(setup.kind, RegionKind::Full | RegionKind::Bare);
        let pace = StorePace::new(if is_persistent { setup.write_times } else { 1.0 })?;
        Ok(Self { memory, pace, unsynced: RefCell::default() })
    }

    /// Loads bytes.
    pub fn load(&self, at: u64, into: &mut [u8]) {
        self.memory.bytes().load(at, into);
    }

    /// Stores bytes that have to last: durably on persistent memory, else at the next sync.
    ///
    /// # Errors
    /// Those of [`ParaRegion::persist`].
    pub fn store(&self, at: u64, from: &[u8]) -> Result<()> {
        let (bytes, span) = (self.memory.bytes(), Span::new(at, from.len() as u64));
        match &self.memory {
            RegionMemory::Full(_) | RegionMemory::Bare(_) => {
                bytes.store_durable(at, from);
                self.pace.wait(span.len);
            }
            RegionMemory::Para(region) => {
                bytes.store(at, from);
                region.persist(span)?;
            }
            RegionMemory::FileSync(_) => {
                bytes.store(at, from);
                self.unsynced.borrow_mut().push(span);
            }
        }
        Ok(())
    }

    /// Stores bytes that need not last.
    pub fn store_plain(&self, at: u64, from: &[u8]) {
        self.memory.bytes().store(at, from);
    }

    /// Makes all that [`ProgramRegion::store`] stored durable.
    ///
    /// # Errors
    /// Those of the guest and of the file's disk.
    pub fn sync(&self) -> Result<()> {
        match &self.memory {
            RegionMemory::Full(_) | RegionMemory::Bare(_) => {}
            RegionMemory::Para(region) => region.barrier()?,
            RegionMemory::FileSync(file) => {
                let spans = std::mem::take(&mut *self.unsynced.borrow_mut());
                let first = spans.iter().map(|span| span.at).min();
                let end = spans.iter().map(|span| span.at + span.len).max();
                if let Some((first, end)) = first.zip(end) {
                    // One call flushes the disk once.
                    file.sync(Span::new(first, end - first))?;
                }
            }
        }
        Ok(())
    }

    /// Returns true if the region is a guest.
    pub fn is_guest(&self) -> bool {
        self.memory.engine().is_some()
    }

    /// Returns the counts of a guest.
    pub fn counts(&self) -> Option<GuestCounts> {
        self.memory.engine().map(GuestEngine::counts)
    }

    /// Takes all pages of a guest away from the program: its next access of each faults.
    pub fn unmap(&self) -> RegionFigures {
        let begun = Instant::now();
        if let Some(engine) = self.memory.engine() {
            engine.freeze();
            engine.thaw();
        }
        RegionFigures { nanos: begun.elapsed().as_nanos() as u64, ..RegionFigures::default() }
    }
}
