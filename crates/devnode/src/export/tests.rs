use ferrite_crash::LyingDisk;
use ferrite_disk::Geometry;
use ferrite_memory::planted::plant;

use super::*;

/// Returns true if punched spans read as zeros and all other data is unchanged, on disks whose trims keep or remove
/// the content.
fn punches_zeros() -> bool {
    const BYTES: u64 = 64 << 10;
    let geometry = Geometry {
        size: BYTES,
        sector_bytes: 512,
        atomic_bytes: 512,
        preferred_bytes: 4096,
        volatile_cache: true,
        read_only: false,
        trim: true,
        identity: [0; 16],
    };
    (0..32).all(|seed| {
        let disk = LyingDisk::from_image(geometry.clone(), &[9; BYTES as usize]).deferring(seed);
        let export = DiskFile::new(Arc::new(disk));
        export.allocate(Span::new(4096, BYTES / 2), libc::FALLOC_FL_PUNCH_HOLE).expect("it is punched");
        let mut read = vec![1; BYTES as usize];
        export.disk.read(0, &mut read).expect("it reads");
        let (before, after) = read.split_at(4096);
        let (punched, behind) = after.split_at(BYTES as usize / 2);
        punched.iter().all(|byte| *byte == 0) && before.iter().chain(behind).all(|byte| *byte == 9)
    })
}

#[test]
fn ae1_what_is_punched_reads_as_zeros_whatever_a_trim_leaves() {
    assert!(punches_zeros());
}

#[test]
fn canary_what_a_trim_leaves_is_found() {
    let _bug = plant("devnode: punched bytes stay");
    assert!(!punches_zeros());
}

/// AE2, and the error numbers that a program can distinguish.
#[test]
fn errors_keep_their_meaning_but_for_enosys() {
    let system = |number| Error::io("reading", io::Error::from_raw_os_error(number));
    let unnamed = Error::io("reading", io::Error::other("no number"));
    for (error, number) in [
        (system(libc::EIO), libc::EIO),
        (system(libc::ENODATA), libc::ENODATA),
        (system(libc::ENOSPC), libc::ENOSPC),
        (system(libc::ENOSYS), libc::EIO),
        (unnamed, libc::EIO),
        (Error::NoSpace("pool".into()), libc::ENOSPC),
        (Error::Damaged(4096), libc::EIO),
        (Error::Poisoned("msync".into()), libc::EIO),
        (Error::ReadOnly, libc::EROFS),
        (Error::Unsupported("that".into()), libc::EOPNOTSUPP),
        (Error::OutOfRange { at: 1, len: 1, size: 0, sector_bytes: 512 }, libc::EINVAL),
    ] {
        assert_eq!(i32::from(errno(&error)), number, "{error}");
    }
}
