//! The superblock: the identity and state of the pool, in two slots of which the newer valid one is used.
//!
//! A change is written twice, as two generations. Once it is acknowledged both slots have it, and either may be
//! damaged.
//!
//! - S1. Generation g is in slot g mod 2. So a change overwrites the generation before the current one, and a crash
//!   during it leaves the current one.
//! - S2. A slot is valid only if its magic, version and checksum are right.
//! - S3. The current slot is made durable before the other one is written: a killed process may have left it visible
//!   only, and a power failure would then lose both.
//! - S4. Acknowledged changes are in both slots. So if a crash or damage makes the newer slot unreadable, the other one
//!   has the last acknowledged state or a newer one.

use ferrite_memory::{ByteCount, Memory, Scheme, Span};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::bounds::{GENERATION_BOUND, out_of_bounds};
use crate::layout::{PAGE, POOL_BYTES_MIN, SUPERBLOCKS};
use crate::{Error, Result};

const MAGIC: [u8; 8] = *b"FERRITE\0";
/// The newest format version that this program reads.
pub const VERSION: u32 = 2;
/// The format version of a new pool.
pub(crate) const FIRST_VERSION: u32 = 1;
/// The bound of the stored generation: generations of tags start at the superblock's times 2^32.
const GENERATIONS: u64 = u32::MAX as u64;

/// The state of the pool when the superblock was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolState {
    /// The pool was closed in order and needs no recovery.
    Clean = 0,
    /// The pool is open, or its owner died.
    Open = 1,
    /// A restore into the pool has begun and not finished.
    Restoring = 2,
}

/// The decoded superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The format version: 2 once a member slot with a tie was written, else 1.
    pub version: u32,
    /// The number of changes of the superblock.
    pub generation: u64,
    /// The UUID of the pool.
    pub uuid: [u8; 16],
    /// The size of the pool in bytes. Memory beyond it is not used.
    pub size: u64,
    /// The state of the pool.
    pub state: PoolState,
    /// The boot of the machine that opened the pool last.
    pub boot_id: [u8; 16],
    /// In state [`PoolState::Restoring`] the image that is being restored, else zeros.
    pub image: [u8; 16],
    /// Fingerprint of the medium that the pool's user trusts ([`ferrite_memory::Survival::fingerprint`]), or 0.
    pub trusted: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct SuperblockMedia {
    magic: [u8; 8],
    version: U32,
    crc: U32,
    generation: U64,
    uuid: [u8; 16],
    size: U64,
    state: U32,
    trusted: U32,
    boot_id: [u8; 16],
    image: [u8; 16],
}

const _: () = assert!(size_of::<SuperblockMedia>() == 88);

impl Superblock {
    /// Reads the newer valid slot of `memory`. Writes nothing.
    ///
    /// # Errors
    /// [`Error::Version`] if a slot belongs to a newer program, [`Error::NotAPool`] or [`Error::Corrupt`] if neither
    /// slot is valid, [`Error::Truncated`] if the memory is smaller than the pool.
    pub fn read(memory: &dyn Memory) -> Result<Self> {
        Self::ensure_room(memory.size())?;
        let slots = SUPERBLOCKS.map(|at| Self::read_slot(memory, at));
        let found = match slots {
            [Ok(a), Ok(b)] => Ok(if b.generation > a.generation { b } else { a }),
            [Err(error @ Error::Version { .. }), _] | [_, Err(error @ Error::Version { .. })] => Err(error),
            [Ok(one), Err(_)] | [Err(_), Ok(one)] => Ok(one),
            [Err(Error::NotAPool(_)), Err(other)] | [Err(other), Err(_)] => Err(other),
        }?;
        if found.size > memory.size() {
            return Err(Error::Truncated { expected: found.size, found: memory.size() });
        }
        Ok(found)
    }

    /// Refuses a generation from which later ones cannot be counted.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for such a generation.
    pub(crate) fn ensure_bounded(&self) -> Result<()> {
        if self.generation < GENERATION_BOUND {
            return Ok(());
        }
        Err(Error::corrupt(out_of_bounds("the superblock's generation", self.generation), self.slot()))
    }

