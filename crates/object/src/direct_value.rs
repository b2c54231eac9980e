//! Direct update: a small value in persistent memory, durable when `set` returns, old or new after a crash.
//!
//! ```text
//! MAP page   | slot 0: lines of 64 | slot 1 | zeros |
//! slot       0 crc u32   4 zeros u32   8 sequence u64   16 value   then zeros up to a multiple of 64
//! ```
//!
//! - DU1. Value number n is in slot n mod 2; the previous one is in the other slot, durable, and not touched. So after
//!   any crash one slot has a whole value.
//! - DU2. The value is in the slot that verifies and has the greater sequence. A torn value does not verify, so one
//!   fence is enough.
//! - DU3. Opening makes the value durable before it returns it, and makes the other slot verify too. Then a crash in
//!   the next update cannot bring back an older value.
//! - DU4. A slot that does not verify is the rest of an update that had not returned. If neither verifies, and they are
//!   not both new, the value is damaged, and opening reports it.
//! - DU5. After a failed persist nothing is set until the object is opened again.

use std::marker::PhantomData;
use std::sync::Arc;

use ferrite_memory::{Latch, Memory, Scheme, Span, crc32};
use ferrite_pool::holding::TagLease;
use ferrite_pool::{ChangeGate, Freeze, Role, SEQUENCE_BOUND, Stream, Tag};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::object_counts::ObjectOp;
use crate::object_label::{ObjectForm, ObjectLabel, PAGE};
use crate::{Error, Result};

/// The bytes before the value.
const HEADER: usize = 16;
/// The largest value in bytes: two of them fill a page.
pub const VALUE_BYTES_MAX: usize = PAGE as usize / 2 - HEADER;

#[derive(Debug)]
struct ValueState {
    /// The current slot as it lies on the medium.
    image: Vec<u8>,
    /// The next slot, while it is built.
    draft: Vec<u8>,
    sequence: u64,
}

/// Plain bytes of a fixed length, updated in place.
#[derive(Debug)]
pub struct DirectBytes {
    holding: TagLease,
    at: u64,
    salt: u32,
    value_bytes: usize,
    scheme: Scheme,
    state: Latch<ValueState>,
    gate: ChangeGate,
}

/// Returns the bytes of a slot for a value of `value_bytes`.
fn slot_bytes(value_bytes: usize) -> usize {
    (HEADER + value_bytes).next_multiple_of(64)
}

/// Returns the label of such an object.
pub(crate) fn label(type_name: &str, value_bytes: usize) -> Result<ObjectLabel> {
    if value_bytes == 0 {
        return Err(Error::Refused("a value that is updated in place has one byte at least".into()));
    }
    if value_bytes > VALUE_BYTES_MAX {
        let (bytes, bytes_max) = (value_bytes as u64, VALUE_BYTES_MAX as u64);
        return Err(Error::TooLarge { what: "a value that is updated in place", bytes, bytes_max });
    }
    ObjectLabel::new(ObjectForm::Direct, type_name, value_bytes as u64)
}

/// The slots as they lie on the medium.
struct ValueSlots {
    images: [Vec<u8>; 2],
    /// The sequences of the slots that verify.
    sequences: [Option<u64>; 2],
}

impl ValueSlots {
    fn load(memory: &dyn Memory, at: u64, salt: u32, value_bytes: usize) -> Self {
        let load = |slot: u64| {
            let mut image = vec![0; slot_bytes(value_bytes)];
            memory.load(at + slot * image.len() as u64, &mut image);
            image
        };
        let images = [load(0), load(1)];
        let sequences = [0, 1].map(|slot| sequence(&images[slot], salt).filter(|found| found % 2 == slot as u64));
        Self { images, sequences }
    }

    /// Returns the slot with the value (DU2).
    fn newest(&self) -> Option<usize> {
        (0..2).filter(|slot| self.sequences[*slot].is_some()).max_by_key(|slot| self.sequences[*slot])
    }

    fn are_new(&self) -> bool {
        self.images.iter().flatten().all(|byte| *byte == 0)
    }
}

fn crc(salt: u32, image: &[u8]) -> u32 {
    crc32(salt, &image[8..])
}

fn sequence(image: &[u8], salt: u32) -> Option<u64> {
    let (head, rest) = image.split_first_chunk::<8>()?;
    let sequence = u64::from_le_bytes(*rest.first_chunk()?);
    let wanted = u64::from(crc(salt, image)).to_le_bytes();
    (*head == wanted && sequence > 0).then_some(sequence)
}

