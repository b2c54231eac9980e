//! FAST's law: with R pages of random log and B data blocks, uniform random writes cost 1 / (R/B + 1) merges each. A
//! block is merged, waits B writes for its next page, and R more until that is reclaimed. The law holds while few pages
//! are written twice in that time.

use super::super::{FtlScheme, HostPage};
use super::{Random, drive, shape};

const BLOCK_PAGES: u32 = 64;

#[test]
fn random_writes_merge_as_often_as_the_law_says() {
    for (blocks, log_blocks) in [(300, 6), (300, 15), (300, 30)] {
        let mut drive =
            drive(FtlScheme::Fast { log_blocks: Some(log_blocks) }, shape(blocks, log_blocks + 2, BLOCK_PAGES));
        drive.prefill().expect("it fits");
        let (mut random, mut before) = (Random(42), (0, 0));
        for write in 0..400_000 {
            if write == 100_000 {
                let figures = drive.figures().expect("whole");
                before = (figures.host_writes, figures.full_merges);
            }
            // First pages go to the sequential log, which the law does not cover.
            let page = random.below(blocks) * BLOCK_PAGES + 1 + random.below(BLOCK_PAGES - 1);
            drive.write(HostPage(page)).expect("in range");
        }
        let figures = drive.figures().expect("whole");
        let merges = (figures.full_merges - before.1) as f64 / (figures.host_writes - before.0) as f64;
        // Pages of the oldest block are reclaimed together: on average half a block younger than R.
        let slots = f64::from(log_blocks * BLOCK_PAGES) - f64::from(BLOCK_PAGES) / 2.0;
        let law = 1.0 / (slots / f64::from(blocks) + 1.0);
        assert!((merges / law - 1.0).abs() < 0.03, "{merges} merges a write, {law} by the law");
        assert_eq!(figures.switch_merges + figures.partial_merges, 0);
    }
}
