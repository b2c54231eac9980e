//! Forwarding methods of a memory to another memory.

/// Inside an `impl Memory`, forwards the listed methods to another memory, as in `forward_memory!(self => self.inner;
/// size, survival, load)`.
#[macro_export]
macro_rules! forward_memory {
    ($self:ident => $inner:expr; $($method:ident),+) => {
        $($crate::forward_memory!(@$method $self $inner);)+
    };
    (@size $self:ident $inner:expr) => {
        #[inline]
        fn size(&$self) -> u64 {
            $inner.size()
        }
    };
    (@survival $self:ident $inner:expr) => {
        fn survival(&$self) -> $crate::Survival {
            $inner.survival()
        }
    };
    (@fence_is_durable $self:ident $inner:expr) => {
        #[inline]
        fn fence_is_durable(&$self) -> bool {
            $inner.fence_is_durable()
        }
    };
    (@load $self:ident $inner:expr) => {
        #[inline]
        fn load(&$self, at: u64, into: &mut [u8]) {
            $inner.load(at, into)
        }
    };
    (@load_summed $self:ident $inner:expr) => {
        #[inline]
        fn load_summed(&$self, at: u64, into: &mut [u8]) -> Option<u32> {
            $inner.load_summed(at, into)
        }
    };
    (@load_hole $self:ident $inner:expr) => {
        fn load_hole(&$self, into: &mut [u8]) {
            $inner.load_hole(into)
        }
    };
    (@expect_store $self:ident $inner:expr) => {
        #[inline]
        fn expect_store(&$self, at: u64) {
            $inner.expect_store(at)
        }
    };
    (@store $self:ident $inner:expr) => {
        #[inline]
        fn store(&$self, at: u64, from: &[u8], how: $crate::Scheme) {
            $inner.store(at, from, how)
        }
    };
    (@store_summed $self:ident $inner:expr) => {
        #[inline]
        fn store_summed(&$self, at: u64, from: &[u8]) -> Option<$crate::Fletcher> {
            $inner.store_summed(at, from)
        }
    };
    (@zero $self:ident $inner:expr) => {
        #[inline]
        fn zero(&$self, span: $crate::Span, how: $crate::Scheme) {
            $inner.zero(span, how)
        }
    };
    (@load_word $self:ident $inner:expr) => {
        #[inline]
        fn load_word(&$self, at: u64) -> u64 {
            $inner.load_word(at)
        }
    };
    (@load_words $self:ident $inner:expr) => {
        #[inline]
        fn load_words(&$self, at: u64, into: &mut [u64]) {
            $inner.load_words(at, into)
        }
    };
    (@store_word $self:ident $inner:expr) => {
        #[inline]
        fn store_word(&$self, at: u64, value: u64) {
            $inner.store_word(at, value)
        }
    };
    (@store_words $self:ident $inner:expr) => {
        #[inline]
        fn store_words(&$self, pieces: &[(u64, &[u8])]) {
            $inner.store_words(pieces)
        }
    };
    (@flush $self:ident $inner:expr) => {
        #[inline]
        fn flush(&$self, span: $crate::Span) {
            $inner.flush(span)
        }
    };
    (@fence $self:ident $inner:expr) => {
        #[inline]
        fn fence(&$self) {
            $inner.fence()
        }
    };
    (@barrier $self:ident $inner:expr) => {
        fn barrier(&$self) -> $crate::Result<()> {
            $inner.barrier()
        }
    };
    (@inherit $self:ident $inner:expr) => {
        fn inherit(&$self) -> $crate::Result<()> {
            $inner.inherit()
        }
    };
    (@reserve $self:ident $inner:expr) => {
        fn reserve(&$self, span: $crate::Span) -> $crate::Result<()> {
            $inner.reserve(span)
        }
    };
    (@release $self:ident $inner:expr) => {
        fn release(&$self, span: $crate::Span) -> $crate::Result<()> {
            $inner.release(span)
        }
    };
    (@share $self:ident $inner:expr) => {
        fn share(&$self, span: $crate::Span) -> $crate::Result<$crate::Shared> {
            $inner.share(span)
        }
    };
    (@lend $self:ident $inner:expr) => {
        fn lend(&$self, span: $crate::Span) -> Option<$crate::Lent<'_>> {
            $inner.lend(span)
        }
    };
    (@persist $self:ident $inner:expr) => {
        #[inline]
        fn persist(&$self, span: $crate::Span) -> $crate::Result<()> {
            $inner.persist(span)
        }
    };
    (@drain $self:ident $inner:expr) => {
        #[inline]
        fn drain(&$self) -> $crate::Result<()> {
            $inner.drain()
        }
    };
    (@drain_range $self:ident $inner:expr) => {
        #[inline]
        fn drain_range(&$self, span: $crate::Span) -> $crate::Result<()> {
            $inner.drain_range(span)
        }
    };
}
