//! Ties: the links between a pool and objects outside of it, such as database files, backup images and drives.
//!
//! ```text
//! pool's side    current, previous          object's side    stamp: identity, generation
//!
//!                current   previous   stamp
//!   settled      g         g          g
//!   advance 1    h         g          g      the pool's side is durable
//!           2    h         g          h      the object's side is durable
//!           3    h         h          h      settled; the caller now changes the object
//!
//! record  0 magic "FTIE"   4 crc u32   8 version u16   10 role u16   12 state u32 (1 settled, 2 moving)
//!         16 pool [16]   32 object [16]   48 generation u64   56 previous u64 (0: no stamp)             64 bytes
//! stamp   0 identity u64   8 generation u64   16 check u32: crc of magic, role, identity, generation    20 bytes
//! generation  bits 0..16 nonce   16..52 count, at least 1
//! ```
//!
//! A tie has one identity, which is random and drawn when the tie is made. Before the object changes in a way that makes an
//! older copy of the pool wrong, the caller advances the tie. One caller at a time advances a tie.
//!
//! - TE1. [`advance`] makes the pool's side durable before it stamps the object: no object is later than its own pool.
//! - TE2. The object's stamp is durable before [`advance`] returns: the caller's later writes are never under an older
//!   stamp.
//! - TE3. The pool's side keeps the previous generation until the object's stamp is durable, and no longer. So a crash
//!   leaves an object of the current or the previous generation. After the move, [`compare`] detects an older copy of
//!   the object. The stamp of a move that did not end is written again first: a killed process may have left it visible
//!   and not durable.
//! - TE4. Each generation is used once: its count grows, and its nonce distinguishes histories that began with one
//!   copy.
//! - TE5. [`compare`] decides and writes nothing. [`advance`] refuses a mismatch before it writes either side, and
//!   never repairs one.

use std::cmp::Ordering;
use std::fmt;

use ferrite_memory::planted;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const MAGIC: [u8; 4] = *b"FTIE";
const VERSION: u16 = 1;
/// Bytes of a record.
pub const RECORD_BYTES: usize = size_of::<TieMedia>();
/// Bytes of a stamp.
pub const STAMP_BYTES: usize = 20;

/// The kind of a tie's object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum TieRole {
    /// The database file of a SQLite log.
    Sqlite = 1,
    /// A backup image.
    Image = 2,
    /// A flash drive.
    Ssd = 3,
    /// A disk.
    Disk = 4,
}

impl TieRole {
    fn of(number: u16) -> Option<Self> {
        [Self::Sqlite, Self::Image, Self::Ssd, Self::Disk].into_iter().find(|role| *role as u16 == number)
    }
}

/// One state of a tie (TE4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(u64);

impl Generation {
    const COUNT_MAX: u64 = (1 << 36) - 1;

    /// Returns the first generation of a new tie; `nonce` is random.
    pub fn first(nonce: u16) -> Self {
        Self(1 << 16 | u64::from(nonce))
    }

    /// Returns the generation stored as `number`, or `None` for a number that no tie reaches.
    pub fn of(number: u64) -> Option<Self> {
        (1..Self::COUNT_MAX).contains(&(number >> 16)).then_some(Self(number))
    }

    /// Returns the stored number, which is less than 2^52.
    pub fn number(self) -> u64 {
        self.0
    }

    /// Returns the generation after this one; `nonce` is random.
    #[must_use]
    pub fn next(self, nonce: u16) -> Self {
        Self((self.count() + 1) << 16 | u64::from(nonce))
    }

    /// Returns the number of generations up to this one.
    pub fn count(self) -> u64 {
        self.0 >> 16
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:04x}", self.count(), self.0 & 0xffff)
    }
}

/// The pool's side of a tie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tie {
    /// The identity of the tie.
    pub identity: [u8; 16],
    /// The generation that the object has or is about to have.
    pub current: Generation,
    /// The generation that the object may still have; `None` if the object may have no stamp. In a settled tie it
    /// equals `current`.
    pub previous: Option<Generation>,
}

impl Tie {
    /// Returns a new tie to an object that has no stamp yet; `nonce` is random.
    pub fn new(identity: [u8; 16], nonce: u16) -> Self {
        Self { identity, current: Generation::first(nonce), previous: None }
    }

    /// Returns true if no move is in progress.
    pub fn is_complete(&self) -> bool {
        self.previous == Some(self.current)
    }

    /// Returns the stamp of an object that has the current generation.
    pub fn stamp(&self) -> TieStamp {
        TieStamp { identity: self.identity, generation: self.current }
    }
}

/// The object's side of a tie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TieStamp {
    /// The identity of the tie. In an object with little room the last 8 bytes are zeros.
    pub identity: [u8; 16],
    /// The generation of the object.
    pub generation: Generation,
}

