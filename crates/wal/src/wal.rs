//! The log: appended to by many, read by any, drained by whoever has time.

mod append;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ferrite_memory::Span;
use ferrite_pool::checked_word::{seal, unseal};
use ferrite_pool::holding::{Holding, Part, Spec as TagSpec};
use ferrite_pool::layout::PAGE;
use ferrite_pool::{Freeze, LogPosition, Pool, Role, TagKind, TagLog};
use parking_lot::{Condvar, Mutex};

use crate::drain::{Drain, Step};
use crate::order::{Order, Start};
use crate::records::Records;
use crate::segment::{self, Folder};
use crate::{Error, Result};

/// What a log is made as.
#[derive(Clone, Copy, Debug)]
pub struct WalSpec {
    /// Bytes of records that it holds before they are drained; rounded up to pages.
    pub capacity_bytes: u64,
}

/// When an append returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// When it is durable, and all before it.
    Strict,
    /// When it is in the buffer: a crash may take it, and all after it, until the next strict append, [`Wal::commit`]
    /// or drain.
    Relaxed,
}

/// Where a log stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The oldest record, in a file or in the ring.
    pub start: LogPosition,
    /// The oldest record in the ring; what is before is in files.
    pub head: LogPosition,
    /// Every record before this is durable.
    pub durable: LogPosition,
    /// Where the next record will be.
    pub end: LogPosition,
    /// Bytes that the ring holds in all.
    pub capacity_bytes: u64,
}

/// An open log. One at a time for each log of a pool; any number of threads may use it at once.
///
/// Where a persist fails it is [`Error::Pool`] with [`ferrite_pool::Error::Medium`]: what was not durable before may be
/// lost, and nothing is promised any more until it is opened again ([`ferrite_pool::Error::Poisoned`]). A tenant's is
/// refused with [`ferrite_pool::Error::Revoked`] once its owner has ended or has asked for it back. Who waits for a
/// writer that panicked gets [`Error::Broken`].
pub struct Wal {
    holding: Arc<Holding>,
    log: Arc<TagLog>,
    start_at: u64,
    session: u64,
    /// See [`ferrite_memory::Memory::fence_is_durable`].
    fence_is_durable: bool,
    order: Order<AtomicU64>,
    /// Held by who settles for a group.
    leader: Mutex<()>,
    drain: Mutex<Drain>,
    /// See [`Standing::start`]; changed with the drain's lock held.
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

/// Where in the MAP page the position of the oldest record is, sealed with the low half of the tag's generation.
const START_AT: u64 = 64;

fn salt(holding: &Holding) -> u32 {
    holding.tag().generation as u32
}

fn damaged(holding: &Holding, what: &str) -> Error {
    Error::Limit(format!("log {:?} is damaged ({what}): restore a backup", holding.tag().name))
}

/// Files are this long at least before the next one is begun, unless another length is chosen.
const SEGMENT_BYTES: u64 = 64 << 20;

impl Wal {
    /// What the tag of a log called `name` is made of, for a process that asks the pool's owner for it.
    ///
    /// # Errors
    /// [`Error::Limit`] for a capacity that no pool has.
    pub fn tag_spec(name: &str, spec: &WalSpec) -> Result<TagSpec> {
        let too_large = || Error::Limit(format!("a log of {} bytes is too large", spec.capacity_bytes));
        let size = spec.capacity_bytes.max(1).checked_next_multiple_of(PAGE).ok_or_else(too_large)?;
        let parts = vec![Part { role: Role::MAP, bytes: PAGE }, Part { role: Role::DATA, bytes: size }];
        let (name, kind, attributes) = (name.into(), TagKind::LOG.0, Vec::new());
        Ok(TagSpec { name, kind, size, attributes, parts, has_log: true })
    }

    /// Makes a log called `name` that drains to `folder`, and opens it. Durable on return.
    ///
    /// # Errors
    /// As [`Wal::tag_spec`]; [`ferrite_pool::Error::Exists`], [`ferrite_pool::Error::BadName`] and
    /// [`ferrite_pool::Error::Full`] where it is not made, and after it was as [`Wal::open`].
    pub fn create(pool: &Arc<Pool>, name: &str, spec: &WalSpec, folder: Box<dyn Folder>) -> Result<Arc<Self>> {
        Self::tag_spec(name, spec)?.create(pool)?;
        Self::open(pool, name, folder)
    }

