//! The calculation compared with memories that are replayed write by write (definition 6 of the cache).

use super::*;

const ENDURANCE: u64 = 40_000;

fn wear(levelling: Levelling) -> WearModel {
    WearModel { levelling, endurance: ENDURANCE, period: 4, seed: 7 }
}

/// Returns one run of a program, shorter than a round, spread evenly: line n is written `writes[n]` times.
fn program(writes: &[u64]) -> Vec<usize> {
    let mut at: Vec<(u64, usize)> = Vec::new();
    for (line, count) in writes.iter().enumerate() {
        at.extend((0..*count).map(|n| ((2 * n + 1) * 1_000_000 / (2 * count), line)));
    }
    at.sort_unstable();
    at.into_iter().map(|(_, line)| line).collect()
}

/// Replays start-gap as its authors drew it: N lines in N + 1 places, the gap moves down one place each `period`
/// writes.
fn replayed_start_gap(wear: WearModel, writes: &[u64]) -> f64 {
    let lines = writes.len();
    let (mut start, mut gap, mut since, mut done) = (0, lines, 0, 0_u64);
    let mut worn = vec![0; lines + 1];
    let program = program(writes);
    for line in program.iter().cycle() {
        let place = (line + start) % lines;
        let place = place + usize::from(place >= gap);
        worn[place] += 1;
        done += 1;
        since += 1;
        let mut failed = worn[place] >= wear.endurance;
        if since == wear.period {
            since = 0;
            let to = gap;
            gap = if gap == 0 { lines } else { gap - 1 };
            start = if gap == lines { (start + 1) % lines } else { start };
            worn[to] += 1;
            failed |= worn[to] >= wear.endurance;
        }
        if failed {
            break;
        }
    }
    done as f64 / program.len() as f64
}

/// Replays rounds of `lines * period` writes, each under its key, with a copy of every line.
fn replayed_refresh(wear: WearModel, writes: &[u64]) -> f64 {
    let places = writes.len().next_power_of_two();
    let (mut random, mut worn, mut done) = (SplitMix(wear.seed), vec![0; places], 0_u64);
    let program = program(writes);
    let mut lines = program.iter().cycle();
    'life: loop {
        let key = random.next() as usize & (places - 1);
        for _ in 0..places as u64 * wear.period {
            let place = lines.next().expect("it goes on") ^ key;
            worn[place] += 1;
            done += 1;
            if worn[place] >= wear.endurance {
                break 'life;
            }
        }
        worn.iter_mut().for_each(|count| *count += 1);
    }
    done as f64 / program.len() as f64
}

fn programs() -> [Vec<u64>; 6] {
    let skewed = (0..120).map(|line| if line == 5 { 100 } else { line % 3 }).collect();
    [
        vec![3; 2],
        vec![1, 2, 9, 0, 4],
        vec![3; 64],
        skewed,
        (0..128).map(|line| line / 32).collect(),
        [vec![50; 4], vec![1; 100]].concat(),
    ]
}

/// The search from both sides finds the same round as bisection, for any shape of the curve.
#[test]
fn the_last_survived_round_is_found() {
    let mut random = SplitMix(7);
    for case in 0..2000_u64 {
        let (slope, noise, most) = (1 + random.next() % 1000, random.next() % 5000, 2 + random.next() % 1_000_000);
        let wear = |rounds: u64| u128::from(rounds * slope + (rounds % 97) * (noise / 97).min(slope));
        let worst = |rounds: u64| (0..97.min(rounds + 1)).map(|back| wear(rounds - back)).max().unwrap_or(0);
        let limit = 1 + u128::from(random.next() % (most * slope));
        let found = last_survived(most, limit, worst);
        assert!(found == 0 || worst(found) < limit, "case {case}");
        assert!(found + 1 == most || worst(found + 1) >= limit, "case {case}: {found} of {most}");
    }
}

#[test]
fn rounds_added_at_once_wear_as_rounds_replayed() {
    for writes in programs() {
        for levelling in [Levelling::StartGap, Levelling::SecurityRefresh] {
            let wear = wear(levelling);
            let (ours, replayed) = match levelling {
                Levelling::StartGap => (wear.runs(&writes), replayed_start_gap(wear, &writes)),
                _ => (wear.runs(&writes), replayed_refresh(wear, &writes)),
            };
            let off = ours / replayed - 1.0;
            assert!(off.abs() < 0.01, "{levelling:?} {writes:?}: {ours} runs, replayed {replayed}");
        }
    }
}

#[test]
fn without_levelling_the_line_written_most_decides() {
    assert_eq!(wear(Levelling::None).runs(&[1, 80, 3]), 500.0);
    assert!(wear(Levelling::StartGap).runs(&[]).is_infinite());
    assert!(wear(Levelling::SecurityRefresh).runs(&[0, 0]).is_infinite());
}

/// A smaller endurance would mislead: too few rounds fit for a hot line to be levelled.
#[test]
fn levelling_needs_a_real_endurance() {
    let mut writes = vec![1; 4096];
    writes[77] = 100_000;
    let at = |endurance| {
        let gain = |levelling| WearModel { levelling, endurance, ..WearModel::default() }.runs(&writes);
        gain(Levelling::RandomizedStartGap) / gain(Levelling::None)
    };
    assert!(at(100_000_000) > 900.0, "{}", at(100_000_000));
    assert!(at(100_000) < 5.0, "{}", at(100_000));
}

#[test]
fn a_permutation_keeps_every_count() {
    let writes: Vec<u64> = (0..1000).collect();
    let mut back = shuffled(&writes, 3);
    assert_ne!(back, writes);
    back.sort_unstable();
    assert_eq!(back, writes);
}
