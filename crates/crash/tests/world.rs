//! A memory and disks crash at one instant, and leave all that CW1 to CW4 allow and nothing else.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;

use ferrite_crash::{
    Crash, CrashReport, ExploreOptions, LyingDisk, LyingMemory, Model, Points, World, explore, explore_kills, seed,
};
use ferrite_disk::{Access, Disk, Geometry, Op, Queue, Request, Wait};
use ferrite_memory::{Memory, Scheme, Span};

const SECTOR: u64 = 512;

fn disk() -> LyingDisk {
    LyingDisk::new(Geometry {
        size: 4 * SECTOR,
        sector_bytes: 512,
        atomic_bytes: 512,
        preferred_bytes: 512,
        volatile_cache: true,
        read_only: false,
        trim: true,
        identity: [0; 16],
    })
}

fn world(model: Model, memory_bytes: u64) -> World {
    World::new(LyingMemory::new(memory_bytes, model), [disk()])
}

fn put(disk: &LyingDisk, number: u64, value: u8, access: Access) {
    disk.write(number * SECTOR, &[value; SECTOR as usize], access).unwrap();
}

/// Returns the value in a sector, which is never torn.
fn sector(disk: &LyingDisk, number: u64) -> u8 {
    let mut bytes = [0; SECTOR as usize];
    disk.read(number * SECTOR, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "D5: a sector is torn");
    bytes[0]
}

fn store(memory: &LyingMemory, at: u64, value: u64, persists: bool) {
    memory.store_word(at, value);
    if persists {
        memory.persist(Span::new(at, 8)).unwrap();
    }
}

/// The bug of a protocol between a memory and a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OrderBug {
    None,
    /// The second side is made durable before the first.
    Reversed,
    /// The first side is written and not made durable.
    NotDurable,
}

const BUGS: [OrderBug; 2] = [OrderBug::Reversed, OrderBug::NotDurable];

/// Moves values from the memory to the disk: a value leaves the memory when the disk has it.
fn drain(model: Model, bug: OrderBug, options: &ExploreOptions) -> CrashReport {
    let world = world(model, 64);
    let (memory, disk) = (world.memory(), world.disk(0));
    for value in 1..=3 {
        store(memory, 0, value, true);
        memory.mark(value);
        put(disk, value % 2, value as u8, Access::Cached);
        if bug == OrderBug::None {
            disk.flush().unwrap();
        }
        store(memory, 0, 0, true);
        if bug == OrderBug::Reversed {
            disk.flush().unwrap();
        }
    }
    explore(world.memory(), options, |crash| {
        let (disk, kept) = (crash.disk(0), crash.load_word(0));
        let found = kept.max([0, 1].map(|number| u64::from(sector(&disk, number)))[(kept % 2) as usize]);
        let newest = found.max(u64::from(sector(&disk, 0).max(sector(&disk, 1))));
        let acknowledged = crash.last_mark().unwrap_or(0);
        if newest < acknowledged { Err(format!("value {acknowledged} is lost, found {newest}")) } else { Ok(()) }
    })
}

/// Names records of the memory in a header on the disk: a header names a record only when the memory has it.
fn publish(model: Model, bug: OrderBug, record_bytes: u64, options: &ExploreOptions) -> CrashReport {
    let world = world(model, 64 + 2 * record_bytes);
    let (memory, disk) = (world.memory(), world.disk(0));
    let place = move |version: u64| 64 + version % 2 * record_bytes;
    for version in 1..=3u64 {
        let record = vec![version as u8; record_bytes as usize];
        memory.store(place(version), &record, Scheme::Nt);
        if bug == OrderBug::None {
            memory.drain().unwrap();
        }
        put(disk, 0, version as u8, Access::Fua);
        if bug == OrderBug::Reversed {
            memory.drain().unwrap();
        }
    }
    explore(world.memory(), options, |crash| {
        let version = sector(&crash.disk(0), 0);
        let mut record = vec![0; record_bytes as usize];
        crash.load(place(u64::from(version)), &mut record);
        let is_whole = version == 0 || record.iter().all(|byte| *byte == version);
        if is_whole { Ok(()) } else { Err(format!("the header names version {version}, which is torn")) }
    })
}

