//! Caches as lists, written as the definitions say and no faster.

use super::{PolicyChoice, naive_worth};
use crate::cache::CacheEvent;

/// The counts of a naive cache.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub read_misses: u64,
    pub write_misses: u64,
    pub hits: u64,
    /// Lines in the order of their writebacks during the run, then the remaining ones, sorted.
    pub written: Vec<u64>,
}

/// Lines from the most to the least recent, and whether they are dirty.
type Recency = Vec<(u64, bool)>;

/// Runs a policy. Every set is a list of partitions, one if the policy has no partitions.
pub fn run(choice: PolicyChoice, sets: u64, ways: usize, events: &[CacheEvent]) -> Counted {
    let (partitions, protected) = match choice {
        PolicyChoice::Lru => (1, ways),
        PolicyChoice::Protect { protected } => (1, protected as usize),
        PolicyChoice::Partitioned { partitions, protected } => (partitions as usize, protected as usize),
        PolicyChoice::Worth => return naive_worth::run(sets, ways, events),
    };
    let mut cache: Vec<Vec<Recency>> = vec![vec![Vec::new(); partitions]; sets as usize];
    let mut counted = Counted::default();
    for event in events {
        let (line, is_write) = (event.line(), event.is_write());
        let set = &mut cache[(line % sets) as usize];
        if let Some(part) = set.iter_mut().find(|part| part.iter().any(|one| one.0 == line)) {
            let at = part.iter().position(|one| one.0 == line).expect("found");
            let (_, dirty) = part.remove(at);
            part.insert(0, (line, dirty || is_write));
            counted.hits += 1;
            continue;
        }
        *(if is_write { &mut counted.write_misses } else { &mut counted.read_misses }) += 1;
        let preferred = (line / sets) as usize % partitions;
        let chosen = choose(set, preferred, ways / partitions, protected);
        let part = &mut set[chosen];
        if part.len() == ways / partitions {
            let at = clean(part, protected).unwrap_or(part.len() - 1);
            let (left, dirty) = part.remove(at);
            counted.written.extend(dirty.then_some(left));
        }
        part.insert(0, (line, is_write));
    }
    let mut left: Vec<u64> = cache.iter().flatten().flatten().filter(|one| one.1).map(|one| one.0).collect();
    left.sort_unstable();
    counted.written.extend(left);
    counted
}

/// Returns the least recent clean line that is not protected.
fn clean(part: &Recency, protected: usize) -> Option<usize> {
    (protected..part.len()).rev().find(|at| !part[*at].1)
}

/// Returns the partition that takes a line.
fn choose(set: &[Recency], preferred: usize, ways: usize, protected: usize) -> usize {
    let takes = |part: &Recency| part.len() < ways || clean(part, protected).is_some();
    if takes(&set[preferred]) {
        return preferred;
    }
    let room = |part: &Recency| ways - part.iter().filter(|one| one.1).count();
    let most = set.iter().filter(|part| takes(part)).map(room).max();
    set.iter().position(|part| takes(part) && Some(room(part)) == most).unwrap_or(preferred)
}

/// Tries every choice of intervals: the bound by definition, of a few writes of one set.
pub fn fewest(ways: usize, events: &[CacheEvent]) -> u64 {
    let writes: Vec<u64> = events.iter().filter(|event| event.is_write()).map(|event| event.line()).collect();
    let next = |at: usize| writes[at + 1..].iter().position(|line| *line == writes[at]).map(|more| at + 1 + more);
    let intervals: Vec<(usize, usize)> = (0..writes.len()).filter_map(|at| next(at).map(|end| (at, end))).collect();
    let fits = |chosen: u32| {
        let of = || intervals.iter().enumerate().filter(move |(n, _)| chosen >> n & 1 != 0).map(|(_, one)| *one);
        (0..writes.len()).all(|at| of().filter(|(from, to)| (*from..*to).contains(&at)).count() <= ways)
    };
    let most = (0..1_u32 << intervals.len()).filter(|chosen| fits(*chosen)).map(u32::count_ones).max();
    writes.len() as u64 - u64::from(most.unwrap_or(0))
}

/// Definition 1: returns the events that a first level passes on for `events`, and its writebacks when it is drained. A
/// set is its lines from the most to the least recent, each with its signature and whether it is dirty.
pub fn first_level(sets: u64, ways: usize, events: &[CacheEvent]) -> Vec<CacheEvent> {
    let mut through = Vec::new();
    let mut all = vec![Vec::<CacheEvent>::new(); sets as usize];
    for event in events {
        let set = &mut all[(event.line() % sets) as usize];
        let here = set.iter().position(|one| one.line() == event.line()).map(|at| set.remove(at));
        if here.is_none() {
            let gone = (set.len() == ways).then(|| set.pop()).flatten();
            through.extend(gone.filter(|gone| gone.is_write()));
            through.push(CacheEvent::new(event.line(), false, event.signature()));
        }
        set.insert(0, here.filter(|_| !event.is_write()).unwrap_or(*event));
    }
    through.extend(all.iter().flat_map(|set| set.iter().rev().copied().filter(|one| one.is_write())));
    through
}