    /// Opens the log called `name`, which drains to `folder`. What it finds is durable.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::NotFound`], [`ferrite_pool::Error::Busy`] where somebody has it; else as
    /// [`Wal::open_held`].
    pub fn open(pool: &Arc<Pool>, name: &str, folder: Box<dyn Folder>) -> Result<Arc<Self>> {
        Self::open_held(Arc::new(pool.hold(name)?), folder)
    }

    /// Opens the log in a held tag, in the pool's owner or beside it. A tenant's is not part of the owner's backups.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::WrongKind`] for what is no log, [`ferrite_pool::Error::Corrupt`] where the head of its ring is damaged, [`Error::Limit`] where its start is;
    /// else as [`Wal`] says.
    pub fn open_held(holding: Arc<Holding>, folder: Box<dyn Folder>) -> Result<Arc<Self>> {
        holding.tag().ensure_kind(TagKind::LOG)?;
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
            // A truncation was cut short.
            log.cut(LogPosition::from_number(start))?;
        }
        let head = log.head().number();
        let wal = Arc::new(Self {
            start_at: map.at,
            session: log.session(),
            fence_is_durable: holding.memory().fence_is_durable(),
            order: Order::new(Start { head, end: log.end().number(), lines: log.lines() }),
            leader: Mutex::new(()),
            drain: Mutex::new(Drain::new(folder, SEGMENT_BYTES, head)),
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

    /// Begins a new file after so many bytes.
    pub fn set_segment_bytes(&self, bytes: u64) {
        self.drain.lock().set_segment_bytes(bytes);
    }

    /// Makes everything durable that was appended before, relaxed or not.
    ///
    /// # Errors
    /// As [`Wal`] says.
    pub fn commit(&self) -> Result<LogPosition> {
        let end = self.order.tail();
        self.settle(end)?;
        Ok(LogPosition::from_number(end))
    }

    /// Waits until all before `to` is finished and durable.
    #[inline]
    fn settle(&self, to: u64) -> Result<()> {
        // Nearly always all before is settled already, or is by this call.
        if self.pass_settled().is_some_and(|end| end >= to) { Ok(()) } else { self.settle_slowly(to) }
    }

    /// Moves the durable end over all that is finished, if its writers have settled it; to where.
    #[inline]
    fn pass_settled(&self) -> Option<u64> {
        let reach = self.order.reach();
        reach.settled.then(|| self.order.settled(reach.end)).map(|()| reach.end)
    }

    #[cold]
    fn settle_slowly(&self, to: u64) -> Result<()> {
        let mut turns = 0;
        while self.order.durable() < to {
            self.settle_reach()?;
            if self.order.durable() < to {
                turns += 1;
                if cfg!(test) || turns % SPINS == 0 { self.pause()? } else { std::hint::spin_loop() }
            }
        }
        Ok(())
    }

    fn settle_some(&self) -> Result<()> {
        let before = self.order.durable();
        self.settle_reach()?;
        if self.order.durable() == before { self.pause() } else { Ok(()) }
    }

    /// Makes durable what is finished. Who finds another thread at it waits, and may find the work done: a group
    /// shares one barrier.
    fn settle_reach(&self) -> Result<()> {
        if self.pass_settled().is_some() {
            return Ok(());
        }
        let _leader = self.leader.lock();
        let reach = self.order.reach();
        if !reach.settled {
            self.holding.check_poison()?;
            self.holding.barrier()?;
        }
        self.order.settled(reach.end);
        Ok(())
    }

    /// Lets another thread go on.
    fn pause(&self) -> Result<()> {
        if self.broken.load(Ordering::Acquire) {
            return Err(Error::Broken(self.name().into()));
        }
        // Where threads are interleaved by a seed, the turn passes at calls on the memory.
        #[cfg(test)]
        self.holding.memory().load_word(0);
        std::thread::yield_now();
        Ok(())
    }

    fn wait_for_thaw(&self) {
        let mut frozen = self.gate.lock();
        self.thawed.wait_while(&mut frozen, |frozen| *frozen);
    }

    /// Does a step of draining; call it again until it is [`Step::Idle`]. Waits for who is at it already.
    ///
    /// # Errors
    /// [`Error::Target`] where the folder fails, [`Error::Foreign`] where files in it are another log's,
    /// [`ferrite_pool::Error::Corrupt`] where a record in the ring is damaged: nothing is lost, and the next step starts
    /// over. Else as [`Wal`] says.
    pub fn step(&self) -> Result<Step> {
        self.drain.lock().step(self)
    }

    /// Drains everything that was appended before.
    ///
    /// # Errors
    /// As [`Wal::step`].
    pub fn drain(&self) -> Result<()> {
        let end = self.order.tail();
        while self.order.head() < end {
            if self.step()? == Step::Idle {
                self.pause()?;
            }
        }
        Ok(())
    }

    /// The durable records, oldest first, from files and ring alike.
    pub fn records(&self) -> Records<'_> {
        self.records_from(LogPosition::from_number(self.start()))
    }

    /// The durable records from `position` on, where one starts.
    pub fn records_from(&self, position: LogPosition) -> Records<'_> {
        Records::new(self, position.number(), self.order.durable())
    }

