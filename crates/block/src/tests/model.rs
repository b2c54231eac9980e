//! The disk does what plain bytes do.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_disk_is_plain_bytes_that_outlive_a_reopening(ops in prop::collection::vec(op(), 1..30), way in 0..ways().len()) {
        let way = ways()[way];
        let memory = fresh(way);
        memory.keep_trace(false);
        let disk = open(memory.clone(), way);
        let mut bytes = vec![0; (BLOCKS * BLOCK) as usize];
        for op in &ops {
            op.run(&*disk);
            op.apply(&mut bytes);
            prop_assert!(read_all(&*disk) == bytes, "after {op:?}");
        }
        disk.flush().expect("flushed");
        drop(disk);
        prop_assert!(read_all(&*open(memory, way)) == bytes, "after reopening");
    }

    #[test]
    fn reads_of_any_part_see_what_was_written(ops in prop::collection::vec(op(), 1..12), at in 0..190_u64) {
        let way = ways()[0];
        let disk = open(fresh(way), way);
        let mut bytes = vec![0; (BLOCKS * BLOCK) as usize];
        ops.iter().for_each(|op| {
            op.run(&*disk);
            op.apply(&mut bytes);
        });
        for sectors in [1, 2, 9, 40] {
            let len = (sectors * 512).min(bytes.len() as u64 - at * 512) as usize;
            let mut part = vec![0xEE; len];
            disk.read(at * 512, &mut part).expect("read");
            prop_assert!(part == bytes[(at * 512) as usize..][..len]);
        }
    }
}

#[test]
fn extents_tell_holes_and_cover_the_whole_span() {
    let way = ways()[0];
    let disk = open(fresh(way), way);
    disk.write(8192, &[1; 8192], Access::Cached).expect("written");
    let runs = disk.extents(Span::new(0, BLOCKS * BLOCK)).expect("told");
    assert_eq!(
        runs.iter().map(|run| (run.len, run.hole)).collect::<Vec<_>>(),
        [(8192, true), (8192, false), (BLOCKS * BLOCK - 16384, true)]
    );
    assert!(runs.iter().all(|run| run.hole == run.zero));
}

#[test]
fn a_disk_grows_while_it_is_open_and_keeps_what_it_holds() {
    for way in ways() {
        let memory = fresh(way);
        let disk = open(memory.clone(), way);
        disk.write(0, &content(8, 3), Access::Cached).expect("written");
        let size = 600 * BLOCK;
        disk.resize(size).expect("resized");
        assert_eq!(disk.geometry().size, size);
        disk.write(size - 4096, &content(8, 4), Access::Fua).expect("written");
        disk.flush().expect("flushed");
        drop(disk);
        let disk = open(memory, way);
        let bytes = read_all(&*disk);
        assert_eq!(bytes[..4096], content(8, 3));
        assert_eq!(bytes[bytes.len() - 4096..], content(8, 4));
        assert!(bytes[4096..bytes.len() - 4096].iter().all(|byte| *byte == 0));
    }
}

#[test]
fn a_full_disk_can_be_overwritten_for_ever() {
    for way in ways() {
        let disk = open(fresh(way), way);
        for round in 0..40_u8 {
            disk.write(0, &content(BLOCKS * 8, round), Access::Cached).expect("written");
        }
        assert_eq!(read_all(&*disk), content(BLOCKS * 8, 39), "{way:?}");
    }
}

#[test]
fn a_thin_disk_takes_space_as_it_is_written_and_says_when_there_is_none() {
    let memory = Arc::new(LyingMemory::new(12 << 20, Model::MAPPED));
    memory.keep_trace(false);
    Pool::create(&*memory, &Format { uuid: [7; 16], boot_id: BOOT }).expect("created");
    let pool = Arc::new(Pool::open(memory, BOOT).expect("opened").0);
    create(&pool, "thin", &DiskSpec { size: 1 << 30, sector_bytes: 4096, thin: true, checksum: false })
        .expect("created");
    let disk = BlockDisk::open(Arc::clone(&pool), "thin", DiskOptions::default()).expect("opened");
    let written = (0..).find(|i| disk.write(i << 20, &[7; 1 << 20], Access::Cached).is_err()).expect("fills up");
    assert!((2..8).contains(&written), "{written} MiB fit");
    let error = disk.write(written << 20, &[7; 1 << 20], Access::Cached).expect_err("full");
    assert!(matches!(error, ferrite_memory::Error::NoSpace(_)), "{error}");
    disk.trim(Span::new(0, 1 << 20), Access::Cached).expect("trimmed");
    disk.write(written << 20, &[8; 1 << 19], Access::Cached).expect("trimmed space is used again");
}

/// A client may ask for nothing, anywhere.
#[test]
fn requests_for_nothing_change_nothing() {
    for way in ways() {
        let disk = open(fresh(way), way);
        disk.write(0, &content(BLOCKS * 8, 5), Access::Cached).expect("written");
        for at in [0, 512, BLOCK, 5 * 512 + BLOCK, BLOCKS * BLOCK] {
            for keep_space in [false, true] {
                let nothing = Span::new(at, 0);
                disk.write_zeroes(nothing, Zeroing { keep_space, ..Zeroing::default() }).expect("zeroed");
                disk.trim(nothing, Access::Fua).expect("trimmed");
                disk.write(at, &[], Access::Fua).expect("written");
                disk.read(at, &mut []).expect("read");
            }
        }
        assert!(read_all(&*disk) == content(BLOCKS * 8, 5), "{way:?}");
    }
}
