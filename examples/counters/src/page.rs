//! The page of one tag of counters.

use ferrite_memory::{Memory, Scheme, Span, planted};
use ferrite_pool::layout::PAGE;
use ferrite_pool::{Failure, FailureKind, NUMBER_MAX, Role, Stream, Tag, seal, unseal};

#[cfg(test)]
mod tests;

/// Bytes of a slot.
const SLOT: u64 = 64;
/// Where the name of a slot begins.
const NAME_AT: u64 = 16;
/// Bytes of a name at most.
const NAME_BYTES: usize = (SLOT - NAME_AT) as usize;

/// The page of one tag, in the pool's memory.
pub struct CounterPage<'a> {
    memory: &'a dyn Memory,
    at: u64,
    salt: u32,
}

impl<'a> CounterPage<'a> {
    /// Returns the page of `tag`; `None` for a tag without a page.
    pub fn of(memory: &'a dyn Memory, tag: &Tag) -> Option<Self> {
        let at = Stream::new(&tag.extents, Role::DATA).locate(0)?.at;
        Some(Self { memory, at, salt: tag.generation as u32 })
    }

    fn name(&self, slot: u64) -> Option<String> {
        let mut bytes = [0; NAME_BYTES];
        self.memory.load(self.at + slot * SLOT + NAME_AT, &mut bytes);
        let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
        String::from_utf8(bytes[..len].to_vec()).ok()
    }

    fn count(&self, slot: u64) -> Option<u64> {
        unseal(self.salt, self.memory.load_word(self.at + slot * SLOT))
    }

    /// Returns each used slot: its name, or `None` if that is damaged, and its count, or `None` if that is damaged.
    pub fn slots(&self) -> impl Iterator<Item = (u64, Option<String>, Option<u64>)> {
        let all = (0..PAGE / SLOT).map(|slot| (slot, self.name(slot), self.count(slot)));
        all.filter(|(_, name, _)| name.as_ref().is_none_or(|name| !name.is_empty()))
    }

    /// Returns the counters by name; damaged ones are left out.
    pub fn counters(&self) -> Vec<(String, u64)> {
        self.slots().filter_map(|(_, name, count)| name.zip(count)).collect()
    }

    /// Adds `by` to the counter called `name`, and creates the counter if it does not exist. Returns the new count, which
    /// is durable (CN1).
    ///
    /// # Errors
    /// [`FailureKind::BadName`], [`FailureKind::Limit`] if the page is full or the count too large, [`FailureKind::Damaged`],
    /// and the failures of the memory.
    pub fn add(&self, name: &str, by: u64) -> Result<u64, Failure> {
        if name.is_empty() || name.len() > NAME_BYTES || name.contains('\0') {
            return Err(Failure::new(
                FailureKind::BadName,
                format!("{name:?} is not a name of 1 to {NAME_BYTES} bytes"),
            ));
        }
        let known = self.slots().find(|(_, known, _)| known.as_deref() == Some(name));
        let (slot, count) = match known {
            Some((slot, _, Some(count))) => (slot, count),
            Some(_) => return Err(Failure::new(FailureKind::Damaged, format!("the counter {name:?} is damaged"))),
            None => (self.make(name)?, 0),
        };
        let sum = count.checked_add(by).filter(|sum| *sum <= NUMBER_MAX);
        let sum = sum.ok_or_else(|| Failure::new(FailureKind::Limit, format!("{name:?} would pass {NUMBER_MAX}")))?;
        self.set(slot, sum)?;
        Ok(sum)
    }

    fn set(&self, slot: u64, count: u64) -> Result<(), Failure> {
        let at = self.at + slot * SLOT;
        self.memory.store_word(at, seal(self.salt, count));
        if planted!("counters: a count is returned before it is durable") {
            return Ok(());
        }
        Ok(self.memory.persist(Span::new(at, 8))?)
    }

    /// Creates a counter of zero and returns its slot (CN2, CN3).
    fn make(&self, name: &str) -> Result<u64, Failure> {
        let slot = (0..PAGE / SLOT).find(|slot| self.name(*slot).is_some_and(|known| known.is_empty()));
        let slot = slot.ok_or_else(|| Failure::new(FailureKind::Limit, "the tag has no room for one more counter"))?;
        self.set(slot, 0)?;
        let mut bytes = [0; NAME_BYTES];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        let at = self.at + slot * SLOT + NAME_AT;
        // The first byte makes the slot a used one, so it is stored last.
        self.memory.store(at + 1, &bytes[1..], Scheme::Nt);
        if !planted!("counters: the first byte of a name does not wait for the others") {
            self.memory.barrier()?;
        }
        self.memory.store(at, &bytes[..1], Scheme::Nt);
        self.memory.barrier()?;
        Ok(slot)
    }
}
