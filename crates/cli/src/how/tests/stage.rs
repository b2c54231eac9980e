//! A pool in which the tests serve a disk in every way, use it, kill it, and reopen it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use ferrite_block::DiskSpec;
use ferrite_daemon::disks::OpenDisks;
use ferrite_daemon::registry;
use ferrite_disk::{Access, Disk, Zeroing};
use ferrite_memory::{Error, Memory, Scheme, Span, make_pool_file};
use ferrite_pool::{Claim, Lock, check, claim};
use ferrite_pool::{Pool, Role};

use super::lossy::Lossy;
use super::{Way, understood};
use crate::commands::pool::format;
use crate::host;

const BLOCK: usize = 4096;
const BLOCKS: usize = 16;
/// Space for a disk, which uses a superpage, and for the pool's own tables.
const DISK_ROOM_BYTES: u64 = 5 << 19;
const TABLES_BYTES: u64 = 16 << 20;

/// A pool's file and its mapping.
pub struct Stage {
    lock: Lock,
    needs_barriers: bool,
    words: Vec<&'static str>,
}

/// A served pool.
struct Open {
    memory: Arc<Lossy>,
    pool: Arc<Pool>,
    served: Arc<OpenDisks>,
    is_clean: bool,
}

/// The content of a disk at the kill.
struct Left {
    /// The durable content.
    durable: Vec<u8>,
    /// The last written content.
    last: Vec<u8>,
    /// True if the disk reports that a write waits for a flush.
    waits: bool,
}

/// Returns the content of a block, which is unique.
fn block(way: usize, number: u8) -> Vec<u8> {
    let start = (way * 256 + usize::from(number)) as u32;
    (0..BLOCK as u32 / 4).flat_map(|i| (start + 1).wrapping_mul(2_654_435_761).wrapping_add(i).to_le_bytes()).collect()
}

fn read_all(disk: &dyn Disk) -> Vec<u8> {
    let mut bytes = vec![0xEE; BLOCK * BLOCKS];
    disk.read(0, &mut bytes).expect("read");
    bytes
}

/// Writes to the disk and to its expected content.
fn write(disk: &dyn Disk, bytes: &mut [u8], at: usize, from: &[u8], access: Access) {
    disk.write(at as u64, from, access).expect("written");
    bytes[at..][..from.len()].copy_from_slice(from);
}

