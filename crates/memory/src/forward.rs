//! Forwarding methods of a memory to another memory.

use std::sync::Arc;

use crate::Memory;

/// Inside an `impl Memory`, forwards the listed methods to another memory, as in `forward_memory!(self => self.inner;
/// size, survival, load)`.
#[macro_export]
macro_rules! forward_memory {
    ($self:ident => $inner:expr; $($method:ident),+) => {
        $($crate::forward_memory!(@$method $self $inner);)+
    };
    (@fn $self:ident $inner:expr, $method:ident($($argument:ident: $kind:ty),*) $(-> $out:ty)?) => {
        #[inline]
        fn $method(&$self $(, $argument: $kind)*) $(-> $out)? {
            $inner.$method($($argument),*)
        }
    };
    (@size $($to:tt)+) => { $crate::forward_memory!(@fn $($to)+, size() -> u64); };
    (@survival $($to:tt)+) => { $crate::forward_memory!(@fn $($to)+, survival() -> $crate::Survival); };
    (@fence_is_durable $($to:tt)+) => { $crate::forward_memory!(@fn $($to)+, fence_is_durable() -> bool); };
    (@load $($to:tt)+) => { $crate::forward_memory!(@fn $($to)+, load(at: u64, into: &mut [u8])); };
    (@load_summed $($to:tt)+) => {
        $crate::forward_memory!(@fn $($to)+, load_summed(at: u64, into: &mut [u8]) -> Option<u32>);
    };
    (@load_hole $($to:tt)+) => { $crate::forward_memory!(@fn $($to)+, load_hole(into: &mut [u8])); };
    (@expect_store $($to:tt)+) => { $crate::forward_memory!(@fn $($to)+, expect_store(at: u64)); };
    (@store $($to:tt)+) => { $crate::forward_memory!(@fn $($to)+, store(at: u64, from: &[u8], how: $crate::Scheme)); };
    (@store_summed $($to:tt)+) => {
        $crate::forward_memory!(@fn $($to)+, store_summed(at: u64, from: &[u8]) -> Option<$crate::Fletcher>);
    };
    (@zero $($to:tt)+) => { $crate::forward_memory!(@fn $($to)+, zero(span: $crate::Span, how: $crate::Scheme)); };
    (@load_word $($to:tt)+) => { $crate::forward_memory!(@fn $($to)+, load_word(at: u64) -> u64); };
    (@load_words $($to:tt)+) => { $crate::forward_memory!(@fn $($to)+, load_words(at: u64, into: &mut [u64])); };
    (@store_word $($to:tt)+) => { $crate::forward_memory!(@fn $($to)+, store_word(at: u64, value: u64)); };
    (@store_words $($to:tt)+) => { $crate::forward_memory!(@fn $($to)+, store_words(pieces: &[(u64, &[u8])])); };
    (@flush $($to:tt)+) => { $crate::forward_memory!(@fn $($to)+, flush(span: $crate::Span)); };
    (@fence $($to:tt)+) => { $crate::forward_memory!(@fn $($to)+, fence()); };
    (@barrier $($to:tt)+) => { $crate::forward_memory!(@fn $($to)+, barrier() -> $crate::Result<()>); };
    (@inherit $($to:tt)+) => { $crate::forward_memory!(@fn $($to)+, inherit() -> $crate::Result<()>); };
    (@reserve $($to:tt)+) => {
        $crate::forward_memory!(@fn $($to)+, reserve(span: $crate::Span) -> $crate::Result<()>);
    };
    (@release $($to:tt)+) => {
        $crate::forward_memory!(@fn $($to)+, release(span: $crate::Span) -> $crate::Result<()>);
    };
    (@share $($to:tt)+) => {
        $crate::forward_memory!(@fn $($to)+, share(span: $crate::Span) -> $crate::Result<$crate::Shared>);
    };
    (@lend $($to:tt)+) => {
        $crate::forward_memory!(@fn $($to)+, lend(span: $crate::Span) -> Option<$crate::Lent<'_>>);
    };
    (@persist $($to:tt)+) => {
        $crate::forward_memory!(@fn $($to)+, persist(span: $crate::Span) -> $crate::Result<()>);
    };
    (@drain $($to:tt)+) => { $crate::forward_memory!(@fn $($to)+, drain() -> $crate::Result<()>); };
    (@drain_range $($to:tt)+) => {
        $crate::forward_memory!(@fn $($to)+, drain_range(span: $crate::Span) -> $crate::Result<()>);
    };
}

/// A memory behind a pointer is a memory, so that wrappers can be put around one that others use too.
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
