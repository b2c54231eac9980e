//! VB3 to VB8, by a model of guests that follow their targets late, stand still, come, rest and storm.

use ferrite_memory::planted::plant;

use super::*;
use crate::tests::seeded::TestChoices;

const TOTAL: u32 = 64;

fn guest(name: &str, chunks: u32, min: u32, max: u32) -> GuestUse {
    let share = GuestShare { min, max, weight: 100 };
    GuestUse { name: name.into(), chunks, share, is_used: true, is_still: false, missed: 0 }
}

/// Follows the targets at once, one chunk a step, except guests that stand still.
fn follow(budget: &MemoryBudget, guests: &mut [GuestUse]) {
    for guest in guests.iter_mut().filter(|guest| !guest.is_still) {
        let target = budget.target(&guest.name).expect("a target").chunks;
        guest.chunks = if target > guest.chunks { target } else { guest.chunks - u32::from(target < guest.chunks) };
    }
}

fn run(budget: &mut MemoryBudget, guests: &mut [GuestUse], steps: u32, mut act: impl FnMut(&mut [GuestUse])) {
    for _ in 0..steps {
        act(guests);
        budget.step(TOTAL, guests);
        follow(budget, guests);
    }
}

fn chunks(guests: &[GuestUse]) -> Vec<u32> {
    guests.iter().map(|guest| guest.chunks).collect()
}

/// Runs guests of random shares that act at random, and checks VB3, VB4 and VB8 at each step.
fn model(seed: u64) -> Result<(), String> {
    let mut choices = TestChoices(seed);
    let mut budget = MemoryBudget::default();
    let mut guests: Vec<GuestUse> = (0..5)
        .map(|at| {
            let min = 1 + choices.below(10) as u32;
            let max = min + choices.below(60) as u32;
            guest(&format!("g{at}"), min, min, max)
        })
        .collect();
    let mut total = TOTAL;
    for step in 0..400 {
        let at = choices.below(5) as usize;
        match choices.below(12) {
            0 => guests[at].is_used = !guests[at].is_used,
            1 => guests[at].is_still = !guests[at].is_still,
            2 => total = 50 + choices.below(40) as u32,
            3 => guests[at].share.weight = 1 + choices.below(500) as u32,
            _ => guests[at].missed = choices.below(3) * choices.below(1000),
        }
        let before: Vec<u32> =
            guests.iter().map(|one| budget.target(&one.name).map_or(one.chunks, |it| it.chunks)).collect();
        let given: u32 = guests.iter().map(|guest| guest.chunks).sum();
        budget.step(total, &guests);
        let targets: Vec<u32> = guests.iter().map(|guest| budget.target(&guest.name).expect("there").chunks).collect();
        let promised: u32 = guests.iter().zip(&targets).map(|(guest, target)| guest.chunks.max(*target)).sum();
        if promised > total.max(given) {
            return Err(format!("VB3: step {step}: {promised} of {total}, {given} were given"));
        }
        for ((guest, target), before) in guests.iter().zip(&targets).zip(before) {
            let floor = guest.share.min.min(guest.chunks);
            if guest.is_used && *target < floor && !guest.is_still {
                return Err(format!("VB4: step {step}: {guest:?} to {target}"));
            }
            let most = (total / 16).max(1);
            if *target > before.max(guest.chunks) + most || target + most < guest.chunks {
                return Err(format!("VB8: step {step}: {guest:?} to {target}"));
            }
        }
        // Each guest follows at some steps only.
        for (guest, target) in guests.iter_mut().zip(targets) {
            if !guest.is_still && choices.below(3) > 0 {
                guest.chunks =
                    if target > guest.chunks { target } else { guest.chunks - u32::from(target < guest.chunks) };
            }
        }
    }
    Ok(())
}

fn models() -> Result<(), String> {
    (0..300).try_for_each(model)
}

