//! The word of an object: a number beside the head of its log, changed by one store.
//!
//! ```text
//! MAP page   | line 0: head of the log | line 1: the checked word; 0 if it was never stored | zeros |
//! ```

use ferrite_memory::{Memory, Span};
use ferrite_pool::holding::TagLease;
use ferrite_pool::{Role, SEQUENCE_BOUND, Stream, Tag, out_of_bounds, seal, unseal};

use crate::{Error, Result, salt};

/// Offset of the word in the MAP stream.
const AT: u64 = 64;

/// A part that does not verify: its name, and its offset in the pool.
pub(crate) type Flaw = (String, u64);

/// Returns the offset of the word in the pool.
pub(crate) fn place(tag: &Tag) -> Result<u64, Flaw> {
    let run = Stream::new(&tag.extents, Role::MAP).locate(AT).filter(|run| run.len >= 8);
    run.map(|run| run.at).ok_or_else(|| ("its layout".into(), 0))
}

/// Reads the number in the word of the object in `tag`, if it has one.
pub(crate) fn read(memory: &dyn Memory, tag: &Tag, salt: u32) -> Result<Option<u64>, Flaw> {
    let at = place(tag)?;
    match memory.load_word(at) {
        0 => Ok(None),
        word => match unseal(salt, word) {
            Some(number) if number >= SEQUENCE_BOUND => Err((out_of_bounds("its word", number), at)),
            Some(number) => Ok(Some(number)),
            None => Err(("its word".into(), at)),
        },
    }
}

/// Reads the word of the held object, and makes it durable first: a killed process may have left it only visible.
pub(crate) fn load(holding: &TagLease) -> Result<Option<u64>> {
    let tag = holding.tag();
    let damaged = |(what, at)| Error::Damaged { name: tag.name.clone(), what, at };
    let found = read(holding.memory(), &tag, salt(&holding.uuid(), tag.generation)).map_err(damaged)?;
    holding.check_poison()?;
    holding.persist(Span::new(place(&tag).map_err(damaged)?, 8))?;
    Ok(found)
}

/// Stores `number`, durable on return.
pub(crate) fn store(holding: &TagLease, number: u64) -> Result<()> {
    let tag = holding.tag();
    let at = place(&tag).map_err(|(what, at)| Error::Damaged { name: tag.name.clone(), what, at })?;
    holding.memory().store_word(at, seal(salt(&holding.uuid(), tag.generation), number));
    Ok(holding.persist(Span::new(at, 8))?)
}
