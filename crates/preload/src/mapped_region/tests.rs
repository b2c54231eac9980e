//! LD10 and LD11, with the pool's owner in this process.

use std::fs::File;
use std::ptr;
use std::sync::Arc;

use ferrite_disk::{Disk, FileDisk, FileDiskOptions};
use ferrite_guest::{GuestDiskPlace, GuestRequest, GuestService, PmRange};
use ferrite_memory::planted::plant;
use ferrite_memory::{Guard, MapOptions, Mapped, TrapRegion};
use ferrite_owner::{PoolAccess, PoolOwner, ServiceRegistry, ServiceRequest, machine};
use ferrite_pool::disk_stamp::DISK_STAMP_BYTES;
use ferrite_pool::layout::{CHUNK, POOL_BYTES_MIN};
use ferrite_pool::{Format, Pool};
use parking_lot::{Mutex, MutexGuard};

use super::*;
use crate::entries::mappings;
use crate::entries::tests::make_table;
use crate::entries::user_change::changed_by;

const SIZE: usize = 2 * CHUNK as usize;

/// A pool with a guest, its owner, and the file that stands for the guest.
struct RegionRig {
    folder: tempfile::TempDir,
    owner: Arc<PoolOwner>,
    file: File,
}

impl RegionRig {
    fn new() -> Self {
        make_table();
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let made = |name: &str, bytes: u64| {
            let file = File::options().read(true).write(true).create_new(true).open(at(name)).expect("a file");
            file.set_len(bytes).expect("sized");
            file
        };
        let options = MapOptions { guard: Guard::None, ..MapOptions::default() };
        let memory = Mapped::map(made("pool", POOL_BYTES_MIN + 3 * CHUNK), &options).expect("mapped");
        let boot_id = machine::boot_id().expect("read");
        Pool::create(&memory, &Format { uuid: [1; 16], boot_id }).expect("a pool");
        made("disk", SIZE as u64 + DISK_STAMP_BYTES);
        let opener = |address: &str| match FileDisk::open(address.as_ref(), &FileDiskOptions::default()) {
            Ok(disk) => Ok(Arc::new(disk) as Arc<dyn Disk>),
            Err(why) => Err(why.to_string()),
        };
        let registry = Arc::new(ServiceRegistry::default().with(GuestService::new(Arc::new(opener))));
        let access = PoolAccess::open(&at("pool"), &registry, Some(Guard::None)).expect("it opens");
        let PoolAccess::Owner(owner) = access else { panic!("another process owns it") };
        let disk = GuestDiskPlace { address: at("disk").display().to_string(), path: PathBuf::new() };
        let pm = Some(PmRange::fixed(CHUNK));
        let create = GuestRequest::Create { name: "g".into(), size: SIZE as u64, pm, weight: None, disk };
        owner.call(ServiceRequest::of(&create), &mut |_| true).expect("created");
        let file = made("region", SIZE as u64);
        let id = known_files::id_of(file.as_raw_fd()).expect("described");
        assert!(FILE.set(Some(RegionFile { id, size: SIZE, pool: at("pool"), guest: "g".into() })).is_ok());
        Self { folder, owner, file }
    }

    /// Maps as the program does.
    fn map(&self, call: &MapCall) -> *mut c_void {
        let MapCall { place, len, rights, flags, at, .. } = *call;
        // SAFETY: the places of these tests are theirs.
        unsafe { mappings::mmap(place, len, rights, flags, self.file.as_raw_fd(), at) }
    }

    /// Flushes the guest, and returns the bytes of its disk.
    fn flushed(&self) -> Vec<u8> {
        let flush = GuestRequest::Flush { name: "g".into() };
        self.owner.call(ServiceRequest::of(&flush), &mut |_| true).expect("flushed");
        fs::read(self.folder.path().join("disk")).expect("read")
    }
}

/// Returns the rig, which one test at a time uses; `None` if this machine has no regions.
fn rig() -> Option<MutexGuard<'static, RegionRig>> {
    static RIG: OnceLock<Mutex<RegionRig>> = OnceLock::new();
    TrapRegion::new(4096).is_ok().then(|| RIG.get_or_init(|| Mutex::new(RegionRig::new())).lock())
}

fn whole() -> MapCall {
    let (place, len, rights, flags) = (ptr::null_mut(), SIZE, BOTH_RIGHTS, libc::MAP_SHARED);
    MapCall { place, len, rights, flags, fd: 0, at: 0 }
}

