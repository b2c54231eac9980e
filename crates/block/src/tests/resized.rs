//! Disks that are made larger.

use ferrite_pool::layout::CHUNK;

use super::*;

/// B2: a disk has allocated space since its tag was read. Growing it by that tag keeps the space.
#[test]
fn b2_a_disk_keeps_what_it_got_since_its_tag_was_read() {
    let memory = Arc::new(LyingMemory::new(20 << 20, Model::MAPPED));
    Pool::create(&*memory, &Format { uuid: [7; 16], boot_id: BOOT }).expect("created");
    let pool = Arc::new(Pool::open(memory, BOOT).expect("opened").0);
    let spec = DiskSpec { size: 2 * CHUNK, sector_bytes: 512, thin: true, checksum: false };
    create(&pool, "disk0", &spec).expect("created");
    let old = pool.tag("disk0").expect("there");
    let disk = BlockDisk::open(Arc::clone(&pool), "disk0", DiskOptions::default()).expect("opened");
    let written = content(2 * CHUNK / 512, 3);
    disk.write(0, &written, Access::Cached).expect("written");
    drop(disk);
    crate::resize(&pool, &old, 3 * CHUNK).expect("grown");
    let disk = BlockDisk::open(pool, "disk0", DiskOptions::default()).expect("opened");
    assert!(read_all(&*disk)[..written.len()] == written);
}