/// CW1, CW2: sound protocols between a memory and a disk pass, in both directions and on both models.
#[test]
fn cw1_cw2_sound_orders_pass() {
    for model in Model::ALL {
        let options = ExploreOptions::default();
        let reports = [drain(model, OrderBug::None, &options), publish(model, OrderBug::None, 32, &options)];
        for report in &reports {
            report.assert_clean().assert_exhaustive();
            assert!(report.images > 20, "{report}");
        }
    }
}

#[test]
fn canary_memory_that_lets_go_before_the_disk_has_it_is_caught() {
    for (model, bug) in Model::ALL.into_iter().flat_map(|model| BUGS.map(|bug| (model, bug))) {
        let report = drain(model, bug, &ExploreOptions::default());
        assert!(report.expect_failure().error.contains("is lost"), "{bug:?}: {report:?}");
    }
}

#[test]
fn canary_a_disk_that_names_what_the_memory_does_not_have_is_caught() {
    for (model, bug) in Model::ALL.into_iter().flat_map(|model| BUGS.map(|bug| (model, bug))) {
        let report = publish(model, bug, 32, &ExploreOptions::default());
        assert!(report.expect_failure().error.contains("torn"), "{bug:?}: {report:?}");
    }
}

/// CW2: if there are too many images, a few samples of each point find the wrong order, at each choice of points.
#[test]
fn sampling_finds_a_wrong_order() {
    for points in [Points::Every, Points::Widest] {
        let options = ExploreOptions { points, samples_per_point: 4, ..ExploreOptions::default() };
        let sound = publish(Model::MAPPED, OrderBug::None, 4096, &options);
        assert!(sound.assert_clean().sampled_points > 0, "{sound}");
        BUGS.iter().for_each(|bug| _ = publish(Model::MAPPED, *bug, 4096, &options).expect_failure());
    }
}

/// CW2: disks without pending writes take no samples from the memory and the disk that have some.
#[test]
fn cw2_idle_disks_take_no_samples() {
    let images = |idle: usize| {
        let world = World::new(LyingMemory::new(4096, Model::MAPPED), (0..=idle).map(|_| disk()));
        world.memory().store(0, &[1; 2048], Scheme::Nt);
        (0..4).for_each(|number| put(world.disk(idle), number, 1, Access::Cached));
        let options = ExploreOptions { images_per_point_max: 8, samples_per_point: 40, ..ExploreOptions::default() };
        explore(world.memory(), &options, |_| Ok(())).images
    };
    let (alone, among_idle) = (images(0), images(20));
    assert!(among_idle * 10 >= alone * 9, "{among_idle} images instead of {alone}");
}

/// CW1: the memory and two disks count in turn, each durable before the next. No crash leaves one of them two steps
/// ahead, and crashes fall between any two steps.
#[test]
fn cw1_all_are_of_one_instant() {
    let world = World::new(LyingMemory::new(64, Model::MAPPED), [disk(), disk()]);
    for round in 1..=3u8 {
        store(world.memory(), 0, u64::from(round), true);
        put(world.disk(0), 0, round, Access::Fua);
        put(world.disk(1), 0, round, Access::Cached);
        world.disk(1).flush().unwrap();
    }
    for points in [Points::Every, Points::Widest] {
        let mut seen = BTreeSet::new();
        let report = explore(world.memory(), &ExploreOptions { points, ..ExploreOptions::default() }, |crash| {
            let counts = [crash.load_word(0) as u8, sector(&crash.disk(0), 0), sector(&crash.disk(1), 0)];
            seen.insert(counts);
            let are_in_turn = counts.is_sorted_by(|one, next| one >= next) && counts[0] - counts[2] <= 1;
            if are_in_turn { Ok(()) } else { Err(format!("{counts:?}")) }
        });
        report.assert_clean().assert_exhaustive();
        assert_eq!(seen.len(), 1 + 3 * 3, "{points:?}: {seen:?}");
    }
}

