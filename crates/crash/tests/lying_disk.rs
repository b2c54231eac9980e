//! The lying disk keeps rules D1-D5 and promises no more than these rules.

use std::collections::BTreeSet;

use ferrite_crash::LyingDisk;
use ferrite_disk::{Access, Disk, Geometry, Op, Request, Wait};
use ferrite_memory::{Error, Span};

const SECTOR: u64 = 512;

fn geometry() -> Geometry {
    Geometry {
        size: 16 * SECTOR,
        sector_bytes: 512,
        atomic_bytes: 512,
        preferred_bytes: 512,
        volatile_cache: true,
        read_only: false,
        trim: true,
        identity: [0; 16],
    }
}

fn sector(version: u8) -> [u8; SECTOR as usize] {
    [version; SECTOR as usize]
}

/// Returns the version in each of the first `count` sectors, or `None` for a torn sector.
fn versions(disk: &LyingDisk, count: u64) -> Vec<Option<u8>> {
    let of = |number: u64| {
        let mut bytes = sector(0);
        disk.read(number * SECTOR, &mut bytes).unwrap();
        bytes.iter().all(|&byte| byte == bytes[0]).then_some(bytes[0])
    };
    (0..count).map(of).collect()
}

fn crashes(disk: &LyingDisk, count: u64) -> BTreeSet<Vec<Option<u8>>> {
    (0..400).map(|seed| versions(&disk.crash(seed), count)).collect()
}

/// Writes a record to sector 1, and then a superblock to sector 0 that names the record's version.
fn commit(disk: &LyingDisk, version: u8, flushes: bool) -> ferrite_memory::Result<()> {
    disk.write((1 + u64::from(version % 2)) * SECTOR, &sector(version), Access::Cached)?;
    if flushes {
        disk.flush()?;
    }
    disk.write(0, &sector(version), Access::Fua)
}

/// Returns an error if the disk does not hold data acknowledged before the crash.
fn judge(disk: &LyingDisk, acknowledged: u8) -> Result<(), String> {
    let found = versions(disk, 3);
    let Some(version) = found[0] else { return Err(format!("torn superblock: {found:?}")) };
    if version < acknowledged {
        return Err(format!("version {acknowledged} is lost: {found:?}"));
    }
    if version > 0 && found[1 + usize::from(version % 2)] != Some(version) {
        return Err(format!("version {version} has no record: {found:?}"));
    }
    Ok(())
}

/// Cuts the power at every request number, with several seeds each.
fn explore_commits(flushes: bool) -> Result<(), String> {
    for cut in 0..20 {
        let (disk, mut acknowledged) = (LyingDisk::new(geometry()), 0);
        disk.fail_from(cut);
        for version in 1..=5 {
            if commit(&disk, version, flushes).is_err() {
                break;
            }
            acknowledged = version;
        }
        for seed in 0..50 {
            judge(&disk.crash(seed), acknowledged).map_err(|error| format!("cut {cut}, seed {seed}: {error}"))?;
        }
    }
    Ok(())
}

/// Canary e, D2 and D3: FUA on the superblock does not cover the record before it.
#[test]
fn forgetting_the_flush_is_found() {
    explore_commits(true).unwrap();
    let error = explore_commits(false).unwrap_err();
    assert!(error.contains("has no record"), "{error}");
}

/// D2, D5, CL1: before the flush, a crash keeps any subset of whole sectors. After the flush there is one image.
#[test]
fn a_crash_keeps_any_sectors_of_the_cache() {
    let disk = LyingDisk::new(geometry());
    disk.write(0, &[1; 3 * SECTOR as usize], Access::Cached).unwrap();
    disk.write(SECTOR, &sector(2), Access::Cached).unwrap();
    let seen = crashes(&disk, 3);
    assert_eq!(seen.len(), 2 * 3 * 2, "old or new, and any prefix of two: {seen:?}");
    assert!(seen.iter().flatten().all(Option::is_some), "a sector was torn: {seen:?}");
    disk.flush().unwrap();
    assert_eq!(crashes(&disk, 3), BTreeSet::from([vec![Some(1), Some(2), Some(1)]]));
}

/// D3: a FUA write is durable, and no older write to its sector comes back.
#[test]
fn fua_is_durable_and_covers_older_writes() {
    let disk = LyingDisk::new(geometry());
    disk.write(0, &[1; 2 * SECTOR as usize], Access::Cached).unwrap();
    disk.write(0, &sector(2), Access::Fua).unwrap();
    let expected = [0, 1].map(|other| vec![Some(2), Some(other)]);
    assert_eq!(crashes(&disk, 2), BTreeSet::from(expected));
}

