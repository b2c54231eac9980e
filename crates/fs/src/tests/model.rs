//! Random operations against the reference: with restarts, and with crashes, after which all that was acknowledged is
//! there.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

use super::reference::Reference;
use super::support::*;
use super::tiers;
use crate::TierDisk;
use crate::{Allocate, DataMode, Error, FileKind, FileSystem, Ino, Rename, Result, SetAttr, SetXattr};

/// An operation. Files and directories are chosen by a number modulo how many there are.
#[derive(Clone, Debug)]
enum Op {
    Create { dir: u8, name: u8, kind: u8 },
    Symlink { dir: u8, name: u8, len: u16 },
    Link { file: u8, dir: u8, name: u8 },
    Remove { dir: u8, name: u8, is_rmdir: bool },
    Rename { from: (u8, u8), to: (u8, u8), how: u8 },
    Write { file: u8, at: u32, len: u32, byte: u8 },
    Append { file: u8, len: u16, byte: u8 },
    Resize { file: u8, size: u32 },
    Allocate { file: u8, at: u32, len: u32, how: u8 },
    SetXattr { file: u8, name: u8, len: Option<u16> },
    Chmod { file: u8, mode: u16 },
    Hold { file: u8 },
    Release { file: u8 },
    Step,
    Flush,
    Settle,
    Restart,
    Tier { what: u8 },
}

/// Bytes that operations touch: a file of that size has an index of two heights.
const REACH: u32 = 200 << 10;

fn op() -> impl Strategy<Value = Op> {
    let at = || {
        prop_oneof![0..REACH, (0..50_u32).prop_map(|page| page * 4096), Just(40_000), 17 << 20..(17 << 20) + 9000_u32]
    };
    let len = || prop_oneof![1..200_u32, Just(4096), 1..50_000_u32];
    prop_oneof![
        6 => (any::<u8>(), 0..8_u8, 0..4_u8).prop_map(|(dir, name, kind)| Op::Create { dir, name, kind }),
        1 => (any::<u8>(), 0..8_u8, 1..100_u16).prop_map(|(dir, name, len)| Op::Symlink { dir, name, len }),
        2 => (any::<u8>(), any::<u8>(), 0..8_u8).prop_map(|(file, dir, name)| Op::Link { file, dir, name }),
        4 => (any::<u8>(), 0..8_u8, any::<bool>()).prop_map(|(dir, name, is_rmdir)| Op::Remove { dir, name, is_rmdir }),
        4 => ((any::<u8>(), 0..8_u8), (any::<u8>(), 0..8_u8), 0..5_u8).prop_map(|(from, to, how)| Op::Rename { from, to, how }),
        6 => (any::<u8>(), at(), len(), any::<u8>()).prop_map(|(file, at, len, byte)| Op::Write { file, at, len, byte }),
        4 => (any::<u8>(), 1..9000_u16, any::<u8>()).prop_map(|(file, len, byte)| Op::Append { file, len, byte }),
        3 => (any::<u8>(), at()).prop_map(|(file, size)| Op::Resize { file, size }),
        3 => (any::<u8>(), 0..REACH, len(), 0..5_u8).prop_map(|(file, at, len, how)| Op::Allocate { file, at, len, how }),
        2 => (any::<u8>(), 0..3_u8, proptest::option::of(0..9000_u16)).prop_map(|(file, name, len)| Op::SetXattr { file, name, len }),
        1 => (any::<u8>(), 0..0o1000_u16).prop_map(|(file, mode)| Op::Chmod { file, mode }),
        1 => any::<u8>().prop_map(|file| Op::Hold { file }),
        1 => any::<u8>().prop_map(|file| Op::Release { file }),
        1 => Just(Op::Step),
        1 => Just(Op::Flush),
        1 => Just(Op::Settle),
        1 => Just(Op::Restart),
        3 => (0..4_u8).prop_map(|what| Op::Tier { what }),
    ]
}

