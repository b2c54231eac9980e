//! The log: many threads append, any thread reads, one at a time drains.

mod append;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ferrite_memory::{Span, planted};
use ferrite_pool::checked_word::{seal, unseal};
use ferrite_pool::holding::{RoleSpace, TagLease, TagSpec};
use ferrite_pool::layout::PAGE;
use ferrite_pool::{Freeze, LogPosition, Pool, Role, TagKind, TagLog};
use parking_lot::{Condvar, Mutex};

use crate::drain::{DrainStep, SegmentDrain};
use crate::order::{RecordOrder, RingStart};
use crate::records::WalRecords;
use crate::segment::{self, SegmentFolder};
use crate::{Error, Result};

/// The size of a new log.
#[derive(Clone, Copy, Debug)]
pub struct WalSpec {
    /// Bytes of records that the log holds before they are drained; rounded up to pages.
    pub capacity_bytes: u64,
}

/// The promise of an append on return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The record, and all records before it, are durable.
    Strict,
    /// The record is in the buffer: a crash may remove it, and all records after it, until the next strict append,
    /// [`Wal::commit`] or drain.
    Relaxed,
}

/// The positions of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalStanding {
    /// The oldest record, in a file or in the ring.
    pub start: LogPosition,
    /// The oldest record in the ring; earlier records are in files.
    pub head: LogPosition,
    /// Every record before this is durable.
    pub durable: LogPosition,
    /// The position of the next record.
    pub end: LogPosition,
    /// Bytes of records that the ring holds.
    pub capacity_bytes: u64,
}

/// An open log. A log of a pool can be open once at a time; any number of threads may use it.
///
/// If a persist fails, the error is [`Error::Pool`] with [`ferrite_pool::Error::Medium`], and every further change is
/// refused until the log is opened again ([`ferrite_pool::Error::Poisoned`]). After the pool's owner ended or revoked
/// the log, a client gets [`ferrite_pool::Error::Revoked`]. A thread that waits for a writer that panicked gets
/// [`Error::Broken`].
pub struct Wal {
    holding: Arc<TagLease>,
    log: Arc<TagLog>,
    start_at: u64,
    session: u64,
    /// The answer of [`ferrite_memory::Memory::fence_is_durable`].
    fence_is_durable: bool,
    order: RecordOrder<AtomicU64>,
    /// Held by the thread that persists for a group.
    leader: Mutex<()>,
    drain: Mutex<SegmentDrain>,
    /// The position of [`WalStanding::start`]; changed with the drain's lock held.
    start: AtomicU64,
    broken: AtomicBool,
    gate: Mutex<bool>,
    thawed: Condvar,
}

impl fmt::Debug for Wal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wal").field("log", &self.name()).field("order", &self.order).finish_non_exhaustive()
    }
}

/// Offset in the MAP page of the position of the oldest record, a checked word with the low half of the tag's
/// generation.
const START_AT: u64 = 64;

fn salt(holding: &TagLease) -> u32 {
    holding.tag().generation as u32
}

fn damaged(holding: &TagLease, what: &str) -> Error {
    Error::Limit(format!("log {:?} is damaged ({what}): restore a backup", holding.tag().name))
}

/// The least length of a file before the next one is begun, unless another length is set.
const SEGMENT_BYTES: u64 = 64 << 20;

impl Wal {
    /// Returns the description of the tag for a log called `name`, with which a client asks the owner to create it.
    ///
    /// # Errors
    /// [`Error::Limit`] for a capacity that no pool has.
    pub fn tag_spec(name: &str, spec: &WalSpec) -> Result<TagSpec> {
        let too_large = || Error::Limit(format!("a log of {} bytes is too large", spec.capacity_bytes));
        let size = spec.capacity_bytes.max(1).checked_next_multiple_of(PAGE).ok_or_else(too_large)?;
        let parts = vec![RoleSpace { role: Role::MAP, bytes: PAGE }, RoleSpace { role: Role::DATA, bytes: size }];
        let (name, kind, attributes) = (name.into(), TagKind::LOG.0, Vec::new());
        Ok(TagSpec { name, kind, size, attributes, parts, has_log: true })
    }

    /// Creates a log called `name` that drains to `folder`, and opens it. The log is durable on return.
    ///
    /// # Errors
    /// The errors of [`Wal::tag_spec`]; [`ferrite_pool::Error::Exists`], [`ferrite_pool::Error::BadName`] and
    /// [`ferrite_pool::Error::Full`] if the log is not created; then the errors of [`Wal::open`].
    pub fn create(pool: &Arc<Pool>, name: &str, spec: &WalSpec, folder: Box<dyn SegmentFolder>) -> Result<Arc<Self>> {
        Self::tag_spec(name, spec)?.create(pool)?;
        Self::open(pool, name, folder)
    }

    /// Opens the log called `name`, which drains to `folder`. Its records are durable.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::NotFound`], [`ferrite_pool::Error::Busy`] if it is in use; then the errors of
    /// [`Wal::open_held`].
    pub fn open(pool: &Arc<Pool>, name: &str, folder: Box<dyn SegmentFolder>) -> Result<Arc<Self>> {
        Self::open_held(Arc::new(pool.hold(name)?), folder)
    }

