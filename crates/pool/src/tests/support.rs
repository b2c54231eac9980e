//! What the crash proofs share: small pools on lying memory, seeds from the environment, and a memory that is deaf to
//! some calls, by which bugs are planted (a proof that does not find those proves nothing).

use std::fmt::Write;
use std::sync::{Arc, Weak};

use ferrite_crash::{Crash, ExploreOptions, LyingMemory, Model, Points, explore};
pub use ferrite_crash::{options, rounds, seed};
use ferrite_memory::{Memory, Result as MediumResult, Scheme, Span, forward_memory};
use parking_lot::Mutex;
use proptest::test_runner::{Config as ProptestConfig, RngSeed};

use crate::layout::{CHUNK, POOL_BYTES_MIN};
use crate::{Extent, Format, Freeze, Pool, Zone};

/// Bytes of the pools of the proofs: four chunks to use, and an end that is a multiple of nothing.
pub const POOL_BYTES: u64 = POOL_BYTES_MIN + 2 * CHUNK + 4096 + 3;
/// This boot.
pub const BOOT: [u8; 16] = [9; 16];

/// What a checker says of an image.
pub type CheckVerdict<T = ()> = Result<T, String>;

/// The identity of the pools.
pub fn format() -> Format {
    Format { uuid: *b"proof pool uuid.", boot_id: BOOT }
}

/// A new pool, closed; exploring starts behind its making.
pub fn new_pool(model: Model) -> Arc<LyingMemory> {
    let memory = LyingMemory::new(POOL_BYTES, model);
    Pool::create(&memory, &format()).expect("a new pool");
    memory.barrier().expect("nothing fails yet");
    memory.forget_trace();
    Arc::new(memory)
}

/// Opens the pool in `memory`.
pub fn open(memory: &Arc<LyingMemory>) -> Pool {
    Pool::open(memory.clone(), BOOT).expect("it opens").0
}

/// Opens the pool that a crash left.
pub fn reopen(crash: &Crash<'_>) -> CheckVerdict<(Arc<LyingMemory>, Pool)> {
    let memory = Arc::new(crash.memory());
    let pool = Pool::open(memory.clone(), BOOT).map_err(|error| error.to_string())?.0;
    Ok((memory, pool))
}

/// Whether the allocator holds exactly what the tags and the pool itself use, each page once (T1, A1).
pub fn account(pool: &Pool) -> CheckVerdict {
    let tags = pool.tags();
    let mut expected: Vec<(u64, Zone)> = tags.iter().flat_map(|tag| &tag.extents).flat_map(pages_of).collect();
    expected.extend(pool.own_extents().iter().flat_map(pages_of));
    expected.sort_unstable();
    let mut found: Vec<(u64, Zone)> = pool.space().runs_in_use().iter().flat_map(pages_of).collect();
    found.sort_unstable();
    if let Some(twice) = expected.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(format!("T1: page {} has two owners", twice[0].0));
    }
    if expected != found {
        let leaked: Vec<_> = found.iter().filter(|page| !expected.contains(page)).take(4).collect();
        let missing: Vec<_> = expected.iter().filter(|page| !found.contains(page)).take(4).collect();
        return Err(format!("A1: leaked {leaked:?}, in use but free {missing:?}"));
    }
    Ok(())
}

fn pages_of(extent: &Extent) -> impl Iterator<Item = (u64, Zone)> {
    let zone = extent.zone;
    (extent.page..extent.end()).map(move |page| (page, zone))
}

/// Cases of a model test: `usual` many or FERRITE_ROUNDS, chosen by the seed of this run.
pub fn cases(usual: u64) -> ProptestConfig {
    let cases = rounds(usual) as u32;
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(seed()), failure_persistence: None, ..ProptestConfig::default() }
}

