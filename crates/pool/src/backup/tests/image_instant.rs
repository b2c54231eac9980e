//! BK2, BK7: a pool and the disk with its images crash at one instant (CW1).
//!
//! ```text
//! disk   sector 0: place of the named image + 1 u64, its length u64     place 0, place 1: an image each
//! ```
//!
//! The disk stands for the folder of the images: naming an image writes one sector, as a rename does. How
//! [`crate::AtomicFile`] names files of a host is tested on real files.

use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use ferrite_crash::{Crash, LyingDisk, World, explore, explore_kills};
use ferrite_disk::{Access, Disk, Geometry};

use super::*;
use crate::backup::image_file::{ImagePart, write_named};
use crate::backup::image_tie::ensure_known;
use crate::tests::support::{CheckVerdict, options};

const SECTOR: u64 = 512;
/// The bytes that an image may have.
const PLACE_BYTES: u64 = 96 << 10;

/// The bug of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImageBug {
    None,
    /// BK2: an image gets its name before its bytes are durable.
    NamedFirst,
    /// BK7: an image gets its name before the pool has its generation.
    PoolLast,
}

/// The image that the disk names.
#[derive(Clone, Copy, Default)]
struct NamedImage {
    /// The place of the image plus 1, or 0 if there is none.
    place: u64,
    bytes: u64,
}

impl NamedImage {
    fn read(disk: &LyingDisk) -> io::Result<Self> {
        let mut sector = [0; SECTOR as usize];
        disk.read(0, &mut sector).map_err(io::Error::other)?;
        let word = |at: usize| u64::from_le_bytes(sector[at..at + 8].try_into().expect("eight bytes"));
        Ok(Self { place: word(0), bytes: word(8) })
    }

    fn write(self, disk: &LyingDisk) -> io::Result<()> {
        let mut sector = [0; SECTOR as usize];
        sector[..8].copy_from_slice(&self.place.to_le_bytes());
        sector[8..16].copy_from_slice(&self.bytes.to_le_bytes());
        disk.write(0, &sector, Access::Cached).map_err(io::Error::other)
    }
}

/// An image on a disk, at a position.
struct ImageOnDisk<'a> {
    disk: &'a LyingDisk,
    image: NamedImage,
    at: u64,
    bug: ImageBug,
}

impl<'a> ImageOnDisk<'a> {
    /// Returns the image that `disk` names.
    fn named(disk: &'a LyingDisk) -> Result<Self> {
        let image = NamedImage::read(disk).map_err(|error| MediumError::io("reading the name", error))?;
        Ok(Self { disk, image, at: 0, bug: ImageBug::None })
    }

    /// Returns an empty image at the place that `disk` does not name.
    fn begin(disk: &'a LyingDisk, bug: ImageBug) -> Result<Self> {
        let named = Self::named(disk)?;
        Ok(Self { image: NamedImage { place: if named.image.place == 1 { 2 } else { 1 }, bytes: 0 }, bug, ..named })
    }

    /// Returns the sectors of the disk that `bytes` from the position on touch, with the first one's offset on the disk
    /// and the position's offset in it.
    fn sectors(&self, bytes: u64) -> io::Result<(u64, usize, Vec<u8>)> {
        let (first, after) = (self.at / SECTOR * SECTOR, (self.at + bytes).next_multiple_of(SECTOR));
        let from = SECTOR + (self.image.place - 1) * PLACE_BYTES + first;
        let mut sectors = vec![0; (after - first) as usize];
        self.disk.read(from, &mut sectors).map_err(io::Error::other)?;
        Ok((from, (self.at - first) as usize, sectors))
    }
}

impl Read for ImageOnDisk<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.image.bytes.saturating_sub(self.at).min(into.len() as u64);
        if bytes > 0 {
            let (_, skipped, sectors) = self.sectors(bytes)?;
            into[..bytes as usize].copy_from_slice(&sectors[skipped..][..bytes as usize]);
            self.at += bytes;
        }
        Ok(bytes as usize)
    }
}

impl Write for ImageOnDisk<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.at + bytes.len() as u64 > PLACE_BYTES {
            return Err(ErrorKind::StorageFull.into());
        }
        let (from, skipped, mut sectors) = self.sectors(bytes.len() as u64)?;
        sectors[skipped..][..bytes.len()].copy_from_slice(bytes);
        self.disk.write(from, &sectors, Access::Cached).map_err(io::Error::other)?;
        self.at += bytes.len() as u64;
        self.image.bytes = self.image.bytes.max(self.at);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for ImageOnDisk<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let SeekFrom::Start(at) = to else { return Err(ErrorKind::Unsupported.into()) };
        self.at = at;
        Ok(at)
    }
}

impl ImagePart for ImageOnDisk<'_> {
    type File = Self;

    fn file(&mut self) -> &mut Self {
        self
    }

    fn finish(self) -> Result<()> {
        if self.bug != ImageBug::NamedFirst {
            self.disk.flush()?;
        }
        self.image.write(self.disk).map_err(|error| MediumError::io("naming the image", error))?;
        Ok(self.disk.flush()?)
    }
}

