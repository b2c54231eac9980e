//! Every call of the medium that can fail does so once.

use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};

use super::support::*;
use crate::check::look;
use crate::{Allocate, Error, FileKind, FileSystem, Ino, Rename, Result, SetXattr};

/// A little of everything, each step told by its error.
fn load(fs: &FileSystem) -> Vec<Result<()>> {
    let made = fs.create_file(Ino::ROOT, b"a", &new(FileKind::File)).map(|attr| attr.ino);
    let mut done = vec![made.as_ref().map(drop).map_err(|_| Error::Stale)];
    let Ok(a) = made else { return done };
    done.push(fs.write(a, 0, &[1; 70_000]).map(drop));
    done.push(fs.append(a, &[2; 5000]).map(drop));
    done.push(fs.fsync(a));
    done.push(fs.create_file(Ino::ROOT, b"d", &new(FileKind::Directory)).map(drop));
    done.push(fs.set_xattr(a, b"user.x", &[3; 5000], SetXattr::Any));
    done.push(fs.allocate(a, 10_000..40_000, Allocate::Punch));
    done.push(fs.rename((Ino::ROOT, b"a"), (Ino::ROOT, b"b"), Rename::Replace));
    done.push(resize(fs, a, 3000));
    done.push(fs.write(a, 8 << 20, &[4; 100]).map(drop));
    done.push(fs.flush());
    done.push(fs.unlink(Ino::ROOT, b"b"));
    done.push(fs.step().map(drop));
    done
}

fn start(model: Model) -> (Arc<LyingMemory>, Arc<FileSystem>) {
    let memory = new_memory(model, POOL_BYTES);
    memory.keep_trace(false);
    let fs = open(&memory, None).expect("it opens");
    (memory, fs)
}

#[test]
fn a_medium_that_fails_once_at_any_call_leaves_a_sound_file_system() {
    for model in Model::ALL {
        let (memory, fs) = start(model);
        let first = memory.calls();
        assert!(load(&fs).iter().all(Result::is_ok));
        let calls = memory.calls() - first;
        assert!(calls > 0);
        for call in 0..calls {
            let (memory, fs) = start(model);
            memory.fail_nth(memory.calls() + call);
            let done = load(&fs);
            let failed = done.iter().filter(|done| done.is_err()).count();
            let is_refused = fs.pool().check_poison().is_err();
            // A refused promise of space fails one thing, a barrier everything after it.
            assert!(failed >= 1 || !is_refused, "call {call}: a failed barrier that nobody heard of");
            if !is_refused {
                let wrong = look(fs.pool(), &fs.tag());
                assert!(wrong.is_empty(), "call {call}: {wrong:#?}");
            }
            for memory in [memory.kill(), memory.crash(call)] {
                let fs = open(&Arc::new(memory), None).expect("it opens");
                let wrong = look(fs.pool(), &fs.tag());
                assert!(wrong.is_empty(), "call {call}: {wrong:#?}");
                run_steps(&fs);
                tree(&fs).expect("it reads");
                assert_sound(&fs);
            }
        }
    }
}

/// Also in memory, where there is nothing to be done for it: what was written may be lost all the same.
#[test]
fn nothing_is_said_to_be_durable_after_a_persist_that_failed() {
    for model in Model::ALL {
        let (_, fs) = start(model);
        let ino = fs.create_file(Ino::ROOT, b"a", &new(FileKind::File)).expect("made").ino;
        fs.write(ino, 0, &[1; 5000]).expect("room");
        fs.fsync(ino).and_then(|()| fs.flush()).expect("durable");
        fs.pool().poison(&"planted");
        assert!(fs.fsync(ino).is_err() && fs.flush().is_err(), "{model:?}");
    }
}
