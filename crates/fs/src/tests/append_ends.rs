//! Random work at the end of a file, by a client and by the owner in turn: every crash leaves what was acknowledged.

use std::sync::Arc;

use ferrite_crash::{ExploreOptions, Model, Points, explore};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};

use super::crash::{client, leave};
use super::support::*;
use super::{Bug, plant};
use crate::check::look;
use crate::client::direct_io::{DirectIo, DirectOutcome};
use crate::client::known_end::KnownEnd;
use crate::file::ahead;
use crate::{Allocate, FileKind, FileSystem, Ino, SetAttr};

type Client<'a> = DirectIo<'a, dyn ferrite_memory::Memory + 'a>;

/// What is done. A place is so many bytes before the end.
#[derive(Clone, Debug)]
enum Op {
    /// The client writes, to the end where that is 0.
    Write {
        before: u16,
        len: u16,
    },
    /// The owner does.
    Owner {
        before: u16,
        len: u16,
    },
    /// The owner appends.
    Append {
        len: u16,
    },
    Resize {
        before: u16,
        grows: bool,
    },
    Punch {
        before: u16,
        len: u16,
    },
    Chmod,
    Hold,
    Ahead {
        len: u16,
    },
    Step,
}

fn op() -> impl Strategy<Value = Op> {
    // Mostly whole lines, or few sizes would be proved by bytes.
    let len = || prop_oneof![6 => Just(64_u16), 3 => Just(128), 3 => Just(4096), 1 => 1..9000_u16];
    let before = || prop_oneof![6 => (1..8_u16).prop_map(|lines| lines * 64), 1 => 1..9000_u16];
    prop_oneof![
        8 => len().prop_map(|len| Op::Write { before: 0, len }),
        4 => (before(), len()).prop_map(|(before, len)| Op::Write { before, len }),
        2 => (before(), len()).prop_map(|(before, len)| Op::Owner { before, len }),
        1 => len().prop_map(|len| Op::Append { len }),
        1 => (before(), any::<bool>()).prop_map(|(before, grows)| Op::Resize { before, grows }),
        1 => (before(), len()).prop_map(|(before, len)| Op::Punch { before, len }),
        1 => Just(Op::Chmod),
        1 => Just(Op::Hold),
        2 => len().prop_map(|len| Op::Ahead { len }),
        1 => Just(Op::Step),
    ]
}

/// As a lease appends.
fn extend(fs: &FileSystem, client: &Client<'_>, at: u64, bytes: &[u8]) -> bool {
    let mut asked = false;
    for _ in 0..8 {
        match client.append(0, Some(at), bytes, || 3_000_000_000) {
            DirectOutcome::Done(_) => return true,
            DirectOutcome::NoPages if !asked => {
                asked = true;
                if ahead::reserve_ahead(fs, client.ino, 20_000, 8).is_err() {
                    return false;
                }
            }
            DirectOutcome::Overtaken => {}
            DirectOutcome::NoPages | DirectOutcome::Refused => return false,
        }
    }
    false
}

/// As a lease writes, and through the mount what it cannot.
fn write(fs: &FileSystem, client: &Client<'_>, at: u64, bytes: &[u8]) {
    let now = || 3_000_000_000;
    let is_end = client.end.may_be_at(at);
    let is_done = is_end && client.append_together(0, at, bytes, now).is_some()
        || client.write_together(0, at, bytes, now).is_some()
        || is_end && extend(fs, client, at, bytes)
        || client.write(0, at, bytes, now) == DirectOutcome::Done(())
        || extend(fs, client, at, bytes);
    if !is_done {
        assert_eq!(fs.write(client.ino, at, bytes).expect("room"), bytes.len());
    }
}

