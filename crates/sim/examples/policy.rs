//! A policy beside LRU: `cargo run --release -p ferrite-sim --example policy -- TRACE`.
//!
//! This policy evicts the least recent clean line, but never the most recent line of a set: crude, and forty lines.

use ferrite_sim::TraceInput;
use ferrite_sim::cache::policy::{LineMiss, Lru, Policy};
use ferrite_sim::cache::{Bank, BankCounts, BankGeometry, CacheEvent, CacheShape, Rank, Set, least_recent};
use ferrite_sim::trace::{self, EventSource, FirstLevel, FirstLevelFilter, TraceOptions};

struct CleanFirst;

impl Policy for CleanFirst {
    fn victim<S: Set>(&mut self, set: &S, _: LineMiss) -> Rank {
        least_recent(set.clean(1..16)).unwrap_or(15)
    }
}

fn run<P: Policy>(events: &[CacheEvent], geometry: BankGeometry, policy: impl Fn() -> P) -> BankCounts {
    let mut banks: Vec<Bank<P>> = (0..geometry.banks()).map(|_| Bank::new(geometry, policy())).collect();
    events.iter().for_each(|event| banks[geometry.bank(event.line())].run(&[*event]));
    banks.iter_mut().for_each(Bank::drain);
    let mut sum = BankCounts::default();
    banks.iter().for_each(|bank| sum += bank.counts());
    sum
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args_os().nth(1).ok_or("name a trace")?;
    let reader = trace::open(TraceInput::open(file.as_ref())?, TraceOptions { form: None, line_bits: 6, cores: 1 })?;
    let shape = |bytes, ways| CacheShape { bytes, ways, line_bytes: 64 };
    let mut source =
        FirstLevelFilter::new(reader, FirstLevel { shape: shape(64 << 10, 2), cores: 1, instructions: false })?;
    let (mut events, geometry) = (Vec::new(), BankGeometry::of(shape(2 << 20, 16))?);
    while source.read(&mut events)? {}
    for (name, counts) in
        [("lru", run(&events, geometry, || Lru { ways: 16 })), ("clean first", run(&events, geometry, || CleanFirst))]
    {
        println!("{name}: {} misses, {} writebacks", counts.read_misses + counts.write_misses, counts.writebacks);
    }
    Ok(())
}
