//! What others do amid a change, between two steps of it: neither of the two is lost, and neither undoes the other.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrite_crash::{LyingMemory, Model};
use ferrite_medium::{Memory, forward_memory};
use ferrite_pool::Pool;

use super::world::*;
use crate::{FileSystem, Ino, Kind, Rename};

type Work = Box<dyn FnOnce() + Send>;

/// A memory at whose next fence somebody does something.
struct Interrupted {
    memory: Arc<LyingMemory>,
    work: Mutex<Option<Work>>,
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
        *self.work.lock().expect("nobody fails") = Some(Box::new(work));
    }

    fn is_done(&self) -> bool {
        self.work.lock().expect("nobody fails").is_none()
    }
}

impl Memory for Interrupted {
    forward_memory!(self => self.memory; size, survival, fence_is_durable, load, store, zero, load_word, store_word);
    forward_memory!(self => self.memory; flush, barrier, reserve, release);

    fn fence(&self) {
        let work = self.work.lock().expect("nobody fails").take();
        if let Some(work) = work {
            work();
        }
        self.memory.fence();
    }
}

#[test]
fn fw4_what_is_written_while_all_is_made_durable_waits_for_the_next_time() {
    let (memory, fs) = Interrupted::new(Model::FILE);
    let ino = fs.create_file(Ino::ROOT, b"log", &new(Kind::File)).expect("made").ino;
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
    let make = |dir, name: &[u8]| fs.create_file(dir, name, &new(Kind::Directory)).expect("made").ino;
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
