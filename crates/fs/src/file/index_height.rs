//! The height of the index of a file.

use crate::Result;
use crate::format::inode::Inode;
use crate::format::layout::ROOTS;
use crate::format::word::{IndexWord, NamedBy};
use crate::store::ChunkStore;
use crate::store::change::FsChange;
use ferrite_memory::planted;

/// Raises the index by one: the eight root words move into a page.
pub(crate) fn raise(store: &ChunkStore, inode: &mut Inode) -> Result<()> {
    let mut raised = *inode;
    let mut change = FsChange::new(store);
    raised.head.height += 1;
    if inode.roots.iter().any(|word| *word != IndexWord::NONE) {
        let (node, at) = change.allocate_index_page()?;
        for (index, word) in inode.roots.iter().enumerate() {
            change.write_word(at + index as u64 * 8, word.0);
        }
        raised.roots = [IndexWord::NONE; ROOTS as usize];
        raised.roots[0] = IndexWord::node(node);
        raised.add_pages(1);
    }
    change.write_roots(&mut raised);
    change.commit()?;
    *inode = raised;
    Ok(())
}

/// Makes the index as low as its content allows: the first eight words of its only page move into the inode. Each step
/// is a change of its own with an equal meaning (FT2).
pub(crate) fn lower_index(store: &ChunkStore, inode: &mut Inode) -> Result<()> {
    while let Some((node, roots)) = only_page(store, inode)? {
        let mut lowered = *inode;
        let mut change = FsChange::new(store);
        lowered.head.height -= 1;
        lowered.head.pages = lowered.head.pages.saturating_sub(1);
        lowered.roots = roots;
        change.write_roots(&mut lowered);
        planted!("fs: split lowering" => std::mem::replace(&mut change, FsChange::new(store)).commit()?);
        change.free_page(node);
        change.commit()?;
        *inode = lowered;
    }
    Ok(())
}

/// Returns the only index page of the inode with its words, if these fit into the inode.
fn only_page(store: &ChunkStore, inode: &Inode) -> Result<Option<(u64, [IndexWord; ROOTS as usize])>> {
    let (NamedBy::Node(node), rest) = (inode.roots[0].named(), &inode.roots[1..]) else { return Ok(None) };
    if inode.head.height == 0 || rest.iter().any(|word| *word != IndexWord::NONE) {
        return Ok(None);
    }
    let words = store.load_words(store.place(node)?);
    let (roots, rest) = words.split_first_chunk().expect("a page has more words than an inode");
    Ok(rest.iter().all(|word| *word == 0).then(|| (node, roots.map(IndexWord))))
}
