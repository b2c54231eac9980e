//! A memory behind a pointer is a memory, so that wrappers can be put around one that others use too.

use std::sync::Arc;

use crate::{Lent, Memory, Result, Scheme, Shared, Span, Survival};

macro_rules! memory_behind {
    ($($pointer:ty),*) => {$(
        impl<M: Memory + ?Sized> Memory for $pointer {
            #[inline]
            fn size(&self) -> u64 {
                (**self).size()
            }

            fn survival(&self) -> Survival {
                (**self).survival()
            }

            #[inline]
            fn fence_is_durable(&self) -> bool {
                (**self).fence_is_durable()
            }

            #[inline]
            fn load(&self, at: u64, into: &mut [u8]) {
                (**self).load(at, into)
            }

            #[inline]
            fn load_summed(&self, at: u64, into: &mut [u8]) -> Option<u32> {
                (**self).load_summed(at, into)
            }

            #[inline]
            fn store(&self, at: u64, from: &[u8], how: Scheme) {
                (**self).store(at, from, how)
            }

            #[inline]
            fn zero(&self, span: Span, how: Scheme) {
                (**self).zero(span, how)
            }

            #[inline]
            fn load_word(&self, at: u64) -> u64 {
                (**self).load_word(at)
            }

            #[inline]
            fn load_words(&self, at: u64, into: &mut [u64]) {
                (**self).load_words(at, into)
            }

            #[inline]
            fn store_word(&self, at: u64, value: u64) {
                (**self).store_word(at, value)
            }

            #[inline]
            fn flush(&self, span: Span) {
                (**self).flush(span)
            }

            #[inline]
            fn fence(&self) {
                (**self).fence()
            }

            fn barrier(&self) -> Result<()> {
                (**self).barrier()
            }

            fn inherit(&self) -> Result<()> {
                (**self).inherit()
            }

            fn reserve(&self, span: Span) -> Result<()> {
                (**self).reserve(span)
            }

            fn release(&self, span: Span) -> Result<()> {
                (**self).release(span)
            }

            fn share(&self, span: Span) -> Result<Shared> {
                (**self).share(span)
            }

            fn lend(&self, span: Span) -> Option<Lent<'_>> {
                (**self).lend(span)
            }

            #[inline]
            fn persist(&self, span: Span) -> Result<()> {
                (**self).persist(span)
            }

            #[inline]
            fn settle(&self) -> Result<()> {
                (**self).settle()
            }
        }
    )*};
}

memory_behind!(&M, Arc<M>);
