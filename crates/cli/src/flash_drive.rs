//! A simulated flash drive's size and counts, for people.

use ferrite_disk_address::CountedFlash;
use ferrite_sim::ftl::{FlashFigures, FlashShape};

use crate::outcome::Outcome;
use crate::size;

/// Prints the counts of a drive that an address names.
pub fn print(drive: &CountedFlash) -> Outcome {
    let figures = drive.figures()?;
    remark!("{}", show(drive.name, drive.shape, &figures).trim_end());
    Ok(())
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