    /// Forgets every record before `position`, where a durable one starts or they end; frees whole files and their
    /// space in the ring. Durable on return; a file that could not be removed is by the next one.
    ///
    /// # Errors
    /// [`Error::Limit`] where no durable record starts there: nothing is forgotten. As [`Wal::step`], or [`Error::Io`],
    /// where files that hold nothing any more could not be looked at or removed: then the records before are forgotten
    /// all the same.
    pub fn truncate(&self, position: LogPosition) -> Result<()> {
        let mut drain = self.drain.lock();
        if position.number() > self.start() {
            self.forget(&mut drain, position.number())?;
        }
        drain.remove_before(self, position.number())
    }

    fn forget(&self, drain: &mut Drain, to: u64) -> Result<()> {
        let starts = match self.order.durable() {
            end if to >= end => to == end,
            _ => self.read(drain, to).is_ok(),
        };
        if !starts {
            let (name, end) = (self.name(), self.order.durable());
            return Err(Error::Limit(format!("no record of log {name:?} starts at position {to}; it ends at {end}")));
        }
        self.holding.memory().store_word(self.start_at, seal(salt(&self.holding), to));
        self.holding.persist(Span::new(self.start_at, 8))?;
        self.start.store(to, Ordering::Release);
        if to > self.order.head() { self.cut(to) } else { Ok(()) }
    }

    /// Where it stands.
    pub fn standing(&self) -> Standing {
        let at = LogPosition::from_number;
        Standing {
            start: at(self.start()),
            head: at(self.order.head()),
            durable: at(self.order.durable()),
            end: at(self.order.tail()),
            capacity_bytes: self.capacity_bytes(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.log.tag().name
    }

    /// Bytes that the ring holds in all: each record takes its payload and 24 more, rounded up to 64.
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

    /// Durable records from `from` on, as they lie in the ring.
    pub(crate) fn image(&self, from: u64, bytes_max: usize) -> Result<Vec<u8>> {
        #[cfg(test)]
        if tests::is_planted(tests::Bug::DrainAhead) {
            self.order.settled(self.order.reach().end);
        }
        self.settle_reach()?;
        self.log.publish(LogPosition::from_number(self.order.durable()));
        Ok(self.log.image(LogPosition::from_number(from), bytes_max)?.0)
    }

    /// Makes the ring's lines before `to` free.
    pub(crate) fn cut(&self, to: u64) -> Result<()> {
        self.log.publish(LogPosition::from_number(self.order.durable()));
        self.log.cut(LogPosition::from_number(to))?;
        self.order.cut(to);
        Ok(())
    }

    /// The bytes of the record at `position`, wherever they lie. It verifies.
    pub(crate) fn record(&self, position: u64) -> Result<Vec<u8>> {
        self.read(&mut self.drain.lock(), position)
    }

    fn read(&self, drain: &mut Drain, position: u64) -> Result<Vec<u8>> {
        if position < self.order.head() { drain.record(self, position) } else { self.image(position, 1) }
    }
}

/// Looks at what another thread has finished before it is given the processor.
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
