//! Replays the corpora of fuzz/corpus, and variants of valid input made from a seed, on a stable toolchain.
//!
//! `FERRITE_SEED` chooses other variants, `FERRITE_ROUNDS` how many of each valid input.

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use ferrite_fuzz::{FuzzTarget, TARGETS};

const ROUNDS: u64 = 1000;

fn corpus(target: &FuzzTarget) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(target.name)
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name}={value} is no number")))
}

/// Runs one input; a panic of the target becomes one that says how to reproduce it.
fn run(target: &FuzzTarget, input: &[u8], origin: &str) {
    if catch_unwind(|| (target.run)(input)).is_err() {
        let found = std::env::temp_dir().join(format!("ferrite-{}-found", target.name));
        std::fs::write(&found, input).expect("the finding can be kept");
        panic!("{origin} breaks `{}`; the bytes are in {}: add them to fuzz/corpus", target.name, found.display());
    }
}

/// The xorshift64* generator: sufficient to choose variants, the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// Makes a few changes of the kinds that decoders get wrong: extreme numbers, flipped bits, cut and repeated parts.
fn vary(input: &[u8], random: &mut Random) -> Vec<u8> {
    const EXTREMES: [u8; 4] = [0, 1, 0x7f, 0xff];
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        let end = (at + 1 + random.below(8)).min(bytes.len());
        match random.below(5) {
            0 => bytes[at..end].iter_mut().take(1).for_each(|byte| *byte ^= 1 << (at % 8)),
            1 => bytes[at..end].fill(EXTREMES[random.below(4)]),
            2 => bytes.truncate(at),
            3 => bytes.extend_from_within(at..end),
            _ => bytes[at..end].iter_mut().for_each(|byte| *byte = random.next() as u8),
        }
    }
    bytes
}

#[test]
fn every_corpus_is_survived() {
    for target in &TARGETS {
        let files =
            std::fs::read_dir(corpus(target)).unwrap_or_else(|error| panic!("{}: {error}", corpus(target).display()));
        let mut replayed = 0;
        for path in files.map(|file| file.expect("the folder can be read").path()) {
            run(target, &std::fs::read(&path).expect("the file can be read"), &path.display().to_string());
            replayed += 1;
        }
        assert!(
            replayed > 0,
            "the corpus of `{}` is empty: a target that nothing is replayed for guards nothing",
            target.name
        );
    }
}

#[test]
fn variants_of_valid_input_are_survived() {
    let (seed, rounds) = (number("FERRITE_SEED", 1), number("FERRITE_ROUNDS", ROUNDS));
    println!("seed {seed}, {rounds} rounds: FERRITE_SEED={seed} cargo test -p ferrite-fuzz");
    for target in &TARGETS {
        for (which, valid) in (target.seeds)().iter().enumerate() {
            run(target, valid, &format!("valid input {which}"));
            let mut random = Random((seed ^ which as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            for round in 0..rounds {
                run(target, &vary(valid, &mut random), &format!("seed {seed}, valid input {which}, round {round}"));
            }
        }
    }
}

#[test]
fn a_decoder_that_panics_is_caught() {
    let broken = FuzzTarget { name: "canary", run: |data| assert!(data.len() < 3, "planted"), seeds: Vec::new };
    assert!(catch_unwind(|| run(&broken, b"long", "canary")).is_err(), "the harness would miss a real one");
}
