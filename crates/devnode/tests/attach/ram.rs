//! A disk in memory that records its requests and fails where a test wants it to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

use ferrite_disk::{Access, Disk, Geometry, Run, Zeroing};
use ferrite_memory::{Error, Result, Span};

const CHUNK: usize = 64 << 10;

/// One request that the disk received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Write(Span),
    Flush,
    Trim(Span),
    Zero(Span),
}

/// The failure of a request that touches the bad byte.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    Damaged,
    NoSpace,
    Io(i32),
}

/// A sparse disk in memory. A chunk that was never written, or that was trimmed whole, uses no memory. A chunk trimmed
/// in part keeps its content; real disks may do the same.
pub struct RamDisk {
    pub sector_bytes: u32,
    pub read_only: bool,
    size: AtomicU64,
    chunks: Vec<Mutex<Option<Box<[u8]>>>>,
    asked: Mutex<Vec<Asked>>,
    fault: Mutex<Option<(u64, Fault)>>,
    gate: Mutex<Gate>,
    passed: Condvar,
}

#[derive(Default)]
struct Gate {
    shut: bool,
    waiting: bool,
}

impl RamDisk {
    pub fn new(size: u64) -> Self {
        Self {
            sector_bytes: 512,
            read_only: false,
            size: size.into(),
            chunks: (0..size.div_ceil(CHUNK as u64)).map(|_| Mutex::default()).collect(),
            asked: Mutex::default(),
            fault: Mutex::default(),
            gate: Mutex::default(),
            passed: Condvar::new(),
        }
    }

    /// Shows only the first `size` bytes of the disk; growing again shows the earlier content.
    pub fn show(&self, size: u64) {
        assert!(size <= (self.chunks.len() * CHUNK) as u64);
        self.size.store(size, Ordering::Release);
    }

    /// Returns the requests since the last call.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    pub fn fail_at(&self, at: u64, fault: Fault) {
        *self.fault.lock().unwrap() = Some((at, fault));
    }

    /// Blocks flushes from now on.
    pub fn shut_flush(&self) {
        self.gate.lock().unwrap().shut = true;
    }

    /// Waits until a flush is blocked.
    pub fn await_flush(&self) {
        drop(self.passed.wait_while(self.gate.lock().unwrap(), |gate| !gate.waiting).unwrap());
    }

    pub fn open_flush(&self) {
        self.gate.lock().unwrap().shut = false;
        self.passed.notify_all();
    }

    /// Returns true if any memory is allocated for `span`.
    pub fn has_space(&self, span: Span) -> bool {
        pieces(span).any(|(chunk, _)| self.chunks[chunk].lock().unwrap().is_some())
    }

    fn meet_fault(&self, span: Span) -> Result<()> {
        match *self.fault.lock().unwrap() {
            Some((at, fault)) if span.at <= at && at < span.at + span.len => Err(match fault {
                Fault::Damaged => Error::Damaged(at),
                Fault::NoSpace => Error::NoSpace("told to".into()),
                Fault::Io(errno) => Error::io("told to", std::io::Error::from_raw_os_error(errno)),
            }),
            _ => Ok(()),
        }
    }

    fn note(&self, asked: Asked) {
        self.asked.lock().unwrap().push(asked);
    }

    fn change(&self, span: Span, from: Option<&[u8]>) -> Result<()> {
        self.check(span)?;
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        self.meet_fault(span)?;
        let mut done = 0;
        for (chunk, part) in pieces(span) {
            let mut chunk = self.chunks[chunk].lock().unwrap();
            let chunk = chunk.get_or_insert_with(|| vec![0; CHUNK].into());
            match from {
                Some(from) => chunk[part.clone()].copy_from_slice(&from[done..done + part.len()]),
                None => chunk[part.clone()].fill(0),
            }
            done += part.len();
        }
        Ok(())
    }
}

/// Returns the chunks of `span` and the range of bytes in each.
fn pieces(span: Span) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> {
    let (start, end) = (span.at as usize, (span.at + span.len) as usize);
    (start / CHUNK..end.div_ceil(CHUNK)).map(move |chunk| {
        let base = chunk * CHUNK;
        (chunk, start.max(base) - base..end.min(base + CHUNK) - base)
    })
}

impl Disk for RamDisk {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.size.load(Ordering::Acquire),
            sector_bytes: self.sector_bytes,
            atomic_bytes: self.sector_bytes,
            preferred_bytes: 4096,
            volatile_cache: true,
            read_only: self.read_only,
            trim: true,
            identity: [0; 16],
        }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let span = Span::new(at, into.len() as u64);
        self.check(span)?;
        self.meet_fault(span)?;
        let mut done = 0;
        for (chunk, part) in pieces(span) {
            let into = &mut into[done..done + part.len()];
            done += part.len();
            match &*self.chunks[chunk].lock().unwrap() {
                Some(chunk) => into.copy_from_slice(&chunk[part]),
                None => into.fill(0),
            }
        }
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8], _: Access) -> Result<()> {
        let span = Span::new(at, from.len() as u64);
        self.change(span, Some(from))?;
        self.note(Asked::Write(span));
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        let mut gate = self.gate.lock().unwrap();
        gate.waiting = true;
        self.passed.notify_all();
        drop(self.passed.wait_while(gate, |gate| gate.shut).unwrap());
        self.note(Asked::Flush);
        Ok(())
    }

    fn trim(&self, span: Span, _: Access) -> Result<()> {
        self.check(span)?;
        for (chunk, part) in pieces(span) {
            if part.len() == CHUNK {
                *self.chunks[chunk].lock().unwrap() = None;
            }
        }
        self.note(Asked::Trim(span));
        Ok(())
    }

    fn write_zeroes(&self, span: Span, _: Zeroing) -> Result<()> {
        self.change(span, None)?;
        self.note(Asked::Zero(span));
        Ok(())
    }

    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.check(span)?;
        let runs = pieces(span).map(|(chunk, part)| {
            let hole = self.chunks[chunk].lock().unwrap().is_none();
            Run { len: part.len() as u64, hole, zero: hole }
        });
        Ok(runs.collect())
    }
}