/// A disk of two sectors by the definition of CL1 and CL2, one value a sector.
#[derive(Clone, Default)]
struct ReferenceSector {
    durable: u8,
    /// Values and the number of the end of their writes.
    cached: Vec<(u64, u8)>,
    in_flight: Vec<(u64, u8)>,
}

impl ReferenceSector {
    fn allowed(&self) -> BTreeSet<u8> {
        let volatile = self.cached.iter().chain(&self.in_flight).map(|(_, value)| *value);
        volatile.chain([self.durable]).collect()
    }

    fn flush(&mut self, covered: u64) {
        let (durable, rest) = self.cached.iter().partition(|(number, _)| *number < covered);
        let durable: Vec<(u64, u8)> = durable;
        self.cached = rest;
        self.durable = durable.last().map_or(self.durable, |(_, value)| *value);
    }
}

/// Runs random requests of two queues on a disk, beside a word of memory. Returns the world, its queues, and the contents
/// that the definition allows.
fn random_run(seed: u64) -> (World, Vec<Box<dyn Queue>>, [BTreeSet<u8>; 3]) {
    let world = World::new(LyingMemory::new(64, Model::MAPPED), [disk().deferring(seed)]);
    let mut queues: Vec<Box<dyn Queue>> = (0..2).map(|_| world.disk(0).as_ref().queue().unwrap().unwrap()).collect();
    let (mut sectors, mut ended, mut flushes) = (vec![ReferenceSector::default(); 2], 0u64, Vec::new());
    let mut word = BTreeSet::from([0u8]);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % bound
    };
    for value in 1..=14u8 {
        let token = u64::from(value);
        let at = below(2);
        let queue = &mut queues[below(2) as usize];
        match below(8) {
            0 => {
                store(world.memory(), 0, token, false);
                word.insert(value);
            }
            1 => {
                store(world.memory(), 0, token, true);
                word = BTreeSet::from([value]);
            }
            2 | 3 => {
                let access = if below(3) == 0 { Access::Fua } else { Access::Cached };
                let buffer = vec![value; SECTOR as usize];
                let request = Request { token, op: Op::Write(access), span: Span::new(at * SECTOR, SECTOR), buffer };
                assert!(queue.submit(request).is_none());
                let key = token | u64::from(access == Access::Fua) << 32;
                sectors[at as usize].in_flight.push((key, value));
            }
            4 => {
                flushes.push((token, ended));
                let request = Request { token, op: Op::Flush, span: Span::new(0, 0), buffer: Vec::new() };
                assert!(queue.submit(request).is_none());
            }
            _ => {
                let mut done = Vec::new();
                queue.collect(if below(2) == 0 { Wait::No } else { Wait::Forever }, &mut done).unwrap();
                for completion in done {
                    completion.result.unwrap();
                    if let Some(place) = flushes.iter().position(|(token, _)| *token == completion.token) {
                        let covered = flushes.remove(place).1;
                        sectors.iter_mut().for_each(|sector| sector.flush(covered));
                        continue;
                    }
                    for sector in &mut sectors {
                        let is_it = |(key, _): &(u64, u8)| key & 0xffff_ffff == completion.token;
                        let Some(place) = sector.in_flight.iter().position(is_it) else { continue };
                        let (key, value) = sector.in_flight.remove(place);
                        match key >> 32 {
                            0 => sector.cached.push((ended, value)),
                            _ => (sector.durable, sector.cached) = (value, Vec::new()),
                        }
                        ended += 1;
                    }
                }
            }
        }
    }
    world.memory().forget_trace();
    let allowed = [word, sectors[0].allowed(), sectors[1].allowed()];
    (world, queues, allowed)
}

