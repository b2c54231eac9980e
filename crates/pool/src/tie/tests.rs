//! Proofs of TE1 to TE5: every image of a lying memory with every image of a lying disk, at one instant, and every older copy
//! of the pool's side with every later object.

use std::cell::Cell;
use std::collections::BTreeSet;

use ferrite_crash::{Crash, CrashReport, LyingDisk, LyingMemory, Model, World, explore, explore_kills};
use ferrite_disk::{Access, Disk, Geometry};
use ferrite_memory::planted::plant;
use ferrite_memory::{Memory, Result, Span};

use super::*;
use crate::tests::support::options;

const IDENTITY: [u8; 16] = [7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0];
const CURRENT: u64 = 0;
const PREVIOUS: u64 = 64;
const LOG: u64 = 128;
const SECTOR: usize = 512;
const ROUNDS: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// TE1: the object is stamped before the pool's side.
    ObjectFirst,
    /// TE3: the pool's side does not keep the generation before.
    PreviousForgotten,
    /// TE3: the pool's side keeps the generation before when the move is over.
    PreviousKept,
    /// TE1: the pool's side is stored and not made durable.
    FenceLeftOut,
    /// TE2: the stamp is written and not made durable.
    FlushLeftOut,
    /// TE4: both histories of one copy use the same numbers.
    NonceForgotten,
}

/// A pool that logs values, and an object that they are applied to. A log of `base` to `value` may be applied to an object
/// that has one of these, and to no other.
struct TiedPair {
    world: World,
    bug: Bug,
    held: Cell<Option<Generation>>,
}

impl PoolSide for TiedPair {
    type Error = ferrite_memory::Error;

    fn load(&self) -> Result<Tie> {
        let tie = tie_of(|at| self.memory().load_word(at)).unwrap();
        Ok(Tie { current: self.held.get().unwrap_or(tie.current), ..tie })
    }

    fn set_current(&self, current: Generation) -> Result<()> {
        match self.bug {
            Bug::ObjectFirst => self.held.set(Some(current)),
            Bug::PreviousForgotten => {
                self.put(PREVIOUS, current.number())?;
                self.put(CURRENT, current.number())?;
            }
            _ => self.put(CURRENT, current.number())?,
        }
        Ok(())
    }

    fn set_previous(&self, previous: Option<Generation>) -> Result<()> {
        let is_settling = previous == Some(self.load()?.current);
        match self.bug {
            Bug::PreviousKept if is_settling => Ok(()),
            _ => self.put(PREVIOUS, previous.map_or(0, Generation::number)),
        }
    }
}

impl TieEnds for TiedPair {
    fn read(&self) -> Result<Option<TieStamp>> {
        Ok(stamp_of(&self.disk().snapshot()))
    }

    fn write(&self, stamp: &TieStamp) -> Result<()> {
        let mut sector = [0; SECTOR];
        sector[72..92].copy_from_slice(&stamp.encode(TieRole::Sqlite));
        self.disk().write(0, &sector, Access::Cached)?;
        if self.bug != Bug::FlushLeftOut {
            self.disk().flush()?;
        }
        self.held.take().map_or(Ok(()), |current| self.put(CURRENT, current.number()))
    }
}

fn tie_of(word: impl Fn(u64) -> u64) -> Option<Tie> {
    let previous = word(PREVIOUS);
    let previous = if previous == 0 { None } else { Some(Generation::of(previous)?) };
    Some(Tie { identity: IDENTITY, current: Generation::of(word(CURRENT))?, previous })
}

fn stamp_of(image: &[u8]) -> Option<TieStamp> {
    TieStamp::decode(TieRole::Sqlite, image[72..92].try_into().unwrap())
}

fn page_of(image: &[u8]) -> u64 {
    u64::from(image[SECTOR])
}

impl TiedPair {
    fn new(model: Model, bug: Bug) -> Self {
        let geometry = Geometry {
            size: 2 * SECTOR as u64,
            sector_bytes: SECTOR as u32,
            atomic_bytes: SECTOR as u32,
            preferred_bytes: SECTOR as u32,
            volatile_cache: true,
            read_only: false,
            trim: false,
            identity: [0; 16],
        };
        let world = World::new(LyingMemory::new(256, model), [LyingDisk::new(geometry)]);
        let pair = Self { world, bug: Bug::None, held: Cell::new(None) };
        let first = Tie::new(IDENTITY, 1);
        pair.memory().store_word(CURRENT, first.current.number());
        pair.memory().persist(Span::new(0, 256)).unwrap();
        attach(&pair).unwrap();
        pair.memory().forget_trace();
        Self { bug, ..pair }
    }

    fn memory(&self) -> &LyingMemory {
        self.world.memory()
    }

    fn disk(&self) -> &LyingDisk {
        self.world.disk(0)
    }

    fn put(&self, at: u64, number: u64) -> Result<()> {
        self.memory().store_word(at, number);
        self.memory().flush(Span::new(at, 8));
        if self.bug == Bug::FenceLeftOut { Ok(()) } else { self.memory().drain() }
    }

