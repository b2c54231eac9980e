//! What this processor can do for a write scheme.

use crate::{Error, Raced, Result, Scheme};

/// An instruction that writes a cache line back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFlush {
    /// `clwb`: writes back, may keep the line.
    Clwb,
    /// `clflushopt`: writes back and evicts, unordered among themselves.
    Clflushopt,
    /// `clflush`: writes back and evicts, one after the other. Every x86-64 has it.
    Clflush,
}

/// The widest non-temporal store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamWidth {
    /// 64 bytes: a line at once.
    Avx512,
    /// 32 bytes.
    Avx2,
    /// 16 bytes: every x86-64 has it.
    Sse2,
}

/// The instructions chosen for this processor.
#[derive(Clone, Copy, Debug)]
pub struct Cpu {
    /// The best line flush.
    pub line_flush: LineFlush,
    /// The widest non-temporal store.
    pub stream_width: StreamWidth,
    /// Bytes from which on a string instruction moves lines at the speed of vectors, or faster; none does where it starts
    /// slowly. On AMD's family 26 shorter ones take half as long again out of the caches.
    pub string_bytes_min: usize,
    /// A non-temporal store takes the line out of the caches where it was in one. Intel says so (SDM volume 1, 10.4.6.2).
    /// AMD leaves it to the implementation, and its family 26 was seen to keep the line and to store into it.
    pub streams_past_caches: bool,
    /// Lines that are asked for into the second level of the cache come beside those that the first waits for. Seen on AMD's
    /// processors with AVX-512, which are Zen 4 and 5. On Zen 3 they do not, and the hints are in the way: 4 KiB from random
    /// places take a quarter longer with them.
    pub has_second_queue: bool,
    has_clwb: bool,
    has_clflushopt: bool,
}

/// Makers, as CPUID's leaf 0 spells them in EBX, EDX and ECX.
#[cfg(target_arch = "x86_64")]
mod makers {
    pub const INTEL: [u32; 3] =
        [u32::from_le_bytes(*b"Genu"), u32::from_le_bytes(*b"ineI"), u32::from_le_bytes(*b"ntel")];
    pub const AMD: [u32; 3] =
        [u32::from_le_bytes(*b"Auth"), u32::from_le_bytes(*b"enti"), u32::from_le_bytes(*b"cAMD")];
}

static CPU: Raced<Cpu> = Raced::new();

impl Cpu {
    /// This machine's, found once.
    #[inline]
    pub fn get() -> Self {
        *CPU.get_or(Self::detect)
    }

    /// The instruction that `scheme` flushes lines with; `clflush` where the one it names is missing.
    #[inline]
    pub fn line_flush_of(self, scheme: Scheme) -> LineFlush {
        match scheme {
            Scheme::Clwb if self.has_clwb => LineFlush::Clwb,
            Scheme::Clflushopt if self.has_clflushopt => LineFlush::Clflushopt,
            Scheme::Clwb | Scheme::Clflushopt | Scheme::Clflush => LineFlush::Clflush,
            _ => self.line_flush,
        }
    }

    fn from_bits(has_clwb: bool, has_clflushopt: bool, stream_width: StreamWidth) -> Self {
        let line_flush = match (has_clwb, has_clflushopt) {
            (true, _) => LineFlush::Clwb,
            (false, true) => LineFlush::Clflushopt,
            (false, false) => LineFlush::Clflush,
        };
        Self {
            line_flush,
            stream_width,
            string_bytes_min: usize::MAX,
            streams_past_caches: false,
            has_second_queue: false,
            has_clwb,
            has_clflushopt,
        }
    }

    /// CPUID leaf 0 is the maker, leaf 1's EAX has the family. Leaf 7: EBX bit 23 is clflushopt, bit 24 is clwb; EDX bit 4 is
    /// FSRM (Intel SDM volume 2, CPUID).
    #[cfg(target_arch = "x86_64")]
    fn detect() -> Self {
        let leaf = std::arch::x86_64::__cpuid_count(7, 0);
        let stream_width = if std::arch::is_x86_feature_detected!("avx512f") {
            StreamWidth::Avx512
        } else if std::arch::is_x86_feature_detected!("avx2") {
            StreamWidth::Avx2
        } else {
            StreamWidth::Sse2
        };
        let found = Self::from_bits(leaf.ebx & (1 << 24) != 0, leaf.ebx & (1 << 23) != 0, stream_width);
        let maker = std::arch::x86_64::__cpuid(0);
        let maker = [maker.ebx, maker.edx, maker.ecx];
        let family = family(std::arch::x86_64::__cpuid(1).eax);
        let string_bytes_min = match leaf.edx & (1 << 4) {
            0 => usize::MAX,
            _ if maker == makers::AMD && family > 25 => 16 << 10,
            _ => 1 << 10,
        };
        Self {
            string_bytes_min,
            streams_past_caches: maker == makers::INTEL,
            has_second_queue: maker == makers::AMD && stream_width == StreamWidth::Avx512,
            ..found
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn detect() -> Self {
        Self::from_bits(false, false, StreamWidth::Sse2)
    }
}

/// Returns the family in EAX of leaf 1: four basic bits, continued in eight others.
#[cfg(target_arch = "x86_64")]
fn family(eax: u32) -> u32 {
    match eax >> 8 & 0xf {
        0xf => 0xf + (eax >> 20 & 0xff),
        basic => basic,
    }
}

impl Scheme {
    /// Refuses a scheme whose instruction this processor lacks.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn ensure_available(self) -> Result<()> {
        let cpu = Cpu::get();
        let available = match self {
            Self::Clwb => cpu.has_clwb,
            Self::Clflushopt => cpu.has_clflushopt,
            _ => true,
        };
        if available {
            return Ok(());
        }
        Err(Error::Unsupported(format!("this processor has no {}: use the scheme flush or nt", self.name())))
    }
}