#[test]
fn vb3_vb4_vb8_no_step_gives_what_is_not_there_or_takes_a_minimum() {
    assert_eq!(models(), Ok(()));
}

#[test]
fn canary_vb3_a_promise_of_what_others_have_still_is_caught() {
    let _planted = plant("guest: the budget promises what others have not given yet");
    assert!(models().is_err_and(|why| why.contains("VB3")));
}

#[test]
fn canary_vb4_a_minimum_that_is_asked_for_is_caught() {
    let _planted = plant("guest: the budget asks for a minimum");
    assert!(models().is_err_and(|why| why.contains("VB4")));
}

#[test]
fn canary_vb8_a_step_that_moves_all_is_caught() {
    let _planted = plant("guest: a step of the budget moves all of it");
    assert!(models().is_err_and(|why| why.contains("VB8")));
}

/// A guest that storms beside one at its minimum, and one that comes back with a chunk. Returns the steps after which
/// it has its minimum again.
fn come_back() -> Option<u32> {
    let mut budget = MemoryBudget::default();
    let mut guests = [guest("calm", 8, 8, 32), guest("storm", 54, 4, 64), guest("back", 1, 20, 40)];
    guests[2].is_used = false;
    let storm = |guests: &mut [GuestUse]| guests[1].missed = 10_000;
    run(&mut budget, &mut guests, 50, storm);
    assert_eq!(chunks(&guests), [8, 55, 1], "the minimum of the calm guest stays, the storm has all else");
    guests[2].is_used = true;
    (0..100).find(|_| {
        run(&mut budget, &mut guests, 1, storm);
        assert!(guests[0].chunks == 8);
        guests[2].chunks == 20
    })
}

#[test]
fn vb4_a_storm_takes_no_minimum() {
    assert!(come_back().is_some_and(|steps| steps < 30), "{:?}", come_back());
}

#[test]
fn canary_vb4_demand_before_minima_is_caught() {
    let _planted = plant("guest: the budget serves demand before minima");
    assert!(come_back().is_none_or(|steps| steps >= 30), "{:?}", come_back());
}

/// One guest stands still with most of the memory, and another stops to answer: a third one gets what is left.
fn beside_a_stopped_one(is_known: bool) -> Vec<u32> {
    let mut budget = MemoryBudget::default();
    let mut guests = [guest("stopped", 40, 1, 64), guest("other", 20, 1, 64), guest("storm", 4, 1, 64)];
    guests[0].is_still = is_known;
    for _ in 0..200 {
        guests[2].missed = 100;
        budget.step(TOTAL, &guests);
        let stopped = guests[0].chunks;
        follow(&budget, &mut guests);
        guests[0].chunks = stopped;
    }
    chunks(&guests)
}

#[test]
fn vb5_no_guest_waits_for_a_stopped_one() {
    assert_eq!(beside_a_stopped_one(true), [40, 1, 23]);
    assert_eq!(beside_a_stopped_one(false), [40, 1, 23]);
}

#[test]
fn canary_vb5_counting_on_a_stopped_guest_is_caught() {
    let _planted = plant("guest: the budget counts on a guest that stands still");
    assert_ne!(beside_a_stopped_one(false), [40, 1, 23]);
}

fn flow_of_a_detached_one() -> Vec<u32> {
    let mut budget = MemoryBudget::default();
    let mut guests = [guest("detached", 32, 16, 32), guest("fixed", 8, 8, 8), guest("busy", 8, 4, 64)];
    (guests[0].is_used, guests[1].is_used) = (false, false);
    run(&mut budget, &mut guests, 50, |_| ());
    assert_eq!(chunks(&guests), [32, 8, 8], "no guest wants the chunks");
    run(&mut budget, &mut guests, 200, |guests| guests[2].missed = 5);
    chunks(&guests)
}

#[test]
fn vb6_the_memory_of_a_guest_at_rest_flows_to_others_that_want_it() {
    assert_eq!(flow_of_a_detached_one(), [1, 8, 55]);
}