/// Explores the recovery that `memory` recorded: what is left by a crash within it must satisfy `check` too.
pub fn nested(memory: &LyingMemory, check: impl FnMut(&Crash<'_>) -> CheckVerdict) -> CheckVerdict {
    let options = ExploreOptions {
        images_per_point_max: 16,
        samples_per_point: 6,
        points: Points::Widest,
        ..ExploreOptions::default()
    };
    explore(memory, &options, check).failure.map_or(Ok(()), |failure| Err(format!("within recovery: {failure}")))
}

/// A service that gives one of its tags back whenever it is asked.
pub struct HoardService(Weak<Pool>, Vec<&'static str>);

impl HoardService {
    /// One that has the tags called `names`, as long as the result lives.
    pub fn of(pool: &Arc<Pool>, names: &[&'static str]) -> Arc<dyn Freeze> {
        let hoard: Arc<dyn Freeze> = Arc::new(Self(Arc::downgrade(pool), names.to_vec()));
        pool.register_freezer(Arc::downgrade(&hoard));
        hoard
    }
}

impl Freeze for HoardService {
    fn freeze(&self) {}

    fn thaw(&self) {}

    fn spare(&self) -> bool {
        let pool = self.0.upgrade().expect("it is asked by it");
        let first = self.1.iter().find_map(|name| pool.tag(name).ok());
        first.is_some_and(|tag| pool.remove_tag(&tag).is_ok())
    }
}

/// A call that orders or settles stores, or gives some up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryCall {
    /// Lines of this span start on their way.
    Flush(Span),
    /// A fence, or a barrier; with the last span that was stored before.
    Settle(Span),
    /// The host may drop this span.
    Release(Span),
}

type IgnoredCalls = dyn Fn(MemoryCall) -> bool + Send + Sync;

/// A memory to which some calls are never made: the planted bug.
pub struct DeafMemory {
    memory: Arc<LyingMemory>,
    ignores: Box<IgnoredCalls>,
    mistakes: fn(Span) -> Span,
    stored: Mutex<Span>,
}

impl DeafMemory {
    /// `memory` without the calls that `ignores` picks.
    pub fn new(memory: &Arc<LyingMemory>, ignores: impl Fn(MemoryCall) -> bool + Send + Sync + 'static) -> Arc<Self> {
        let stored = Mutex::new(Span::new(0, 0));
        Arc::new(Self { memory: memory.clone(), ignores: Box::new(ignores), mistakes: |span| span, stored })
    }

    /// `memory`, which settles another span than the one that it is asked to settle.
    pub fn mistaking(memory: &Arc<LyingMemory>, mistakes: fn(Span) -> Span) -> Arc<Self> {
        let stored = Mutex::new(Span::new(0, 0));
        Arc::new(Self { memory: memory.clone(), ignores: Box::new(|_| false), mistakes, stored })
    }

    fn hears(&self, call: MemoryCall) -> bool {
        !(self.ignores)(call)
    }

    fn note(&self, span: Span) {
        *self.stored.lock() = span;
    }

    fn drain_call(&self) -> MemoryCall {
        MemoryCall::Settle(*self.stored.lock())
    }
}

impl Memory for DeafMemory {
    forward_memory!(self => self.memory; size, survival, fence_is_durable, load, load_word, reserve);

    fn store(&self, at: u64, from: &[u8], how: Scheme) {
        self.note(Span::new(at, from.len() as u64));
        let flushed = how == Scheme::Nt || self.hears(MemoryCall::Flush(Span::new(at, from.len() as u64)));
        self.memory.store(at, from, if flushed { how } else { Scheme::Writeback });
    }

    fn zero(&self, span: Span, how: Scheme) {
        self.note(span);
        self.memory.zero(span, how);
    }

    fn store_word(&self, at: u64, value: u64) {
        self.note(Span::new(at, 8));
        self.memory.store_word(at, value);
    }

    fn store_words(&self, pieces: &[(u64, &[u8])]) {
        pieces.iter().for_each(|(at, from)| self.note(Span::new(*at, from.len() as u64)));
        self.memory.store_words(pieces);
    }

    fn flush(&self, span: Span) {
        if self.hears(MemoryCall::Flush(span)) {
            self.memory.flush(span);
        }
    }

    fn fence(&self) {
        if self.hears(self.drain_call()) {
            self.memory.fence();
        }
    }

    fn barrier(&self) -> MediumResult<()> {
        if self.hears(self.drain_call()) { self.memory.barrier() } else { Ok(()) }
    }

    fn drain_range(&self, span: Span) -> MediumResult<()> {
        if self.hears(self.drain_call()) { self.memory.drain_range((self.mistakes)(span)) } else { Ok(()) }
    }

    fn release(&self, span: Span) -> MediumResult<()> {
        if self.hears(MemoryCall::Release(span)) { self.memory.release(span) } else { Ok(()) }
    }
}

/// Returns the lines of 64 bytes of a golden image that are not zeros, each with its place. `what` says what it is.
pub fn lines_of(what: &str, image: &[u8]) -> String {
    let mut text = format!("# {what}, {} bytes: its lines that are not zeros.\n", image.len());
    for (number, line) in image.chunks(64).enumerate().filter(|(_, line)| line.iter().any(|byte| *byte != 0)) {
        write!(text, "{:x} ", number * 64).unwrap();
        line.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
        text.push('\n');
    }
    text
}

/// Returns the golden image of `size` bytes with these lines: see [`lines_of`].
pub fn of_lines(text: &str, size: u64) -> Vec<u8> {
    let mut image = vec![0; size as usize];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (place, bytes) = line.split_once(' ').expect("a place and bytes");
        let place = usize::from_str_radix(place, 16).expect("a place");
        for (index, digits) in bytes.as_bytes().chunks(2).enumerate() {
            image[place + index] = u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).expect("a byte");
        }
    }
    image
}