/// D4: without a volatile cache a completed write is durable.
#[test]
fn without_a_cache_nothing_is_lost() {
    let disk = LyingDisk::new(Geometry { volatile_cache: false, ..geometry() });
    disk.write(0, &sector(1), Access::Cached).unwrap();
    assert_eq!(crashes(&disk, 1), BTreeSet::from([vec![Some(1)]]));
}

/// D5: a smaller atomic unit tears a sector, and a larger unit keeps several sectors together.
#[test]
fn tearing_is_by_atomic_unit() {
    let images = |atomic_bytes| {
        let disk = LyingDisk::new(Geometry { atomic_bytes, ..geometry() });
        disk.write(0, &[1; 2 * SECTOR as usize], Access::Cached).unwrap();
        crashes(&disk, 2)
    };
    assert!(images(64).iter().any(|image| image[0].is_none()));
    assert_eq!(images(1024), BTreeSet::from([vec![Some(0); 2], vec![Some(1); 2]]));
}

/// D1: the disk refuses an unaligned request, or one beyond its end, as a whole. A read-only disk refuses writes.
#[test]
fn bad_requests_are_refused_whole() {
    let disk = LyingDisk::new(geometry());
    for (at, len) in [(1, 512), (0, 100), (15 * SECTOR, 1024), (u64::MAX - 511, 512)] {
        let refused = disk.write(at, &vec![7; len], Access::Fua);
        assert!(matches!(refused, Err(Error::OutOfRange { .. })), "{at} {len}: {refused:?}");
        assert!(matches!(disk.trim(Span::new(at, len as u64), Access::Fua), Err(Error::OutOfRange { .. })));
    }
    assert_eq!(disk.snapshot(), vec![0; 16 * SECTOR as usize]);
    let sealed = LyingDisk::new(Geometry { read_only: true, ..geometry() });
    assert!(matches!(sealed.write(0, &sector(1), Access::Cached), Err(Error::ReadOnly)));
}

/// CL3: a failed write leaves some of its sectors, and a failed flush makes nothing durable.
#[test]
fn failed_requests_leave_part_of_their_work() {
    let disk = LyingDisk::new(geometry());
    disk.fail_nth(0);
    disk.write(0, &[1; 16 * SECTOR as usize], Access::Fua).unwrap_err();
    let left = disk.snapshot().iter().filter(|&&byte| byte == 1).count() as u64;
    assert!(left > 0 && left < 16 * SECTOR && left.is_multiple_of(SECTOR), "{left}");
    disk.fail_nth(disk.requests());
    disk.flush().unwrap_err();
    assert!(crashes(&disk, 16).contains(&vec![Some(0); 16]), "a failed flush made writes durable");
}

/// CL2 and CL5: submitted requests complete late and in any order, and an earlier flush does not cover them.
#[test]
fn submitted_requests_complete_in_any_order() {
    let mut orders = BTreeSet::new();
    for seed in 0..30 {
        let disk = LyingDisk::new(geometry()).deferring(seed);
        let mut queue = disk.queue().unwrap().expect("a queue");
        for token in 0..3u64 {
            let (op, buffer) = (Op::Write(Access::Cached), sector(1).to_vec());
            let request = Request { token, op, span: Span::new(token * SECTOR, SECTOR), buffer };
            assert!(queue.submit(request).is_none(), "deferring");
        }
        disk.flush().unwrap();
        assert!(crashes(&disk, 3).contains(&vec![Some(0); 3]), "a flush covered what had not completed");
        let mut ended = Vec::new();
        while ended.len() < 3 {
            assert!(queue.collect(Wait::Forever, &mut ended).unwrap() > 0);
        }
        let tokens: Vec<u64> = ended.iter().map(|done| done.token).collect();
        assert_eq!(versions(&disk, 3), [Some(1); 3]);
        orders.insert(tokens);
    }
    assert_eq!(orders.len(), 6, "{orders:?}");
}

/// CL4: trimmed bytes read as zeros from one disk and as before from another.
#[test]
fn trimmed_bytes_are_zeros_or_as_before() {
    let after_trim = |seed| {
        let disk = LyingDisk::new(geometry()).deferring(seed);
        disk.write(0, &sector(1), Access::Fua).unwrap();
        disk.trim(Span::new(0, SECTOR), Access::Fua).unwrap();
        versions(&disk, 1)[0]
    };
    assert_eq!((0..20).map(after_trim).collect::<BTreeSet<_>>(), BTreeSet::from([Some(0), Some(1)]));
}