#[test]
fn canary_vb6_a_guest_at_rest_that_keeps_its_memory_is_caught() {
    let _planted = plant("guest: a guest at rest keeps its memory");
    assert_ne!(flow_of_a_detached_one(), [1, 8, 55]);
}

/// Two guests whose demand alternates with each step. Returns the changes of their chunks in 64 steps.
fn swaps() -> u32 {
    let mut budget = MemoryBudget::default();
    let mut guests = [guest("a", 32, 1, 64), guest("b", 32, 1, 64)];
    let (mut step, mut changes) = (0, 0);
    for _ in 0..64 {
        step += 1;
        (guests[step % 2].missed, guests[(step + 1) % 2].missed) = (100_000, 0);
        let before = chunks(&guests);
        run(&mut budget, &mut guests, 1, |_| ());
        changes += before.iter().zip(chunks(&guests)).map(|(before, after)| before.abs_diff(after)).sum::<u32>();
    }
    changes
}

#[test]
fn vb7_chunks_are_not_swapped_back_at_once() {
    assert!(swaps() <= 64, "{}", swaps());
}

#[test]
fn canary_vb7_swapping_at_once_is_caught() {
    let _planted = plant("guest: the budget swaps chunks back at once");
    assert!(swaps() > 64, "{}", swaps());
}

/// Of two storming guests each gets a part by its weight, and by its maximum.
#[test]
fn memory_is_divided_by_weight_and_demand() {
    let divided = |weights: [u32; 2], demands: [u64; 2], max: u32| {
        let mut budget = MemoryBudget::default();
        let mut guests = [guest("a", 4, 4, max), guest("b", 4, 4, 64)];
        (guests[0].share.weight, guests[1].share.weight) = (weights[0], weights[1]);
        run(&mut budget, &mut guests, 300, |guests| (guests[0].missed, guests[1].missed) = (demands[0], demands[1]));
        chunks(&guests)
    };
    assert_eq!(divided([100, 100], [500, 500], 64), [32, 32]);
    assert_eq!(divided([300, 100], [500, 500], 64), [46, 18]);
    assert_eq!(divided([100, 100], [100, 300], 64), [18, 46]);
    assert_eq!(divided([300, 100], [500, 500], 10), [10, 54]);
}

/// A smaller budget is reached, also if it is below the minima.
#[test]
fn vb3_a_smaller_budget_is_reached() {
    let mut budget = MemoryBudget::default();
    let mut guests = [guest("a", 40, 4, 64), guest("b", 24, 8, 64)];
    for _ in 0..100 {
        budget.step(16, &guests);
        follow(&budget, &mut guests);
    }
    assert_eq!(chunks(&guests).iter().sum::<u32>(), 16);
}

/// A guest that is about to be used gets a large minimum in one step, unless another guest holds the chunks.
#[test]
fn vb3_a_minimum_is_promised_at_once_if_no_guest_holds_it() {
    for (held, promised) in [(24, 40), (25, 4)] {
        let mut budget = MemoryBudget::default();
        budget.step(TOTAL, &[guest("a", held, 1, 64), guest("new", 0, 40, 40)]);
        budget.promise_minimum("new", 40, TOTAL);
        assert_eq!(budget.target("new").expect("there").chunks, promised);
    }
}

#[test]
fn the_largest_numbers_do_not_overflow() {
    let mut budget = MemoryBudget::default();
    let mut guests: Vec<GuestUse> = (0..4).map(|at| guest(&format!("g{at}"), 1, 1, u32::MAX)).collect();
    guests[0].missed = 10;
    guests[1].share.min = u32::MAX;
    (0..3).for_each(|_| budget.step(u32::MAX, &guests));
    budget.promise_minimum("g1", u32::MAX, u32::MAX);
    guests[1].share.min = 1;
    (0..3).for_each(|_| budget.step(u32::MAX, &guests));
}