    /// Opens the log in a held tag, in the pool's owner or in a client, whose log no backup of the owner contains.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::WrongKind`] if the tag is not a log, [`ferrite_pool::Error::Corrupt`] if the head of its
    /// ring is damaged, [`Error::Limit`] if its start is damaged; also the errors that [`Wal`] lists.
    pub fn open_held(holding: Arc<TagLease>, folder: Box<dyn SegmentFolder>) -> Result<Arc<Self>> {
        holding.tag().ensure_kind(TagKind::LOG)?;
        let _pass = holding.store_pass();
        let log = Arc::new(TagLog::open_wiped(Arc::clone(&holding))?);
        let map = holding.stream(Role::MAP).locate(START_AT).ok_or_else(|| damaged(&holding, "it has no MAP page"))?;
        let start = match holding.memory().load_word(map.at) {
            0 => 0,
            word => unseal(salt(&holding), word).ok_or_else(|| damaged(&holding, "the word of its start"))?,
        };
        if start > log.end().number() {
            return Err(damaged(&holding, "it starts behind its end"));
        }
        if start > log.head().number() {
            // A crash interrupted a truncation.
            log.cut(LogPosition::from_number(start))?;
        }
        let head = log.head().number();
        let wal = Arc::new(Self {
            start_at: map.at,
            session: log.session(),
            fence_is_durable: holding.memory().fence_is_durable(),
            order: RecordOrder::new(RingStart { head, end: log.end().number(), lines: log.lines() }),
            leader: Mutex::new(()),
            drain: Mutex::new(SegmentDrain::new(folder, SEGMENT_BYTES, head)),
            start: AtomicU64::new(start),
            broken: AtomicBool::new(false),
            gate: Mutex::new(false),
            thawed: Condvar::new(),
            holding,
            log,
        });
        let services: [Arc<dyn Freeze>; 2] = [wal.log.clone(), wal.clone()];
        services.iter().for_each(|service| wal.holding.register_freezer(Arc::downgrade(service)));
        Ok(wal)
    }

    /// Sets the length in bytes after which a new file is begun.
    pub fn set_segment_bytes(&self, bytes: u64) {
        self.drain.lock().set_segment_bytes(bytes);
    }

    /// Makes all earlier appends durable, relaxed or not. Returns their end.
    ///
    /// # Errors
    /// The errors that [`Wal`] lists.
    pub fn commit(&self) -> Result<LogPosition> {
        let end = self.order.tail();
        self.persist_until(end)?;
        Ok(LogPosition::from_number(end))
    }

    /// Waits until all records before `to` are finished and durable.
    #[inline]
    fn persist_until(&self, to: u64) -> Result<()> {
        // Nearly always all records are persisted already, or this call persists them.
        if self.advance_durable().is_some_and(|end| end >= to) { Ok(()) } else { self.persist_slowly(to) }
    }

    /// Moves the durable end over all finished records if their writers persisted them. Returns the new durable end.
    #[inline]
    fn advance_durable(&self) -> Option<u64> {
        let reach = self.order.reach();
        reach.persisted.then(|| self.order.set_durable(reach.end)).map(|()| reach.end)
    }

    #[cold]
    fn persist_slowly(&self, to: u64) -> Result<()> {
        let mut turns = 0;
        while self.order.durable() < to {
            self.persist_finished()?;
            if self.order.durable() < to {
                turns += 1;
                if cfg!(test) || turns % SPINS == 0 { self.pause()? } else { std::hint::spin_loop() }
            }
        }
        Ok(())
    }

    fn persist_some(&self) -> Result<()> {
        let before = self.order.durable();
        self.persist_finished()?;
        if self.order.durable() == before { self.pause() } else { Ok(()) }
    }

    /// Makes the finished records durable. A thread that finds another at it waits, and may then find the work done: a
    /// group shares one barrier.
    fn persist_finished(&self) -> Result<()> {
        if self.advance_durable().is_some() {
            return Ok(());
        }
        let _leader = self.leader.lock();
        let reach = self.order.reach();
        if !reach.persisted {
            self.holding.check_poison()?;
            self.holding.barrier()?;
        }
        self.order.set_durable(reach.end);
        Ok(())
    }

    /// Yields the processor to another thread.
    fn pause(&self) -> Result<()> {
        if self.broken.load(Ordering::Acquire) {
            return Err(Error::Broken(self.name().into()));
        }
        // A test that interleaves threads passes the turn here.
        let _ = planted!("wal: thread pauses");
        std::thread::yield_now();
        Ok(())
    }

    fn wait_for_thaw(&self) {
        let mut frozen = self.gate.lock();
        self.thawed.wait_while(&mut frozen, |frozen| *frozen);
    }

    /// Does one step of draining, after the thread that drains already; call it until it is [`DrainStep::Idle`].
    ///
    /// # Errors
    /// [`Error::Target`] if the folder fails, [`Error::Foreign`] if files in it belong to another log,
    /// [`ferrite_pool::Error::Corrupt`] if a record in the ring is damaged. Nothing is lost, and the next step starts
    /// over. Also the errors that [`Wal`] lists.
    pub fn step(&self) -> Result<DrainStep> {
        self.drain.lock().step(self)
    }

