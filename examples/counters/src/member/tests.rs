//! Crashes of pool and member at one instant (CN4).

use std::sync::Arc;

use ferrite_crash::{
    Crash, CrashReport, ExploreOptions, LyingDisk, LyingMemory, Model, Points, World, explore, explore_kills,
};
use ferrite_disk::{Access, Disk, Geometry};
use ferrite_memory::Memory;
use ferrite_pool::Format;
use ferrite_pool::layout::{CHUNK, POOL_BYTES_MIN};

use super::*;

const BOOT: [u8; 16] = [7; 16];
const UUID: [u8; 16] = [3; 16];
const SECTOR: usize = 512;

/// The bug of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberBug {
    None,
    /// The line is not durable when the pool learns of it.
    NotSynced,
    /// The pool's side moves on after a failed write without having recorded the generation of the line.
    NotCompleted,
}

/// A line in the first sector of a disk.
struct LyingPlace<'a> {
    disk: &'a LyingDisk,
    bug: MemberBug,
}

impl SumPlace for LyingPlace<'_> {
    fn line(&self) -> Result<Option<String>, Failure> {
        let mut sector = [0; SECTOR];
        self.disk.read(0, &mut sector)?;
        let text = String::from_utf8_lossy(&sector);
        let line = text.trim_end_matches('\0');
        Ok((!line.is_empty()).then(|| line.into()))
    }

    fn replace(&self, line: &str) -> Result<(), Failure> {
        let mut sector = [0; SECTOR];
        sector[..line.len()].copy_from_slice(line.as_bytes());
        self.disk.write(0, &sector, Access::Cached)?;
        if self.bug == MemberBug::NotSynced { Ok(()) } else { Ok(self.disk.flush()?) }
    }
}

fn open(memory: &Arc<LyingMemory>) -> Result<Pool, String> {
    let memory: Arc<dyn Memory> = memory.clone();
    Ok(Pool::open(memory, BOOT).map_err(|error| error.to_string())?.0)
}

fn write(pool: &Pool, place: &LyingPlace<'_>, sum: u64) -> Result<(), Failure> {
    let ends = SumEnds { pool, uuid: UUID, place, sum };
    if place.bug != MemberBug::NotCompleted {
        return ends.write_sum();
    }
    let next = ends.load()?.current.next(0);
    ends.set_current(next)?;
    TieEnds::write(&ends, &TieStamp { identity: UUID, generation: next })?;
    ends.set_previous(Some(next))
}

/// The two match, the line has the sum that was acknowledged last or a later one, and the next sum can be written.
fn judge(crash: &Crash<'_>) -> Result<(), String> {
    let world = crash.world();
    let (pool, place) = (open(world.memory())?, LyingPlace { disk: world.disk(0), bug: MemberBug::None });
    let message = |failure: Failure| failure.message;
    let line = place.line().map_err(message)?;
    let sum = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0);
    let acknowledged = crash.last_mark().unwrap_or(0);
    if !(acknowledged..=acknowledged + 2).contains(&sum) {
        return Err(format!("CN4: a sum of {sum} after {acknowledged}"));
    }
    write(&pool, &place, sum + 1).map_err(message)
}

/// Writes sums, one of which fails in the middle and is tried again.
fn crashes(model: Model, bug: MemberBug) -> [CrashReport; 2] {
    let memory = LyingMemory::new(POOL_BYTES_MIN + CHUNK, model);
    Pool::create(&memory, &Format { uuid: [1; 16], boot_id: BOOT }).expect("a new pool");
    memory.barrier().expect("nothing fails yet");
    let geometry = Geometry {
        size: SECTOR as u64,
        sector_bytes: SECTOR as u32,
        atomic_bytes: SECTOR as u32,
        preferred_bytes: SECTOR as u32,
        volatile_cache: true,
        read_only: false,
        trim: false,
        identity: [0; 16],
    };
    let world = World::new(memory, [LyingDisk::new(geometry)]);
    let (pool, place) = (open(world.memory()).expect("it opens"), LyingPlace { disk: world.disk(0), bug });
    add_member(&pool, UUID, "sum".into()).expect("a slot is free");
    world.memory().forget_trace();
    for sum in 1..=3 {
        if sum == 2 {
            // The flush fails: the line is written, and may be on the disk or not.
            let reads = u64::from(bug == MemberBug::None);
            place.disk.fail_nth(place.disk.requests() + reads + 1);
            let failed = write(&pool, &place, sum).is_err();
            assert!(failed || bug == MemberBug::NotSynced);
        }
        write(&pool, &place, sum).expect("it is tried again");
        world.memory().mark(sum);
    }
    let options = ExploreOptions {
        points: Points::Widest,
        images_per_point_max: 128,
        samples_per_point: 40,
        ..ExploreOptions::default()
    };
    [explore(world.memory(), &options, judge), explore_kills(world.memory(), &options, judge)]
}

#[test]
fn cn4_crash_leaves_a_pool_and_a_member_that_match() {
    for model in Model::ALL {
        for report in crashes(model, MemberBug::None) {
            println!("{report}");
            report.assert_clean();
        }
    }
}

#[test]
fn canary_a_member_that_is_not_synced_is_caught() {
    Model::ALL.iter().for_each(|model| _ = crashes(*model, MemberBug::NotSynced)[0].expect_failure());
}

#[test]
fn canary_a_failed_write_whose_generation_is_forgotten_is_caught() {
    Model::ALL.iter().for_each(|model| _ = crashes(*model, MemberBug::NotCompleted)[0].expect_failure());
}
