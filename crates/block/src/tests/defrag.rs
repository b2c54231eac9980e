//! Disks whose pool is defragmented: their streams lie elsewhere, and nothing else has changed.

use ferrite_pool::check::{TagOwners, check};
use ferrite_pool::defrag::defrag;

use super::*;
use crate::{DiskOwner, remove};

const CHUNK: u64 = ferrite_pool::layout::CHUNK;

fn owners() -> TagOwners {
    let mut owners = TagOwners::default();
    owners.register(Box::new(DiskOwner));
    owners
}

/// The disks of the test: thin ones grow chunk by chunk between each other.
fn specs() -> Vec<(String, DiskSpec)> {
    let spec = |thin, checksum| DiskSpec { size: 3 * CHUNK + 512, sector_bytes: 512, thin, checksum };
    let kinds = [(true, false), (true, true), (false, false), (false, true)];
    kinds.iter().enumerate().map(|(i, (thin, checksum))| (format!("disk{i}"), spec(*thin, *checksum))).collect()
}

#[test]
fn disks_are_what_they_were_after_a_defragmentation() {
    let memory = Arc::new(LyingMemory::new(40 * CHUNK, Model::MAPPED));
    memory.keep_trace(false);
    Pool::create(&*memory, &Format { uuid: [3; 16], boot_id: BOOT }).expect("made");
    let pool = Arc::new(Pool::open(memory.clone(), BOOT).expect("opened").0);
    let gap = DiskSpec { size: CHUNK, sector_bytes: 512, thin: true, checksum: false };
    create(&pool, "gap", &gap).expect("made");
    specs().iter().for_each(|(name, spec)| create(&pool, name, spec).expect("made"));
    let open =
        |pool: &Arc<Pool>, name: &str| BlockDisk::open(Arc::clone(pool), name, DiskOptions::default()).expect("open");
    let disks: Vec<_> = specs().iter().map(|(name, _)| open(&pool, name)).collect();
    for step in 0..90_u64 {
        for (number, disk) in disks.iter().enumerate() {
            let sector = (step * 137 + number as u64 * 61) % (3 * CHUNK / 512 - 80);
            disk.write(sector * 512, &content(73, (step as u8) ^ number as u8), Access::Cached).expect("written");
        }
    }
    let read = |disk: &BlockDisk| {
        let mut bytes = vec![0; disk.geometry().size as usize];
        disk.read(0, &mut bytes).expect("read");
        (bytes, disk.geometry().identity)
    };
    let before: Vec<_> = disks.iter().map(|disk| read(disk)).collect();
    drop(disks);
    remove(&pool, "gap").expect("removed");

    let mut alone = Arc::into_inner(pool).expect("nobody else has it");
    let report = defrag(&mut alone, &owners(), &mut |_| true).expect("defragmented");
    assert!(report.moved_bytes > 0 && report.after.extents < report.before.extents, "{report:?}");
    assert_eq!((report.after.free_runs, report.left.len()), (1, 0), "{report:?}");
    drop(alone);

    let shared: Arc<dyn Memory> = Arc::new(memory.crash(5));
    let found = check(&shared, &owners(), &mut |_| ());
    assert!(found.is_sound(), "{found:?}");
    let pool = Arc::new(Pool::open(shared, BOOT).expect("opened").0);
    for ((name, _), before) in specs().iter().zip(&before) {
        let disk = open(&pool, name);
        assert!(read(&disk) == *before, "{name}");
        disk.write(512, &content(9, 77), Access::Fua).expect("written");
    }
}