    /// Refuses a size that is too small for a pool. A smaller file may be too small to map.
    ///
    /// # Errors
    /// [`Error::NotAPool`] for such a size.
    pub fn ensure_room(bytes: u64) -> Result<()> {
        if bytes < POOL_BYTES_MIN {
            let (has, least) = (ByteCount(bytes), ByteCount(POOL_BYTES_MIN));
            return Err(Error::NotAPool(format!("it has {has}, the smallest pool has {least}")));
        }
        Ok(())
    }

    fn read_slot(memory: &dyn Memory, at: u64) -> Result<Self> {
        let mut bytes = [0; size_of::<SuperblockMedia>()];
        memory.load(at, &mut bytes);
        let found = Self::decode(&bytes).map_err(|error| match error {
            Error::Corrupt { what, .. } => Error::Corrupt { what, at },
            other => other,
        })?;
        if found.slot() != at {
            return Err(Error::corrupt("the superblock's generation", at));
        }
        Ok(found)
    }

    /// Returns the byte offset of the slot of this generation (S1).
    fn slot(&self) -> u64 {
        SUPERBLOCKS[(self.generation % 2) as usize]
    }

    /// Decodes one slot. `bytes` may be anything.
    ///
    /// # Errors
    /// [`Error::NotAPool`], [`Error::Version`] and [`Error::Corrupt`] for bytes that are not a valid slot.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let Ok((media, _)) = SuperblockMedia::read_from_prefix(bytes) else {
            return Err(Error::NotAPool("it is too short".into()));
        };
        if media.magic != MAGIC {
            return Err(Error::NotAPool("the magic number is missing".into()));
        }
        if media.crc.get() != media.checksum() {
            return Err(Error::corrupt("the superblock", 0));
        }
        if !(1..=VERSION).contains(&media.version.get()) {
            return Err(Error::Version { found: media.version.get(), known: VERSION });
        }
        let state = match media.state.get() {
            0 => PoolState::Clean,
            1 => PoolState::Open,
            2 => PoolState::Restoring,
            _ => return Err(Error::corrupt("the superblock's state", 0)),
        };
        if media.size.get() < POOL_BYTES_MIN {
            return Err(Error::corrupt("the superblock's size", 0));
        }
        if media.generation.get() >= GENERATIONS {
            return Err(Error::corrupt("the superblock's generation", 0));
        }
        Ok(Self {
            version: media.version.get(),
            generation: media.generation.get(),
            uuid: media.uuid,
            size: media.size.get(),
            state,
            boot_id: media.boot_id,
            image: media.image,
            trusted: media.trusted.get(),
        })
    }

    /// Returns the bytes of a slot.
    pub fn encode(&self) -> Vec<u8> {
        let mut media = SuperblockMedia {
            magic: MAGIC,
            version: self.version.into(),
            crc: 0.into(),
            generation: self.generation.into(),
            uuid: self.uuid,
            size: self.size.into(),
            state: (self.state as u32).into(),
            trusted: self.trusted.into(),
            boot_id: self.boot_id,
            image: self.image,
        };
        media.crc = media.checksum().into();
        media.as_bytes().to_vec()
    }

    /// Writes the superblock as the next two generations, one in each slot, durable on return (S1, S3, S4). After an
    /// error `self` has the newest durable generation.
    ///
    /// # Errors
    /// [`Error::Medium`] if a persist fails.
    pub fn advance(&mut self, memory: &dyn Memory) -> Result<()> {
        memory.persist(Span::new(self.slot(), PAGE))?;
        for _slot in SUPERBLOCKS {
            let next = Self { generation: self.generation + 1, ..self.clone() };
            memory.store(next.slot(), &next.encode(), Scheme::Nt);
            memory.drain()?;
            *self = next;
        }
        Ok(())
    }

    /// Clears both slots, durable on return. The memory holds no pool until [`Superblock::advance`].
    pub(crate) fn wipe(memory: &dyn Memory) -> Result<()> {
        memory.zero(Span::new(SUPERBLOCKS[0], 2 * PAGE), Scheme::Nt);
        Ok(memory.drain()?)
    }
}

impl SuperblockMedia {
    fn checksum(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.as_bytes()[..12]);
        hasher.update(&self.as_bytes()[16..]);
        hasher.finalize()
    }
}

#[cfg(test)]
mod tests;
