//! The block device against a model, and through crashes.

use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use ferrite_disk::{Access, Disk, Zeroing};
use ferrite_memory::planted::plant;
use ferrite_memory::{Memory, Scheme, Span};
use ferrite_pool::{Format, Pool};
use proptest::prelude::*;

use crate::{BLOCK, BlockDisk, DiskOptions, DiskSpec, create};

mod caller;
mod checksums;
mod crash;
mod defrag;
mod format;
mod holes;
mod in_place;
mod lent;
mod model;
mod refusals;
mod resized;
mod room;
mod spare;
mod threads;
mod usual;
mod verify;

pub(crate) use crash::collisions;

pub(crate) const BOOT: [u8; 16] = [1; 16];
/// Blocks of the disk under test.
pub(crate) const BLOCKS: u64 = 24;

/// A way to serve the disk that the tests run through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub model: Model,
    pub options: DiskOptions,
    pub thin: bool,
    pub checksum: bool,
}

pub(crate) fn ways() -> Vec<Way> {
    let options = |scheme, in_place| DiskOptions { scheme, in_place, ..DiskOptions::default() };
    let mut ways = Vec::new();
    for in_place in [false, true] {
        for (model, scheme) in [
            (Model::MAPPED, Scheme::Nt),
            (Model::MAPPED, Scheme::Flush),
            (Model::MAPPED, Scheme::Writeback),
            (Model::FILE, Scheme::Nt),
        ] {
            ways.push(Way { model, options: options(scheme, in_place), thin: in_place, checksum: false });
        }
    }
    let checked: Vec<Way> = ways.iter().map(|way| Way { checksum: true, ..*way }).collect();
    let verified = DiskOptions { verify: true, ..DiskOptions::default() };
    for (i, way) in checked.iter().enumerate() {
        let options = DiskOptions { verify: i % 2 == 0, ..way.options };
        ways.push(Way { options, ..*way });
    }
    for (scheme, in_place) in [(Scheme::WritebackAll, false), (Scheme::Writethrough, true)] {
        ways.push(Way { model: Model::MAPPED, options: options(scheme, in_place), thin: in_place, checksum: false });
    }
    for in_place in [false, true] {
        ways.push(Way { options: DiskOptions { in_place, ..verified }, ..ways[0] });
    }
    ways
}

/// A change of the disk, in sectors of 512 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Write { sector: u64, sectors: u64, seed: u8 },
    Trim { sector: u64, sectors: u64 },
    Zero { sector: u64, sectors: u64, keep_space: bool },
    Flush,
}

pub(crate) fn op() -> impl Strategy<Value = Op> {
    let place = (0..BLOCKS * 8, 1..40_u64).prop_map(|(sector, count)| (sector, count.min(BLOCKS * 8 - sector)));
    prop_oneof![
        4 => (place.clone(), any::<u8>()).prop_map(|((sector, sectors), seed)| Op::Write { sector, sectors, seed }),
        1 => place.clone().prop_map(|(sector, sectors)| Op::Trim { sector, sectors }),
        1 => (place, any::<bool>())
            .prop_map(|((sector, sectors), keep_space)| Op::Zero { sector, sectors, keep_space }),
        1 => Just(Op::Flush),
    ]
}

impl Op {
    pub fn run(self, disk: &dyn Disk) {
        let span = |sector, sectors| Span::new(sector * 512, sectors * 512);
        match self {
            Self::Write { sector, sectors, seed } => {
                disk.write(sector * 512, &content(sectors, seed), Access::Cached).expect("written");
            }
            Self::Trim { sector, sectors } => disk.trim(span(sector, sectors), Access::Cached).expect("trimmed"),
            Self::Zero { sector, sectors, keep_space } => {
                let how = Zeroing { keep_space, ..Zeroing::default() };
                disk.write_zeroes(span(sector, sectors), how).expect("zeroed");
            }
            Self::Flush => disk.flush().expect("flushed"),
        }
    }

    /// The same on plain bytes.
    pub fn apply(self, bytes: &mut [u8]) {
        let range = |sector: u64, sectors: u64| (sector * 512) as usize..((sector + sectors) * 512) as usize;
        match self {
            Self::Write { sector, sectors, seed } => {
                bytes[range(sector, sectors)].copy_from_slice(&content(sectors, seed));
            }
            Self::Zero { sector, sectors, .. } => bytes[range(sector, sectors)].fill(0),
            Self::Trim { sector, sectors } => {
                let (first, end) = (sector.div_ceil(8), (sector + sectors) / 8);
                if first < end {
                    bytes[range(first * 8, (end - first) * 8)].fill(0);
                }
            }
            Self::Flush => {}
        }
    }
}

/// Bytes that identify their write and their position, word by word.
pub(crate) fn content(sectors: u64, seed: u8) -> Vec<u8> {
    (0..sectors * 64).flat_map(|word| (word << 16 | u64::from(seed) << 8 | 0xA5).to_le_bytes()).collect()
}

impl Op {
    /// Whether it changes a byte of block `index`.
    fn touches(self, index: u64) -> bool {
        match self {
            Self::Write { sector, sectors, .. }
            | Self::Zero { sector, sectors, .. }
            | Self::Trim { sector, sectors } => sector < (index + 1) * 8 && index * 8 < sector + sectors,
            Self::Flush => false,
        }
    }
}

pub(crate) fn fresh(way: Way) -> Arc<LyingMemory> {
    let memory = Arc::new(LyingMemory::new(12 << 20, way.model));
    Pool::create(&*memory, &Format { uuid: [7; 16], boot_id: BOOT }).expect("created");
    let pool = Pool::open(memory.clone(), BOOT).expect("opened").0;
    create(&pool, "disk0", &spec_of(way)).expect("created");
    pool.close().expect("closed");
    memory
}

pub(crate) fn spec_of(way: Way) -> DiskSpec {
    DiskSpec { size: BLOCKS * BLOCK, sector_bytes: 512, thin: way.thin, checksum: way.checksum }
}

pub(crate) fn open(memory: Arc<dyn Memory>, way: Way) -> Arc<BlockDisk> {
    let pool = Arc::new(Pool::open(memory, BOOT).expect("opened").0);
    BlockDisk::open(pool, "disk0", way.options).expect("opened")
}

pub(crate) fn read_all(disk: &dyn Disk) -> Vec<u8> {
    let mut bytes = vec![0; disk.geometry().size as usize];
    disk.read(0, &mut bytes).expect("read");
    bytes
}
