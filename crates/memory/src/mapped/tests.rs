use std::io;

use super::*;
use crate::planted::plant;

const KIB: usize = 1 << 10;

/// Guards this machine has.
fn guards() -> impl Iterator<Item = Guard> {
    Guard::ALL.into_iter().map(|(_, guard)| guard).filter(|guard| guard.ensure_available().is_ok())
}

fn anonymous(size: u64, guard: Guard) -> Mapped {
    Mapped::anonymous(size, &MapOptions { guard, name: "test".into(), ..MapOptions::default() }).unwrap()
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + seed * 31 + 1) as u8 | 1).collect()
}

/// Stores `len` bytes at `at` and expects them there, and the bytes around them untouched.
fn round_trip(memory: &Mapped, at: u64, len: usize, how: Scheme) {
    let (from, around) = (pattern(len, at as usize), 64);
    memory.store(at, &from, how);
    memory.fence();
    let mut back = vec![0; len + 2 * around];
    memory.load(at - around as u64, &mut back);
    assert_eq!(&back[around..around + len], &from[..], "{len} bytes at {at} by {how:?}");
    assert!(
        back[..around].iter().chain(&back[around + len..]).all(|byte| *byte == 0),
        "{len} at {at} by {how:?} spilt"
    );
    memory.zero(Span::new(at, len as u64), how);
    memory.load(at - around as u64, &mut back);
    assert!(back.iter().all(|byte| *byte == 0), "zeroing {len} bytes at {at} by {how:?}");
}

/// M1: under every guard, lines flushed after non-temporal stores hold the stored bytes.
#[test]
fn m1_streams_that_are_flushed_are_whole() {
    for guard in guards() {
        let mut memory = anonymous(64 << 10, guard);
        memory.flushes_streams = true;
        for (at, len) in [(4096, 4096), (4096, 8192), (4100, 3), (8191, 70), (8192, 8)] {
            round_trip(&memory, at, len, Scheme::Nt);
        }
    }
}

/// Every scheme puts exactly its bytes, at every alignment to a line and length up to 300.
#[test]
fn every_scheme_stores_exactly_its_bytes() {
    let memory = anonymous(1 << 20, Guard::None);
    for (_, how) in Scheme::ALL.into_iter().filter(|(_, how)| how.ensure_available().is_ok()) {
        for at in 4096..4096 + 64 {
            (0..=300).for_each(|len| round_trip(&memory, at, len, how));
        }
        [4 * KIB, 256 * KIB].into_iter().for_each(|len| round_trip(&memory, 4096 + 13, len, how));
    }
}

/// Every guard allows stores by every scheme, words and flushes too.
#[test]
fn every_guard_lets_its_own_accesses_through() {
    for guard in guards() {
        let memory = anonymous(1 << 20, guard);
        for (_, how) in Scheme::ALL.into_iter().filter(|(_, how)| how.ensure_available().is_ok()) {
            for len in [0, 1, 7, 8, 63, 64, 65, 300, 4 * KIB, 256 * KIB] {
                [4096, 4096 + 21, 8191].into_iter().for_each(|at| round_trip(&memory, at, len, how));
            }
        }
        memory.store_word(4096, 0x0102_0304_0506_0708);
        memory.persist(Span::new(4096, 8)).unwrap();
        let mut bytes = [0; 8];
        memory.load(4096, &mut bytes);
        assert_eq!((bytes, memory.load_word(4096)), ([8, 7, 6, 5, 4, 3, 2, 1], 0x0102_0304_0506_0708));
        let (words, mut back) = (pattern(64, 3), [0; 80]);
        memory.store_words(&[(4104, &words), (8192, &words[..16])]);
        memory.load(4096, &mut back);
        assert_eq!((&back[8..72], &back[..8], &back[72..]), (&words[..], &bytes[..], &[0; 8][..]));
        memory.load(8192, &mut back);
        assert_eq!((&back[..16], &back[16..]), (&words[..16], &[0; 64][..]));
    }
}