    /// Drains all records that were appended before the call.
    ///
    /// # Errors
    /// The errors of [`Wal::step`].
    pub fn drain(&self) -> Result<()> {
        let end = self.order.tail();
        while self.order.head() < end {
            if self.step()? == DrainStep::Idle {
                self.pause()?;
            }
        }
        Ok(())
    }

    /// Returns the durable records, oldest first, from files and ring alike.
    pub fn records(&self) -> WalRecords<'_> {
        self.records_from(LogPosition::from_number(self.start()))
    }

    /// Returns the durable records from `position` on, which is the start of a record.
    pub fn records_from(&self, position: LogPosition) -> WalRecords<'_> {
        WalRecords::new(self, position.number(), self.order.durable())
    }

    /// Drops every record before `position`, the start of a durable record or their end, and frees files and lines.
    /// Durable on return; a file that cannot be removed is removed by the next truncation.
    ///
    /// # Errors
    /// [`Error::Limit`] if no durable record starts there: nothing is dropped. The errors of [`Wal::step`], or
    /// [`Error::Io`], if a file cannot be read or removed: the earlier records are dropped all the same.
    pub fn truncate(&self, position: LogPosition) -> Result<()> {
        let mut drain = self.drain.lock();
        if position.number() > self.start() {
            self.forget(&mut drain, position.number())?;
        }
        drain.remove_before(self, position.number())
    }

    fn forget(&self, drain: &mut SegmentDrain, to: u64) -> Result<()> {
        let starts = match self.order.durable() {
            end if to >= end => to == end,
            _ => self.read(drain, to).is_ok(),
        };
        if !starts {
            let (name, end) = (self.name(), self.order.durable());
            return Err(Error::Limit(format!("no record of log {name:?} starts at position {to}; it ends at {end}")));
        }
        {
            // Else a freeze between the store and the persist would end with a word that a crash takes back.
            let mut frozen = self.gate.lock();
            self.thawed.wait_while(&mut frozen, |frozen| *frozen);
            planted!("wal: a truncation passes no gate" => drop(frozen));
            self.holding.memory().store_word(self.start_at, seal(salt(&self.holding), to));
            self.holding.persist(Span::new(self.start_at, 8))?;
        }
        self.start.store(to, Ordering::Release);
        if to > self.order.head() { self.cut(to) } else { Ok(()) }
    }

    /// Returns the positions of the log.
    pub fn standing(&self) -> WalStanding {
        let at = LogPosition::from_number;
        WalStanding {
            start: at(self.start()),
            head: at(self.order.head()),
            durable: at(self.order.durable()),
            end: at(self.order.tail()),
            capacity_bytes: self.capacity_bytes(),
        }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.log.tag().name
    }

    /// Returns the bytes that the ring holds: each record uses its payload and 24 more, rounded up to 64.
    pub fn capacity_bytes(&self) -> u64 {
        self.log.capacity_bytes()
    }

    pub(crate) fn start(&self) -> u64 {
        self.start.load(Ordering::Acquire)
    }

    pub(crate) fn head(&self) -> u64 {
        self.order.head()
    }

    pub(crate) fn salt(&self) -> u32 {
        self.log.salt()
    }

    pub(crate) fn header(&self, first: u64) -> Vec<u8> {
        segment::header(&self.log, self.holding.uuid(), first)
    }

    /// Returns durable records from `from` on, as they lie in the ring.
    pub(crate) fn image(&self, from: u64, bytes_max: usize) -> Result<Vec<u8>> {
        if planted!("wal: drain copies records before they are durable") {
            self.order.set_durable(self.order.reach().end);
        }
        self.persist_finished()?;
        self.log.publish(LogPosition::from_number(self.order.durable()));
        Ok(self.log.image(LogPosition::from_number(from), bytes_max)?.0)
    }

    /// Frees the ring's lines before `to`.
    pub(crate) fn cut(&self, to: u64) -> Result<()> {
        self.log.publish(LogPosition::from_number(self.order.durable()));
        self.log.cut(LogPosition::from_number(to))?;
        self.order.cut(to);
        Ok(())
    }

    /// Returns the bytes of the record at `position`, in a file or in the ring. The record verifies.
    pub(crate) fn record(&self, position: u64) -> Result<Vec<u8>> {
        self.read(&mut self.drain.lock(), position)
    }

    fn read(&self, drain: &mut SegmentDrain, position: u64) -> Result<Vec<u8>> {
        if position < self.order.head() { drain.record(self, position) } else { self.image(position, 1) }
    }
}

/// Checks for another thread's progress before the processor is yielded.
const SPINS: u32 = 200;

impl Freeze for Wal {
    fn freeze(&self) {
        *self.gate.lock() = true;
        self.order.close();
        while self.order.reach().end < self.order.tail() && self.pause().is_ok() {}
    }

    fn thaw(&self) {
        *self.gate.lock() = false;
        self.order.open();
        self.thawed.notify_all();
    }
}

#[cfg(test)]
pub(crate) mod tests;
