//! A memory that calls a hook around each store, so that a test sees the state in which a service stores.

use std::sync::{Arc, Mutex, PoisonError};

use ferrite_memory::{Fletcher, Memory, Scheme, Span, forward_memory};

type Hook = Arc<dyn Fn(StoreMoment) + Send + Sync>;

/// The moment of a call of the hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMoment {
    /// The bytes are the earlier ones.
    Before,
    /// The bytes are stored, and the call has not returned.
    After,
}

/// A memory with a hook. Without one every call goes to the memory behind it.
pub struct StoreHook {
    inner: Arc<dyn Memory>,
    hook: Mutex<Option<Hook>>,
}

impl StoreHook {
    /// Returns `inner` without a hook.
    pub fn new(inner: Arc<dyn Memory>) -> Self {
        Self { inner, hook: Mutex::default() }
    }

    /// Calls `hook` before and after each store from now on.
    pub fn set(&self, hook: impl Fn(StoreMoment) + Send + Sync + 'static) {
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(hook));
    }

    /// Removes the hook.
    pub fn clear(&self) {
        *self.hook.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn call(&self, moment: StoreMoment) {
        // The hook runs without the lock, because it may store.
        let hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(hook) = hook {
            hook(moment);
        }
    }

    fn stored<T>(&self, store: impl FnOnce(&dyn Memory) -> T) -> T {
        self.call(StoreMoment::Before);
        let done = store(&*self.inner);
        self.call(StoreMoment::After);
        done
    }
}

impl Memory for StoreHook {
    forward_memory!(
        self => self.inner;
        size, survival, fence_is_durable, load, load_summed, load_hole, expect_store, load_word, load_words, flush, fence,
        barrier, inherit, reserve, release, share, lend, persist, drain, drain_range
    );

    fn store(&self, at: u64, from: &[u8], how: Scheme) {
        self.stored(|inner| inner.store(at, from, how));
    }

    fn store_summed(&self, at: u64, from: &[u8]) -> Option<Fletcher> {
        self.stored(|inner| inner.store_summed(at, from))
    }

    fn zero(&self, span: Span, how: Scheme) {
        self.stored(|inner| inner.zero(span, how));
    }

    fn store_word(&self, at: u64, value: u64) {
        self.stored(|inner| inner.store_word(at, value));
    }

    fn store_words(&self, pieces: &[(u64, &[u8])]) {
        self.stored(|inner| inner.store_words(pieces));
    }
}
