//! A folder that loses unsynced writes, and fails on request.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::Mutex;

use crate::segment::SegmentFolder;

/// A disk writes a sector whole, or not at all.
const SECTOR: usize = 512;

#[derive(Clone, Debug)]
enum Op {
    Write { segment: u64, at: u64, bytes: Vec<u8> },
    Sync { segment: u64 },
    Remove { segment: u64 },
}

/// The effect of a failing operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The operation changes nothing.
    Full,
    /// The operation loses unsynced writes, like a kernel that could not write them; the next sync succeeds.
    Forgetful,
}

#[derive(Default)]
struct State {
    /// The initial, durable files.
    base: BTreeMap<u64, Vec<u8>>,
    /// The current files.
    files: BTreeMap<u64, Vec<u8>>,
    ops: Vec<Op>,
    calls: u64,
    fail: Option<(u64, u64, Failure)>,
}

/// A folder that loses unsynced writes: see the module. Clones are the same folder.
#[derive(Clone, Default)]
pub struct LyingFolder(Arc<Mutex<State>>);

impl LyingFolder {
    /// Makes `count` calls fail, from call `first` on, counted from now.
    pub fn fail(&self, first: u64, count: u64, how: Failure) {
        let mut state = self.0.lock();
        state.fail = Some((state.calls + first, state.calls + first + count, how));
    }

    /// Returns the number of calls so far.
    pub fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// Returns the numbers of the segments.
    pub fn names(&self) -> Vec<u64> {
        self.0.lock().files.keys().copied().collect()
    }

    /// Changes a byte of a segment.
    pub fn damage(&self, segment: u64, at: usize) {
        self.0.lock().files.get_mut(&segment).expect("it is there")[at] ^= 1;
    }

    /// Returns the folder after a crash now: the synced bytes, and by `seed` some of the rest.
    pub fn crash(&self, seed: u64) -> Self {
        let state = self.0.lock();
        let (mut files, mut chance) = (state.base.clone(), seed);
        for (number, op) in state.ops.iter().enumerate() {
            match op {
                Op::Write { segment, at, bytes } => {
                    let is_synced = |op: &Op| matches!(op, Op::Sync { segment: of } if of == segment);
                    let is_sure = state.ops[number..].iter().any(is_synced);
                    for (n, sector) in bytes.chunks(SECTOR).enumerate() {
                        if is_sure || coin(&mut chance) {
                            put(files.entry(*segment).or_default(), *at as usize + n * SECTOR, sector);
                        }
                    }
                }
                Op::Remove { segment } if coin(&mut chance) => _ = files.remove(segment),
                Op::Remove { .. } | Op::Sync { .. } => {}
            }
        }
        Self(Arc::new(Mutex::new(State { base: files.clone(), files, ..State::default() })))
    }

    fn call(&self, op: Option<Op>) -> io::Result<()> {
        let mut state = self.0.lock();
        let call = state.calls;
        state.calls += 1;
        if let Some((first, end, how)) = state.fail
            && (first..end).contains(&call)
        {
            if how == Failure::Forgetful {
                state.forget();
            }
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        if let Some(op) = op {
            state.apply(&op);
            state.ops.push(op);
        }
        Ok(())
    }
}

impl State {
    fn apply(&mut self, op: &Op) {
        match op {
            Op::Write { segment, at, bytes } => put(self.files.entry(*segment).or_default(), *at as usize, bytes),
            Op::Remove { segment } => _ = self.files.remove(segment),
            Op::Sync { .. } => {}
        }
    }

    /// Drops every write without a later sync.
    fn forget(&mut self) {
        let mut synced = BTreeSet::new();
        let mut kept: Vec<Op> = Vec::new();
        for op in self.ops.drain(..).rev() {
            match &op {
                Op::Sync { segment } => _ = synced.insert(*segment),
                Op::Write { segment, .. } if !synced.contains(segment) => continue,
                _ => {}
            }
            kept.push(op);
        }
        kept.reverse();
        self.files = self.base.clone();
        for op in kept {
            self.apply(&op);
            self.ops.push(op);
        }
    }
}

fn put(file: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    if file.len() < at + bytes.len() {
        file.resize(at + bytes.len(), 0);
    }
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

fn coin(chance: &mut u64) -> bool {
    *chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *chance >> 63 == 1
}

impl SegmentFolder for LyingFolder {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        self.call(None)?;
        Ok(self.names())
    }

    fn write(&mut self, segment: u64, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.call(Some(Op::Write { segment, at, bytes: bytes.to_vec() }))
    }

    fn persist_segment(&mut self, segment: u64) -> io::Result<()> {
        self.call(Some(Op::Sync { segment }))
    }

    fn read(&mut self, segment: u64, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.call(None)?;
        let state = self.0.lock();
        let file = state.files.get(&segment).ok_or(io::ErrorKind::NotFound)?;
        let rest = file.get(at as usize..).unwrap_or_default();
        let read = rest.len().min(into.len());
        into[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn remove(&mut self, segment: u64) -> io::Result<()> {
        self.call(Some(Op::Remove { segment }))
    }

    fn location(&self) -> String {
        "the lying folder".into()
    }
}

/// A folder whose writes block until they are released: each announces itself, and waits. After the releasing side is
/// dropped, no write waits any more.
pub struct SlowFolder {
    inner: LyingFolder,
    entered: Sender<()>,
    let_go: Receiver<()>,
}

impl SlowFolder {
    /// Returns a folder over `inner`, the receiver of announcements, and the sender of releases.
    pub fn new(inner: &LyingFolder) -> (Self, Receiver<()>, Sender<()>) {
        let ((entered, heard), (lets_go, let_go)) = (channel(), channel());
        (Self { inner: inner.clone(), entered, let_go }, heard, lets_go)
    }
}

impl SegmentFolder for SlowFolder {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        self.inner.list()
    }

    fn write(&mut self, segment: u64, at: u64, bytes: &[u8]) -> io::Result<()> {
        let _ = self.entered.send(());
        let _ = self.let_go.recv();
        self.inner.write(segment, at, bytes)
    }

    fn persist_segment(&mut self, segment: u64) -> io::Result<()> {
        self.inner.persist_segment(segment)
    }

    fn read(&mut self, segment: u64, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.inner.read(segment, at, into)
    }

    fn remove(&mut self, segment: u64) -> io::Result<()> {
        self.inner.remove(segment)
    }

    fn location(&self) -> String {
        self.inner.location()
    }
}