fn seal(image: &mut [u8], salt: u32, sequence: u64) {
    image[8..16].copy_from_slice(&sequence.to_le_bytes());
    let crc = u64::from(crc(salt, image));
    image[..8].copy_from_slice(&crc.to_le_bytes());
}

/// Returns the fault of the value in `tag`: its name, its place, and true if it is damage, or false if a crash left it.
pub(crate) fn check(
    memory: &dyn Memory,
    uuid: &[u8; 16],
    tag: &Tag,
    label: &ObjectLabel,
) -> Option<(&'static str, u64, bool)> {
    let page = Stream::new(&tag.extents, Role::MAP).locate(0).filter(|page| page.len >= PAGE);
    let value_bytes = usize::try_from(label.value_bytes).ok().filter(|bytes| (1..=VALUE_BYTES_MAX).contains(bytes));
    let (Some(page), Some(value_bytes)) = (page, value_bytes) else { return Some(("its layout", 0, true)) };
    let slots = ValueSlots::load(memory, page.at, crate::salt(uuid, tag.generation), value_bytes);
    if slots.sequences.iter().flatten().any(|sequence| *sequence >= SEQUENCE_BOUND) {
        return Some(("the sequence of its value, which no value reaches", page.at, true));
    }
    match slots.newest() {
        None if !slots.are_new() => Some(("both copies of its value", page.at, true)),
        Some(newest) if slots.sequences[1 - newest].is_none() && slots.sequences[newest] != Some(1) => {
            let at = page.at + (1 - newest as u64) * slot_bytes(value_bytes) as u64;
            Some(("one of the two copies of its value: an update was cut off, or was lost", at, false))
        }
        _ => None,
    }
}

impl DirectBytes {
    /// Opens the held value; a value that was never set becomes `initial`.
    pub(crate) fn open(holding: TagLease, label: &ObjectLabel, initial: &[u8], scheme: Scheme) -> Result<Arc<Self>> {
        label.ensure(&holding)?;
        scheme.ensure_available()?;
        let tag = holding.tag();
        let salt = crate::salt(&holding.uuid(), tag.generation);
        if let Some((what, at, true)) = check(holding.memory(), &holding.uuid(), &tag, label) {
            return Err(Error::Damaged { name: tag.name.clone(), what: what.into(), at });
        }
        let at = holding.stream(Role::MAP).locate(0).map_or(0, |page| page.at);
        let slots = ValueSlots::load(holding.memory(), at, salt, initial.len());
        let newest = slots.newest();
        let image = newest.map_or_else(|| vec![0; slot_bytes(initial.len())], |newest| slots.images[newest].clone());
        let sequence = newest.and_then(|newest| slots.sequences[newest]).unwrap_or(0);
        let state = Latch::new(ValueState { draft: image.clone(), image, sequence });
        let value_bytes = initial.len();
        let value = Arc::new(Self { holding, at, salt, value_bytes, scheme, state, gate: ChangeGate::default() });
        let service: Arc<dyn Freeze> = value.clone();
        value.holding.register_freezer(Arc::downgrade(&service));
        match newest {
            Some(newest) => value.persist_found(newest, slots.sequences[1 - newest].is_none())?,
            None => value.set(initial)?,
        }
        Ok(value)
    }

    /// Makes the found value durable, and copies it with the next sequence if only one slot verifies (DU3).
    fn persist_found(&self, newest: usize, is_alone: bool) -> Result<()> {
        let (slot_bytes, memory) = (slot_bytes(self.value_bytes) as u64, self.holding.memory());
        self.holding.check_poison()?;
        memory.flush(Span::new(self.at + newest as u64 * slot_bytes, slot_bytes));
        self.holding.drain()?;
        if is_alone {
            let value = self.get();
            self.set(&value)?;
        }
        Ok(())
    }

    /// Returns the object's name.
    pub fn name(&self) -> String {
        self.holding.tag().name.clone()
    }

    /// Returns the bytes of the value.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Refuses a length other than the value's.
    ///
    /// # Errors
    /// [`Error::WrongLength`].
    pub fn ensure_len(&self, bytes: usize) -> Result<()> {
        let (bytes, value_bytes) = (bytes as u64, self.value_bytes as u64);
        if bytes == value_bytes { Ok(()) } else { Err(Error::WrongLength { bytes, value_bytes }) }
    }