/// Does `op`, and what is in the file then.
fn act(fs: &FileSystem, client: &Client<'_>, op: &Op, byte: u8, content: &mut Vec<u8>) {
    let ino = client.ino;
    let place = |before: u16| content.len() - content.len().min(before.into());
    match *op {
        Op::Write { before, len } | Op::Owner { before, len } => {
            let (at, bytes) = (place(before), vec![byte; len.into()]);
            if matches!(op, Op::Write { .. }) {
                write(fs, client, at as u64, &bytes);
            } else {
                assert_eq!(fs.write(ino, at as u64, &bytes).expect("room"), bytes.len());
            }
            content.resize(content.len().max(at + bytes.len()), 0);
            content[at..at + bytes.len()].fill(byte);
        }
        Op::Append { len } => {
            let bytes = vec![byte; len.into()];
            assert_eq!(fs.append(ino, &bytes).expect("room"), (content.len() as u64, bytes.len()));
            content.extend(bytes);
        }
        Op::Resize { before, grows } => {
            let size = if grows { content.len() + usize::from(before) } else { place(before) };
            let set = SetAttr { size: Some(size as u64), ..SetAttr::default() };
            fs.setattr(ino, &set).expect("room");
            content.resize(size, 0);
        }
        Op::Punch { before, len } => {
            let at = place(before);
            let end = content.len().min(at + usize::from(len));
            if end > at {
                fs.allocate(ino, at as u64..end as u64, Allocate::Punch).expect("punched");
                content[at..end].fill(0);
            }
        }
        Op::Chmod => {
            let set = SetAttr { mode: Some(0o600 + u16::from(byte % 8)), ..SetAttr::default() };
            fs.setattr(ino, &set).expect("changed");
        }
        Op::Hold => fs.hold(ino).expect("there"),
        Op::Ahead { len } => ahead::reserve_ahead(fs, ino, len.into(), 8).expect("room"),
        Op::Step => _ = fs.step().expect("steps work"),
    }
}

/// What a crash left wrong of `ops`, if it did.
fn wrong_after(ops: &[Op], bug: Option<Bug>) -> Option<String> {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    let fs = open(&memory, None).expect("it opens");
    let ino = fs.create_file(Ino::ROOT, b"a", &new(FileKind::File)).expect("made").ino;
    let mut content = vec![1; 4096];
    fs.write(ino, 0, &content).expect("room");
    fs.hold(ino).expect("it is there");
    ahead::reserve_ahead(&fs, ino, 30_000, 8).expect("room");
    fs.flush().expect("nothing fails");
    memory.forget_trace();
    let (end, mut states) = (KnownEnd::new(), vec![content.clone()]);
    let one = client(&fs, &end);
    plant(bug);
    for (op, byte) in ops.iter().zip((2..=250).cycle()) {
        act(&fs, &one, op, byte, &mut content);
        memory.mark(states.len() as u64);
        states.push(content.clone());
    }
    plant(None);
    let found = super::support::content(&fs, ino).expect("it reads");
    leave(&fs);
    if found != content {
        return Some(format!("{} bytes are read, of {}", found.len(), content.len()));
    }
    let options = ExploreOptions {
        images_per_point_max: 6,
        samples_per_point: 6,
        points: Points::Widest,
        ..ExploreOptions::default()
    };
    let report = explore(&memory, &options, |crash| {
        let fs = open(&Arc::new(crash.memory()), None).map_err(|error| error.to_string())?;
        let found = super::support::content(&fs, ino).map_err(|error| error.to_string())?;
        let mark = crash.last_mark().unwrap_or(0) as usize;
        let (old, new) = (&states[mark], states.get(mark + 1).unwrap_or(&states[mark]));
        let is_len = found.len() == old.len() || found.len() == new.len();
        let is_one = |at: usize| [old, new].into_iter().any(|state| state.get(at) == Some(&found[at]));
        if !is_len || !(0..found.len()).all(is_one) {
            return Err(format!("{} bytes after op {mark}, of {} or {}", found.len(), old.len(), new.len()));
        }
        let wrong = look(fs.pool(), &fs.tag());
        fs.hold(ino).map_err(|error| error.to_string())?;
        let is_same = super::support::content(&fs, ino).is_ok_and(|content| content == found);
        if wrong.is_empty() && is_same {
            Ok(())
        } else {
            Err(format!("{wrong:?}, the same when it is held: {is_same}"))
        }
    });
    report.failure.map(|failure| format!("{failure:?}"))
}

fn config(usual: u64) -> Config {
    let (cases, rng_seed) = (ferrite_crash::rounds(usual) as u32, RngSeed::Fixed(ferrite_crash::seed()));
    Config { cases, rng_seed, failure_persistence: None, ..Config::default() }
}

#[test]
fn fp_fg7_every_crash_of_random_work_at_an_end_leaves_what_was_acknowledged() {
    proptest!(config(30), |(ops in prop::collection::vec(op(), 1..14))| {
        let wrong = wrong_after(&ops, None);
        prop_assert!(wrong.is_none(), "{}", wrong.unwrap_or_default());
    });
}

#[test]
fn canary_random_work_at_an_end_finds_planted_bugs() {
    for bug in [Bug::OneChecksum, Bug::UncommittedSize] {
        let is_found = std::panic::catch_unwind(|| {
            proptest!(config(30), |(ops in prop::collection::vec(op(), 1..14))| {
                prop_assert!(wrong_after(&ops, Some(bug)).is_none());
            });
        });
        plant(None);
        assert!(is_found.is_err(), "{bug:?}");
    }
}
