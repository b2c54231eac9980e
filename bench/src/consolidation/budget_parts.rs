//! The parts of a budget that guests with fixed shares get.

use ferrite_pool::layout::CHUNK;

/// Returns the bytes of each guest: whole chunks of `budget` bytes in proportion to the pages in `used`, one chunk at least.
/// All together are the budget, unless that has fewer chunks than there are guests.
pub fn budget_parts(budget: u64, used: &[u64]) -> Vec<u64> {
    let chunks = budget / CHUNK;
    let all = used.iter().sum::<u64>().max(1);
    let mut parts: Vec<u64> = used.iter().map(|pages| (chunks * pages / all).max(1)).collect();
    // What rounding left goes to those that got the least of what they use.
    while parts.iter().sum::<u64>() < chunks {
        let lacks = |at: &usize| used[*at] as f64 / parts[*at] as f64;
        let most = (0..parts.len()).max_by(|one, other| lacks(one).total_cmp(&lacks(other)));
        most.into_iter().for_each(|at| parts[at] += 1);
    }
    while parts.iter().sum::<u64>() > chunks
        && let Some(largest) = (0..parts.len()).filter(|at| parts[*at] > 1).max_by_key(|at| parts[*at])
    {
        parts[largest] -= 1;
    }
    parts.into_iter().map(|part| part * CHUNK).collect()
}

#[cfg(test)]
mod tests;
