//! Both schemes compared with their plain descriptions: the same requests, the same figures.

use proptest::prelude::*;

use super::super::{FlashShape, FtlScheme, HostPage, VictimChoice};
use super::naive_fast::NaiveFast;
use super::naive_page::NaivePage;
use super::{drive, shape};
use crate::support;

#[derive(Clone, Copy, Debug)]
enum Op {
    Write(u32),
    Run(u32, u32),
    Trim(u32),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        8 => any::<u32>().prop_map(Op::Write),
        // A few pages, written often.
        4 => (0_u32..12).prop_map(Op::Write),
        3 => (any::<u32>(), 1_u32..12).prop_map(|(page, count)| Op::Run(page, count)),
        1 => any::<u32>().prop_map(Op::Trim),
    ];
    prop::collection::vec(op, 0..600)
}

/// Returns the pages of the operations, one by one, and whether each is written or trimmed.
fn requests(ops: &[Op], shape: FlashShape) -> Vec<(u32, bool)> {
    let pages = shape.host_pages();
    let of = |op: &Op| match *op {
        Op::Write(page) => vec![(page % pages, true)],
        Op::Run(page, count) => (0..count).map(|at| ((page % pages + at) % pages, true)).collect(),
        Op::Trim(page) => vec![(page % pages, false)],
    };
    ops.iter().flat_map(of).collect()
}

fn page_is_as_described(choice: VictimChoice, shape: FlashShape, ops: &[Op]) -> Result<(), TestCaseError> {
    let (mut drive, mut naive) = (drive(FtlScheme::Page(choice), shape), NaivePage::new(shape, choice));
    for (page, is_write) in requests(ops, shape) {
        if is_write {
            drive.write(HostPage(page)).unwrap();
            naive.write(page);
        } else {
            drive.trim(HostPage(page)).unwrap();
            naive.trim(page);
        }
        let counts = drive.counts();
        let found = (counts.copied_pages, counts.erases);
        prop_assert_eq!(found, (naive.copied_pages, naive.erases), "after page {}, written: {}", page, is_write);
    }
    prop_assert_eq!(drive.erases(), naive.wear());
    drive.verify().unwrap();
    Ok(())
}

fn fast_is_as_described(shape: FlashShape, log_blocks: u32, ops: &[Op]) -> Result<(), TestCaseError> {
    let mut drive = drive(FtlScheme::Fast { log_blocks: Some(log_blocks) }, shape);
    let mut naive = NaiveFast::new(shape, log_blocks);
    for (page, is_write) in requests(ops, shape) {
        if is_write {
            drive.write(HostPage(page)).unwrap();
            naive.write(page);
        } else {
            drive.trim(HostPage(page)).unwrap();
            naive.trim(page);
        }
        let it = drive.counts();
        let counts = [it.switch_merges, it.partial_merges, it.full_merges, it.erases, it.copied_pages];
        prop_assert_eq!(counts, naive.counts, "after page {}, written: {}", page, is_write);
    }
    drive.verify().unwrap();
    Ok(())
}

proptest! {
    #![proptest_config(support::cases(64))]

    /// PL1 to PL3, TL2, TL3, with every choice of victims.
    #[test]
    fn page_level_does_what_its_rules_say(
        ops in ops(), blocks in 1_u32..12, extra in 4_u32..8, pages in 1_u32..9, choice in 0_usize..3
    ) {
        page_is_as_described(VictimChoice::ALL[choice].1, shape(blocks, extra, pages), &ops)?;
    }

    /// FA1 to FA5, TL2.
    #[test]
    fn fast_does_what_its_rules_say(
        ops in ops(), blocks in 1_u32..12, log_blocks in 1_u32..6, spare in 0_u32..3, pages in 1_u32..9
    ) {
        fast_is_as_described(shape(blocks, log_blocks + 2 + spare, pages), log_blocks, &ops)?;
    }
}
