//! Long runs of a program and the engine, with a crash at the end of each part.

use ferrite_crash::{World, rounds, seed};

use super::guest_rig::{GuestShape, MOMENTS, check_world};
use crate::DemotionPolicy;

/// A generator of test choices (SplitMix64).
pub(crate) struct TestChoices(pub u64);

impl TestChoices {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % bound
    }
}

/// Runs 60 acts of a program on the guest of `world`, from version `from` on. Returns the marks.
fn act(shape: GuestShape, world: &World, choices: &mut TestChoices, from: u64, demotion: DemotionPolicy) -> Vec<u64> {
    let rig = shape.open(world).expect("it opens");
    rig.engine.set_demotion(demotion);
    let mut marks = Vec::new();
    let mut put = |page: u64, version| {
        rig.put(page, version);
        marks.push(super::guest_rig::value_of(page, version));
    };
    for version in from..from + 60 {
        let page = choices.below(shape.pages);
        match choices.below(8) {
            0 => drop(rig.engine.step().expect("nothing fails")),
            1 => drop(rig.load(page)),
            2 => rig.store(page, version),
            3 => {
                let moment = MOMENTS[choices.below(5) as usize];
                rig.at(moment, move |rig| rig.try_put(page, version));
            }
            _ => put(page, version),
        }
    }
    rig.versions().expect("sound before the crash");
    marks
}

/// Runs a program with crash after crash on more pages than there are frames, which leave by `demotion`.
fn crash_after_crash(demotion: DemotionPolicy) {
    for round in 0..rounds(6) {
        let seed = seed() + round;
        println!("seed {seed}");
        let mut choices = TestChoices(seed);
        let shape = GuestShape { frames: 16, pages: 48, ..GuestShape::default() };
        let mut world = shape.world();
        world.memory().keep_trace(false);
        for part in 0..4 {
            let marks = act(shape, &world, &mut choices, 1 + part * 60, demotion);
            world = match part % 2 {
                0 => world.crash(seed + part),
                _ => world.kill(seed + part),
            };
            world.memory().keep_trace(false);
            check_world(shape, &world.crash(seed), &marks).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
}

/// VR1 to VR8 over long runs of more pages, runs of several pages, and crash after crash.
#[test]
fn vr1_to_vr8_crash_after_crash_keeps_every_page() {
    crash_after_crash(DemotionPolicy::default());
}

/// VR1, VR4, VR5: the same if each run has a flush of its own, and frames are free behind it.
#[test]
fn vr1_vr4_vr5_crash_after_crash_keeps_every_page_without_batches_and_copies() {
    crash_after_crash(DemotionPolicy { batch_pages: 1, keeps_copies: false });
}