    fn set_log(&self, base: u64, value: u64) {
        self.memory().store_word(LOG, base << 32 | value);
        self.memory().persist(Span::new(LOG, 8)).unwrap();
    }

    /// Logs a value, applies it to the object, and begins a new log.
    fn round(&self, value: u64, nonce: u16) {
        self.set_log(value - 1, value);
        let nonce = if self.bug == Bug::NonceForgotten { 0 } else { nonce };
        assert!(advance(self, nonce).unwrap().is_good());
        self.disk().write(SECTOR as u64, &[value as u8; SECTOR], Access::Cached).unwrap();
        self.disk().flush().unwrap();
        self.set_log(value, value);
    }

    /// Checks every image that a crash may leave, and every older pool with a later object. The error says what is
    /// wrong.
    fn judge(&self) -> std::result::Result<(), String> {
        let (mut pools, mut objects) = (BTreeSet::new(), BTreeSet::new());
        let mut check = |crash: &Crash<'_>| {
            let instant = crash.place().point;
            let words = [CURRENT, PREVIOUS, LOG].map(|at| crash.load_word(at));
            let tie = tie_of(|at| words[(at / 64) as usize]).ok_or("TE4: no generation")?;
            let image = crash.disk(0).snapshot();
            let (stamp, page) = (stamp_of(&image).ok_or("TE2: no stamp")?, page_of(&image));
            pools.insert((instant, words));
            objects.insert((instant, stamp.generation, page));
            let verdict = compare(&tie, Some(&stamp));
            if !verdict.is_good() {
                return Err(format!("TE1, TE3: {verdict:?} of {tie:?} and {stamp:?}"));
            }
            if !can_apply(words[2], page) {
                return Err(format!("TE2: a log of {:x} with a page of {page}", words[2]));
            }
            Ok(())
        };
        let options = options(1 << 10, 150);
        let reports: [CrashReport; 2] =
            [explore(self.memory(), &options, &mut check), explore_kills(self.memory(), &options, &mut check)];
        for report in reports {
            println!("{:?}: {report}", self.bug);
            report.assert_exhaustive();
            report.failure.map_or(Ok(()), |failure| Err(failure.to_string()))?;
        }
        for (then, words) in &pools {
            let (tie, log) = (tie_of(|at| words[(at / 64) as usize]).expect("it was looked at"), words[2]);
            for (now, generation, page) in &objects {
                let stamp = TieStamp { identity: IDENTITY, generation: *generation };
                // An older copy taken while the object changed is not distinguished from the object of that generation
                // at rest.
                let is_at_rest = page + 1 == generation.count();
                let is_told = now >= then || *generation != tie.current && is_at_rest;
                if is_told && compare(&tie, Some(&stamp)).is_good() && !can_apply(log, *page) {
                    return Err(format!("TE2, TE3: a log of {log:x} at {then} for a page of {page} at {now}"));
                }
            }
        }
        Ok(())
    }
}

/// Returns true if the log `log`, which has a base and a value, may be applied to an object of `page`.
fn can_apply(log: u64, page: u64) -> bool {
    (log >> 32..=log & 0xff).contains(&page)
}

/// Finishes what the death of a process left at each instant, and crashes that.
fn finished(model: Model, finish: fn(&TiedPair)) -> CrashReport {
    let pair = TiedPair::new(model, Bug::None);
    pair.round(1, 77);
    explore_kills(pair.memory(), &options(1 << 10, 150), |crash| {
        let next = TiedPair { world: crash.world(), bug: Bug::None, held: Cell::new(None) };
        // As services do with the memory that they find.
        next.memory().persist(Span::new(0, 256)).unwrap();
        finish(&next);
        let report = explore(next.memory(), &options(1 << 10, 150), |crash| {
            let tie = tie_of(|at| crash.load_word(at)).ok_or("TE4: no generation")?;
            let stamp = stamp_of(&crash.disk(0).snapshot());
            let verdict = compare(&tie, stamp.as_ref());
            if verdict.is_good() { Ok(()) } else { Err(format!("TE3: {verdict:?} of {tie:?} and {stamp:?}")) }
        });
        report.assert_exhaustive();
        report.failure.map_or(Ok(()), |failure| Err(failure.to_string()))
    })
}

const FINISHES: [fn(&TiedPair); 2] =
    [|pair| assert!(advance(pair, 5).unwrap().is_good()), |pair| assert!(attach(pair).is_ok())];

#[test]
fn te3_a_move_of_a_killed_process_is_finished_at_every_crash() {
    for (model, finish) in Model::ALL.into_iter().flat_map(|model| FINISHES.map(|finish| (model, finish))) {
        finished(model, finish).assert_clean();
    }
}

#[test]
fn canary_a_stamp_that_is_visible_and_not_durable_is_caught() {
    let _planted = plant("tie: a stamp that is not durable is believed");
    for (model, finish) in Model::ALL.into_iter().flat_map(|model| FINISHES.map(|finish| (model, finish))) {
        finished(model, finish).expect_failure();
    }
}

fn run(model: Model, bug: Bug) -> std::result::Result<(), String> {
    let pair = TiedPair::new(model, bug);
    (1..=ROUNDS).for_each(|round| pair.round(round, round as u16 * 77));
    pair.judge()
}