/// CW2, CL1, CL2, Q3: an exhaustive exploration gives every combination of the allowed contents once and no other, with
/// requests of two queues in flight. Sampling and crashes by seed give only allowed ones.
#[test]
fn cw2_images_are_those_that_the_rules_allow() {
    let (first, mut largest) = (seed(), 0);
    for seed in first..first + 400 {
        let (world, _queues, allowed) = random_run(seed);
        let found =
            |memory: &dyn Memory, disk: &LyingDisk| [memory.load_word(0) as u8, sector(disk, 0), sector(disk, 1)];
        let explored = |options: &ExploreOptions| {
            let mut seen = BTreeSet::new();
            let report = explore(world.memory(), options, |crash| {
                seen.insert(found(&crash.memory(), &crash.disk(0)));
                Ok(())
            });
            (seen, report.assert_clean().images)
        };
        let (seen, images) = explored(&ExploreOptions::default());
        let is_allowed = |image: &[u8; 3]| image.iter().zip(&allowed).all(|(value, allowed)| allowed.contains(value));
        assert!(seen.iter().all(is_allowed), "seed {seed}: {seen:?}, {allowed:?}");
        let expected = allowed.iter().map(BTreeSet::len).product::<usize>();
        assert_eq!((seen.len(), images), (expected, expected as u64), "seed {seed}: {seen:?}, {allowed:?}");
        let sampling =
            ExploreOptions { images_per_point_max: 0, samples_per_point: 30, seed, ..ExploreOptions::default() };
        assert!(explored(&sampling).0.is_subset(&seen), "seed {seed}");
        assert!((0..4).all(|crash| seen.contains(&found(&**world.crash(crash).memory(), world.crash(crash).disk(0)))));
        largest = largest.max(expected);
    }
    assert!(largest >= 24, "{largest} images in the largest");
}

/// CW2: what is in flight at a crash lands in any order and any part.
#[test]
fn requests_in_flight_leave_any_part() {
    let world = World::new(LyingMemory::new(64, Model::MAPPED), [disk().deferring(3)]);
    let mut queue = world.disk(0).as_ref().queue().unwrap().unwrap();
    for (token, span, value) in [(1, Span::new(0, 2 * SECTOR), 1), (2, Span::new(SECTOR, SECTOR), 2)] {
        let buffer = vec![value; span.len as usize];
        assert!(queue.submit(Request { token, op: Op::Write(Access::Cached), span, buffer }).is_none());
    }
    let zeroed = Op::Zero(ferrite_disk::Zeroing::default());
    assert!(queue.submit(Request { token: 3, op: zeroed, span: Span::new(0, SECTOR), buffer: Vec::new() }).is_none());
    let seen = |is_kill: bool| {
        let mut seen = BTreeSet::new();
        let check = |crash: &Crash<'_>| {
            seen.insert([0, 1].map(|number| sector(&crash.disk(0), number)));
            Ok(())
        };
        let options = ExploreOptions::default();
        let report = if is_kill {
            explore_kills(world.memory(), &options, check)
        } else {
            explore(world.memory(), &options, check)
        };
        report.assert_clean();
        seen
    };
    let all = BTreeSet::from([[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]);
    assert_eq!(seen(false), all);
    assert!(seen(true).len() > 3 && seen(true).is_subset(&all), "{:?}", seen(true));
    assert_eq!(queue.in_flight(), 3);
}

