//! Sequences with worked-out answers for each rule of the page-level scheme.

use super::super::{FlashPage, FtlScheme, HostPage, PageLevel, VictimChoice};
use super::{Random, drive, shape, write_all};
use crate::Error;

const GREEDY: FtlScheme = FtlScheme::Page(VictimChoice::Greedy);

/// PL1, TL3: pages go to blocks 0, 1, .. in order, whatever their numbers.
#[test]
fn pl1_pages_go_to_the_active_block_in_order() {
    let mut drive = drive(GREEDY, shape(4, 4, 4));
    let figures = write_all(&mut drive, [9, 3, 9, 0, 9]);
    assert_eq!((figures.host_writes, figures.erases, figures.write_amplification), (5, 0, 1.0));
    let places = [9, 3, 0, 1].map(|page| drive.layer().locate(HostPage(page)));
    assert_eq!(places, [Some(FlashPage(4)), Some(FlashPage(1)), Some(FlashPage(3)), None]);
}

/// PL2, PL3: 8 blocks of 4. The first 20 writes fill blocks 0 to 4: three are free. The next write triggers a
/// collection.
#[test]
fn pl2_collecting_begins_with_three_free_blocks_and_ends_with_four() {
    let mut drive = drive(GREEDY, shape(4, 4, 4));
    // Blocks 0 to 3: 0..16. Block 4: 0, 1, 2, 4, so that block 0 has three invalid pages, block 1 one.
    let figures = write_all(&mut drive, (0..16).chain([0, 1, 2, 4]));
    assert_eq!((figures.erases, figures.copied_pages), (0, 0));
    // Block 0 is the victim: page 3 is copied to block 5, block 0 erased: three are free. Then block 1 with one invalid
    // page: pages 5, 6, 7 fill block 5, block 1 is erased: four are free. Block 5 is full, so block 6 is opened.
    let figures = write_all(&mut drive, [0]);
    assert_eq!((figures.erases, figures.copied_pages, figures.reclaimed_blocks), (2, 4, 2));
    assert_eq!((figures.copied_per_erase, figures.copied_per_reclaimed_block), (2.0, 2.0));
    assert_eq!(figures.write_amplification, 25.0 / 21.0);
    let places = [3, 5, 6, 7, 0].map(|page| drive.layer().locate(HostPage(page)).map(|at| at.0));
    assert_eq!(places, [20, 21, 22, 23, 24].map(Some));
    // Block 6 is filled, and the next page finds three free. Block 4 (page 4 is valid) goes to block 7, which was never
    // erased, and block 5 (pages 5, 6, 7) too; of the blocks erased once the lowest is next.
    let figures = write_all(&mut drive, [1, 2, 3, 12]);
    assert_eq!((figures.erases, figures.copied_pages), (4, 8));
    let places = [4, 5, 6, 7, 12].map(|page| drive.layer().locate(HostPage(page)).map(|at| at.0));
    assert_eq!(places, [28, 29, 30, 31, 0].map(Some));
    assert_eq!((figures.wear.least_erases, figures.wear.most_erases, figures.wear.mean_erases), (0, 1, 0.5));
}

/// Of several victims with as many invalid pages the lowest is taken: blocks 1 and 3 both have all four.
#[test]
fn pl2_a_tie_is_won_by_the_lowest_block() {
    let mut drive = drive(GREEDY, shape(4, 4, 4));
    write_all(&mut drive, (0..16).chain([12, 13, 14, 15]));
    // Block 3 alone has invalid pages; it is collected without a copy: four are free.
    let figures = write_all(&mut drive, [4]);
    assert_eq!((figures.erases, figures.copied_pages), (1, 0));
    // Block 5 is active (pages 4, 5, 6, 7): block 1 is invalid.
    let figures = write_all(&mut drive, [5, 6, 7]);
    assert_eq!(figures.erases, 1);
    let figures = write_all(&mut drive, [0]);
    assert_eq!((figures.erases, figures.copied_pages), (2, 0));
    // Never erased: 6, then 7; after them the blocks erased once, of which 1 and 3 are free and 1 is the lower.
    assert_eq!(drive.layer().locate(HostPage(0)), Some(FlashPage(24)));
}

/// A drive that is written in order again and again has nothing to copy.
#[test]
fn in_order_nothing_is_copied_and_wear_is_even() {
    for (_, choice) in VictimChoice::ALL {
        let mut drive = drive(FtlScheme::Page(choice), shape(16, 4, 8));
        let figures = write_all(&mut drive, (0..20 * 128).map(|write| write % 128));
        assert_eq!(figures.copied_pages, 0, "{choice:?}");
        assert!(figures.wear.most_erases - figures.wear.least_erases <= 2, "{choice:?} {:?}", figures.wear);
    }
}