impl Stage {
    /// Makes a pool in `folder` with space for `disks`, mapped with the options `words`. If `needs_barriers`, the pool
    /// is only as durable as a file.
    pub fn new(folder: &Path, disks: usize, words: &[&'static str], needs_barriers: bool) -> Self {
        let path: PathBuf = folder.join("pool");
        let _ = std::fs::remove_file(&path);
        make_pool_file(&path, TABLES_BYTES + disks as u64 * DISK_ROOM_BYTES).expect("made");
        let Claim::Ours(lock) = claim(&path).expect("claimed") else { panic!("another process has it") };
        format(&lock, &path).expect("formatted");
        Self { lock, needs_barriers, words: words.to_vec() }
    }

    fn open(&self) -> Open {
        let how = understood(&self.words).expect("accepted");
        let memory = Lossy::over(how.medium.map(&self.lock).expect("mapped").memory, self.needs_barriers);
        let (pool, recovery) = Pool::open(memory.clone(), host::boot_id().expect("a boot")).expect("opened");
        let pool = Arc::new(pool);
        let served = OpenDisks::new(Arc::clone(&pool), self.lock.path(), Arc::default(), Weak::new());
        Open { memory, pool, served, is_clean: recovery.clean }
    }

    /// Uses a disk in each way, kills all disks, and checks the remaining data.
    pub fn play(&self, ways: &[Way]) {
        let open = self.open();
        let left: Vec<Left> = ways.iter().enumerate().map(|(number, way)| self.used(&open, number, *way)).collect();
        // Like a kill of the process, this loses all data that lies only in DRAM.
        drop(open);
        let open = self.open();
        assert!(!open.is_clean);
        let report = check::check_open(&open.pool, &registry().owners(), &mut |_| ());
        let damaged = ways.iter().zip(&left).any(|(way, left)| may_be_damaged(*way, left));
        assert!(report.is_sound() || damaged, "{:?}", report.findings);
        for ((number, way), left) in ways.iter().enumerate().zip(&left) {
            self.found(&open, number, *way, left);
        }
        open.served.end_all().expect("ended");
    }

    fn serve(&self, open: &Open, number: usize, way: Way) -> Arc<dyn Disk> {
        let words = [&self.words[..], &way.words()].concat();
        let serving = understood(&words).expect("accepted").serving().expect("accepted");
        open.served.open(&number.to_string(), &serving).unwrap_or_else(|why| panic!("{words:?}: {why}"))
    }

    /// Runs write, read back, zero, trim, flush and FUA.
    fn used(&self, open: &Open, number: usize, way: Way) -> Left {
        let spec = DiskSpec { size: (BLOCK * BLOCKS) as u64, sector_bytes: 512, thin: false, checksum: way.checksum };
        ferrite_block::create(&open.pool, &number.to_string(), &spec).expect("created");
        let disk = self.serve(open, number, way);
        let mut bytes = vec![0; BLOCK * BLOCKS];
        assert!(read_all(&*disk) == bytes, "{way:?}: fresh");
        for at in 0..5 {
            write(&*disk, &mut bytes, usize::from(at) * BLOCK, &block(number, at), Access::Cached);
        }
        write(&*disk, &mut bytes, 6 * BLOCK - 1024, &block(number, 5)[..2048], Access::Cached);
        write(&*disk, &mut bytes, 7 * BLOCK + 512, &block(number, 6)[..512], Access::Cached);
        assert!(read_all(&*disk) == bytes, "{way:?}: written");
        disk.write_zeroes(Span::new(BLOCK as u64, BLOCK as u64), Zeroing::default()).expect("zeroed");
        disk.trim(Span::new(2 * BLOCK as u64, BLOCK as u64), Access::Cached).expect("trimmed");
        bytes[BLOCK..3 * BLOCK].fill(0);
        disk.flush().expect("flushed");
        assert!(read_all(&*disk) == bytes, "{way:?}: flushed");
        write(&*disk, &mut bytes, 3 * BLOCK, &block(number, 7), Access::Fua);
        let durable = bytes.clone();
        write(&*disk, &mut bytes, 4 * BLOCK, &block(number, 8), Access::Cached);
        write(&*disk, &mut bytes, 8 * BLOCK, &block(number, 9), Access::Cached);
        assert!(read_all(&*disk) == bytes, "{way:?}: written after the flush");
        let waits = disk.geometry().volatile_cache;
        let is_buffered = self.words.contains(&"buffered");
        let is_durable = open.memory.fence_is_durable() && way.scheme.is_durable_at_fence();
        assert_eq!(waits, is_buffered || !is_durable, "{way:?}: it says what survives");
        Left { durable, last: bytes, waits }
    }

    /// Checks that durable data is there, and completed data too if no write waits. Then checks the promises of
    /// `verify` and of checksums.
    fn found(&self, open: &Open, number: usize, way: Way, left: &Left) {
        let disk = self.serve(open, number, way);
        for at in (0..BLOCK * BLOCKS).step_by(BLOCK) {
            let (durable, last) = (&left.durable[at..at + BLOCK], &left.last[at..at + BLOCK]);
            let mut found = vec![0; BLOCK];
            match disk.read(at as u64, &mut found) {
                Ok(()) => assert!(found == last || left.waits && found == durable, "{way:?}: at {at}"),
                Err(error) => assert!(may_be_damaged(way, left) && durable != last, "{way:?}: at {at}: {error}"),
            }
        }
        self.loses_a_store(open, &*disk, number, way);
        finds_a_flipped_byte(open, &*disk, number, way);
    }

    /// Loses a store. With `verify` the write fails, with checksums the read fails, and a second write succeeds.
    fn loses_a_store(&self, open: &Open, disk: &dyn Disk, number: usize, way: Way) {
        let (at, new) = (9 * BLOCK as u64, block(number, 10));
        open.memory.lose_next();
        let message = disk.write(at, &new, Access::Fua);
        assert!(open.memory.has_lost(), "{way:?}: nothing was stored");
        let mut found = vec![0; BLOCK];
        match message {
            Ok(()) => assert!(!way.verify, "{way:?}: a loss without an error"),
            Err(error) => assert!(way.verify && matches!(error, Error::Damaged(_)), "{way:?}: {error}"),
        }
        let read = disk.read(at, &mut found);
        assert!(way.verify || !way.checksum || matches!(read, Err(Error::Damaged(_))), "{way:?}: an answer");
        disk.write(at, &new, Access::Fua).unwrap_or_else(|error| panic!("{way:?}: written again: {error}"));
        disk.read(at, &mut found).unwrap_or_else(|error| panic!("{way:?}: read again: {error}"));
        assert!(found == new, "{way:?}: written again");
    }
}

/// Returns true if a crash may damage the block. In place, data and its checksum share a flush, and a crash may
/// separate them.
fn may_be_damaged(way: Way, left: &Left) -> bool {
    way.in_place && way.checksum && left.waits
}

/// Changes a byte on the medium. The read is an error with checksums, and returns the changed byte without them.
fn finds_a_flipped_byte(open: &Open, disk: &dyn Disk, number: usize, way: Way) {
    let (tag, content) = (open.pool.tag(&number.to_string()).expect("a disk"), block(number, 0));
    let data = tag.extents.iter().filter(|extent| extent.role == Role::DATA).map(|extent| extent.span());
    let mut places = data.flat_map(|run| (run.at..run.at + run.len).step_by(BLOCK));
    let mut found = vec![0; BLOCK];
    let place = places.find(|at| {
        open.memory.load(*at, &mut found);
        found == content
    });
    let place = place.unwrap_or_else(|| panic!("{way:?}: not on the medium"));
    open.memory.store(place + 100, &[content[100] ^ 1], Scheme::Nt);
    open.memory.fence();
    let read = disk.read(0, &mut found);
    match way.checksum {
        true => assert!(matches!(read, Err(Error::Damaged(0))), "{way:?}: {read:?}"),
        false => assert!(read.is_ok() && found != content, "{way:?}: {read:?}"),
    }
}