impl TieStamp {
    /// Returns the stamp's bytes for an object with little room.
    pub fn encode(&self, role: TieRole) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        bytes[..8].copy_from_slice(&self.identity[..8]);
        bytes[8..16].copy_from_slice(&self.generation.0.to_le_bytes());
        let check = stamp_check(role, &bytes);
        bytes[16..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Returns the stamp in `bytes`, which are not trusted, or `None` if they are not a stamp of that role.
    pub fn decode(role: TieRole, bytes: &[u8; STAMP_BYTES]) -> Option<Self> {
        let word = |at: usize| bytes[at..at + 8].try_into().expect("eight bytes");
        if bytes[16..] != stamp_check(role, bytes).to_le_bytes() {
            return None;
        }
        let mut identity = [0; 16];
        identity[..8].copy_from_slice(&bytes[..8]);
        Some(Self { identity, generation: Generation::of(u64::from_le_bytes(word(8)))? })
    }
}

fn stamp_check(role: TieRole, bytes: &[u8; STAMP_BYTES]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&MAGIC);
    hasher.update(&(role as u16).to_le_bytes());
    hasher.update(&bytes[..16]);
    hasher.finalize()
}

/// The record of a tie in an object with room for 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TieRecord {
    /// The kind of the object.
    pub role: TieRole,
    /// The UUID of the pool.
    pub pool: [u8; 16],
    /// The UUID of the object.
    pub object: [u8; 16],
    /// The generation of the object.
    pub generation: Generation,
    /// The previous generation, which parts of the object may still have; `None` if the object had no stamp.
    pub previous: Option<Generation>,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct TieMedia {
    magic: [u8; 4],
    crc: U32,
    version: U16,
    role: U16,
    state: U32,
    pool: [u8; 16],
    object: [u8; 16],
    generation: U64,
    previous: U64,
}

const _: () = assert!(RECORD_BYTES == 64);

impl TieRecord {
    /// Returns the record's bytes.
    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let previous = self.previous.map_or(0, Generation::number);
        let mut media = TieMedia {
            magic: MAGIC,
            crc: 0.into(),
            version: VERSION.into(),
            role: (self.role as u16).into(),
            state: Self::state(self.generation.0, previous).into(),
            pool: self.pool,
            object: self.object,
            generation: self.generation.0.into(),
            previous: previous.into(),
        };
        media.crc = crc32fast::hash(&media.as_bytes()[8..]).into();
        zerocopy::transmute!(media)
    }

    /// Returns the record in `bytes`, which are not trusted, or `None` if they are not a record that this program
    /// reads.
    pub fn decode(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let media = TieMedia::read_from_bytes(bytes).expect("the size is the type's");
        let is_record = media.magic == MAGIC && media.crc.get() == crc32fast::hash(&bytes[8..]);
        let (generation, previous) = (media.generation.get(), media.previous.get());
        if !is_record || media.version.get() != VERSION || media.state.get() != Self::state(generation, previous) {
            return None;
        }
        Some(Self {
            role: TieRole::of(media.role.get())?,
            pool: media.pool,
            object: media.object,
            generation: Generation::of(generation)?,
            previous: if previous == 0 { None } else { Some(Generation::of(previous)?) },
        })
    }

    fn state(generation: u64, previous: u64) -> u32 {
        if generation == previous { 1 } else { 2 }
    }
}

/// The result of comparing the two sides of a tie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TieVerdict {
    /// Both sides have the same generation.
    Same,
    /// A crash interrupted a move before the object changed. The sides match, and the next [`advance`] completes the
    /// move.
    Unfinished,
    /// The object has a later generation: the pool is an older copy.
    ObjectLater,
    /// The object has an earlier generation: the object is an older copy.
    PoolLater,
    /// Two copies of the pool or of the object went on separately.
    Diverged,
    /// The object belongs to another tie.
    OtherIdentity,
    /// The object has no stamp, and should have one.
    Absent,
}

impl TieVerdict {
    /// Returns true if the two sides match.
    pub fn is_good(self) -> bool {
        matches!(self, Self::Same | Self::Unfinished)
    }
}

/// Compares the pool's side with the object's (TE5).
pub fn compare(tie: &Tie, object: Option<&TieStamp>) -> TieVerdict {
    let Some(stamp) = object else {
        return if tie.previous.is_none() { TieVerdict::Unfinished } else { TieVerdict::Absent };
    };
    if stamp.identity != tie.identity {
        return TieVerdict::OtherIdentity;
    }
    if stamp.generation == tie.current {
        return TieVerdict::Same;
    }
    if Some(stamp.generation) == tie.previous {
        return TieVerdict::Unfinished;
    }
    match stamp.generation.count().cmp(&tie.current.count()) {
        Ordering::Greater => TieVerdict::ObjectLater,
        Ordering::Less => TieVerdict::PoolLater,
        Ordering::Equal => TieVerdict::Diverged,
    }
}