/// The block that was filled first is the victim even if another has more invalid pages.
#[test]
fn fifo_takes_the_block_that_was_filled_first() {
    let mut drive = drive(FtlScheme::Page(VictimChoice::Fifo), shape(4, 4, 4));
    // Blocks 0 to 3 in order, block 4 makes block 3 invalid; block 0 is taken, its four pages fill block 5; then 1, 2,
    // and at last 3, which gives a block.
    let figures = write_all(&mut drive, (0..16).chain([12, 13, 14, 15, 0]));
    assert_eq!((figures.erases, figures.copied_pages), (4, 12));
}

/// Two blocks have one invalid page each: the older one by cost and benefit is taken, even though it is higher.
#[test]
fn cost_benefit_takes_the_older_of_two_that_gain_as_much() {
    let mut drive = drive(FtlScheme::Page(VictimChoice::CostBenefit), shape(4, 4, 4));
    // Page 4 of block 1 becomes invalid first, page 0 of block 0 later.
    write_all(&mut drive, (0..16).chain([4, 4, 0, 0]));
    // Block 4 (two invalid of its own) has age 1: 1 x 2/4 = 0.5. Block 1: age 5 - 1 .. = 4 x 1/6; block 0: 2 x 1/6.
    let figures = write_all(&mut drive, [1]);
    let places = [5, 6, 7].map(|page| drive.layer().locate(HostPage(page)).map(|at| at.0));
    assert_eq!(places, [20, 21, 22].map(Some), "block 1 was not the first victim: {figures:?}");
}

/// A trimmed page is not copied, and is nowhere.
#[test]
fn a_trimmed_page_is_not_copied() {
    let mut drive = drive(GREEDY, shape(4, 4, 4));
    write_all(&mut drive, (0..16).chain([0, 1, 2, 4]));
    drive.trim(HostPage(3)).expect("it was written");
    drive.trim(HostPage(3)).expect("again");
    let figures = write_all(&mut drive, [0]);
    // Block 0 is all invalid: it is erased without a copy.
    assert_eq!((figures.erases, figures.copied_pages, figures.trimmed_pages), (1, 0, 2));
    assert_eq!(drive.layer().locate(HostPage(3)), None);
}

/// With as few extra blocks as possible every write of a full drive still succeeds.
#[test]
fn the_smallest_drive_takes_every_write() {
    for (_, choice) in VictimChoice::ALL {
        let mut drive = drive(FtlScheme::Page(choice), shape(3, 4, 2));
        drive.prefill().expect("it fits");
        let mut random = Random(7);
        let figures = write_all(&mut drive, (0..2000).map(|_| random.below(6)));
        assert_eq!(figures.host_writes, 2000, "{choice:?}");
    }
}

/// A prefilled drive has cost nothing yet, and holds every page.
#[test]
fn prefilling_is_not_counted() {
    let mut drive = drive(GREEDY, shape(4, 4, 4));
    drive.prefill().expect("it fits");
    assert_eq!(
        (drive.figures().expect("whole").host_writes, drive.figures().expect("whole").latency.max_us),
        (0, 200.0)
    );
    assert!((0..16).all(|page| drive.layer().locate(HostPage(page)) == Some(FlashPage(page))));
}

/// Prefilling ends soon after its caller stops it.
#[test]
fn prefilling_is_stopped() {
    let mut drive = drive(GREEDY, shape(10_000, 4, 4));
    let mut asked = Vec::new();
    let is_whole = drive.prefill_while(&mut |written| {
        asked.push(written);
        asked.len() < 3
    });
    assert!(!is_whole.expect("it fits"));
    assert_eq!((asked, drive.figures().expect("whole").host_writes), (vec![0, 4096, 8192], 8192));
}

#[test]
fn what_cannot_be_is_refused() {
    assert!(matches!(PageLevel::new(shape(4, 3, 4), VictimChoice::Greedy), Err(Error::Model(_))));
    for refused in [shape(0, 4, 4), shape(4, 4, 0), shape(4, 4, 1 << 16), shape(1 << 20, 4, 1 << 15)] {
        assert!(refused.check().is_err(), "{refused:?}");
    }
    let mut drive = drive(GREEDY, shape(4, 4, 4));
    assert!(matches!(drive.write(HostPage(16)), Err(Error::Beyond { page: 16, pages: 16 })));
}

/// The latency of a write: its own program, and the copies and erases before it.
#[test]
fn latency_is_that_of_what_was_done() {
    let mut drive = drive(GREEDY, shape(4, 4, 4));
    let figures = write_all(&mut drive, (0..16).chain([0, 1, 2, 4, 0]));
    let slow_us = 200.0 + 4.0 * 225.0 + 2.0 * 2000.0;
    assert_eq!((figures.latency.p50_us, figures.latency.max_us), (200.0, slow_us));
    assert!((figures.latency.mean_us - (20.0 * 200.0 + slow_us) / 21.0).abs() < 1e-9);
}
