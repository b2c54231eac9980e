//! The frames of a guest in the pool's memory, and their words.

use std::sync::Weak;

use ferrite_memory::{Memory, Scheme, Span, planted};
use ferrite_pool::holding::{LEASE_FIGURES, RoleSpace, TagLease};
use ferrite_pool::layout::PAGE;
use ferrite_pool::{Freeze, Result, Role, Stream};
use parking_lot::RwLock;

use crate::frame_word::FrameContent;
use crate::guest_header::GuestHeader;
use crate::guest_layout::GuestLayout;
use crate::pending_change::PendingChange;

/// The right to store into a guest's part of a pool.
pub(crate) trait GuestStore: Send + Sync {
    /// Returns the pool's memory.
    fn memory(&self) -> &dyn Memory;

    /// Refuses after a failed persist.
    fn check(&self) -> Result<()>;

    /// Waits until everything that this thread stored and flushed is durable. A failure ends all changes.
    fn drain(&self) -> Result<()>;

    /// Freezes `engine` with the pool, if this process owns the pool.
    fn register_freezer(&self, engine: Weak<dyn Freeze>);

    /// Returns true if every copy of the pool freezes the engine. No copy does if another process owns the pool.
    fn sees_copies(&self) -> bool {
        true
    }

    /// Publishes the counts of the guest to the owner of the pool, if that is another process.
    fn publish(&self, figures: [u64; LEASE_FIGURES]) {
        let _ = figures;
    }

    /// Returns the frames that the owner of the pool wishes the guest to have, if that is another process.
    fn wished_frames(&self) -> Option<u64> {
        None
    }

    /// Returns the guest's stream of `role`.
    fn stream(&self, role: Role) -> Stream;

    /// Adds the space that `parts` lack, zeros in the MAP stream. Durable on return.
    fn widen(&self, parts: &[RoleSpace]) -> Result<()>;

    /// Frees the space of `role` behind the first `bytes`. Durable on return.
    fn narrow(&self, role: Role, bytes: u64) -> Result<()>;

    /// Frees space as [`GuestStore::narrow`] does, behind `prepare`, whose stores no copy of the pool sees in part.
    fn narrow_behind(&self, role: Role, bytes: u64, prepare: &dyn Fn() -> Result<()>) -> Result<()> {
        prepare()?;
        self.narrow(role, bytes)
    }

    /// Returns the attributes of the tag.
    fn attributes(&self) -> [u8; 64];

    /// Replaces the attributes of the tag. Durable on return.
    fn set_attributes(&self, attributes: [u8; 64]) -> Result<()>;

    /// Replaces the size and the attributes of the tag in one transaction, behind `prepare` as in
    /// [`GuestStore::narrow_behind`]. Durable on return.
    fn set_size_behind(&self, size: u64, attributes: [u8; 64], prepare: &dyn Fn() -> Result<()>) -> Result<()> {
        let _ = size;
        prepare()?;
        self.set_attributes(attributes)
    }
}

impl GuestStore for TagLease {
    fn memory(&self) -> &dyn Memory {
        self.memory()
    }

    fn check(&self) -> Result<()> {
        self.check_poison()
    }

    fn drain(&self) -> Result<()> {
        self.drain()
    }

    fn register_freezer(&self, engine: Weak<dyn Freeze>) {
        self.register_freezer(engine);
    }

    fn sees_copies(&self) -> bool {
        !self.is_lent()
    }

    fn publish(&self, figures: [u64; LEASE_FIGURES]) {
        self.publish(figures);
    }

    fn wished_frames(&self) -> Option<u64> {
        self.wish()
    }

    fn stream(&self, role: Role) -> Stream {
        self.stream(role)
    }

    fn widen(&self, parts: &[RoleSpace]) -> Result<()> {
        self.widen(parts)
    }

    fn narrow(&self, role: Role, bytes: u64) -> Result<()> {
        self.narrow(role, bytes)
    }

    fn narrow_behind(&self, role: Role, bytes: u64, prepare: &dyn Fn() -> Result<()>) -> Result<()> {
        self.narrow_behind(role, bytes, prepare)
    }

    fn attributes(&self) -> [u8; 64] {
        self.tag().attributes
    }

