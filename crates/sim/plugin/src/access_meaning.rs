//! How memory is accessed. QEMU passes a number, and has functions that tell what it means. To call them costs as much as
//! all else that is done with most accesses; but they only pick bits, and which ones they tell when they are asked.
//!
//! This file uses nothing but the language: its tests are with those of `record`.

/// What QEMU passes.
pub type MemInfo = u32;

/// What it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessMeaning {
    pub is_write: bool,
    /// Base-two logarithm of the bytes.
    pub size_shift: u32,
}

/// The bits that mean it.
#[derive(Clone, Copy, Debug)]
pub struct MeaningBits {
    write: MemInfo,
    /// Those of the logarithm, side by side, and where they begin.
    size: MemInfo,
    size_at: u32,
}

impl MeaningBits {
    /// Asks for each bit alone, and then for numbers of many bits, whether they mean together what they do alone; `None`
    /// if not, for then it is no matter of bits.
    pub fn asked(ask: impl Fn(MemInfo) -> AccessMeaning) -> Option<Self> {
        let ones = || (0..MemInfo::BITS).map(|bit| 1 << bit);
        let write = ones().filter(|one| ask(*one).is_write).sum();
        let size: MemInfo = ones().filter(|one| ask(*one).size_shift > 0).sum();
        let bits = Self { write, size, size_at: size.trailing_zeros() % MemInfo::BITS };
        let many = (0..1024).map(|number: MemInfo| number.wrapping_mul(0x9e37_79b9));
        many.chain(ones()).all(|how| bits.of(how) == ask(how)).then_some(bits)
    }

    /// What they say of `how`.
    #[inline(always)]
    pub fn of(self, how: MemInfo) -> AccessMeaning {
        AccessMeaning { is_write: how & self.write != 0, size_shift: (how & self.size) >> self.size_at }
    }
}
