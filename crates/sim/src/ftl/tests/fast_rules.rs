//! Sequences with worked-out answers for each rule of FAST and each merge. Blocks have four pages; `drive` begins with
//! every page written in place.

use super::super::drive_spec::AnyLayer;
use super::super::{Fast, FlashDrive, FlashFigures, FtlScheme, HostPage};
use super::{drive, shape, write_all};
use crate::Error;

fn prefilled(log_blocks: u32) -> FlashDrive<AnyLayer> {
    let mut drive = drive(FtlScheme::Fast { log_blocks: Some(log_blocks) }, shape(8, log_blocks + 2, 4));
    drive.prefill().expect("it fits");
    drive
}

/// Switch, partial and full merges, erases, copies.
fn merges(figures: &FlashFigures) -> [u64; 5] {
    let FlashFigures { switch_merges, partial_merges, full_merges, erases, copied_pages, .. } = *figures;
    [switch_merges, partial_merges, full_merges, erases, copied_pages]
}

fn after(log_blocks: u32, pages: &[u32]) -> [u64; 5] {
    merges(&write_all(&mut prefilled(log_blocks), pages.iter().copied()))
}

/// FA1: pages are written in any order, also the first page of a block.
#[test]
fn fa1_free_slots_are_written_in_place() {
    let mut drive = drive(FtlScheme::Fast { log_blocks: None }, shape(8, 4, 4));
    let figures = write_all(&mut drive, [5, 4, 0, 7, 2, 6, 1, 3]);
    assert_eq!(merges(&figures), [0; 5]);
    let places = [0, 1, 2, 3, 4, 5, 6, 7].map(|page| drive.layer().locate(HostPage(page)).map(|at| at.0));
    assert_eq!(places, [4, 5, 6, 7, 0, 1, 2, 3].map(Some), "block 1 came first and has the first flash block");
}

/// FA2: a whole block in order costs one erase, counted when the next sequential log begins.
#[test]
fn fa2_a_full_sequential_log_is_switched() {
    assert_eq!(after(2, &[0, 1, 2, 3]), [0; 5]);
    assert_eq!(after(2, &[0, 1, 2, 3, 4]), [1, 0, 0, 1, 0]);
    assert_eq!(after(2, &[0, 1, 2, 3, 0]), [1, 0, 0, 1, 0], "its own next log is one too");
}

/// FA2: two pages of four are in the log, and two are copied.
#[test]
fn fa2_a_partly_filled_sequential_log_is_merged_partially() {
    assert_eq!(after(2, &[0, 1, 4]), [0, 1, 0, 1, 2]);
    assert_eq!(after(2, &[0, 0]), [0, 1, 0, 1, 3]);
}

/// FA3: page 1 comes again: three others are copied, both blocks erased, and the next first page begins a new log.
#[test]
fn fa3_an_earlier_page_merges_fully() {
    assert_eq!(after(2, &[0, 1, 1]), [0, 0, 1, 2, 3]);
    assert_eq!(after(2, &[0, 1, 2, 3, 3]), [0, 0, 1, 2, 3]);
    assert_eq!(after(2, &[0, 1, 1, 4]), [0, 0, 1, 2, 3]);
}

/// FA3: page 3 instead of 2: page 2 is copied, and page 3 becomes a part of the merge.
#[test]
fn fa3_a_later_page_merges_partially_and_is_taken_in() {
    assert_eq!(after(2, &[0, 1, 3]), [0, 1, 0, 1, 1]);
    assert_eq!(after(2, &[0, 3]), [0, 1, 0, 1, 2]);
    let mut drive = prefilled(2);
    write_all(&mut drive, [0, 3]);
    // The first free block became the log, then the data block.
    assert_eq!(
        [0, 1, 2, 3].map(|page| drive.layer().locate(HostPage(page)).map(|at| at.0)),
        [32, 33, 34, 35].map(Some)
    );
}

/// FA4: two log blocks hold eight pages; the ninth reclaims the oldest, which has pages of four blocks.
#[test]
fn fa4_the_oldest_log_block_is_reclaimed_when_all_are_full() {
    let pages = [1, 5, 9, 13, 17, 21, 25, 29];
    assert_eq!(after(2, &pages), [0; 5]);
    // Each of four blocks costs four copies and an erase; then the log block is erased.
    let mut drive = prefilled(2);
    let figures = write_all(&mut drive, pages.into_iter().chain([2]));
    assert_eq!(merges(&figures), [0, 0, 4, 5, 16]);
    assert_eq!(figures.reclaimed_blocks, 1);
    assert_eq!(
        (figures.copied_per_erase, figures.copied_per_merge, figures.copied_per_reclaimed_block),
        (3.2, 4.0, 16.0)
    );
}

