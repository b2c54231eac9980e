//! The implementation of `Disk` for a buffered disk.

use ferrite_disk::{Access, Disk, Geometry, Run, Zeroing};
use ferrite_memory::{Error, Result, Span};

use super::Buffered;
use super::ring::{PAGE, PageRing};

const PAGE_BYTES: u64 = PAGE as u64;

/// A part of a request that belongs to one buffer.
struct BufferPiece {
    number: usize,
    span: Span,
}

impl<D: Disk> Buffered<D> {
    /// Returns the parts of `span`, in order.
    fn pieces(&self, span: Span) -> impl Iterator<Item = BufferPiece> + use<D> {
        let (stride, buffers) = (self.options.stride_bytes, self.buffers.len() as u64);
        let end = span.at + span.len;
        let mut at = span.at;
        std::iter::from_fn(move || {
            let next = end.min((at / stride + 1) * stride);
            let piece = BufferPiece { number: (at / stride % buffers) as usize, span: Span::new(at, next - at) };
            at = next;
            (piece.span.len > 0).then_some(piece)
        })
    }

    fn check_change(&self, span: Span) -> Result<()> {
        self.check(span)?;
        if self.disk.geometry().read_only { Err(Error::ReadOnly) } else { Ok(()) }
    }

    fn finish(&self, access: Access) -> Result<()> {
        match access {
            Access::Fua => self.flush(),
            Access::Cached => Ok(()),
        }
    }

    /// Puts `from` into the buffer of `piece`, and drains the buffer if it is full (U4).
    fn put(&self, piece: &BufferPiece, from: &[u8]) -> Result<()> {
        let mut done = 0;
        loop {
            let mut ring = self.lock_ring(piece.number);
            let timer = self.timer();
            while done < from.len() {
                match self.put_part(&mut ring, piece.span.at + done as u64, &from[done..])? {
                    0 => break,
                    bytes => done += bytes,
                }
            }
            let is_high = ring.used() > self.high_pages;
            drop(ring);
            drop(timer);
            if is_high {
                self.syncer_wake(piece.number).wake();
            }
            if done == from.len() {
                return Ok(());
            }
            self.drain_full(piece.number)?;
        }
    }

    /// Puts the part of `from` that belongs to the page of `at` into the ring. Returns the number of bytes, 0 if the
    /// ring is full.
    fn put_part(&self, ring: &mut PageRing, at: u64, from: &[u8]) -> Result<usize> {
        let (page, within) = (at / PAGE_BYTES, (at % PAGE_BYTES) as usize);
        let part = &from[..from.len().min(PAGE - within)];
        if let Some(content) = ring.get_mut(page) {
            content[within..within + part.len()].copy_from_slice(part);
            return Ok(part.len());
        }
        if ring.is_full() {
            return Ok(0);
        }
        let mut whole = [0; PAGE];
        if part.len() < PAGE {
            match ring.get(page) {
                Some(content) => whole.copy_from_slice(content),
                None => self.read_page(page, &mut whole)?,
            }
        }
        let content = ring.append(page).expect("there is room");
        if part.len() < PAGE {
            content.copy_from_slice(&whole);
        }
        content[within..within + part.len()].copy_from_slice(part);
        Ok(part.len())
    }

    /// Reads a page from the disk, with zeros behind the disk's end.
    fn read_page(&self, page: u64, into: &mut [u8; PAGE]) -> Result<()> {
        let at = page * PAGE_BYTES;
        let len = PAGE_BYTES.min(self.disk.geometry().size - at);
        self.disk.read(at, &mut into[..len as usize])
    }

    /// Reads a piece: buffered pages from the ring, and the others from the disk. The disk is read after the ring, so a
    /// page that leaves the ring in between is found on the disk (U1).
    fn get(&self, piece: &BufferPiece, into: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < into.len() {
            let at = piece.span.at + done as u64;
            let missing = {
                let ring = self.buffers[piece.number].ring.lock();
                let _timer = self.timer();
                done += get_buffered(&ring, at, &mut into[done..]);
                let at = piece.span.at + done as u64;
                missing_bytes(&ring, at, (into.len() - done) as u64) as usize
            };
            if missing > 0 {
                self.disk.read(piece.span.at + done as u64, &mut into[done..done + missing])?;
                done += missing;
            }
        }
        Ok(())
    }

