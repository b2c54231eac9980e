use super::*;
use crate::ftl::tests::Random;

/// PL4, with blocks of one word of bits, of part of a word, and of more than one, under random writes and trims.
#[test]
fn pl4_what_is_noted_as_valid_is_what_the_map_names() {
    for block_pages in [5, 64, 130] {
        let shape = FlashShape { logical_blocks: 6, extra_blocks: 5, block_pages, page_bytes: 4096 };
        let (mut layer, mut flash) = (PageLevel::new(shape, VictimChoice::Greedy).unwrap(), Flash::new(shape));
        let mut random = Random(7);
        for _ in 0..20 * shape.flash_pages() {
            let page = HostPage(random.below(shape.host_pages()));
            if random.below(8) == 0 {
                layer.trim(page, &mut flash);
            } else {
                layer.write(page, &mut flash);
            }
        }
        assert!(flash.counts.erases > 20, "nothing was collected");
        for block in (0..shape.blocks()).map(FlashBlock) {
            let named = |at: &FlashPage| flash.page_at(*at).is_some_and(|page| layer.locate(page) == Some(*at));
            let named: Vec<_> = shape.pages_of(block).filter(named).collect();
            let noted: Vec<_> = layer.valid.of(block).map(|offset| shape.page_at(block, offset)).collect();
            assert_eq!(noted, named, "blocks of {block_pages}");
            assert_eq!(layer.valid.count(block) as usize, named.len(), "blocks of {block_pages}");
        }
    }
}
