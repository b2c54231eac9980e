//! The requests that a disk refuses, and its errors.

use ferrite_memory::Error;
use ferrite_pool::check::{self, Severity, TagOwners};

use crate::DiskOwner;

use super::*;

#[test]
fn d1_requests_outside_or_unaligned_are_refused_whole() {
    let way = ways()[0];
    let disk = open(fresh(way), way);
    let size = BLOCKS * BLOCK;
    for (at, len) in [(size, 512), (size - 512, 1024), (1, 512), (0, 513), (u64::MAX - 511, 512)] {
        assert!(matches!(disk.write(at, &vec![1; len], Access::Cached), Err(Error::OutOfRange { .. })), "{at} {len}");
        assert!(matches!(disk.read(at, &mut vec![1; len]), Err(Error::OutOfRange { .. })), "{at} {len}");
        assert!(disk.trim(Span::new(at, len as u64), Access::Cached).is_err());
        assert!(disk.write_zeroes(Span::new(at, len as u64), Zeroing::default()).is_err());
        assert!(disk.extents(Span::new(at, len as u64)).is_err());
    }
    assert!(read_all(&*disk).iter().all(|byte| *byte == 0));
}

#[test]
fn a_read_only_disk_refuses_every_change() {
    let way = ways()[0];
    let way = Way { options: DiskOptions { read_only: true, ..way.options }, ..way };
    let disk = open(fresh(way), way);
    assert!(matches!(disk.write(0, &[0; 512], Access::Cached), Err(Error::ReadOnly)));
    assert!(matches!(disk.trim(Span::new(0, 4096), Access::Cached), Err(Error::ReadOnly)));
    assert!(matches!(disk.write_zeroes(Span::new(0, 4096), Zeroing::default()), Err(Error::ReadOnly)));
}

#[test]
fn impossible_disks_are_refused_with_a_reason() {
    let pool = Pool::open(fresh(ways()[0]), BOOT).expect("opened").0;
    let spec = |size, sector_bytes| DiskSpec { size, sector_bytes, thin: false, checksum: false };
    for spec in [spec(0, 512), spec(513, 512), spec(1 << 20, 1000), spec(u64::MAX - 511, 512), spec(1 << 40, 512)] {
        let said = create(&pool, "other", &spec).expect_err("refused").to_string();
        assert!(said.contains("not possible") || said.contains("the pool is full"), "{said}");
    }
    assert!(create(&pool, "disk0", &spec(1 << 20, 512)).expect_err("taken").to_string().contains("already"));
    assert_eq!(pool.tags().len(), 1);
}

#[test]
fn a_map_that_names_a_block_twice_is_refused() {
    let way = ways()[0];
    let memory = fresh(way);
    let disk = open(memory.clone(), way);
    disk.write(0, &content(16, 1), Access::Cached).expect("written");
    let tag = disk.tag();
    drop(disk);
    let map = tag.extents.iter().find(|extent| extent.role == ferrite_pool::Role::MAP).expect("there").span().at;
    memory.store_word(map + 8, memory.load_word(map));
    let pool = Arc::new(Pool::open(memory, BOOT).expect("opened").0);
    let said = BlockDisk::open(pool, "disk0", way.options).err().expect("refused").to_string();
    assert!(said.contains("the map of disk \"disk0\" (block 1)") && said.contains("pool check"), "{said}");
}

#[test]
fn check_tells_wrong_map_words_and_repair_clears_them_and_says_what_is_lost() {
    let way = ways()[0];
    let memory = fresh(way);
    let disk = open(memory.clone(), way);
    disk.write(0, &content(24, 1), Access::Cached).expect("written");
    let tag = disk.tag();
    drop(disk);
    let map = tag.extents.iter().find(|extent| extent.role == ferrite_pool::Role::MAP).expect("there").span().at;
    memory.store_word(map + 16, u64::from(u32::MAX));
    let mut owners = TagOwners::default();
    owners.register(Box::new(DiskOwner));
    let dynamic: Arc<dyn Memory> = memory.clone();
    let errors =
        |report: &check::PoolCheckReport| report.findings.iter().filter(|it| it.severity == Severity::Error).count();
    let report = check::check(&dynamic, &owners, &mut |_| ());
    assert_eq!(errors(&report), 1, "{report:?}");
    let report = check::repair(&dynamic, &owners, &[], &mut |_| ()).expect("repaired");
    let lost: Vec<_> = report.findings.iter().filter_map(|it| it.repaired.as_ref()).collect();
    assert!(lost.len() == 1 && lost[0].contains("bytes 8192 to 12288 read as zeros"), "{report:?}");
    assert!(check::check(&dynamic, &owners, &mut |_| ()).is_sound());
    let found = read_all(&*open(memory, way));
    assert_eq!(found[..8192], content(24, 1)[..8192]);
    assert!(found[8192..12288].iter().all(|byte| *byte == 0));
}