/// Q1, Q2, Q4: a queue completes its own requests, each once; its descriptor is readable while a request is in flight.
#[test]
fn a_queue_completes_its_own_requests() {
    assert!(disk().queue().unwrap().is_none(), "a disk that defers nothing works in its caller's thread");
    let disk = disk().deferring(5);
    let mut queues: Vec<_> = (0..2).map(|_| disk.queue().unwrap().unwrap()).collect();
    let mut orders = BTreeSet::new();
    for _ in 0..40 {
        for token in 0..6u64 {
            let (op, span) = (Op::Write(Access::Cached), Span::new(token % 4 * SECTOR, SECTOR));
            let request = Request { token, op, span, buffer: vec![token as u8; SECTOR as usize] };
            assert!(queues[(token % 2) as usize].submit(request).is_none());
        }
        for (number, queue) in queues.iter_mut().enumerate() {
            let mut done = Vec::new();
            while queue.in_flight() > 0 {
                assert!(queue.collect(Wait::Forever, &mut done).unwrap() > 0);
            }
            assert!(done.iter().all(|done| done.buffer == vec![done.token as u8; SECTOR as usize]));
            orders.insert((number, done.iter().map(|done| done.token).collect::<Vec<_>>()));
        }
    }
    assert_eq!(orders.len(), 2 * 6, "{orders:?}");
    let mut reader = UnixStream::from(queues[0].descriptor().try_clone_to_owned().unwrap());
    reader.set_nonblocking(true).unwrap();
    assert_eq!(reader.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    let request = Request { token: 0, op: Op::Flush, span: Span::new(0, 0), buffer: Vec::new() };
    assert!(queues[0].submit(request).is_none());
    assert_eq!(reader.read(&mut [0]).unwrap(), 1);
}

/// Appends to a log in memory and on a disk, and recovers after the death of the process: the next process acknowledges what
/// it found. If `makes_durable`, it persists that first.
fn recovered_after_death(makes_durable: bool) -> CrashReport {
    let world = world(Model::MAPPED, 64);
    for value in 1..=2 {
        store(world.memory(), 0, u64::from(value), false);
        put(world.disk(0), 0, value, Access::Cached);
        world.memory().mark(u64::from(value));
    }
    explore_kills(world.memory(), &ExploreOptions::default(), |crash| {
        let next = crash.world();
        let found = |memory: &dyn Memory, disk: &LyingDisk| [memory.load_word(0), u64::from(sector(disk, 0))];
        let first = found(&**next.memory(), next.disk(0));
        let completed = crash.last_mark().unwrap_or(0);
        if first.iter().any(|found| !(completed..=completed + 1).contains(found)) {
            return Err(format!("CW3: {first:?} is visible after {completed}"));
        }
        if makes_durable {
            next.memory().persist(Span::new(0, 8)).map_err(|error| error.to_string())?;
            next.disk(0).flush().map_err(|error| error.to_string())?;
        }
        next.memory().mark(1);
        let again = explore(next.memory(), &ExploreOptions::default(), |crash| {
            let now = found(&crash.memory(), &crash.disk(0));
            let is_kept = !crash.has_mark(1) || now == first;
            if is_kept { Ok(()) } else { Err(format!("{first:?} was found, and then {now:?}")) }
        });
        again.failure.map_or(Ok(()), |failure| Err(failure.to_string()))
    })
}

/// CW3: after the death of a process everything visible stays, and a power failure later may still lose it.
#[test]
fn cw3_death_of_the_process_leaves_all_that_was_visible() {
    recovered_after_death(true).assert_clean();
}

#[test]
fn canary_a_next_process_that_believes_without_flushing_is_caught() {
    let report = recovered_after_death(false);
    assert!(report.expect_failure().error.contains("was found, and then"), "{report:?}");
}

/// CW3, in long runs: a death by seed keeps visible bytes, and a crash by seed after it may lose them.
#[test]
fn a_death_and_a_crash_by_seed() {
    let world = world(Model::MAPPED, 64);
    store(world.memory(), 0, 7, false);
    put(world.disk(0), 1, 7, Access::Cached);
    let next = world.kill(1);
    let found = |world: &World| [world.memory().load_word(0) as u8, sector(world.disk(0), 1)];
    assert_eq!(found(&next), [7, 7]);
    let after: BTreeSet<[u8; 2]> = (0..60).map(|seed| found(&next.crash(seed))).collect();
    assert_eq!(after, BTreeSet::from([[0, 0], [0, 7], [7, 0], [7, 7]]));
}

/// A failure in a world prints the options that replay it alone, and the last events of all its parts.
#[test]
fn a_failure_of_a_world_is_replayed_alone() {
    for images_per_point_max in [1 << 16, 1] {
        let options = ExploreOptions { images_per_point_max, seed: 4, ..ExploreOptions::default() };
        let report = drain(Model::MAPPED, OrderBug::Reversed, &options);
        let failure = report.expect_failure();
        let again = drain(Model::MAPPED, OrderBug::Reversed, &ExploreOptions { only: Some(failure.place), ..options });
        assert_eq!((again.images, &again.expect_failure().error), (1, &failure.error));
        assert!(failure.to_string().contains("disk 0: begin to change 512 bytes"), "{failure}");
    }
}
