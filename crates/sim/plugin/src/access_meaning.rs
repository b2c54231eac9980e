//! The meaning of a memory access. QEMU passes a number and has functions that decode it. A call of these functions
//! costs as much as all other work for most accesses. They only select bits, so the plugin asks once which bits they
//! select.
//!
//! This file uses nothing but the language: its tests are with the tests of `record`.

/// The number by which QEMU describes an access.
pub type QemuAccess = u32;

/// The meaning of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessMeaning {
    pub is_write: bool,
    /// Base-two logarithm of the bytes.
    pub size_shift: u32,
}

/// The bits of QEMU's number that carry the meaning.
#[derive(Clone, Copy, Debug)]
pub struct MeaningBits {
    write: QemuAccess,
    /// The adjacent bits of the size's logarithm, and the position of the lowest.
    size: QemuAccess,
    size_at: u32,
}

impl MeaningBits {
    /// Asks for each bit alone, then for numbers of many bits, and checks that the bits together mean the same as
    /// alone. Returns `None` if they do not: then bits alone do not carry the meaning.
    pub fn asked(ask: impl Fn(QemuAccess) -> AccessMeaning) -> Option<Self> {
        let ones = || (0..QemuAccess::BITS).map(|bit| 1 << bit);
        let write = ones().filter(|one| ask(*one).is_write).sum();
        let size: QemuAccess = ones().filter(|one| ask(*one).size_shift > 0).sum();
        let bits = Self { write, size, size_at: size.trailing_zeros() % QemuAccess::BITS };
        let many = (0..1024).map(|number: QemuAccess| number.wrapping_mul(0x9e37_79b9));
        many.chain(ones()).all(|how| bits.of(how) == ask(how)).then_some(bits)
    }

    /// Returns the meaning of `how`.
    #[inline(always)]
    pub fn of(self, how: QemuAccess) -> AccessMeaning {
        AccessMeaning { is_write: how & self.write != 0, size_shift: (how & self.size) >> self.size_at }
    }
}
