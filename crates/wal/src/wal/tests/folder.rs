//! A folder that loses what was not synced, and fails when it is told to.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use ferrite_crash::LyingMemory;
use parking_lot::Mutex;

use crate::segment::Folder;

/// A disk writes so much at once, or not at all.
const SECTOR: usize = 512;
/// Set in marks that count the folder's operations.
pub const OPERATION: u64 = 1 << 63;

#[derive(Clone, Debug)]
enum Op {
    Write { segment: u64, at: u64, bytes: Vec<u8> },
    Sync { segment: u64 },
    Remove { segment: u64 },
}

/// How the operation that is to fail fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It changes nothing.
    Full,
    /// It loses what was not synced, as a kernel does that could not write it; the next sync says all is well.
    Forgetful,
}

#[derive(Default)]
struct State {
    /// What was there at first, durable.
    base: BTreeMap<u64, Vec<u8>>,
    /// What is seen now.
    files: BTreeMap<u64, Vec<u8>>,
    ops: Vec<Op>,
    calls: u64,
    fail: Option<(u64, u64, Failure)>,
    deaf: bool,
    memory: Option<Arc<LyingMemory>>,
    /// What the mark would have been when recording began.
    recorded: u64,
}

/// See the module. Clones are the same folder.
#[derive(Clone, Default)]
pub struct LyingFolder(Arc<Mutex<State>>);

impl LyingFolder {
    /// Marks each operation in the trace of `memory`, so that a crash there is one here.
    pub fn record_in(&self, memory: &Arc<LyingMemory>) {
        let mut state = self.0.lock();
        state.memory = Some(memory.clone());
        state.recorded = (state.ops.len() as u64) << 1;
    }

    /// Fails the calls `first ..` counted from now, `count` of them.
    pub fn fail(&self, first: u64, count: u64, how: Failure) {
        let mut state = self.0.lock();
        state.fail = Some((state.calls + first, state.calls + first + count, how));
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// From now on syncs do nothing and say that they did.
    pub fn be_deaf(&self) {
        self.0.lock().deaf = true;
    }

    /// The segments there are.
    pub fn names(&self) -> Vec<u64> {
        self.0.lock().files.keys().copied().collect()
    }

    /// Changes a byte of a segment.
    pub fn damage(&self, segment: u64, at: usize) {
        self.0.lock().files.get_mut(&segment).expect("it is there")[at] ^= 1;
    }

    /// The folder after a crash now: what was synced, and by `seed` some of the rest.
    pub fn crash(&self, seed: u64) -> Self {
        let done = self.0.lock().ops.len() as u64;
        self.crash_at(done << 1, seed)
    }

    /// The same, when `mark` was the last mark in the memory's trace: twice the operations that had ended, and one
    /// where another had begun.
    pub fn crash_at(&self, mark: u64, seed: u64) -> Self {
        let state = self.0.lock();
        let mark = mark.max(state.recorded);
        let (done, begun) = (mark >> 1, mark.div_ceil(2));
        let begun = &state.ops[..begun as usize];
        let (mut files, mut chance) = (state.base.clone(), seed);
        for (number, op) in begun.iter().enumerate() {
            let synced = |of: u64| {
                let later = begun[number..].iter().enumerate();
                later
                    .clone()
                    .any(|(n, op)| number + n < done as usize && matches!(op, Op::Sync { segment } if *segment == of))
            };
            match op {
                Op::Write { segment, at, bytes } => {
                    let sure = synced(*segment);
                    for (n, sector) in bytes.chunks(SECTOR).enumerate() {
                        if sure || coin(&mut chance) {
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
        if let Some(op) = op.filter(|op| !(state.deaf && matches!(op, Op::Sync { .. }))) {
            state.mark(1);
            state.apply(&op);
            state.ops.push(op);
            state.mark(0);
        }
        Ok(())
    }
}

impl State {
    fn mark(&self, begun: u64) {
        if let Some(memory) = &self.memory {
            memory.mark(OPERATION | (self.ops.len() as u64) << 1 | begun);
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Write { segment, at, bytes } => put(self.files.entry(*segment).or_default(), *at as usize, bytes),
            Op::Remove { segment } => _ = self.files.remove(segment),
            Op::Sync { .. } => {}
        }
    }

    /// Drops every write that no sync came after.
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

impl Folder for LyingFolder {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        self.call(None)?;
        Ok(self.names())
    }

    fn write(&mut self, segment: u64, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.call(Some(Op::Write { segment, at, bytes: bytes.to_vec() }))
    }

    fn settle(&mut self, segment: u64) -> io::Result<()> {
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

    fn place(&self) -> String {
        "the lying folder".into()
    }
}

/// A folder whose writes take until they are let go: each says that it has begun, and waits. Once what lets go is dropped,
/// no write waits any more.
pub struct SlowFolder {
    inner: LyingFolder,
    entered: Sender<()>,
    let_go: Receiver<()>,
}

impl SlowFolder {
    /// One over `inner`; what hears of writes, and what lets them go.
    pub fn new(inner: &LyingFolder) -> (Self, Receiver<()>, Sender<()>) {
        let ((entered, heard), (lets_go, let_go)) = (channel(), channel());
        (Self { inner: inner.clone(), entered, let_go }, heard, lets_go)
    }
}

impl Folder for SlowFolder {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        self.inner.list()
    }

    fn write(&mut self, segment: u64, at: u64, bytes: &[u8]) -> io::Result<()> {
        let _ = self.entered.send(());
        let _ = self.let_go.recv();
        self.inner.write(segment, at, bytes)
    }

    fn settle(&mut self, segment: u64) -> io::Result<()> {
        self.inner.settle(segment)
    }

    fn read(&mut self, segment: u64, at: u64, into: &mut [u8]) -> io::Result<usize> {
        self.inner.read(segment, at, into)
    }

    fn remove(&mut self, segment: u64) -> io::Result<()> {
        self.inner.remove(segment)
    }

    fn place(&self) -> String {
        self.inner.place()
    }
}