    fn set_attributes(&self, attributes: [u8; 64]) -> Result<()> {
        self.set_attributes(attributes)
    }

    fn set_size_behind(&self, size: u64, attributes: [u8; 64], prepare: &dyn Fn() -> Result<()>) -> Result<()> {
        self.set_size_behind(size, attributes, prepare)
    }
}

/// Where the frames and their words are.
struct FrameStreams {
    data: Stream,
    map: Stream,
}

impl FrameStreams {
    fn of(store: &dyn GuestStore) -> Self {
        Self { data: store.stream(Role::DATA), map: store.stream(Role::MAP) }
    }
}

/// The frames and words of one guest.
pub(crate) struct FrameSpace {
    store: Box<dyn GuestStore>,
    /// The sizes when the guest was opened; the number of frames may change.
    pub layout: GuestLayout,
    streams: RwLock<FrameStreams>,
}

impl FrameSpace {
    /// Returns the space of the guest in the tag of `lease`.
    ///
    /// # Errors
    /// The errors of [`GuestLayout::read`].
    pub fn of(lease: TagLease) -> Result<Self> {
        let layout = GuestLayout::read(&lease.tag())?;
        Ok(Self::new(Box::new(lease), layout))
    }

    /// Returns the space of a guest in `store`.
    pub fn new(store: Box<dyn GuestStore>, layout: GuestLayout) -> Self {
        let streams = RwLock::new(FrameStreams::of(&*store));
        Self { store, layout, streams }
    }

    /// Adds free frames, so that there are `frames`. Their words are zeros (HO3, VB1). A crash leaves the old number or
    /// the new one.
    ///
    /// # Errors
    /// The errors of the pool, which may lack space; the guest has its old frames then.
    pub fn widen(&self, frames: u64) -> Result<()> {
        let layout = GuestLayout { frames, ..self.layout };
        let part = |role, bytes| RoleSpace { role, bytes };
        planted!("guest: frames join before their words" => self.store.widen(&[part(Role::DATA, layout.data_bytes())])?);
        self.store.widen(&[part(Role::MAP, layout.map_bytes()), part(Role::DATA, layout.data_bytes())])?;
        *self.streams.write() = FrameStreams::of(&*self.store);
        Ok(())
    }

    /// Frees the space of the frames from `frames` on, whose words are durably zero and which nothing uses (VB1). A
    /// crash leaves the old number or the new one.
    ///
    /// # Errors
    /// The errors of the pool; the guest has its old frames then.
    pub fn narrow(&self, frames: u64) -> Result<()> {
        self.store.narrow(Role::DATA, frames * PAGE)
    }

    /// Frees the space of the frames from `frames` on, as [`FrameSpace::narrow`] does, behind the stores of `words`. No
    /// freeze of the pool begins in between, so a kept image has all of these stores or none.
    ///
    /// # Errors
    /// As [`FrameSpace::narrow`]; the words may be stored.
    pub fn narrow_behind(&self, frames: u64, words: &[(u32, FrameContent)]) -> Result<()> {
        self.store.narrow_behind(Role::DATA, frames * PAGE, &|| self.persist_words(words))
    }

    /// Replaces the attributes of the tag. Durable on return.
    ///
    /// # Errors
    /// The errors of the pool.
    pub fn set_attributes(&self, attributes: [u8; 64]) -> Result<()> {
        self.store.set_attributes(attributes)
    }

    /// Notes `pending` in the tag. Durable on return.
    ///
    /// # Errors
    /// The errors of the pool.
    pub fn note_pending(&self, pending: PendingChange) -> Result<()> {
        let mut attributes = self.store.attributes();
        pending.write(&mut attributes);
        self.store.set_attributes(attributes)
    }

    /// Replaces the size of the guest and notes `pending`, in one transaction behind the stores of `words`. A crash leaves
    /// the old size or the new one.
    ///
    /// # Errors
    /// The errors of the pool; the guest has its old size then, and the words may be stored.
    pub fn set_size_behind(&self, size: u64, pending: PendingChange, words: &[(u32, FrameContent)]) -> Result<()> {
        let mut attributes = self.store.attributes();
        pending.write(&mut attributes);
        self.store.set_size_behind(size, attributes, &|| self.persist_words(words))
    }

    pub fn memory(&self) -> &dyn Memory {
        self.store.memory()
    }