/// A file system and its reference.
struct Pair {
    memory: Arc<LyingMemory>,
    fs: Arc<FileSystem>,
    data: Option<DataMode>,
    ssd: Option<TierDisk>,
    reference: Reference,
    /// The inodes of the reference's nodes.
    inos: BTreeMap<usize, Ino>,
}

fn name(number: u8) -> Vec<u8> {
    if number == 7 { vec![b'n'; 255] } else { vec![b'a' + number] }
}

fn same(op: &Op, real: Result<()>, wanted: Result<()>) -> std::result::Result<(), TestCaseError> {
    let show = |result: &Result<()>| result.as_ref().map_or_else(|error| format!("{error:?}"), |()| "ok".into());
    let sort = |result: &Result<()>| result.as_ref().err().map(std::mem::discriminant::<Error>);
    prop_assert!(sort(&real) == sort(&wanted), "{op:?}: {} where {} was right", show(&real), show(&wanted));
    Ok(())
}

impl Pair {
    fn new(model: Model, data: Option<DataMode>, ssd: Option<TierDisk>) -> Self {
        let memory = new_memory(model, 2 * POOL_BYTES);
        memory.keep_trace(false);
        if let Some(ssd) = &ssd {
            tiers::add(&memory, ssd);
        }
        let fs = tiers::open(&memory, data, ssd.as_ref()).expect("it opens");
        Self { memory, fs, data, ssd, reference: Reference::default(), inos: BTreeMap::from([(0, Ino::ROOT)]) }
    }

    fn pick(&self, number: u8, only: impl Fn(FileKind) -> bool) -> usize {
        let fit: Vec<usize> =
            self.reference.nodes.iter().filter(|(_, node)| only(node.kind)).map(|(id, _)| *id).collect();
        fit.get(usize::from(number) % fit.len().max(1)).copied().unwrap_or(0)
    }

    fn dir(&self, number: u8) -> (usize, Ino) {
        let id = self.pick(number, |kind| kind == FileKind::Directory);
        (id, self.inos[&id])
    }

    /// Mostly a file, sometimes whatever there is.
    fn file(&self, number: u8) -> (usize, Ino) {
        let id = self.pick(number / 2, |kind| number.is_multiple_of(8) || kind == FileKind::File);
        (id, self.inos[&id])
    }

    fn run(&mut self, op: &Op) -> std::result::Result<(), TestCaseError> {
        let (real, wanted) = self.run_both(op);
        same(op, real, wanted)
    }

    fn run_both(&mut self, op: &Op) -> (Result<()>, Result<()>) {
        match *op {
            Op::Create { dir, name: number, kind } => {
                let ((id, ino), name) = (self.dir(dir), name(number));
                let kind = [FileKind::File, FileKind::File, FileKind::Directory, FileKind::Fifo][usize::from(kind)];
                let real = self.fs.create_file(ino, &name, &new(kind));
                let wanted = self.reference.create((id, &name), kind, b"");
                self.made(real, wanted)
            }
            Op::Symlink { dir, name: number, len } => {
                let ((id, ino), name, target) = (self.dir(dir), name(number), vec![b't'; len.into()]);
                let real = self.fs.symlink(ino, &name, &target, ME);
                let wanted = self.reference.create((id, &name), FileKind::Symlink, &target);
                self.made(real, wanted)
            }
            Op::Link { file, dir, name: number } => {
                let ((id, ino), (dir, dir_ino), name) = (self.file(file), self.dir(dir), name(number));
                (self.fs.link(ino, dir_ino, &name).map(drop), self.reference.link(id, (dir, &name)))
            }
            Op::Remove { dir, name: number, is_rmdir } => {
                let ((id, ino), name) = (self.dir(dir), name(number));
                let real = if is_rmdir { self.fs.rmdir(ino, &name) } else { self.fs.unlink(ino, &name) };
                (real, self.reference.remove((id, &name), is_rmdir))
            }
            Op::Rename { from, to, how } => {
                let ((from_id, from_ino), (to_id, to_ino)) = (self.dir(from.0), self.dir(to.0));
                let (old, new) = (name(from.1), name(to.1));
                let whiteout = Rename::Whiteout(ME);
                let hows = [Rename::Replace, Rename::Replace, Rename::NoReplace, Rename::Exchange, whiteout];
                let how = hows[usize::from(how)];
                let real = self.fs.rename((from_ino, &old), (to_ino, &new), how);
                let wanted = self.reference.rename((from_id, &old), (to_id, &new), how);
                let left = self.reference.nodes.get(&from_id).and_then(|dir| dir.children.get(&old)).copied();
                if let (Rename::Whiteout(_), Some(left)) = (how, left)
                    && let Ok(white) = self.fs.lookup(from_ino, &old)
                {
                    self.inos.insert(left, white.ino);
                }
                (real, wanted)
            }
            _ => self.run_on_file(op),
        }
    }

