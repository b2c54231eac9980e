//! The frames of a guest in the pool's memory, and their words.

use std::sync::Weak;

use ferrite_memory::{Memory, Scheme, Span};
use ferrite_pool::holding::{LEASE_FIGURES, TagLease};
use ferrite_pool::layout::PAGE;
use ferrite_pool::{Freeze, Result, Role, Stream};

use crate::frame_word::FrameContent;
use crate::guest_header::GuestHeader;
use crate::guest_layout::GuestLayout;

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
}

/// The frames and words of one guest.
pub(crate) struct FrameSpace {
    store: Box<dyn GuestStore>,
    pub layout: GuestLayout,
    data: Stream,
    map: Stream,
}

impl FrameSpace {
    /// Returns the space of the guest in the tag of `lease`.
    ///
    /// # Errors
    /// The errors of [`GuestLayout::read`].
    pub fn of(lease: TagLease) -> Result<Self> {
        let layout = GuestLayout::read(&lease.tag())?;
        let (data, map) = (lease.stream(Role::DATA), lease.stream(Role::MAP));
        Ok(Self::new(Box::new(lease), layout, data, map))
    }

    /// Returns the space of a guest whose streams are `data` and `map`.
    pub fn new(store: Box<dyn GuestStore>, layout: GuestLayout, data: Stream, map: Stream) -> Self {
        Self { store, layout, data, map }
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
        self.data.locate(u64::from(frame) * PAGE).expect("the layout was compared with the tag").at
    }

    /// Returns the runs of the pool's memory in which the frames lie.
    pub fn frame_runs(&self) -> impl Iterator<Item = Span> + '_ {
        self.data.runs(Span::new(0, self.layout.data_bytes()))
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
        self.map.locate(PAGE + u64::from(frame) * 8).expect("the layout was compared with the tag").at
    }

    /// Returns the content that the word of `frame` says, or `None` if the word is damaged.
    pub fn content(&self, frame: u32) -> Option<FrameContent> {
        let word = self.memory().load_word(self.word_at(frame));
        FrameContent::decode(self.layout.salt(), word)
            .filter(|content| content.page().is_none_or(|page| page < self.layout.pages()))
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
        let at = self.map.locate(0).expect("the layout was compared with the tag").at;
        GuestHeader { memory: self.memory(), at, salt: self.layout.salt() }
    }
}
