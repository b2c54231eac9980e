//! A buffered disk of a pool: it stands still with it, and survives crashes of its memory.

use ferrite_crash::{LyingMemory, Options, Points, explore};

use crate::tests::{Way, collisions, fresh, open, ways};

use super::*;

fn in_front(memory: Arc<LyingMemory>, way: Way) -> Arc<Buffered<Arc<BlockDisk>>> {
    Buffered::in_front_of(open(memory, way), small(true)).expect("good options")
}

#[test]
fn u7_a_pool_that_stands_still_has_all_that_was_acknowledged_and_writers_wait() {
    for way in ways() {
        let memory = fresh(way);
        memory.keep_trace(false);
        let disk = in_front(memory.clone(), way);
        disk.write(0, &content(64, 1), Access::Cached).expect("written");
        assert!(disk.unsaved_bytes() > 0);
        std::thread::scope(|scope| {
            let frozen = disk.inner().pool.freeze();
            assert_eq!(disk.unsaved_bytes(), 0);
            let writer = scope.spawn(|| disk.write(0, &content(64, 2), Access::Cached).expect("written"));
            let zeroer = scope.spawn(|| disk.write_zeroes(Span::new(40 * 512, 8192), Zeroing::default()));
            for _ in 0..100 {
                std::thread::yield_now();
                assert_eq!(disk.unsaved_bytes(), 0, "something was added meanwhile");
            }
            let copy = read_all(&*open(Arc::new(memory.kill()), way));
            assert!(copy[..64 * 512] == content(64, 1), "{way:?}");
            drop(frozen);
            writer.join().expect("it goes on");
            zeroer.join().expect("it goes on").expect("zeroed");
        });
        assert!(read_all(&*disk)[..32 * 512] == content(64, 2)[..32 * 512]);
    }
}

/// U3 down to the memory: after any crash each block is as after some request since the last flush.
#[test]
fn u3_what_was_flushed_survives_every_crash_of_the_memory() {
    for way in ways().into_iter().filter(|way| !way.options.in_place).step_by(2) {
        let memory = fresh(way);
        let disk = in_front(memory.clone(), way);
        memory.forget_trace();
        let mut after = vec![vec![0; (BLOCKS * BLOCK) as usize]];
        for (i, op) in collisions().into_iter().enumerate() {
            op.run(&*disk);
            disk.step(i % 3).expect("nothing fails");
            let mut bytes = after[i].clone();
            op.apply(&mut bytes);
            after.push(bytes);
            if matches!(op, Op::Flush) {
                memory.mark(i as u64 + 1);
            }
        }
        let options = Options {
            images_per_point_max: 4,
            samples_per_point: 4,
            points: Points::Sampled(16),
            ..Options::default()
        };
        let report = explore(&memory, &options, |crash| {
            let found = read_all(&*open(Arc::new(crash.memory()), way));
            let durable = crash.last_mark().unwrap_or(0) as usize;
            let is_of_a_state = |(block, part): (usize, &[u8])| {
                after[durable..].iter().any(|bytes| bytes[block * 4096..][..4096] == *part)
            };
            if found.chunks(4096).enumerate().all(is_of_a_state) { Ok(()) } else { Err("a block is lost".into()) }
        });
        report.assert_clean();
    }
}

/// Where the time goes is counted for the disk and its buffers together.
#[test]
fn stages_are_counted_when_asked_for() {
    let counted = |stages: Option<fn() -> u64>, way: Way| {
        let disk = in_front(fresh(way), Way { options: crate::DiskOptions { stages, ..way.options }, ..way });
        disk.write(0, &content(16, 1), Access::Fua).expect("written");
        disk.write(0, &content(1, 1), Access::Fua).expect("written");
        read_all(&*disk);
        disk.inner().stages().map(|stages| stages.totals())
    };
    for way in ways() {
        assert_eq!(counted(None, way), None);
        let totals = counted(Some(|| 1), way).expect("counted");
        assert!(totals.total.count >= 4 && totals.buffer.count >= 3 && totals.copy.count >= 3, "{way:?} {totals:?}");
        assert!(totals.fence.count >= 1 && totals.lock.count >= 1 && totals.map.count >= 1, "{way:?} {totals:?}");
        assert_eq!(totals.checksum.count > 0, way.checksum, "{way:?} {totals:?}");
        assert_eq!(totals.verify.count > 0, way.options.verify, "{way:?} {totals:?}");
    }
}
