//! Checks whether the bytes that an append checksum covers are there (FP1).

use ferrite_memory::{Fletcher, Memory};
use ferrite_pool::layout::{CHUNK, PAGE};

use crate::format::append_checksum::AppendChecksum;
use crate::view::index_reader::{FoundBytes, IndexReader};

impl<M: Memory + ?Sized, P: Fn(u64) -> Option<u64>> IndexReader<'_, M, P> {
    /// Returns true if the bytes that `checksum` covers are there (FP1); false if the index is too low or unclear.
    pub(crate) fn holds(&self, height: u32, checksum: AppendChecksum) -> bool {
        let (size, mut at, mut sum) =
            (checksum.size(), checksum.size().saturating_sub(checksum.bytes()), Fletcher::default());
        if !(size | checksum.bytes()).is_multiple_of(Fletcher::LINE_BYTES as u64) {
            return false;
        }
        let mut page = [0; PAGE as usize];
        while at < size {
            let len = (PAGE - at % PAGE).min(size - at);
            let found = self.block(height, at / CHUNK).and_then(|block| self.find(block, at));
            let Some(FoundBytes::At(place, _)) = found else { return false };
            if place.checked_add(len).is_none_or(|end| end > self.memory.size()) {
                return false;
            }
            let part = &mut page[..len as usize];
            self.memory.load(place, part);
            sum.add(part);
            at += len;
        }
        sum.finish() == checksum.sum()
    }
}