    fn made(&mut self, real: Result<crate::Attr>, wanted: Result<usize>) -> (Result<()>, Result<()>) {
        if let (Ok(attr), Ok(id)) = (&real, &wanted) {
            self.inos.insert(*id, attr.ino);
        }
        (real.map(drop), wanted.map(drop))
    }

    fn run_on_file(&mut self, op: &Op) -> (Result<()>, Result<()>) {
        let fs = &self.fs;
        match *op {
            Op::Write { file, at, len, byte } => {
                let ((id, ino), bytes) = (self.file(file), pattern(len, byte));
                (fs.write(ino, at.into(), &bytes).map(drop), self.reference.write(id, at.into(), &bytes))
            }
            Op::Append { file, len, byte } => {
                let ((id, ino), bytes) = (self.file(file), pattern(len.into(), byte));
                (fs.append(ino, &bytes).map(drop), self.reference.append(id, &bytes))
            }
            Op::Resize { file, size } => {
                let (id, ino) = self.file(file);
                (resize(fs, ino, size.into()), self.reference.resize(id, size.into()))
            }
            Op::Allocate { file, at, len, how } => {
                let ((id, ino), range) = (self.file(file), u64::from(at)..u64::from(at + len));
                let how = [Allocate::Grow, Allocate::KeepSize, Allocate::Punch, Allocate::Zero, Allocate::ZeroKeepSize]
                    [usize::from(how)];
                (fs.allocate(ino, range.clone(), how), self.reference.allocate(id, range, how))
            }
            Op::SetXattr { file, name, len } => {
                let ((id, ino), name) = (self.file(file), [b"user.", [b'a' + name].as_slice()].concat());
                let value = len.map(|len| pattern(len.into(), 9));
                let real = match &value {
                    Some(value) => fs.set_xattr(ino, &name, value, SetXattr::Any),
                    None => fs.remove_xattr(ino, &name),
                };
                (real, self.reference.set_xattr(id, &name, value.as_deref()))
            }
            Op::Chmod { file, mode } => {
                let (id, ino) = self.file(file);
                let set = SetAttr { mode: Some(mode), ..SetAttr::default() };
                (fs.setattr(ino, &set).map(drop), self.reference.chmod(id, mode))
            }
            Op::Hold { file } => {
                let (id, ino) = self.file(file);
                (fs.hold(ino), self.reference.hold(id))
            }
            Op::Release { file } => {
                let (id, ino) = self.file(file);
                fs.release(ino, 1);
                self.reference.release(id);
                (Ok(()), Ok(()))
            }
            Op::Step => (fs.step().map(drop), Ok(())),
            Op::Flush => (fs.flush(), Ok(())),
            Op::Settle => {
                run_steps(fs);
                (Ok(()), Ok(()))
            }
            Op::Tier { what } => {
                tiers::step(fs, what);
                (Ok(()), Ok(()))
            }
            _ => (self.restart(), Ok(())),
        }
    }

    /// Closes the pool as a kill does, and opens it again: everything visible is there.
    fn restart(&mut self) -> Result<()> {
        self.fs.flush()?;
        self.open_in(Arc::new(self.memory.kill()))
    }

