//! Which words of a node of a tree of names are to name which page.
//!
//! The words that name a page are one aligned block, which holds all its names (FN1). So the names and the undamaged
//! words show what a damaged word was: the right blocks hold the most names, and of those change the fewest words. A
//! page has at most one block, around its middle name, so a name at a wrong place does not move the block.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;

/// A page of a directory, of names or of further words, that words of a node name.
pub(super) struct PageOwner {
    pub word: u64,
    /// It is of further words, which one word names.
    pub is_node: bool,
    /// In which words its names lie.
    pub names: Vec<usize>,
    /// The word that its block is around; `None` where it can have none in this node.
    pub middle: Option<usize>,
}

/// Blocks side by side.
struct BlockMatch {
    /// Names that are found.
    found: usize,
    /// Words that change.
    changed: usize,
    words: Vec<u64>,
}

/// Returns what `words` should be. A word that names none of `owners`, and lies in no owner's block, stays.
pub(super) fn right(words: &[u64], owners: &[PageOwner]) -> Vec<u64> {
    let named: BTreeSet<u64> = owners.iter().map(|owner| owner.word).collect();
    let cleared: Vec<u64> = words.iter().map(|word| if named.contains(word) { 0 } else { *word }).collect();
    best(words, &cleared, &owners.iter().collect::<Vec<_>>(), 0..words.len()).words
}

/// The best of `block`, given what `words` are, and what they are if they are in no block.
fn best(words: &[u64], cleared: &[u64], owners: &[&PageOwner], block: Range<usize>) -> BlockMatch {
    let is_here = |owner: &&&PageOwner| owner.middle.is_some_and(|middle| block.contains(&middle));
    let here: Vec<&PageOwner> = owners.iter().filter(is_here).copied().collect();
    let (own, len) = (&words[block.clone()], block.len());
    let blocks = |found, words: Vec<u64>| {
        let changed = words.iter().zip(own).filter(|(new, old)| new != old).count();
        BlockMatch { found, changed, words }
    };
    // One whose it all is need not be compared with parts of it.
    let is_whole = here.len() == 1 && own.iter().all(|word| *word == here[0].word);
    let parts = if len == 1 || here.is_empty() || is_whole && !here[0].is_node {
        blocks(0, cleared[block.clone()].to_vec())
    } else {
        let half = block.start + len / 2;
        let [low, high] = [block.start..half, half..block.end].map(|half| best(words, cleared, &here, half));
        blocks(low.found + high.found, [low.words, high.words].concat())
    };
    let may_be = here.iter().filter(|owner| len == 1 || !owner.is_node);
    let wholes = may_be
        .map(|owner| blocks(owner.names.iter().filter(|name| block.contains(name)).count(), vec![owner.word; len]));
    // Of what is equally good, the one page.
    let all = std::iter::once(parts).chain(wholes);
    all.max_by_key(|blocks| (blocks.found, Reverse(blocks.changed))).expect("there is one at least")
}