#[test]
fn te1_te2_te3_crash_leaves_two_sides_that_go_together_and_no_older_log_for_a_newer_object() {
    for model in Model::ALL {
        run(model, Bug::None).unwrap();
    }
}

#[test]
fn canary_an_object_stamped_before_the_pools_side_is_caught() {
    assert!(Model::ALL.into_iter().all(|model| run(model, Bug::ObjectFirst).is_err()));
}

#[test]
fn canary_a_previous_generation_forgotten_or_kept_is_caught() {
    for bug in [Bug::PreviousForgotten, Bug::PreviousKept] {
        assert!(Model::ALL.into_iter().all(|model| run(model, bug).is_err()), "{bug:?}");
    }
}

#[test]
fn canary_a_fence_or_a_flush_left_out_is_caught() {
    for bug in [Bug::FenceLeftOut, Bug::FlushLeftOut] {
        assert!(Model::ALL.into_iter().all(|model| run(model, bug).is_err()), "{bug:?}");
    }
}

/// Two copies of one pool go on, each with a copy of the object. Then one copy meets the object of the other.
fn forked(bug: Bug) -> TieVerdict {
    let [one, other] = [1, 2].map(|nonce| {
        let pair = TiedPair::new(Model::MAPPED, bug);
        pair.round(1, nonce);
        pair
    });
    compare(&one.load().unwrap(), other.read().unwrap().as_ref())
}

#[test]
fn te4_histories_that_began_with_one_copy_are_told_apart() {
    assert_eq!(forked(Bug::None), TieVerdict::Diverged);
}

#[test]
fn canary_a_forgotten_nonce_makes_two_histories_one() {
    assert_eq!(forked(Bug::NonceForgotten), TieVerdict::Same);
}

#[test]
fn te5_a_mismatch_is_told_and_neither_side_is_written() {
    let g = |count: u64, nonce: u64| Generation::of(count << 16 | nonce).unwrap();
    let tie = Tie { identity: IDENTITY, current: g(5, 1), previous: Some(g(4, 9)) };
    let stamp = |generation| Some(TieStamp { identity: IDENTITY, generation });
    let other = Some(TieStamp { identity: [8; 16], generation: g(5, 1) });
    let cases = [
        (stamp(g(5, 1)), TieVerdict::Same),
        (stamp(g(4, 9)), TieVerdict::Unfinished),
        (stamp(g(6, 1)), TieVerdict::ObjectLater),
        (stamp(g(4, 8)), TieVerdict::PoolLater),
        (stamp(g(3, 9)), TieVerdict::PoolLater),
        (stamp(g(5, 2)), TieVerdict::Diverged),
        (other, TieVerdict::OtherIdentity),
        (None, TieVerdict::Absent),
    ];
    for (stamp, verdict) in cases {
        assert_eq!(compare(&tie, stamp.as_ref()), verdict, "{stamp:?}");
        let pair = TiedPair::new(Model::MAPPED, Bug::None);
        pair.memory().store_word(CURRENT, tie.current.number());
        pair.memory().store_word(PREVIOUS, tie.previous.unwrap().number());
        pair.disk().write(0, &[0; SECTOR], Access::Cached).unwrap();
        if let Some(stamp) = &stamp {
            pair.write(stamp).unwrap();
        }
        let before = (pair.memory().snapshot(), pair.disk().snapshot());
        assert_eq!(advance(&pair, 3).unwrap(), verdict);
        assert_eq!((pair.memory().snapshot(), pair.disk().snapshot()) == before, !verdict.is_good(), "{verdict:?}");
    }
    assert_eq!(compare(&Tie::new(IDENTITY, 3), None), TieVerdict::Unfinished);
}

#[test]
fn records_and_stamps_are_read_back_and_any_changed_bit_is_noticed() {
    let generation = Generation::of(9 << 16 | 3).unwrap();
    let stamp = TieStamp { identity: IDENTITY, generation };
    let bytes = stamp.encode(TieRole::Sqlite);
    assert_eq!(TieStamp::decode(TieRole::Sqlite, &bytes), Some(stamp));
    assert_eq!(TieStamp::decode(TieRole::Image, &bytes), None);
    assert_eq!(TieStamp::decode(TieRole::Sqlite, &[0; STAMP_BYTES]), None);
    for bit in 0..STAMP_BYTES * 8 {
        let mut changed = bytes;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(TieStamp::decode(TieRole::Sqlite, &changed), None, "bit {bit}");
    }
    for previous in [None, Some(generation), Some(Generation::first(4))] {
        let record = TieRecord { role: TieRole::Ssd, pool: [1; 16], object: [2; 16], generation, previous };
        let bytes = record.encode();
        assert_eq!(TieRecord::decode(&bytes), Some(record));
        for bit in 0..RECORD_BYTES * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(TieRecord::decode(&changed), None, "bit {bit}");
        }
    }
    assert!([0, 0xffff, u64::MAX, 1 << 52].into_iter().all(|number| Generation::of(number).is_none()));
}