/// FA4: a block is merged once for all its pages in the log, at any place, and none of them is valid afterwards.
#[test]
fn fa4_a_block_is_merged_once() {
    // The oldest block has pages 1, 2, 3 of block 0 and 5 of block 1; the next 6 of block 1, three of block 2.
    let first = [1, 2, 3, 5, 6, 9, 10, 11];
    assert_eq!(after(2, &[&first[..], &[13]].concat()), [0, 0, 2, 3, 8]);
    // Four more: in the next oldest only block 2's pages are valid.
    assert_eq!(after(2, &[&first[..], &[13, 14, 15, 17, 18]].concat()), [0, 0, 3, 5, 12]);
}

/// FA4: pages that were written again lie in the log more than once, and only the newest counts.
#[test]
fn fa4_what_was_overwritten_in_the_log_is_not_merged() {
    // The oldest is 1, 1, 1, 5 and the next 1, 9, 9, 9: the first has one valid page, the page of block 1.
    let pages = [1, 1, 1, 5, 1, 9, 9, 9];
    assert_eq!(after(2, &[&pages[..], &[13]].concat()), [0, 0, 1, 2, 4]);
}

/// FA4: block 0 has page 3 in the oldest log block and owns the sequential log (pages 0 and 1): it is merged partially
/// with two copies, one of them from the random log.
#[test]
fn fa4_the_owner_of_the_sequential_log_is_merged_partially() {
    let pages = [3, 5, 9, 13, 17, 21, 25, 29];
    let with_sequential = [&pages[..], &[0, 1], &[6]].concat();
    assert_eq!(after(2, &with_sequential), [0, 1, 3, 5, 2 + 12]);
}

/// FA4: the page that is about to be written still has its old version in the oldest block, so it is merged.
#[test]
fn fa4_the_old_version_of_the_page_is_valid_until_it_is_written() {
    let pages = [1, 1, 1, 1, 5, 9, 13, 17];
    assert_eq!(after(2, &[&pages[..], &[1]].concat()), [0, 0, 1, 2, 4]);
}

/// Blocks that were never filled are merged without the pages they never had.
#[test]
fn merges_copy_only_what_was_written() {
    let mut drive = drive(FtlScheme::Fast { log_blocks: Some(1) }, shape(8, 3, 4));
    // Block 0 has pages 1 and 2 in place; both are written again, and twice more: the log is full.
    let figures = write_all(&mut drive, [1, 2, 1, 2, 1, 2]);
    assert_eq!(merges(&figures), [0; 5]);
    let figures = write_all(&mut drive, [1]);
    assert_eq!(merges(&figures), [0, 0, 1, 2, 2]);
    // Slot 3 of the new data block is still free: written in place.
    let figures = write_all(&mut drive, [3]);
    assert_eq!((merges(&figures), figures.host_writes), ([0, 0, 1, 2, 2], 8));
}

/// A trimmed page is not copied; its slot is used up until the next merge, then free.
#[test]
fn a_trimmed_page_frees_its_slot_with_the_next_merge() {
    let mut drive = prefilled(1);
    drive.trim(HostPage(2)).expect("it was written");
    let figures = write_all(&mut drive, [1, 1, 1, 1, 1]);
    assert_eq!(merges(&figures), [0, 0, 1, 2, 3]);
    let before = drive.layer().locate(HostPage(3)).expect("it was copied");
    write_all(&mut drive, [2]);
    assert_eq!(drive.layer().locate(HostPage(2)).map(|at| at.0 + 1), Some(before.0), "it is in place");
    // A page that was trimmed is not in place before a merge: it goes to the log.
    let mut drive = prefilled(1);
    drive.trim(HostPage(2)).expect("it was written");
    write_all(&mut drive, [2]);
    assert!(drive.layer().locate(HostPage(2)).is_some_and(|at| at.0 >= 32), "it lies in a slot that was programmed");
}

#[test]
fn what_cannot_be_is_refused() {
    for (extra, log_blocks) in [(2, None), (4, Some(3)), (4, Some(0)), (0, None)] {
        assert!(matches!(Fast::new(shape(4, extra, 4), log_blocks), Err(Error::Model(_))), "{extra} {log_blocks:?}");
    }
}
