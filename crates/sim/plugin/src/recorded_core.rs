//! One thread of the program: its first-level cache, and the events that it has not sent yet.

use std::ffi::c_void;
use std::sync::Mutex;

use crate::access_meaning::{AccessMeaning, MeaningBits, QemuAccess};
use crate::event_pipe::EventPipe;
use crate::l1::{L1, signature};
use crate::qemu;

/// The shape of each core's first-level cache.
#[derive(Clone, Copy, Debug)]
pub struct CoreShape {
    pub sets: usize,
    pub ways: usize,
    pub line_bits: u32,
    pub instructions: bool,
}

/// The most events that one frame sends: few enough that threads mix about as they ran. The first event is sent alone,
/// then two, and so on. If the program is killed or runs another program, the events lost are at most as many as the
/// events known.
const FRAME: usize = 2048;

/// After this many accesses a core sends its events, however few: a hundredth of a second without more.
const QUIET: u64 = 1 << 20;

/// The most events of one frame. If a large first level writes back more at the end, it sends several frames.
const FRAME_MAX: usize = 1 << 16;

pub struct Core {
    shape: CoreShape,
    /// The bits of QEMU's number that describe an access, if bits describe it.
    meaning: Option<MeaningBits>,
    data: L1,
    code: Option<L1>,
    accesses: u64,
    events: Vec<u64>,
    /// Events of the next frame.
    frame: usize,
    pipe: &'static Mutex<EventPipe>,
}

impl Core {
    pub fn new(shape: CoreShape, pipe: &'static Mutex<EventPipe>) -> Self {
        let code = shape.instructions.then(|| L1::new(shape.sets, shape.ways));
        let events = Vec::with_capacity(2 * FRAME);
        let data = L1::new(shape.sets, shape.ways);
        Self { shape, meaning: MeaningBits::asked(qemu::made), data, code, accesses: 0, events, frame: 1, pipe }
    }

    /// An access at `address` by an instruction with this signature; `how` is QEMU's description. Most accesses are
    /// handled here, in less time than a call takes.
    #[inline(always)]
    pub fn access(&mut self, address: u64, how: QemuAccess, signature: u8) {
        let bits = self.shape.line_bits;
        if let Some(AccessMeaning { is_write, size_shift }) = self.meaning.map(|meaning| meaning.of(how))
            && (address & ((1 << bits) - 1)) + (1 << (size_shift & 7)) <= 1 << bits
            && self.accesses + 1 < QUIET
            && self.data.again(address >> bits, is_write, || signature)
        {
            self.accesses += 1;
        } else {
            self.whole_access(address, how, signature);
        }
    }

    #[inline(never)]
    fn whole_access(&mut self, address: u64, how: QemuAccess, signature: u8) {
        self.accesses += 1;
        let AccessMeaning { is_write, size_shift } =
            self.meaning.map_or_else(|| qemu::made(how), |meaning| meaning.of(how));
        let (bits, reach) = (self.shape.line_bits, (1 << size_shift) - 1);
        for line in address >> bits..=(address + reach) >> bits {
            self.data.access(line, is_write, || signature, |event| self.events.push(event));
        }
        if self.events.len() >= self.frame || self.accesses >= QUIET {
            self.send();
        }
    }

    /// An instruction fetch from `lines`, which [`packed_lines`] returned.
    #[inline]
    pub fn fetch(&mut self, lines: *mut c_void) {
        let Some(code) = &mut self.code else { return };
        self.accesses += 1;
        let (first, more) = (lines as u64 >> 1, lines as u64 & 1);
        for line in first..=first + more {
            let signature = signature(line << self.shape.line_bits);
            code.access(line, false, || signature, |event| self.events.push(event));
        }
    }

    /// Writes back every dirty line and sends all events.
    pub fn drain(&mut self) {
        self.data.drain(|event| self.events.push(event));
        self.send();
    }

    #[cold]
    fn send(&mut self) {
        let pipe = self.pipe.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut accesses = std::mem::take(&mut self.accesses);
        for events in self.events.chunks(FRAME_MAX) {
            pipe.send(std::mem::take(&mut accesses), events);
        }
        if accesses > 0 {
            pipe.send(accesses, &[]);
        }
        self.events.clear();
        self.frame = (2 * self.frame).min(FRAME);
    }
}

/// Returns the first line of an instruction, and whether it reaches into the next line, packed as the pointer that QEMU
/// passes on.
pub fn packed_lines(address: u64, bytes: u64, line_bits: u32) -> *mut c_void {
    let (first, last) = (address >> line_bits, (address + bytes.max(1) - 1) >> line_bits);
    (first << 1 | u64::from(last > first)) as *mut c_void
}