    /// Opens what a crash leaves after all was made durable.
    fn crash(&mut self, seed: u64) -> Result<()> {
        self.fs.flush()?;
        self.open_in(Arc::new(self.memory.crash(seed)))
    }

    fn open_in(&mut self, memory: Arc<LyingMemory>) -> Result<()> {
        memory.keep_trace(false);
        self.fs = tiers::open(&memory, self.data, self.ssd.as_ref())?;
        self.memory = memory;
        self.reference.restart();
        Ok(())
    }

    fn compare(&self) -> std::result::Result<(), TestCaseError> {
        let (real, wanted) = (tree(&self.fs).expect("it reads"), self.reference.tree());
        prop_assert_eq!(real.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
        for (path, seen) in &real {
            let path_text = String::from_utf8_lossy(path);
            prop_assert!(*seen == wanted[path], "{path_text}: {}", difference(seen, &wanted[path]));
        }
        for (id, _) in self.reference.nodes.iter().filter(|(_, node)| node.links == 0) {
            prop_assert!(seen(&self.fs, self.inos[id]).expect("held") == self.reference.seen(*id), "held {id}");
        }
        let wrong = crate::check::look(self.fs.pool(), &self.fs.tag());
        prop_assert!(wrong.is_empty(), "{wrong:#?}");
        Ok(())
    }
}

/// Bytes that show where they belong.
fn pattern(len: u32, byte: u8) -> Vec<u8> {
    (0..len).map(|i| byte.wrapping_add((i / 512) as u8) | 1).collect()
}

fn difference(real: &Seen, wanted: &Seen) -> String {
    let at = real.content.iter().zip(&wanted.content).position(|(one, other)| one != other);
    let short = |seen: &Seen| (seen.kind, seen.mode, seen.links, seen.content.len(), seen.xattrs.len());
    format!("{:?} where {:?} was right; first other byte {at:?}", short(real), short(wanted))
}

fn config() -> Config {
    let (cases, rng_seed) = (ferrite_crash::rounds(12) as u32, RngSeed::Fixed(ferrite_crash::seed()));
    Config { cases, rng_seed, failure_persistence: None, ..Config::default() }
}

fn run(model: Model, data: Option<DataMode>, crashes: bool) {
    run_with(model, data, crashes, || None);
}

fn run_with(model: Model, data: Option<DataMode>, crashes: bool, ssd: impl Fn() -> Option<TierDisk>) {
    proptest!(config(), |(ops in proptest::collection::vec(op(), 1..80), seed in any::<u64>())| {
        let mut pair = Pair::new(model, data, ssd());
        for (number, op) in ops.iter().enumerate() {
            pair.run(op)?;
            if crashes && number % 8 == 7 {
                pair.crash(seed ^ number as u64).expect("it opens");
                pair.compare()?;
            }
        }
        pair.compare()?;
        pair.restart().expect("it opens");
        run_steps(&pair.fs);
        pair.compare()?;
    });
}

#[test]
fn it_is_what_the_reference_is() {
    run(Model::MAPPED, None, false);
}

#[test]
fn it_is_what_the_reference_is_with_atomic_writes() {
    run(Model::MAPPED, Some(DataMode::Atomic), false);
}

#[test]
fn it_is_what_the_reference_is_on_a_file() {
    run(Model::FILE, None, false);
}

#[test]
fn ti_it_is_what_the_reference_is_with_a_tier() {
    run_with(Model::MAPPED, None, false, || Some(tiers::ssd(4 << 20)));
    run_with(Model::MAPPED, Some(DataMode::Atomic), false, || Some(tiers::ssd(4 << 20)));
    run_with(Model::FILE, None, false, || Some(tiers::ssd(4 << 20)));
}

#[test]
fn ti_what_was_acknowledged_survives_crashes_with_a_tier() {
    run_with(Model::MAPPED, None, true, || Some(tiers::ssd(4 << 20)));
}

#[test]
fn what_was_acknowledged_survives_crashes() {
    run(Model::MAPPED, None, true);
}

#[test]
fn what_was_flushed_survives_crashes_on_a_file() {
    run(Model::FILE, None, true);
}