/// Of two words that name one block, the right one may come first or last. The block's content is not lost: checksums
/// find the right word, and without checksums both words read it.
#[test]
fn a_repair_keeps_a_block_for_the_word_that_is_right() {
    for way in [ways()[0], Way { checksum: true, ..ways()[0] }] {
        for (damaged, right) in [(1, 4), (4, 1)] {
            let memory = fresh(way);
            let disk = open(memory.clone(), way);
            disk.write(0, &content(48, 1), Access::Cached).expect("written");
            let map = disk.tag().extents.iter().find(|it| it.role == ferrite_pool::Role::MAP).expect("there").span().at;
            drop(disk);
            let (word, other) = (memory.load_word(map + damaged * 8), memory.load_word(map + right * 8));
            memory.store_word(map + damaged * 8, word >> 32 << 32 | other & u64::from(u32::MAX));
            let mut owners = TagOwners::default();
            owners.register(Box::new(DiskOwner));
            let dynamic: Arc<dyn Memory> = memory.clone();
            let found = check::check(&dynamic, &owners, &mut |_| ());
            let errors = found.findings.iter().filter(|it| it.severity == Severity::Error).count();
            assert_eq!(errors, 1, "{found:?}");
            let report = check::repair(&dynamic, &owners, &[], &mut |_| ()).expect("repaired");
            assert!(report.findings.iter().any(|it| it.repaired.as_ref().is_some_and(|done| done.contains("lost"))));
            assert!(check::check(&dynamic, &owners, &mut |_| ()).is_sound());
            let mut expected = content(48, 1);
            let (lost, kept) = ((damaged * BLOCK) as usize, (right * BLOCK) as usize);
            let instead = if way.checksum { vec![0; 4096] } else { expected[kept..kept + 4096].to_vec() };
            expected[lost..lost + 4096].copy_from_slice(&instead);
            let found = read_all(&*open(memory, way));
            assert!(found[..expected.len()] == expected, "{damaged} {right} {way:?}");
        }
    }
}

#[test]
fn m4_after_a_failed_persist_changes_are_refused_until_reopened() {
    let way = Way { model: Model::FILE, ..ways()[0] };
    let memory = fresh(way);
    let disk = open(memory.clone(), way);
    disk.write(0, &content(8, 1), Access::Fua).expect("written");
    disk.write(0, &content(8, 2), Access::Cached).expect("written");
    memory.fail_nth(memory.calls());
    assert!(disk.flush().is_err());
    assert!(matches!(disk.flush(), Err(Error::Poisoned(_))));
    assert!(matches!(disk.write(0, &[0; 512], Access::Cached), Err(Error::Poisoned(_))));
    drop(disk);
    let found = read_all(&*open(Arc::new(memory.kill()), way))[..4096].to_vec();
    assert!(found == content(8, 1) || found == content(8, 2));
}

/// Blocks are found by their chunk: what does not lie in chunks would be read and written where others keep theirs.
#[test]
fn a_disk_whose_data_does_not_lie_in_chunks_is_refused() {
    let pool = Arc::new(Pool::open(fresh(ways()[0]), BOOT).expect("opened").0);
    let shape = pool.tag("disk0").map(|tag| crate::DiskShape::read(&tag).expect("good")).expect("there");
    let need = |role, bytes| ferrite_pool::SpaceNeed { role, zone: ferrite_pool::Zone::Normal, bytes };
    let needs = [need(ferrite_pool::Role::MAP, 4096), need(ferrite_pool::Role::DATA, shape.data_bytes())];
    let new = ferrite_pool::NewTag {
        name: "foreign",
        kind: ferrite_pool::TagKind::DISK,
        size: shape.size,
        attributes: shape.attributes(),
        needs: &needs,
    };
    let zero = |extents: &[ferrite_pool::Extent]| {
        extents.iter().for_each(|it| pool.memory().zero(it.span(), Scheme::Nt));
        Ok(())
    };
    pool.create_tag(&new, zero).expect("made");
    let said = BlockDisk::open(pool, "foreign", DiskOptions::default()).err().expect("refused").to_string();
    assert!(said.contains("foreign") && said.contains("pool check"), "{said}");
}
