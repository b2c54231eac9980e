//! FB3, D6: what is lent keeps its bytes, and no writer waits for it.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ferrite_memory::{Borrower, Guard, Lent, MapOptions, Mapped};

use super::*;

/// Bytes of the disk under test: it has 256 spares.
const DISK_BYTES: u64 = 1 << 20;
const PIECE: u64 = 256 << 10;
const LEAST: u64 = 32 << 10;

/// Returns when the test says so.
#[derive(Default)]
struct Patron(AtomicBool);

impl Borrower for Patron {
    fn has_returned(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A disk in memory that can be lent, filled in sequence, and what fills it.
fn lender(options: DiskOptions, checksum: bool) -> (Arc<BlockDisk>, Vec<u8>) {
    let memory = Mapped::anonymous(16 << 20, &MapOptions { guard: Guard::None, ..MapOptions::default() });
    let memory = memory.expect("mapped");
    Pool::create(&memory, &Format { uuid: [7; 16], boot_id: BOOT }).expect("created");
    let pool = Arc::new(Pool::open(Arc::new(memory), BOOT).expect("opened").0);
    let spec = DiskSpec { size: DISK_BYTES, sector_bytes: 512, thin: false, checksum };
    create(&pool, "disk0", &spec).expect("created");
    let disk = BlockDisk::open(pool, "disk0", options).expect("opened");
    let bytes = content(DISK_BYTES / 512, 1);
    write_all(&disk, &bytes);
    (disk, bytes)
}

fn write_all(disk: &BlockDisk, bytes: &[u8]) {
    for (i, piece) in bytes.chunks(PIECE as usize).enumerate() {
        disk.write(i as u64 * PIECE, piece, Access::Cached).expect("written");
    }
}

fn lend(disk: &BlockDisk, span: Span) -> Option<(Lent<'_>, Arc<Patron>)> {
    let patron = Arc::new(Patron::default());
    disk.lend(span, LEAST, patron.clone()).map(|lent| (lent, patron))
}

/// The bytes at the place of a loan, returned or not.
fn bytes_of(lent: &Lent<'_>) -> Vec<u8> {
    let mut bytes = vec![0; lent.len as usize];
    let file = std::fs::File::from(lent.file.try_clone_to_owned().expect("a descriptor"));
    file.read_exact_at(&mut bytes, lent.at).expect("read");
    bytes
}

/// Overwrites all of the disk often enough to use every free block.
fn overwrite(disk: &BlockDisk) {
    for seed in 2..8 {
        let bytes = content(DISK_BYTES / 512, seed);
        write_all(disk, &bytes);
        for block in 0..DISK_BYTES / BLOCK {
            let at = block * BLOCK;
            disk.write(at, &bytes[at as usize..][..BLOCK as usize], Access::Cached).expect("written");
        }
    }
}

/// Lent bytes equal a read, and stay whatever is written. After the return their blocks are used again.
#[test]
fn fb3_what_is_lent_keeps_its_bytes() {
    let (disk, bytes) = lender(DiskOptions::default(), false);
    let free = disk.used_and_free_bytes().1;
    let span = Span::new(PIECE + 512, PIECE - 1024);
    let (lent, patron) = lend(&disk, span).expect("lent");
    assert_eq!(lent.len, span.len);
    let expected = &bytes[span.at as usize..][..span.len as usize];
    assert!(bytes_of(&lent) == expected);
    overwrite(&disk);
    assert!(bytes_of(&lent) == expected, "what was lent has changed");
    patron.0.store(true, Ordering::Release);
    overwrite(&disk);
    assert!(bytes_of(&lent) != expected, "what was returned is never used again");
    disk.free.recall();
    assert_eq!(disk.used_and_free_bytes().1, free);
}

/// FB3: who never returns anything is lent a part of the spares, and no writer notices.
#[test]
fn fb3_a_greedy_borrower_takes_no_more_than_its_part() {
    let (disk, _) = lender(DiskOptions::default(), false);
    let lent: Vec<_> = std::iter::from_fn(|| lend(&disk, Span::new(0, 64 << 10))).take(1000).collect();
    assert!((1..=256 / 3 / 16).contains(&lent.len()), "{} loans", lent.len());
    overwrite(&disk);
    assert!(lent.iter().all(|(lent, _)| bytes_of(lent) == content(128, 1)));
    lent.iter().for_each(|(_, patron)| patron.0.store(true, Ordering::Release));
    assert!(disk.free.loans.have_room(256 / 3, 256 / 3), "what was returned cannot be lent again");
}

/// D6: what would change in place, or has to be compared with its checksum, is not lent; nor is what is not there.
#[test]
fn d6_what_cannot_hold_still_is_not_lent() {
    let in_place = DiskOptions { in_place: true, ..DiskOptions::default() };
    let counted = DiskOptions { stages: Some(|| 0), ..DiskOptions::default() };
    for (options, checksum) in [(in_place, false), (DiskOptions::default(), true), (counted, false)] {
        assert!(lend(&lender(options, checksum).0, Span::new(0, PIECE)).is_none(), "{options:?} {checksum}");
    }
    let (disk, _) = lender(DiskOptions::default(), false);
    assert!(lend(&disk, Span::new(DISK_BYTES - 512, PIECE)).is_none());
    assert!(lend(&disk, Span::new(0, BLOCK)).is_none(), "fewer bytes than were asked for");
    disk.trim(Span::new(0, PIECE), Access::Cached).expect("trimmed");
    assert!(lend(&disk, Span::new(0, PIECE)).is_none());
}

/// The canary: blocks that are used while they are lent are noticed.
#[test]
fn a_forgotten_loan_is_noticed() {
    let (disk, bytes) = lender(DiskOptions::default(), false);
    let (lent, _patron) = lend(&disk, Span::new(0, PIECE)).expect("lent");
    let bug = plant("block: lent blocks are used again");
    overwrite(&disk);
    drop(bug);
    assert!(bytes_of(&lent) != bytes[..PIECE as usize]);
}

/// Data overwritten in sequence lies in sequence again. Otherwise it could not be lent or copied as a whole.
#[test]
fn what_is_rewritten_in_sequence_lies_in_sequence() {
    let (disk, _) = lender(DiskOptions::default(), false);
    for seed in 2..12 {
        write_all(&disk, &content(DISK_BYTES / 512, seed));
    }
    let lens = (0..DISK_BYTES / PIECE).map(|i| disk.run(Span::new(i * PIECE, PIECE)).1);
    let whole = lens.filter(|len| *len == PIECE).count() as u64;
    assert!(whole * 2 > DISK_BYTES / PIECE, "{whole} of {} pieces lie in one run", DISK_BYTES / PIECE);
}
