//! A disk that lends: blocks in a file, written out of place, and reused as soon as their borrowers allow it.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};

use ferrite_disk::{Access, Disk, Geometry};
use ferrite_memory::{Borrower, Lent, Result, Span};

pub const BLOCK: usize = 4096;
/// Number of block places beyond those that the disk needs. They are few, so that each is reused soon.
const SPARES: usize = 256;
/// Most places that are lent at once.
const LENT_MAX: usize = 128;

pub struct Shelf {
    file: File,
    state: Mutex<State>,
}

struct State {
    /// The place of each block, in blocks of the file.
    places: Vec<usize>,
    free: Vec<usize>,
    /// Places that were freed while they were lent.
    kept: Vec<usize>,
    loans: Vec<(std::ops::Range<usize>, Arc<dyn Borrower>)>,
}

impl Shelf {
    /// Creates a disk of `blocks` blocks of zeros.
    pub fn new(blocks: usize) -> Arc<Self> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(((blocks + SPARES) * BLOCK) as u64).unwrap();
        let (places, free) = ((0..blocks).collect(), (blocks..blocks + SPARES).collect());
        Arc::new(Self { file, state: Mutex::new(State { places, free, kept: Vec::new(), loans: Vec::new() }) })
    }

    fn size(&self) -> u64 {
        (self.state.lock().unwrap().places.len() * BLOCK) as u64
    }
}

impl State {
    fn give_back(&mut self) {
        self.loans.retain(|(_, borrower)| !borrower.has_returned());
        let loans = &self.loans;
        self.free.extend(self.kept.extract_if(.., |place| !loans.iter().any(|(lent, _)| lent.contains(place))));
    }

    fn write(&mut self, file: &File, block: usize, from: &[u8]) {
        self.give_back();
        let place = self.free.pop().expect("more spares than can be lent");
        file.write_all_at(from, (place * BLOCK) as u64).unwrap();
        self.kept.push(std::mem::replace(&mut self.places[block], place));
    }

    /// Returns the number of blocks from `first` on, at most `count`, that are adjacent in the file.
    fn run(&self, first: usize, count: usize) -> usize {
        (0..count).take_while(|i| self.places[first + i] == self.places[first] + i).count()
    }
}

impl Disk for Shelf {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.size(),
            sector_bytes: BLOCK as u32,
            atomic_bytes: BLOCK as u32,
            preferred_bytes: BLOCK as u32,
            volatile_cache: false,
            read_only: false,
            trim: false,
            identity: [0; 16],
        }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let state = self.state.lock().unwrap();
        for (i, block) in into.chunks_mut(BLOCK).enumerate() {
            let place = state.places[at as usize / BLOCK + i];
            self.file.read_exact_at(block, (place * BLOCK) as u64).unwrap();
        }
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8], _: Access) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        for (i, block) in from.chunks(BLOCK).enumerate() {
            state.write(&self.file, at as usize / BLOCK + i, block);
        }
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn lend(&self, span: Span, least_bytes: u64, borrower: Arc<dyn Borrower>) -> Option<Lent<'_>> {
        let mut state = self.state.lock().unwrap();
        state.give_back();
        let first = span.at as usize / BLOCK;
        let count = state.run(first, span.len as usize / BLOCK);
        let lent: usize = state.loans.iter().map(|(blocks, _)| blocks.len()).sum();
        let (place, len) = (state.places[first], (count * BLOCK) as u64);
        if lent + count > LENT_MAX || len < least_bytes {
            return None;
        }
        state.loans.push((place..place + count, borrower));
        Some(Lent { file: self.file.as_fd(), at: (place * BLOCK) as u64, len })
    }
}
