//! A disk that is served as a simulated flash drive, which counts its erases.

use std::sync::Arc;

use ferrite_disk::Disk;
use ferrite_sim::ftl::{DriveSpec, FlashFigures, FlashShape, FlashTiming, FtlDisk, FtlScheme, VictimChoice};

use crate::outcome::Outcome;
use crate::size;

/// The names of the schemes in addresses.
const NAMES: [(&str, FtlScheme); 2] =
    [("ftl-page", FtlScheme::Page(VictimChoice::Greedy)), ("ftl-fast", FtlScheme::Fast { log_blocks: None })];
/// The default shape of `sim ftl`.
const LIKE: FlashShape = FlashShape { logical_blocks: 0, extra_blocks: 0, block_pages: 64, page_bytes: 4096 };
const OVER_PROVISION_PERCENT: f64 = 10.0;
/// The extra blocks of the smallest drive.
pub const EXTRA_BLOCKS_MIN: u32 = 8;

/// A simulated flash drive over another disk, new and empty when it is opened.
pub struct Drive {
    name: &'static str,
    shape: FlashShape,
    disk: Arc<FtlDisk<Arc<dyn Disk>>>,
}

impl Drive {
    /// Returns true if `name` at the start of an address names a flash drive.
    pub fn is_named(name: &str) -> bool {
        NAMES.iter().any(|(known, _)| *known == name)
    }

    /// Makes the drive called `name` over `disk`.
    pub fn new(name: &str, disk: &Arc<dyn Disk>) -> Outcome<Self> {
        let named = NAMES.iter().find(|(known, _)| *known == name);
        let (name, scheme) = *named.ok_or_else(|| format!("{name} is no flash drive"))?;
        let shape = FlashShape::of_bytes(disk.geometry().size, OVER_PROVISION_PERCENT, LIKE)?;
        let shape = FlashShape { extra_blocks: shape.extra_blocks.max(EXTRA_BLOCKS_MIN), ..shape };
        let disk = FtlDisk::new(Arc::clone(disk), DriveSpec { scheme, shape, timing: FlashTiming::default() })?;
        Ok(Self { name, shape, disk: Arc::new(disk) })
    }

    /// Returns the drive as a disk.
    pub fn disk(&self) -> Arc<dyn Disk> {
        self.disk.clone()
    }

    /// Prints the drive's counts.
    pub fn print(&self) -> Outcome {
        let figures = self.disk.figures()?;
        remark!("{}", show(self.name, self.shape, &figures).trim_end());
        Ok(())
    }
}

/// Returns the size of a drive, for people.
pub fn size(shape: FlashShape) -> String {
    format!(
        "{} in {}+{} blocks of {} pages of {}",
        size::show(shape.host_bytes()),
        shape.logical_blocks,
        shape.extra_blocks,
        shape.block_pages,
        size::show(shape.page_bytes.into())
    )
}

/// Returns the counts of a drive, for people.
pub fn show(name: &str, shape: FlashShape, figures: &FlashFigures) -> String {
    let FlashFigures { host_writes, copied_pages, erases, wear, latency, .. } = figures;
    let waited = match host_writes {
        0 => format!("{:>12}", "-"),
        _ => format!(
            "{:>12.1} us on average, half within {:.0}, 99 % {:.0}, 99.9 % {:.0}, the longest {:.0}",
            latency.mean_us, latency.p50_us, latency.p99_us, latency.p999_us, latency.max_us
        ),
    };
    format!(
        "{name} on {}\n\
         host writes          {host_writes:>12} pages ({} read, {} trimmed)\n\
         copied               {copied_pages:>12} pages: {:.3} per erase, {:.3} per merge, {:.3} per reclaimed block\n\
         erases               {erases:>12}\n\
         merges               {:>12} switch, {} partial, {} full\n\
         write amplification  {:>12.4}\n\
         wear                 {:>12} to {} erases of a block, {:.2} on average\n\
         latency of a write   {waited}\n",
        size(shape),
        figures.host_reads,
        figures.trimmed_pages,
        figures.copied_per_erase,
        figures.copied_per_merge,
        figures.copied_per_reclaimed_block,
        figures.switch_merges,
        figures.partial_merges,
        figures.full_merges,
        figures.write_amplification,
        wear.least_erases,
        wear.most_erases,
        wear.mean_erases,
    )
}
