//! What kinds of SSD there are.

use crate::sim_disk::WriteCache;

/// The properties of an SSD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsdProfile {
    /// Pages that are read or programmed at once.
    pub channels: usize,
    /// Bytes of a page.
    pub page_bytes: u32,
    /// From a channel's turning to a page until its bytes can go to the host.
    pub read_ns: u64,
    /// A page's program.
    pub program_ns: u64,
    /// The duration of a block's erase, in ns. Only a drive with a translation layer erases.
    pub erase_ns: u64,
    /// The controller's time for each request: the most requests a second are its inverse.
    pub command_ns: u64,
    /// Rate between host and device, in bytes a second.
    pub link_bytes_per_s: u64,
    /// Where a write is when it completes.
    pub cache: WriteCache,
    /// The duration of a flush with an empty cache, in ns: the device's own tables are written.
    pub flush_ns: u64,
    /// Bytes of an erase block.
    pub block_bytes: u32,
    /// The duration of a trim, in ns, without its blocks.
    pub trim_ns: u64,
    /// The part of a trim's duration for each erase block that it touches, in ns.
    pub trim_block_ns: u64,
    /// By how much, up and down, the time of a page differs from the mean, in per cent of it.
    pub variation_percent: u32,
}

impl SsdProfile {
    /// The profile of that name: `ssd-x25e`, `ssd-sata`, `ssd-nvme` or `ssd-nvme-plp`.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "ssd-x25e" => Some(Self::x25e()),
            "ssd-sata" => Some(Self::sata()),
            "ssd-nvme" => Some(Self::nvme()),
            "ssd-nvme-plp" => Some(Self::nvme_plp()),
            _ => None,
        }
    }

    /// Intel's X25-E of PMBD's testbed (SLC flash, ten channels, SATA at 3 Gb/s), by its data sheet: a 4 KiB read in
    /// 75 us, 35,000 of them a second, 250 MB/s reading and 170 MB/s writing.
    ///
    /// An erase takes 1.5 ms (Agrawal et al., "Design tradeoffs for SSD performance", 2008). The X25-E has no trim. The
    /// model's trim is an estimate: it writes the tables, like a flush, and erases blocks of 256 KiB on ten channels at
    /// once.
    pub fn x25e() -> Self {
        Self {
            channels: 10,
            page_bytes: 4096,
            read_ns: 33_000,
            program_ns: 240_000,
            erase_ns: 1_500_000,
            command_ns: 27_000,
            link_bytes_per_s: 265_000_000,
            cache: WriteCache::Volatile(256 << 10),
            flush_ns: 100_000,
            block_bytes: 256 << 10,
            trim_ns: 100_000,
            trim_block_ns: 150_000,
            variation_percent: 10,
        }
    }

    /// A consumer's SATA SSD of the late 2010s: 90 us, 95,000 reads a second, 550 and 520 MB/s.
    ///
    /// Its trim is an estimate between the 70 us of an NVMe SSD and the 10 ms of an early SATA SSD (OCZ Agility 3, by
    /// the author of `trim_perf`): 300 us, and 5 us for each 256 KiB.
    pub fn sata() -> Self {
        Self {
            channels: 32,
            read_ns: 72_000,
            program_ns: 250_000,
            command_ns: 10_400,
            link_bytes_per_s: 560_000_000,
            cache: WriteCache::Volatile(64 << 20),
            flush_ns: 800_000,
            trim_ns: 300_000,
            trim_block_ns: 5_000,
            ..Self::x25e()
        }
    }

    /// A consumer's NVMe SSD on four lanes of PCIe 3: 70 us, 600,000 reads a second, 3.4 and 3 GB/s.
    ///
    /// Its trims have the times of two drives: 4 KiB in 63 to 72 us (fio's issue 764), and 572 MiB in 1.37 ms
    /// (diskplorer's pull request 31), which is 0.6 us for each 256 KiB. Its erase is an estimate: a tenth of the
    /// programs of a block, as on the X25-E.
    pub fn nvme() -> Self {
        Self {
            channels: 64,
            read_ns: 66_000,
            program_ns: 85_000,
            erase_ns: 530_000,
            command_ns: 1_600,
            link_bytes_per_s: 3_400_000_000,
            cache: WriteCache::Volatile(256 << 20),
            flush_ns: 300_000,
            trim_ns: 68_000,
            trim_block_ns: 600,
            ..Self::x25e()
        }
    }

    /// The same with capacitors that save its cache: a flush costs nothing but the request.
    pub fn nvme_plp() -> Self {
        Self { cache: WriteCache::Protected(256 << 20), flush_ns: 0, ..Self::nvme() }
    }
}
