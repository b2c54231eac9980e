//! Changes that interrupt another change between two of its steps: neither is lost, and neither undoes the other.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::{Memory, forward_memory};
use ferrite_pool::Pool;

use super::support::*;
use crate::tree::inode_lifetime;
use crate::{FileKind, FileSystem, FsSpec, Ino, Rename, Time};

type Work = Box<dyn FnOnce() + Send>;

/// A memory that runs a function at one of its next fences.
struct Interrupted {
    memory: Arc<LyingMemory>,
    /// After so many others.
    work: Mutex<Option<(u32, Work)>>,
}

impl Interrupted {
    /// With a file system of no files.
    fn new(model: Model) -> (Arc<Self>, Arc<FileSystem>) {
        let memory = Arc::new(Self { memory: new_memory(model, POOL_BYTES), work: Mutex::new(None) });
        let pool = Pool::open(Arc::<Self>::clone(&memory), BOOT).expect("it opens").0;
        let fs = FileSystem::open(Arc::new(pool), NAME, options(None)).expect("it opens");
        (memory, fs)
    }

    fn at_next_fence(&self, work: impl FnOnce() + Send + 'static) {
        self.after_fences(0, work);
    }

    fn after_fences(&self, others: u32, work: impl FnOnce() + Send + 'static) {
        *self.work.lock().expect("nobody fails") = Some((others, Box::new(work)));
    }

    fn is_done(&self) -> bool {
        self.work.lock().expect("nobody fails").is_none()
    }
}

impl Memory for Interrupted {
    forward_memory!(self => self.memory; size, survival, fence_is_durable, load, store, zero, load_word, store_word);
    forward_memory!(self => self.memory; flush, barrier, reserve, release);

    fn fence(&self) {
        let work = {
            let mut waiting = self.work.lock().expect("nobody fails");
            let is_due = waiting.as_ref().is_some_and(|(others, _)| *others == 0);
            let due = waiting.take_if(|_| is_due);
            waiting.iter_mut().for_each(|(others, _)| *others -= 1);
            due
        };
        if let Some((_, work)) = work {
            work();
        }
        self.memory.fence();
    }
}

#[test]
fn fw4_what_is_written_while_all_is_made_durable_waits_for_the_next_time() {
    let (memory, fs) = Interrupted::new(Model::FILE);
    let ino = fs.create_file(Ino::ROOT, b"log", &new(FileKind::File)).expect("made").ino;
    fs.append(ino, b"before").expect("room");
    let other = Arc::clone(&fs);
    memory.at_next_fence(move || _ = other.append(ino, b" amid").expect("room"));
    fs.flush().expect("durable");
    assert!(memory.is_done());
    assert_eq!(content(&fs, ino).expect("it reads"), b"before amid");
    fs.fsync(ino).expect("durable");
    let after = open(&Arc::new(memory.memory.crash(1)), None).expect("it opens");
    assert_eq!(content(&after, ino).expect("it reads"), b"before amid", "FW4");
    assert_sound(&after);
}

/// Each of the two may move into what the other one moves, but not when that has been done.
#[test]
fn two_folders_that_are_moved_into_one_another_at_once_make_no_ring() {
    /// How long one waits for the other, which is to wait for it.
    const PATIENCE: Duration = Duration::from_millis(100);
    let (memory, fs) = Interrupted::new(Model::MAPPED);
    memory.memory.keep_trace(false);
    let make = |dir, name: &[u8]| fs.create_file(dir, name, &new(FileKind::Directory)).expect("made").ino;
    let (left, right) = (make(Ino::ROOT, b"left"), make(Ino::ROOT, b"right"));
    let (inner_left, inner_right) = (make(make(left, b"moved"), b"inner"), make(make(right, b"moved"), b"inner"));
    let (other, (begun, begins)) = (Arc::clone(&fs), channel());
    memory.at_next_fence(move || {
        let (ended, ends) = channel::<()>();
        let thread = std::thread::spawn(move || {
            let _ended = ended;
            other.rename((right, b"moved"), (inner_left, b"moved"), Rename::Replace)
        });
        let _ = ends.recv_timeout(PATIENCE);
        begun.send(thread).expect("it is waited for");
    });
    let moved = fs.rename((left, b"moved"), (inner_right, b"moved"), Rename::Replace);
    let other_moved = begins.recv().expect("it began amid the first").join().expect("it ends");
    assert!(moved.is_ok() && other_moved.is_err(), "one of the two: {moved:?}, {other_moved:?}");
    let tree = tree(&fs).expect("it reads");
    assert!(tree.contains_key(&b"/right/moved/inner/moved/inner"[..]), "{:?}", tree.keys());
    assert_sound(&fs);
}

/// What one gives back is neither idle there nor free in the pool until that is done.
#[test]
fn fc3_who_lacks_space_waits_for_who_is_giving_some_back() {
    /// How long the one who lacks space has to be refused, if it does not wait.
    const PATIENCE: Duration = Duration::from_millis(100);
    let mut tried = 0;
    for others in 0..8 {
        let (memory, one) = Interrupted::new(Model::MAPPED);
        memory.memory.keep_trace(false);
        let spec = FsSpec { super_threshold_bytes: None, uid: 0, gid: 0, mode: 0o755, hash_seed: 1, now: Time(1) };
        FileSystem::create(one.pool(), "two", &spec).expect("room");
        let two = FileSystem::open(Arc::clone(one.pool()), "two", options(None)).expect("it opens");
        let made = |fs: &FileSystem| fs.create_file(Ino::ROOT, b"fill", &new(FileKind::File)).expect("made").ino;
        let (ino, fill) = (made(&one), made(&two));
        two.append(fill, &[7; 2 << 20]).expect("room");
        while one.append(ino, &[7; 65536]).is_ok() {}
        two.unlink(Ino::ROOT, b"fill").expect("it goes");
        while inode_lifetime::step_orphans(&two).expect("it goes by steps") {}
        let (lacking, (begun, begins)) = (Arc::clone(&one), channel());
        memory.after_fences(others, move || {
            let (ended, ends) = channel::<()>();
            let thread = std::thread::spawn(move || {
                let _ended = ended;
                lacking.append(ino, &[8; 1 << 20])
            });
            let _ = ends.recv_timeout(PATIENCE);
            begun.send(thread).expect("it is waited for");
        });
        while !memory.is_done() && two.return_all_chunks().expect("it has some to give") {}
        let Ok(thread) = begins.try_recv() else { break };
        tried += 1;
        let appended = thread.join().expect("it ends");
        assert_eq!(appended.map(|(_, len)| len).ok(), Some(1 << 20), "after {others} fences");
        [&one, &two].into_iter().for_each(|fs| assert_sound(fs));
    }
    assert!(tried > 2, "it gives some by {tried} fences");
}
