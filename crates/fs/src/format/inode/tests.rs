use ferrite_crash::{Crash, ExploreOptions, LyingMemory, Model, explore};
use ferrite_memory::Span;

use super::*;

const AT: u64 = 4096;
const SEVEN: i64 = 7;

/// An inode that says of everything 1, in an epoch that `direct` is not of, where everything is garbage.
fn fresh(model: Model) -> LyingMemory {
    let memory = LyingMemory::new(2 * AT, model);
    let mut media = InodeBytes::new_zeroed();
    (media.head.mode, media.head.links, media.head.size) = (0o100_644, 1, 1 | 5 << SIZE_BITS);
    (media.head.mtime, media.head.ctime, media.head.atime) = (1, 1, 1);
    media.direct =
        DirectLine { mtime: -9, ctime: -9, atime: -9, size: 999 | 4 << SIZE_BITS, checksums: AppendChecksums::NONE };
    memory.store(AT, media.as_bytes(), Scheme::Nt);
    memory.persist(Span::new(0, 2 * AT)).expect("it is memory");
    memory.forget_trace();
    memory
}

fn load(memory: &LyingMemory) -> Inode {
    Inode::load(memory, Ino(1), AT, |_, _| panic!("no size rests on bytes"))
}

/// Returns true if what a crash left of sizes and times is among `sizes` and `times`.
fn ensure(memory: &LyingMemory, sizes: &[u64], times: &[i64]) -> Result<(), String> {
    let inode = load(memory);
    let InodeHead { size, mtime, ctime, atime, .. } = inode.head;
    let is_whole = sizes.contains(&size) && [mtime, ctime, atime].iter().all(|time| times.contains(time));
    if is_whole { Ok(()) } else { Err(format!("size {size}, times {mtime}, {ctime} and {atime}")) }
}

/// FI3: a crash in the first store of an epoch leaves the earlier inode or the later one, and no time that it never
/// had; in later stores each word is the earlier or the later one. Committed values stay.
#[test]
fn fi3_a_crash_leaves_no_time_of_another_epoch() {
    for (model, how) in Model::ALL.into_iter().flat_map(|model| [(model, Scheme::Flush), (model, Scheme::Nt)]) {
        let memory = fresh(model);
        let appended = |size| {
            let end = FileEnd::of(&memory, AT, None).expect("no append is under way");
            end.store(&memory, end.checksum_of_size(size), AppendTimes { written: SEVEN, accessed: SEVEN }, how);
        };
        appended(20);
        memory.drain().expect("it is memory");
        memory.mark(1);
        appended(30);
        memory.drain().expect("it is memory");
        memory.mark(2);
        let mut inode = load(&memory);
        (inode.head.size, inode.head.mtime) = (40, 8);
        inode.store_direct(&memory);
        memory.drain().expect("it is memory");
        memory.mark(3);
        let judge = |crash: &Crash<'_>| {
            let memory = crash.memory();
            match crash.last_mark() {
                None if model == Model::FILE => ensure(&memory, &[1, 20], &[-9, 1, SEVEN]),
                None => ensure(&memory, &[1], &[1]).or_else(|_| ensure(&memory, &[20], &[SEVEN])),
                Some(1) => ensure(&memory, &[20, 30], &[SEVEN]),
                Some(2) => ensure(&memory, &[30, 40], &[SEVEN, 8]),
                Some(_) => ensure(&memory, &[40], &[SEVEN, 8]),
            }
        };
        explore(&memory, &ExploreOptions::default(), judge).assert_clean();
    }
}