fn unmap(base: *mut c_void) {
    // SAFETY: the region, which no code refers to.
    assert_eq!(unsafe { mappings::munmap(base, SIZE) }, 0);
}

/// LD10: what the program stores in the region is in the guest, at the place that it asks for.
#[test]
fn ld10_the_region_is_mapped_whole_or_not_at_all() {
    let Some(rig) = rig() else { return };
    let rows = [
        MapCall { len: SIZE / 2, ..whole() },
        MapCall { at: 4096, ..whole() },
        MapCall { flags: libc::MAP_PRIVATE, ..whole() },
        MapCall { rights: libc::PROT_READ, ..whole() },
    ];
    for refused in rows {
        assert_eq!((rig.map(&refused), real::errno()), (libc::MAP_FAILED, libc::EINVAL));
    }
    let nothing = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping.
    let place = unsafe { libc::mmap(ptr::null_mut(), SIZE, libc::PROT_NONE, nothing, -1, 0) };
    for (number, call) in
        [whole(), MapCall { place, flags: libc::MAP_SHARED | libc::MAP_FIXED, ..whole() }].into_iter().enumerate()
    {
        let base = rig.map(&call);
        assert!(base != libc::MAP_FAILED && (call.place.is_null() || base == place));
        assert_eq!((rig.map(&whole()), real::errno()), (libc::MAP_FAILED, libc::EBUSY));
        for page in 0..SIZE / PAGE {
            // SAFETY: within the region.
            unsafe { base.cast::<u8>().add(page * PAGE + number).write_volatile(page as u8 | 1) };
        }
        unmap(base);
    }
    let disk = rig.flushed();
    assert!((0..SIZE / PAGE).all(|page| disk[page * PAGE..][..2] == [page as u8 | 1; 2]));
}

#[test]
fn canary_ld10_a_part_that_is_mapped_is_caught() {
    let Some(rig) = rig() else { return };
    let _bug = plant("preload: a part is mapped");
    let base = rig.map(&MapCall { len: SIZE / 2, ..whole() });
    assert_ne!(base, libc::MAP_FAILED);
    unmap(base);
}

/// Returns the number of calls that changed a part of a mapped region.
fn changes(base: *mut c_void) -> usize {
    // SAFETY: the region, to which no code refers.
    let done = unsafe {
        [
            mappings::mprotect(base, PAGE, libc::PROT_READ) == 0,
            mappings::madvise(base, PAGE, libc::MADV_REMOVE) == 0,
            mappings::mremap(base, PAGE, 2 * PAGE, 0, ptr::null_mut()) != libc::MAP_FAILED,
            mappings::mremap(base, 0, PAGE, libc::MREMAP_MAYMOVE, ptr::null_mut()) != libc::MAP_FAILED,
            mappings::munmap(base.byte_add(SIZE - PAGE), 2 * PAGE) == 0,
        ]
    };
    done.into_iter().filter(|done| *done).count()
}

/// LD11: the calls fail, hints and the rights that it has do nothing, and the region works on.
#[test]
fn ld11_a_mapped_region_stays_whole() {
    let Some(rig) = rig() else { return };
    let base = rig.map(&whole());
    assert_eq!((changes(base), changed_by(|| 0)), (0, -1));
    // SAFETY: as above; within the region.
    unsafe {
        assert_eq!(mappings::madvise(base, SIZE, libc::MADV_HUGEPAGE), 0);
        assert_eq!(mappings::mprotect(base, SIZE, BOTH_RIGHTS), 0);
        base.cast::<u8>().add(SIZE - 1).write_volatile(7);
    }
    unmap(base);
    assert_eq!((rig.flushed()[SIZE - 1], changed_by(|| 0)), (7, 0));
}

#[test]
fn canary_ld11_a_part_that_changes_is_caught() {
    let Some(rig) = rig() else { return };
    let base = rig.map(&whole());
    let bug = plant("preload: a part of the region is changed");
    // SAFETY: the region, to which no code refers.
    let [narrowed, widened] =
        [libc::PROT_READ, BOTH_RIGHTS].map(|rights| unsafe { mappings::mprotect(base, PAGE, rights) });
    drop(bug);
    assert_eq!([narrowed, widened], [0, 0]);
    unmap(base);
}