/// A file in `folder`, mapped whole.
/// No bytes at the very end are within a memory, whatever guards it, and the page behind it is another's.
#[test]
fn no_bytes_at_the_end_are_within() {
    for guard in guards() {
        let memory = anonymous(64 << 10, guard);
        let end = memory.size();
        let pages = memory.area.pages_of(Span::new(end, 0));
        assert!(pages.len > 0 && pages.at + pages.len == end, "{pages:?} would be opened");
        for (_, how) in Scheme::ALL.into_iter().filter(|(_, how)| how.ensure_available().is_ok()) {
            memory.store(end, &[], how);
            memory.zero(Span::new(end, 0), how);
        }
        memory.load(end, &mut []);
        memory.load_words(end, &mut []);
        memory.store_words(&[(end, &[])]);
        memory.flush(Span::new(end, 0));
        round_trip(&memory, end - 4096, 4000, Scheme::Nt);
    }
}

fn mapped_in(folder: &str, size: u64) -> (Mapped, File) {
    let file = tempfile::tempfile_in(folder).unwrap();
    file.set_len(size).unwrap();
    let options = MapOptions { name: "test".into(), ..MapOptions::default() };
    (Mapped::map(file.try_clone().unwrap(), &options).unwrap(), file)
}

/// What is promised of each backing is what it can keep.
#[test]
fn backings_are_told_apart_and_promise_what_they_keep() {
    let (shm, _) = mapped_in("/dev/shm", 64 << 10);
    assert_eq!(shm.backing(), Backing::Shm);
    assert!(shm.fence_is_durable());
    let message = shm.describe(&shm.survival());
    assert!(
        message.contains("shm, survives a process crash; does not survive a kernel crash or power loss: "),
        "{message}"
    );
    assert!(message.contains("it lies in tmpfs, which is memory"), "{message}");

    let anon = anonymous(64 << 10, Guard::None);
    assert_eq!(anon.backing(), Backing::Anon);
    let message = anon.describe(&anon.survival());
    assert!(message.contains("anon, does not survive a process crash, a kernel crash or power loss: "), "{message}");
    assert!(message.contains("stray writes: not held off"), "{message}");
}

/// M1 on a file: only the barrier is durable, and what was stored is then in the file.
#[test]
fn a_file_is_durable_at_the_barrier_only() {
    let folder = std::env::temp_dir();
    let (memory, file) = mapped_in(folder.to_str().unwrap(), 64 << 10);
    if memory.backing() != Backing::File {
        return println!("skipped: {} is on {}", folder.display(), memory.backing().name());
    }
    assert!(!memory.fence_is_durable());
    memory.store(5000, b"kept", Scheme::Writeback);
    memory.barrier().unwrap();
    let mut back = [0; 4];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut back, 5000).unwrap();
    assert_eq!(&back, b"kept");
    for span in [Span::new(5000, 4), Span::new(4096, 4096), Span::new(8190, 4), Span::new((64 << 10) - 1, 1)] {
        memory.drain_range(span).unwrap();
    }
    assert!(memory.describe(&memory.survival()).starts_with("file, what was flushed survives a process crash"));
}

/// What of `memory` the kernel has not written back.
fn dirty_kib(memory: &Mapped) -> u64 {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let start = format!("{:x}-", memory.area.base() as usize);
    let ours = smaps.lines().skip_while(|line| !line.starts_with(&start));
    let ours = ours.take_while(|line| !line.starts_with("VmFlags"));
    let dirty = ours.filter(|line| line.starts_with("Shared_Dirty:") || line.starts_with("Private_Dirty:"));
    dirty.map(|line| line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()).sum()
}

/// What is left of two pages that a span lies in once it is settled; `None` where nothing is written back.
fn left_of_two_pages(bug: Option<&str>) -> Option<u64> {
    let folder = std::env::temp_dir();
    let (memory, file) = mapped_in(folder.to_str().unwrap(), 64 << 10);
    if memory.backing() != Backing::File {
        eprintln!("skipped: {} is on {}", folder.display(), memory.backing().name());
        return None;
    }
    // Page by page: the kernel writes back all that came together.
    (0..16).for_each(|page| std::os::unix::fs::FileExt::write_all_at(&file, &[1; 4096], page * 4096).unwrap());
    memory.barrier().unwrap();
    memory.store(8190, &[2; 4], Scheme::Writeback);
    assert_eq!(dirty_kib(&memory), 8, "two pages");
    let bug = bug.map(plant);
    let done = memory.drain_range(Span::new(8190, 4));
    drop(bug);
    done.unwrap();
    Some(dirty_kib(&memory))
}

