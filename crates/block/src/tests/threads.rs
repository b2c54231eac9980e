//! Many threads at one disk: B3 and B4.

use std::sync::atomic::{AtomicBool, Ordering};

use ferrite_memory::{MapOptions, Mapped};

use super::*;

fn mapped() -> Arc<Mapped> {
    mapped_for(ways()[0])
}

fn mapped_for(way: Way) -> Arc<Mapped> {
    let memory = Arc::new(Mapped::anonymous(16 << 20, &MapOptions::default()).expect("mapped"));
    Pool::create(&*memory, &Format { uuid: [7; 16], boot_id: BOOT }).expect("created");
    let pool = Pool::open(memory.clone(), BOOT).expect("opened").0;
    create(&pool, "disk0", &spec_of(way)).expect("created");
    pool.close().expect("closed");
    memory
}

/// A block whose every word is the same.
fn uniform(word: u64) -> Vec<u8> {
    word.to_le_bytes().repeat(512)
}

#[test]
fn b3_readers_never_see_a_mixture_while_writers_race() {
    let way = ways()[0];
    let disk = open(mapped(), way);
    (0..BLOCKS).for_each(|i| disk.write(i * BLOCK, &uniform(0), Access::Cached).expect("written"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (disk, stop) = (&disk, &stop);
            scope.spawn(move || {
                let mut block = vec![0; BLOCK as usize];
                for i in reader.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    disk.read(i % BLOCKS * BLOCK, &mut block).expect("read");
                    assert!(block.chunks(8).all(|word| word == &block[..8]), "a mixture of two writes");
                }
            });
        }
        let writers: Vec<_> = (1..=3_u64)
            .map(|writer| {
                scope.spawn({
                    let disk = &disk;
                    move || {
                        for i in 0..20_000 {
                            disk.write((i * writer) % BLOCKS * BLOCK, &uniform(i << 8 | writer), Access::Cached)
                                .expect("written");
                        }
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("writes"));
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn b4_what_readers_see_is_what_a_crash_leaves() {
    let way = ways()[0];
    let memory = mapped();
    let disk = open(memory.clone(), way);
    std::thread::scope(|scope| {
        for writer in 1..=4_u64 {
            let disk = &disk;
            scope.spawn(move || {
                for i in 0..5_000 {
                    disk.write(i % 4 * BLOCK, &uniform(i << 8 | writer), Access::Cached).expect("written");
                }
            });
        }
    });
    let seen = read_all(&*disk);
    drop(disk);
    assert!(read_all(&*open(memory, way)) == seen);
}

#[test]
fn a_frozen_disk_does_not_change_and_goes_on_when_thawed() {
    let way = ways()[0];
    let disk = open(mapped(), way);
    std::thread::scope(|scope| {
        let writer = scope.spawn({
            let disk = &disk;
            move || (1..=30_000).for_each(|i| disk.write(0, &uniform(i), Access::Cached).expect("written"))
        });
        for _ in 0..50 {
            let frozen = disk.pool.freeze();
            let before = read_all(&*disk);
            std::thread::yield_now();
            assert!(read_all(&*disk) == before);
            drop(frozen);
        }
        writer.join().expect("writes");
    });
    assert!(read_all(&*disk)[..8] == 30_000_u64.to_le_bytes());
}

/// A reader that meets a change halfway finds data and checksum that do not belong together. That is no damage.
#[test]
fn b7_readers_find_no_damage_while_writers_race() {
    for way in ways().into_iter().filter(|way| way.checksum) {
        let disk = open(mapped_for(way), way);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (disk, stop) = (&disk, &stop);
            let reader = scope.spawn(move || {
                let mut blocks = vec![0; 3 * BLOCK as usize];
                for i in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    disk.read(i % 4 * BLOCK + 512, &mut blocks[..(2 + i as usize % 8) * 1024]).expect("no damage");
                }
            });
            let writers = [1, 2_u64].map(|writer| {
                scope.spawn(move || {
                    for i in 0..1500 {
                        let (at, len) = ((i * writer) % 4 * BLOCK + writer % 2 * 512, 512 + (i % 3) * 2048);
                        disk.write(at, &uniform(i)[..512].repeat(len as usize / 512), Access::Cached).expect("written");
                        if i % 50 == 0 {
                            disk.flush().expect("flushed");
                        }
                    }
                })
            });
            let ended = writers.map(|writer| writer.join());
            stop.store(true, Ordering::Relaxed);
            reader.join().expect("it reads");
            ended.into_iter().for_each(|writer| writer.expect("it writes"));
        });
    }
}
