//! Helpers for the proofs: small pools on lying memory, seeds from the environment, and a memory that ignores some
//! fences, by which bugs are planted (a proof that does not find them proves nothing).

use std::sync::Arc;

use ferrite_crash::{Crash, LyingMemory, Model};
pub use ferrite_crash::{options, rounds, seed};
use ferrite_memory::{Memory, Result as MediumResult, Scheme, Span, forward_memory};
use ferrite_pool::holding::TagLease;
use ferrite_pool::layout::{CHUNK, POOL_BYTES_MIN};
use ferrite_pool::{Format, Pool};
use parking_lot::Mutex;
use proptest::test_runner::{Config as ProptestConfig, RngSeed};

use crate::logged::{self, Logged, LoggedStructure, Logging};
use crate::object_label::ObjectLabel;

/// The boot id of the tests.
pub const BOOT: [u8; 16] = [9; 16];
/// A small log, so that it wraps around.
pub const LOGGING: Logging = Logging { log_bytes: 8192, checkpoint_records: 0, checkpoint_bytes: 0, salvage: false };

/// The result of a checker for an image.
pub type Verdict<T = ()> = Result<T, String>;

/// Returns a new pool, closed; an exploration starts behind its creation.
pub fn new_pool(model: Model) -> Arc<LyingMemory> {
    let memory = LyingMemory::new(POOL_BYTES_MIN + CHUNK, model);
    Pool::create(&memory, &Format { uuid: *b"proof pool uuid.", boot_id: BOOT }).expect("a new pool");
    memory.barrier().expect("nothing fails yet");
    memory.forget_trace();
    Arc::new(memory)
}

/// Opens the pool in `memory`.
pub fn open_pool<M: Memory + 'static>(memory: &Arc<M>) -> Arc<Pool> {
    Arc::new(Pool::open(Arc::clone(memory) as Arc<dyn Memory>, BOOT).expect("it opens").0)
}

/// Returns the held object "it" of `label`, created if it does not exist.
pub fn hold(pool: &Arc<Pool>, label: &ObjectLabel, log_bytes: u64) -> TagLease {
    if pool.tag("it").is_err() {
        label.spec("it", log_bytes).create(pool).expect("made");
    }
    pool.hold("it").expect("held")
}

/// Opens the logged structure "it".
pub fn logged<S: LoggedStructure>(pool: &Arc<Pool>, logging: Logging) -> crate::Result<Arc<Logged<S>>> {
    Logged::open(hold(pool, &logged::label::<S>().expect("a label"), logging.log_bytes), logging)
}

/// Opens the pool that a crash left.
pub fn reopen(crash: &Crash<'_>) -> Verdict<(Arc<LyingMemory>, Arc<Pool>)> {
    let memory = Arc::new(crash.memory());
    let pool = Pool::open(memory.clone() as Arc<dyn Memory>, BOOT).map_err(|error| error.to_string())?.0;
    Ok((memory, Arc::new(pool)))
}

/// Returns the configuration of a model test: `usual` cases or FERRITE_ROUNDS, chosen by the seed of this run.
pub fn cases(usual: u64) -> ProptestConfig {
    let cases = rounds(usual) as u32;
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(seed()), failure_persistence: None, ..ProptestConfig::default() }
}

/// Decides by the last stored span whether a fence or barrier is ignored.
type Deafness = dyn Fn(Span) -> bool + Send + Sync;

/// A memory that ignores some fences and barriers: the planted bug.
pub struct Deaf {
    memory: Arc<LyingMemory>,
    ignores: Box<Deafness>,
    stored: Mutex<Span>,
}

impl Deaf {
    /// Returns `memory` without the fences behind stores that `ignores` picks.
    pub fn new(memory: &Arc<LyingMemory>, ignores: impl Fn(Span) -> bool + Send + Sync + 'static) -> Arc<Self> {
        let stored = Mutex::new(Span::new(0, 0));
        Arc::new(Self { memory: memory.clone(), ignores: Box::new(ignores), stored })
    }

    fn note(&self, span: Span) {
        *self.stored.lock() = span;
    }

    fn hears(&self) -> bool {
        !(self.ignores)(*self.stored.lock())
    }
}

impl Memory for Deaf {
    forward_memory!(self => self.memory; size, survival, fence_is_durable, load, load_word, flush, reserve);

    fn store(&self, at: u64, from: &[u8], how: Scheme) {
        self.note(Span::new(at, from.len() as u64));
        self.memory.store(at, from, how);
    }

    fn zero(&self, span: Span, how: Scheme) {
        self.note(span);
        self.memory.zero(span, how);
    }

    fn store_word(&self, at: u64, value: u64) {
        self.note(Span::new(at, 8));
        self.memory.store_word(at, value);
    }

    fn fence(&self) {
        if self.hears() {
            self.memory.fence();
        }
    }

    fn barrier(&self) -> MediumResult<()> {
        if self.hears() { self.memory.barrier() } else { Ok(()) }
    }
}
