use std::collections::BTreeSet;

use super::*;

/// With one lock, files that two threads made would be written by one thread at a time.
#[test]
fn inodes_of_one_chunk_and_first_inodes_of_chunks_have_locks_of_their_own() {
    let count = |inos: &mut dyn Iterator<Item = u64>| inos.map(|ino| stripe(Ino(ino))).collect::<BTreeSet<_>>().len();
    assert_eq!(count(&mut (0..STRIPES)), STRIPES as usize);
    assert_eq!(count(&mut (0..STRIPES).map(|chunk| chunk * CHUNK_INODES)), STRIPES as usize);
    assert!(stripe(Ino(u64::MAX)) < STRIPES, "whoever asks for it is told that there is no such inode");
}

impl SharedState {
    /// Pretends that an owner lives.
    pub(crate) fn pretend_owner_alive(&self) {
        self.words.first()[LIVENESS].store(1, Ordering::SeqCst);
    }
}