/// Writes image `number` of `pool` over the named one, if that may be replaced.
fn replace_image(pool: &Pool, disk: &LyingDisk, number: u64, bug: ImageBug) -> Result<ImageSummary> {
    ensure_known(pool, &mut ImageOnDisk::named(disk)?, Path::new("the disk"))?;
    let part = ImageOnDisk::begin(disk, bug)?;
    write_named(pool, part, [number as u8; 16], GrantWriters::Refused, &mut quiet)
}

/// The named image is whole, not older than the acknowledged one and not newer than `newest`. It has the value of its
/// moment, and the pool beside it may replace it. A crash in that replacement is explored, too.
fn judge(crash: &Crash<'_>, newest: u64, depth: u32) -> CheckVerdict {
    let describe = |error: Error| error.to_string();
    let (world, acknowledged) = (crash.world(), crash.last_mark().expect("an image was acknowledged"));
    let (memory, disk) = (world.memory(), world.disk(0));
    let (pool, _) = Pool::open(memory.clone(), BOOT).map_err(describe)?;
    let mut image = Vec::new();
    ImageOnDisk::named(disk).map_err(describe)?.read_to_end(&mut image).map_err(|error| error.to_string())?;
    let found = verify(&mut &image[..], &mut quiet).map_err(|error| format!("BK2: {error}"))?;
    let number = u64::from(found.image[0]);
    if !(acknowledged..=newest).contains(&number) {
        return Err(format!("BK2: image {number} after image {acknowledged}"));
    }
    let copy = blank(POOL_BYTES_MIN);
    restored(&image, &copy, false).map_err(describe)?;
    let value = get(&open(&copy), "value");
    if value != number.to_le_bytes() {
        return Err(format!("BK1: image {number} has {value:?}"));
    }
    // After the death of a process the name may be visible and not durable.
    memory.mark(acknowledged);
    memory.forget_trace();
    put(&pool, "value", &(number + 1).to_le_bytes());
    replace_image(&pool, disk, number + 1, ImageBug::None).map_err(|error| format!("BK7: {error}"))?;
    memory.mark(number + 1);
    if depth > 0 && (crash.place().point + crash.place().variant) % 16 == 0 {
        let nested = explore(memory, &options(8, 4), |crash| judge(crash, number + 1, depth - 1));
        nested.failure.map_or(Ok(()), |failure| Err(format!("within the next backup: {failure}")))?;
    }
    Ok(())
}

/// Writes three images, each of another value. Returns the memory, which has recorded the last two.
fn backups(model: Model, bug: ImageBug) -> Arc<LyingMemory> {
    let memory = LyingMemory::new(POOL_BYTES_MIN, model);
    Pool::create(&memory, &Format { uuid: [1; 16], boot_id: BOOT }).unwrap();
    memory.barrier().unwrap();
    let geometry = Geometry {
        size: SECTOR + 2 * PLACE_BYTES,
        sector_bytes: SECTOR as u32,
        atomic_bytes: SECTOR as u32,
        preferred_bytes: SECTOR as u32,
        volatile_cache: true,
        read_only: false,
        trim: false,
        identity: [0; 16],
    };
    let world = World::new(memory, [LyingDisk::new(geometry.clone())]);
    let pool = open(world.memory());
    for number in 1..=3 {
        put(&pool, "value", &u64::to_le_bytes(number));
        if bug == ImageBug::PoolLast {
            replace_image(&open(&Arc::new(world.memory().kill())), world.disk(0), number, bug).unwrap();
            replace_image(&pool, &LyingDisk::new(geometry.clone()), number, bug).unwrap();
        } else {
            replace_image(&pool, world.disk(0), number, bug).unwrap();
        }
        world.memory().mark(number);
        if number == 1 {
            world.memory().forget_trace();
        }
    }
    world.memory().clone()
}

fn judge_next(crash: &Crash<'_>) -> CheckVerdict {
    judge(crash, crash.last_mark().map_or(0, |mark| mark + 1), 1)
}

#[test]
fn bk2_bk7_crash_leaves_a_whole_image_that_the_pool_beside_it_knows() {
    for model in Model::ALL {
        let (memory, options) = (backups(model, ImageBug::None), options(1 << 7, 40));
        for report in [explore(&memory, &options, judge_next), explore_kills(&memory, &options, judge_next)] {
            println!("pool and image: {report}");
            report.assert_clean();
        }
    }
}

#[test]
fn canary_an_image_that_is_named_before_it_is_durable_or_its_pool_knows_it_is_caught() {
    for (bug, broken) in [(ImageBug::NamedFirst, "BK2: "), (ImageBug::PoolLast, "BK7: ")] {
        for model in Model::ALL {
            let report = explore(&backups(model, bug), &options(1 << 7, 40), judge_next);
            let failure = report.expect_failure().to_string();
            assert!(failure.contains(broken), "{failure}");
        }
    }
}