/// M1 on a file: after a drain of a span, all its pages are written back.
#[test]
fn m1_every_page_of_a_span_is_drained() {
    assert!(left_of_two_pages(None).is_none_or(|left| left == 0));
}

#[test]
fn canary_another_span_that_is_drained_is_found() {
    for bug in ["memory: half of a span is synced", "memory: later pages are synced"] {
        assert!(left_of_two_pages(Some(bug)).is_none_or(|left| left > 0));
    }
}

/// M4: a barrier that failed is never followed by one that succeeds.
#[test]
fn a_failed_barrier_poisons() {
    let folder = std::env::temp_dir();
    let (memory, _) = mapped_in(folder.to_str().unwrap(), 64 << 10);
    memory.barrier().unwrap();
    let unsyncable = File::options().write(true).open("/dev/full").unwrap();
    assert!(memory.host_sync.sync(&unsyncable).is_err(), "a character device cannot be synced");
    assert!(matches!(memory.barrier(), Err(Error::Poisoned(_))));
    assert!(matches!(memory.drain(), Err(Error::Poisoned(_))) || memory.fence_is_durable());
    assert!(matches!(memory.drain_range(Span::new(0, 8)), Err(Error::Poisoned(_))) || memory.fence_is_durable());

    let (memory, _) = mapped_in(folder.to_str().unwrap(), 64 << 10);
    let lost = || Err(io::Error::from_raw_os_error(libc::EIO));
    assert!(memory.host_sync.sync_part(memory.area.file(), lost).is_err(), "of a part alone");
    assert!(matches!(memory.barrier(), Err(Error::Poisoned(_))));
}

#[test]
fn a_shared_part_is_the_same_bytes_elsewhere() {
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    file.set_len(64 << 10).unwrap();
    let span = Some(Span::new(8192, 16384));
    let memory = Mapped::map(file, &MapOptions { span, name: "part".into(), ..MapOptions::default() }).unwrap();
    assert_eq!(memory.size(), 16384);
    memory.store(4096, b"seen", Scheme::Nt);
    memory.fence();
    let shared = memory.share(Span::new(4096, 4096)).unwrap();
    assert_eq!(shared.offset, 12288);
    let mut back = [0; 4];
    std::os::unix::fs::FileExt::read_exact_at(&File::from(shared.fd), &mut back, shared.offset).unwrap();
    assert_eq!(&back, b"seen");
}

#[test]
fn a_size_that_is_no_multiple_of_anything_is_rounded_down() {
    assert_eq!(mapped_in("/dev/shm", 3 * 4096 + 1234).0.size(), 3 * 4096);
}

#[test]
fn what_cannot_be_mapped_is_refused_with_its_reason() {
    let map = |file: File, span| {
        Mapped::map(file, &MapOptions { span, name: "a pool".into(), ..MapOptions::default() })
            .err()
            .unwrap()
            .to_string()
    };
    let empty = map(tempfile::tempfile().unwrap(), None);
    assert!(empty.contains("a pool, which has 0 bytes"), "{empty}");
    let folder = map(File::open("/").unwrap(), None);
    assert!(folder.contains("regular file or a device DAX"), "{folder}");
    let device = map(File::open("/dev/null").unwrap(), None);
    assert!(device.contains("must be device DAX"), "{device}");
    let file = tempfile::tempfile().unwrap();
    file.set_len(8192).unwrap();
    for span in [Span::new(0, 12288), Span::new(1, 4096), Span::new(8192, 0), Span::new(u64::MAX - 4095, 8192)] {
        assert!(map(file.try_clone().unwrap(), Some(span)).contains("8192 bytes"));
    }
}

#[test]
fn read_only_can_be_read_and_not_written() {
    for guard in guards() {
        let named = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        io::Write::write_all(&mut named.as_file(), &[5; 8192]).unwrap();
        let options = MapOptions { guard, read_only: true, name: "test".into(), ..MapOptions::default() };
        let memory = Mapped::map(File::open(named.path()).unwrap(), &options).unwrap();
        let mut back = [0; 100];
        memory.load(4090, &mut back);
        assert_eq!((back, memory.load_word(0)), ([5; 100], 0x0505_0505_0505_0505));
        memory.barrier().unwrap();
        let store = std::panic::AssertUnwindSafe(|| memory.store(0, &[1], Scheme::Nt));
        assert!(std::panic::catch_unwind(store).is_err(), "{guard:?} let a store into a read-only mapping");
    }
}