    /// Calls `act` with the whole pages of `piece`, to trim or zero them on the disk (U5).
    fn change_pages(&self, piece: &BufferPiece, act: impl FnOnce(&mut PageRing, Span) -> Result<()>) -> Result<()> {
        let first = piece.span.at.div_ceil(PAGE_BYTES);
        let end = (piece.span.at + piece.span.len) / PAGE_BYTES;
        if first >= end {
            return Ok(());
        }
        let (_plan, mut ring) = self.lock_ring_and_plan(piece.number);
        act(&mut ring, Span::new(first * PAGE_BYTES, (end - first) * PAGE_BYTES))
    }

    fn zero_piece(&self, piece: &BufferPiece, how: Zeroing) -> Result<()> {
        self.change_pages(piece, |ring, pages| {
            self.disk.write_zeroes(pages, Zeroing { access: Access::Cached, ..how })?;
            forget(ring, pages);
            Ok(())
        })?;
        let end = piece.span.at + piece.span.len;
        let head = (piece.span.at.div_ceil(PAGE_BYTES) * PAGE_BYTES).min(end) - piece.span.at;
        let tail = end - (end / PAGE_BYTES * PAGE_BYTES).max(piece.span.at + head);
        let edges = [Span::new(piece.span.at, head), Span::new(end - tail, tail)];
        for span in edges.into_iter().filter(|span| span.len > 0) {
            self.put(&BufferPiece { number: piece.number, span }, &[0; PAGE][..span.len as usize])?;
        }
        Ok(())
    }

    /// Trims the pages of a piece. Dirty pages are zeroed instead: the disk may ignore a trim, and its content of them
    /// is older than the buffer's.
    fn trim_piece(&self, piece: &BufferPiece) -> Result<()> {
        self.change_pages(piece, |ring, pages| {
            self.disk.trim(pages, Access::Cached)?;
            let dirty = ring.dirty_among(pages.at / PAGE_BYTES..(pages.at + pages.len) / PAGE_BYTES);
            for run in dirty.chunk_by(|page, next| page + 1 == *next) {
                let run = Span::new(run[0] * PAGE_BYTES, run.len() as u64 * PAGE_BYTES);
                self.disk.write_zeroes(run, Zeroing::default())?;
                forget(ring, run);
            }
            Ok(())
        })
    }
}

fn forget(ring: &mut PageRing, pages: Span) {
    let range = pages.at / PAGE_BYTES..(pages.at + pages.len) / PAGE_BYTES;
    ring.dirty_among(range).into_iter().for_each(|page| ring.forget(page));
}

/// Fills the start of `into` with the pages that are in the buffer without a gap from `at` on. Returns the number of
/// bytes.
fn get_buffered(ring: &PageRing, at: u64, into: &mut [u8]) -> usize {
    let mut done = 0;
    while done < into.len() {
        let at = at + done as u64;
        let Some(content) = ring.get(at / PAGE_BYTES) else { break };
        let content = &content[(at % PAGE_BYTES) as usize..];
        let len = content.len().min(into.len() - done);
        into[done..done + len].copy_from_slice(&content[..len]);
        done += len;
    }
    done
}

/// Returns how many of the `len` bytes from `at` on come before the next buffered page.
fn missing_bytes(ring: &PageRing, at: u64, len: u64) -> u64 {
    if ring.dirty() == 0 {
        return len;
    }
    let end = at + len;
    let next = (at / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).find(|page| ring.get(*page).is_some());
    next.map_or(len, |page| (page * PAGE_BYTES).saturating_sub(at))
}

impl<D: Disk> Disk for Buffered<D> {
    fn geometry(&self) -> Geometry {
        let geometry = self.disk.geometry();
        let atomic_bytes = geometry.atomic_bytes.min(PAGE as u32);
        Geometry { volatile_cache: true, atomic_bytes, ..geometry }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let span = Span::new(at, into.len() as u64);
        self.check(span)?;
        for piece in self.pieces(span) {
            let from = (piece.span.at - at) as usize;
            self.get(&piece, &mut into[from..from + piece.span.len as usize])?;
        }
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        let span = Span::new(at, from.len() as u64);
        self.check_change(span)?;
        for piece in self.pieces(span) {
            let start = (piece.span.at - at) as usize;
            self.put(&piece, &from[start..start + piece.span.len as usize])?;
        }
        self.finish(access)
    }

    fn flush(&self) -> Result<()> {
        self.drain_all()?;
        self.disk.flush()
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.check_change(span)?;
        self.pieces(span).try_for_each(|piece| self.trim_piece(&piece))?;
        self.finish(access)
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.check_change(span)?;
        self.pieces(span).try_for_each(|piece| self.zero_piece(&piece, how))?;
        self.finish(how.access)
    }

    /// Drains the buffers first, so that the disk knows every page.
    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.check(span)?;
        self.drain_all()?;
        self.disk.extents(span)
    }
}