/// Access to the pool's side of one tie.
pub trait PoolSide {
    /// The error of either side.
    type Error;

    /// Returns the pool's side.
    ///
    /// # Errors
    /// The errors of the pool's side.
    fn load(&self) -> Result<Tie, Self::Error>;

    /// Makes `current` the current generation, durable on return. A crash before leaves the old or the new one.
    ///
    /// # Errors
    /// The errors of the pool's side.
    fn set_current(&self, current: Generation) -> Result<(), Self::Error>;

    /// Makes `previous` the previous generation, durable on return. A crash before leaves the old or the new one.
    ///
    /// # Errors
    /// The errors of the pool's side.
    fn set_previous(&self, previous: Option<Generation>) -> Result<(), Self::Error>;
}

/// Access to both sides of one tie.
pub trait TieEnds: PoolSide {
    /// Returns the object's stamp, or `None` if the object has no stamp.
    ///
    /// # Errors
    /// The errors of the object.
    fn read(&self) -> Result<Option<TieStamp>, Self::Error>;

    /// Writes `stamp` to the object, whole or not at all, and durable on return.
    ///
    /// # Errors
    /// The errors of the object.
    fn write(&self, stamp: &TieStamp) -> Result<(), Self::Error>;
}

/// Moves both sides to a new generation, in the order of TE1 to TE3, and completes an interrupted earlier move. Returns
/// how the two sides compared; if the verdict is not good, neither side was written (TE5).
///
/// # Errors
/// The errors of both sides. A later call completes the move.
pub fn advance<E: TieEnds>(ends: &E, nonce: u16) -> Result<TieVerdict, E::Error> {
    let (tie, stamp) = (ends.load()?, ends.read()?);
    let verdict = compare(&tie, stamp.as_ref());
    if !verdict.is_good() {
        return Ok(verdict);
    }
    if is_perhaps_lost(&tie, stamp) {
        ends.write(&tie.stamp())?;
    }
    let moving = renewed(ends, tie, stamp, nonce)?;
    ends.write(&moving.stamp())?;
    persist(ends, moving)?;
    Ok(verdict)
}

/// Moves the pool's side alone to a new generation, so that the object no longer changes under the old one. `stamp` is
/// the object's stamp and has to match the pool's side. Returns the new pool's side.
///
/// # Errors
/// The errors of the pool's side.
pub fn renew<P: PoolSide>(pool: &P, stamp: Option<TieStamp>, nonce: u16) -> Result<Tie, P::Error> {
    let tie = pool.load()?;
    renewed(pool, tie, stamp, nonce)
}

fn renewed<P: PoolSide>(pool: &P, tie: Tie, stamp: Option<TieStamp>, nonce: u16) -> Result<Tie, P::Error> {
    let known = Tie { previous: stamp.map(|stamp| stamp.generation), ..tie };
    if known != tie {
        pool.set_previous(known.previous)?;
    }
    let moving = Tie { current: tie.current.next(nonce), ..known };
    pool.set_current(moving.current)?;
    Ok(moving)
}

/// Writes the current stamp to an object that has an older one or no stamp, and settles the tie. Several callers may do
/// this at once: each ends with the stamp that the pool's side has then. Returns true if it wrote the object.
///
/// # Errors
/// The errors of both sides.
pub fn attach<E: TieEnds>(ends: &E) -> Result<bool, E::Error> {
    let (mut tie, mut is_written) = (ends.load()?, false);
    loop {
        let stamp = ends.read()?;
        if stamp != Some(tie.stamp()) || is_perhaps_lost(&tie, stamp) {
            ends.write(&tie.stamp())?;
            is_written = true;
        }
        let now = ends.load()?;
        if now.current == tie.current {
            persist(ends, now)?;
            return Ok(is_written);
        }
        tie = now;
    }
}

/// Returns true if `stamp` is that of a move which did not end: its writer failed or was killed, perhaps before the stamp
/// was durable (TE3).
fn is_perhaps_lost(tie: &Tie, stamp: Option<TieStamp>) -> bool {
    !planted!("tie: a stamp that is not durable is believed") && !tie.is_complete() && stamp == Some(tie.stamp())
}

fn persist<P: PoolSide>(pool: &P, tie: Tie) -> Result<(), P::Error> {
    match tie.is_complete() {
        true => Ok(()),
        false => pool.set_previous(Some(tie.current)),
    }
}

#[cfg(test)]
mod tests;