    /// Returns the value, which is durable.
    pub fn get(&self) -> Vec<u8> {
        self.state.lock().image[HEADER..HEADER + self.value_bytes].to_vec()
    }

    /// Copies the value into `out`, which must have the same length.
    pub fn copy_to(&self, out: &mut [u8]) {
        out.copy_from_slice(&self.state.lock().image[HEADER..HEADER + self.value_bytes]);
    }

    /// Sets the value; durable on return, and after a crash all or nothing.
    ///
    /// # Errors
    /// [`Error::WrongLength`] for a length other than [`DirectBytes::value_bytes`]; also the errors of any change of an
    /// object: see [`Error`].
    pub fn set(&self, value: &[u8]) -> Result<()> {
        let timing = ObjectOp::Change.begin(&self.holding);
        let mut state = self.gate.pass(|| self.state.lock());
        let done = self.set_locked(&mut state, value);
        timing.end(&self.holding, value.len(), done)
    }

    /// Changes the value in one step: no thread reads or sets another one in between. An error of `change` leaves the
    /// value. `change` must not use the store otherwise, like the plan of [`crate::Bundle::change`].
    ///
    /// # Errors
    /// The errors of `change`, and the errors of any change of an object: see [`Error`].
    pub fn update<T>(&self, change: impl FnOnce(&mut [u8]) -> Result<T>) -> Result<T> {
        let timing = ObjectOp::Change.begin(&self.holding);
        let mut state = self.gate.pass(|| self.state.lock());
        self.holding.check_poison()?;
        let ValueState { image, draft, .. } = &mut *state;
        draft.copy_from_slice(image);
        let result = change(&mut draft[HEADER..HEADER + self.value_bytes])?;
        let done = self.commit(&mut state);
        timing.end(&self.holding, self.value_bytes, done)?;
        Ok(result)
    }

    #[inline]
    fn set_locked(&self, state: &mut ValueState, value: &[u8]) -> Result<()> {
        self.holding.check_poison()?;
        self.ensure_len(value.len())?;
        state.draft[HEADER..HEADER + self.value_bytes].copy_from_slice(value);
        self.commit(state)
    }

    /// Makes the value in the draft the next one (DU1).
    fn commit(&self, state: &mut ValueState) -> Result<()> {
        let ValueState { image, draft, sequence, .. } = state;
        let next = *sequence + 1;
        seal(draft, self.salt, next);
        self.holding.memory().store(self.at + next % 2 * draft.len() as u64, draft, self.scheme);
        if self.scheme.is_durable_at_fence() {
            self.holding.drain()?
        } else {
            self.holding.barrier()?
        }
        *sequence = next;
        std::mem::swap(image, draft);
        Ok(())
    }
}

impl Freeze for DirectBytes {
    fn freeze(&self) {
        self.gate.close();
        drop(self.state.lock());
    }

    fn thaw(&self) {
        self.gate.open();
    }
}

/// A value of type `T`, updated in place. Its bytes on the medium are the bytes of `T` in memory: `T` should be
/// `#[repr(C)]`, with fixed-size fields.
#[derive(Clone, Debug)]
pub struct DirectValue<T> {
    bytes: Arc<DirectBytes>,
    kind: PhantomData<fn(T) -> T>,
}

impl<T: FromBytes + IntoBytes + Immutable> DirectValue<T> {
    pub(crate) fn new(bytes: Arc<DirectBytes>) -> Self {
        Self { bytes, kind: PhantomData }
    }

    /// Returns the value, which is durable.
    pub fn get(&self) -> T {
        let mut room = [0; VALUE_BYTES_MAX];
        let room = &mut room[..size_of::<T>()];
        self.bytes.copy_to(room);
        T::read_from_bytes(room).expect("the size is the type's")
    }

    /// Sets the value; durable on return, and after a crash all or nothing.
    ///
    /// # Errors
    /// The errors of any change of an object: see [`crate::Error`].
    pub fn set(&self, value: &T) -> Result<()> {
        self.bytes.set(value.as_bytes())
    }

    /// Changes the value in one step: no thread reads or sets another one in between.
    ///
    /// # Errors
    /// The errors of any change of an object: see [`crate::Error`].
    pub fn update(&self, change: impl FnOnce(&mut T)) -> Result<()> {
        self.bytes.update(|bytes| {
            let mut value = T::read_from_bytes(bytes).expect("the size is the type's");
            change(&mut value);
            bytes.copy_from_slice(value.as_bytes());
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