    /// Freezes `engine` with the pool, if this process owns the pool.
    pub fn register_freezer(&self, engine: Weak<dyn Freeze>) {
        self.store.register_freezer(engine);
    }

    /// Returns true if every copy of the pool freezes the engine.
    pub fn sees_copies(&self) -> bool {
        self.store.sees_copies()
    }

    /// Publishes `figures`, as [`GuestStore::publish`].
    pub fn publish(&self, figures: [u64; LEASE_FIGURES]) {
        self.store.publish(figures);
    }

    /// Returns the frames that the owner of the pool wishes the guest to have, if that is another process.
    pub fn wished_frames(&self) -> Option<u64> {
        self.store.wished_frames()
    }

    /// Refuses after a failed persist.
    pub fn check(&self) -> Result<()> {
        self.store.check()
    }

    /// Waits until everything that this thread stored and flushed is durable.
    pub fn drain(&self) -> Result<()> {
        self.store.drain()
    }

    /// Returns the address of `frame` in the pool's memory.
    pub fn frame(&self, frame: u32) -> u64 {
        let streams = self.streams.read();
        streams.data.locate(u64::from(frame) * PAGE).expect("the layout was compared with the tag").at
    }

    /// Returns the runs of the pool's memory in which the frames lie.
    pub fn frame_runs(&self) -> Vec<Span> {
        let streams = self.streams.read();
        streams.data.runs(Span::new(0, streams.data.len())).collect()
    }

    /// Stores `bytes` into `frame` from byte `offset` on, past the cache.
    pub fn store(&self, frame: u32, offset: u64, bytes: &[u8]) {
        self.memory().store(self.frame(frame) + offset, bytes, Scheme::Nt);
    }

    /// Copies bytes of `frame` out, from byte `offset` on.
    pub fn load(&self, frame: u32, offset: u64, into: &mut [u8]) {
        self.memory().load(self.frame(frame) + offset, into);
    }

    /// Starts write-back of all lines of `frame`.
    pub fn flush_frame(&self, frame: u32) {
        self.memory().flush(Span::new(self.frame(frame), PAGE));
    }

    fn word_at(&self, frame: u32) -> u64 {
        self.streams.read().map.locate(word_offset(frame)).expect("the layout was compared with the tag").at
    }

    /// Returns the content that the word of `frame` says, or `None` if the word is damaged.
    pub fn content(&self, frame: u32) -> Option<FrameContent> {
        self.content_at(self.word_at(frame))
    }

    /// Returns the content of each frame, as [`FrameSpace::content`].
    pub fn contents(&self) -> Vec<Option<FrameContent>> {
        let streams = self.streams.read();
        let runs = streams.map.runs(Span::new(word_offset(0), self.layout.frames * 8));
        runs.flat_map(|run| (run.at..run.at + run.len).step_by(8)).map(|at| self.content_at(at)).collect()
    }

    fn content_at(&self, at: u64) -> Option<FrameContent> {
        let content = FrameContent::decode(self.layout.salt(), self.memory().load_word(at));
        content.filter(|content| content.page().is_none_or(|page| page < self.layout.pages()))
    }

    /// Returns the place of the word of `frame`, for messages.
    pub fn word_place(&self, frame: u32) -> u64 {
        self.word_at(frame)
    }

    /// Stores the words of frames and makes them durable.
    ///
    /// # Errors
    /// The errors of [`FrameSpace::drain`].
    pub fn persist_words(&self, words: &[(u32, FrameContent)]) -> Result<()> {
        if words.is_empty() {
            return Ok(());
        }
        for (frame, content) in words {
            let at = self.word_at(*frame);
            self.memory().store_word(at, content.encode(self.layout.salt()));
            self.memory().flush(Span::new(at, 8));
        }
        self.drain()
    }

    /// Returns the header.
    pub fn header(&self) -> GuestHeader<'_> {
        let at = self.streams.read().map.locate(0).expect("the layout was compared with the tag").at;
        GuestHeader { memory: self.memory(), at, salt: self.layout.salt() }
    }
}

/// Returns the offset of the word of `frame` in the MAP stream.
fn word_offset(frame: u32) -> u64 {
    PAGE + u64::from(frame) * 8
}