/// An access that is partly outside is refused whole, whatever overflows.
#[test]
fn an_access_outside_panics() {
    let memory = anonymous(8192, Guard::None);
    for at in [8185, 8192, u64::MAX, u64::MAX - 6] {
        let load = std::panic::AssertUnwindSafe(|| memory.load(at, &mut [0; 8]));
        assert!(std::panic::catch_unwind(load).is_err(), "8 bytes at {at} of 8192 were loaded");
        let store = std::panic::AssertUnwindSafe(|| memory.store(at, &[1; 8], Scheme::Flush));
        assert!(std::panic::catch_unwind(store).is_err(), "8 bytes at {at} of 8192 were stored");
    }
    memory.load(8192, &mut []);
}

/// Space that was released reads as zeros, and its neighbours stay.
#[test]
fn only_whole_released_pages_lose_their_bytes() {
    let (memory, _) = mapped_in("/dev/shm", 64 << 10);
    memory.store(0, &[9; 64 << 10], Scheme::Nt);
    memory.release(Span::new(100, 16384)).unwrap();
    let mut back = vec![0; 64 << 10];
    memory.load(0, &mut back);
    let zeros = |range: std::ops::Range<usize>| back[range].iter().all(|byte| *byte == 0);
    assert!(zeros(4096..16384), "released pages keep their bytes");
    assert!(back[..4096].iter().chain(&back[16384..]).all(|byte| *byte == 9), "a page not wholly released lost bytes");
}

#[test]
fn the_page_size_is_the_one_that_was_got() {
    let (memory, _) = mapped_in("/dev/shm", 4 << 20);
    memory.populate(Span::new(0, 4 << 20)).unwrap();
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    assert!(memory.page_bytes() == 4096 || smaps.contains("ShmemPmdMapped:     4096 kB"), "2 MiB pages out of nowhere");
}

/// A copy at a random place must not wait for page tables where the kernel can help it; and no byte changes.
#[test]
fn touched_memory_gets_huge_pages_and_keeps_its_bytes() {
    let (memory, _) = mapped_in("/dev/shm", 6 << 20);
    let bytes: Vec<u8> = (0..6_u32 << 20).map(|i| ((i * 7) >> 9) as u8).collect();
    memory.store(0, &bytes, Scheme::Nt);
    memory.fence();
    memory.populate(Span::new(4096, (6 << 20) - 4096)).unwrap();
    let mut back = vec![0; bytes.len()];
    memory.load(0, &mut back);
    assert!(back == bytes);
    if memory.page_bytes() == 4096 {
        println!("skipped: this kernel makes no huge pages of touched ones (Linux 6.1 and later do)");
    }
}

/// What was promised once is not asked for again; what was released is.
#[test]
fn released_memory_is_promised_anew() {
    let (memory, file) = mapped_in("/dev/shm", 6 << 20);
    let promised = || std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap()) * 512;
    for _ in 0..2 {
        memory.reserve(Span::new(0, 6 << 20)).unwrap();
        memory.reserve(Span::new(2 << 20, 2 << 20)).unwrap();
        assert_eq!(promised(), 6 << 20);
        memory.release(Span::new(2 << 20, 1 << 20)).unwrap();
        assert_eq!(promised(), 5 << 20);
    }
}

/// What is compared with huge pages must have none.
#[test]
fn touched_memory_keeps_small_pages_when_asked_to() {
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    file.set_len(6 << 20).unwrap();
    let options = MapOptions { small_pages: true, name: "test".into(), ..MapOptions::default() };
    let memory = Mapped::map(file, &options).unwrap();
    memory.populate(Span::new(0, 6 << 20)).unwrap();
    let gives_huge_ones = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    if gives_huge_ones.is_ok_and(|modes| modes.contains("[never]") || modes.contains("[advise]")) {
        assert_eq!(memory.page_bytes(), 4096);
    }
}
