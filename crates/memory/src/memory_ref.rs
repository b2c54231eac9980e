//! A memory behind a pointer is a memory, so that wrappers can be put around one that others use too.

use std::sync::Arc;

use crate::{Memory, forward_memory};

macro_rules! memory_behind {
    ($($pointer:ty),*) => {$(
        impl<M: Memory + ?Sized> Memory for $pointer {
            forward_memory!(
                self => (**self);
                size, survival, fence_is_durable, load, load_summed, load_hole, expect_store, store, store_summed, zero, load_word,
                load_words, store_word, store_words, flush, fence, barrier, inherit, reserve, release, share, lend, persist, drain, drain_range
            );
        }
    )*};
}

memory_behind!(&M, Arc<M>);
