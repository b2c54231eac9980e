//! RM1: a thin disk in a full pool still takes what needs no more room.

use super::*;

const DISK_BYTES: u64 = 64 << 20;
const PIECE: u64 = 64 * BLOCK;

/// Thin disks, however they are written.
fn thin_ways() -> Vec<Way> {
    ways().into_iter().map(|way| Way { thin: true, ..way }).collect()
}

/// A disk that is larger than its pool.
fn thin(way: Way) -> (Arc<LyingMemory>, Arc<BlockDisk>) {
    let memory = Arc::new(LyingMemory::new(14 << 20, way.model));
    memory.keep_trace(false);
    Pool::create(&*memory, &Format { uuid: [7; 16], boot_id: BOOT }).expect("created");
    let pool = Pool::open(memory.clone(), BOOT).expect("opened").0;
    create(&pool, "disk0", &DiskSpec { size: DISK_BYTES, ..spec_of(way) }).expect("created");
    pool.close().expect("closed");
    let disk = open(memory.clone(), way);
    (memory, disk)
}

/// Writes blocks in turn until one is refused; how many there are then.
fn fill(disk: &BlockDisk) -> u64 {
    let is_refused = |block: &u64| disk.write(block * BLOCK, &content(8, *block as u8), Access::Cached).is_err();
    let full = (0..).find(is_refused).expect("it fills up");
    assert!(full >= 512, "{full} blocks fit");
    assert!(refuses_new(disk, full), "it has room now");
    full
}

fn refuses_new(disk: &BlockDisk, block: u64) -> bool {
    let refused = disk.write(block * BLOCK, &content(8, 1), Access::Cached);
    matches!(refused, Err(ferrite_memory::Error::NoSpace(_)))
}

#[test]
fn rm1_a_full_pool_takes_every_overwrite() {
    for way in thin_ways() {
        let (memory, disk) = thin(way);
        let full = fill(&disk);
        for at in (0..full * BLOCK).step_by(PIECE as usize) {
            let sectors = PIECE.min(full * BLOCK - at) / 512;
            disk.write(at, &content(sectors, 3), Access::Cached).expect("overwritten");
        }
        for block in (0..full).step_by(7) {
            disk.write(block * BLOCK, &content(8, 5), Access::Cached).expect("a block");
            disk.write(block * BLOCK + 512, &content(1, 6), Access::Cached).expect("a sector");
        }
        let zeroing = Zeroing { keep_space: true, ..Zeroing::default() };
        disk.write_zeroes(Span::new(0, PIECE), zeroing).expect("zeroed");
        assert!(refuses_new(&disk, full), "{way:?}");
        disk.flush().expect("flushed");
        let bytes = read_all(&*disk);
        drop(disk);
        let disk = open(memory, way);
        assert!(refuses_new(&disk, full), "{way:?}: the same after it was opened anew");
        assert!(read_all(&*disk) == bytes, "{way:?}");
        disk.trim(Span::new(3 * BLOCK, 2 * BLOCK), Access::Cached).expect("trimmed");
        for block in [full, full + 1] {
            disk.write(block * BLOCK, &content(8, 7), Access::Cached).expect("what was trimmed makes room");
        }
        assert!(refuses_new(&disk, full + 2) && refuses_new(&disk, 3), "{way:?}: for as much");
        disk.write(5 * BLOCK, &content(8, 8), Access::Fua).expect("overwritten");
    }
}

/// Those who find no room take none from those who need none.
#[test]
fn rm1_writers_that_are_refused_are_in_nobodys_way() {
    for way in [thin_ways()[0], Way { checksum: true, ..thin_ways()[0] }] {
        let (_memory, disk) = thin(way);
        let full = fill(&disk);
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let disk = &disk;
                scope.spawn(move || {
                    for round in 0..60 {
                        let at = (writer * 60 + round) % (full / 64) * PIECE;
                        disk.write(at, &content(PIECE / 512, writer as u8), Access::Cached).expect("overwritten");
                        let beyond = disk.write(full * BLOCK + writer * PIECE, &content(512, 1), Access::Cached);
                        assert!(beyond.is_err(), "there is no room");
                    }
                });
            }
        });
        assert!(refuses_new(&disk, full));
    }
}
