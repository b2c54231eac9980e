//! Transmission to a disk that works on many requests at once: the connection's own thread sends requests to the disk's
//! queue, and waits for the client and for the disk together.
//!
//! ```text
//! socket -> inbox -> check -> pieces -> Queue::submit     while there is room (N18)
//! socket <- outbox <- reply <---------- Queue::collect    in the order in which requests end (N17)
//! ```

use ferrite_disk::{Completion, Op, Queue, Request as DiskRequest, Wait};
use ferrite_memory::{Error, Span, planted};

use super::consts::{REQUEST_BYTES, command_flag};
use super::errno::Fault;
use super::in_flight::{InFlight, count_pieces, first_piece, slot_and_offset, token};
use super::outbox::WHOLE_MAX_BYTES;
use super::peer::{End, Peer};
use super::read::{Part, read_fault};
use super::session::{Session, Trouble};
use super::wire::{self, Command, Request};

impl Session {
    /// Answers requests until the client disconnects and has received the lent data.
    pub fn run(&mut self, peer: &mut Peer<'_>) -> Result<(), End> {
        // If no queue can be opened, because no descriptor is left, the disk works in this thread.
        let end = match self.disk.as_ref().queue() {
            Ok(Some(queue)) => QueuedSession::new(self, queue, peer).run(peer),
            _ => self.answer(peer),
        };
        peer.linger();
        end
    }
}

/// A session whose disk has a queue.
pub(super) struct QueuedSession<'s> {
    session: &'s mut Session,
    // Dropped before `in_flight`: its buffers are freed before their share of the budget is returned (N20).
    queue: Box<dyn Queue>,
    in_flight: InFlight,
    /// The request whose pieces are being sent to the disk.
    started: Option<Started>,
    completions: Vec<Completion>,
    /// The reason why no more requests are received.
    end: Option<Result<(), End>>,
}

/// A request of which the disk has not got every piece.
#[derive(Clone, Copy, Debug)]
struct Started {
    request: Request,
    slot: usize,
    rest: Span,
}

/// The reason why no more requests can be sent to the disk now.
enum Lack {
    /// The inbox holds fewer bytes than this.
    Bytes(usize),
    /// Other requests must end first.
    Ends,
}

impl<'s> QueuedSession<'s> {
    /// Creates the session's state on `queue`, without requests.
    pub fn new(session: &'s mut Session, queue: Box<dyn Queue>, peer: &Peer<'_>) -> Self {
        let in_flight = InFlight::new(peer.outbox.empty_share());
        Self { session, queue, in_flight, started: None, completions: Vec::new(), end: None }
    }

    /// Answers requests until the client disconnects, and then those in flight (N20).
    pub fn run(mut self, peer: &mut Peer<'_>) -> Result<(), End> {
        loop {
            if !self.in_flight.is_empty() {
                self.collect(Wait::No, peer)?;
            }
            let lack = self.start(peer)?;
            peer.flush()?;
            let is_empty = self.in_flight.is_empty();
            match (lack, self.end.take()) {
                (_, Some(end)) if is_empty || planted!("nbd: a session ends amid requests") => return end,
                (Lack::Bytes(needed), None) if is_empty => {
                    self.in_flight.release_share();
                    peer.need(needed)?;
                    self.session.update_geometry();
                }
                (Lack::Bytes(needed), None) => self.receive(needed, peer)?,
                (_, end) => {
                    self.end = end;
                    self.collect(Wait::Forever, peer)?;
                }
            }
        }
    }

    /// Receives what has arrived, or waits until the client or the disk has something.
    fn receive(&mut self, needed: usize, peer: &mut Peer<'_>) -> Result<(), End> {
        match peer.receive_at_once(needed) {
            Ok(true) => self.session.update_geometry(),
            Ok(false) => peer.wait_beside(self.queue.descriptor())?,
            // The server is stopping, or the client sends no more: it still gets its replies (N8).
            Err(End::Closed) => self.end = Some(Err(End::Closed)),
            Err(end) => return Err(end),
        }
        Ok(())
    }

    /// Sends the received requests to the disk, as long as there is room.
    fn start(&mut self, peer: &mut Peer<'_>) -> Result<Lack, End> {
        while self.end.is_none() {
            let lack = match self.started {
                Some(started) => self.start_piece(started, peer)?,
                None => match peer.inbox.held().split_first_chunk() {
                    Some((head, _)) => self.accept(wire::request(*head)?, peer)?,
                    None => Some(Lack::Bytes(REQUEST_BYTES)),
                },
            };
            if let Some(lack) = lack {
                return Ok(lack);
            }
            peer.flush_if_full()?;
        }
        Ok(Lack::Ends)
    }

    /// Begins a request whose head is held, or answers it at once if the disk's queue is not needed.
    fn accept(&mut self, request: Request, peer: &mut Peer<'_>) -> Result<Option<Lack>, End> {
        let Request { command, span, .. } = request;
        if command == Command::Disconnect {
            self.end = Some(Ok(()));
        } else if self.session.check(&request).is_err() {
            let fault = self.session.drain_refused(&request, peer)?;
            self.session.fail(&request, peer, &fault);
        } else if matches!(command, Command::Cache | Command::BlockStatus) || span.len == 0 && !is_flush(command) {
            self.answer_here(&request, peer)?;
            peer.inbox.consume(REQUEST_BYTES);
        } else {
            peer.inbox.consume(REQUEST_BYTES);
            let pieces = if self.is_cut(&request) { count_pieces(span) } else { 1 };
            let slot = self.in_flight.add(request, pieces);
            self.started = Some(Started { request, slot, rest: span });
        }
        Ok(None)
    }

    /// Answers a request in this thread, past the queue.
    fn answer_here(&self, request: &Request, peer: &mut Peer<'_>) -> Result<(), End> {
        match self.session.execute(request, peer) {
            Err(Trouble::Fault(fault)) => self.session.fail(request, peer, &fault),
            Err(Trouble::End(end)) => return Err(end),
            Ok(()) => {}
        }
        Ok(())
    }

    /// Returns true if the request may be cut. A read is answered in pieces only by structured replies.
    fn is_cut(&self, request: &Request) -> bool {
        match request.command {
            Command::Read => self.session.structured && !request.has(command_flag::DF),
            command => command == Command::Write,
        }
    }

    /// Sends the next piece of a request to the disk. Returns what it lacks if that is not possible now.
    fn start_piece(&mut self, started: Started, peer: &mut Peer<'_>) -> Result<Option<Lack>, End> {
        let Started { request, slot, rest } = started;
        let piece = if self.is_cut(&request) { first_piece(rest) } else { rest };
        let has_data = matches!(request.command, Command::Read | Command::Write);
        let len = if has_data { piece.len as usize } else { 0 };
        let is_long = len > WHOLE_MAX_BYTES;
        if is_long || !self.in_flight.has_room(len) {
            if !is_long && !self.in_flight.is_empty() {
                return Ok(Some(Lack::Ends));
            }
            // A reply that no buffer holds is read by pieces while the client receives it (N15).
            self.started = None;
            self.in_flight.remove(slot);
            self.answer_here(&request, peer)?;
            return Ok(None);
        }
        if request.command == Command::Write && peer.inbox.held().len() < len {
            return Ok(Some(Lack::Bytes(len)));
        }
        let mut buffer = self.in_flight.buffer(len);
        if request.command == Command::Write {
            buffer.copy_from_slice(&peer.inbox.held()[..len]);
            peer.inbox.consume(len);
        }
        let rest = Span::new(piece.at + piece.len, rest.len - piece.len);
        self.started = (rest.len > 0).then_some(Started { rest, ..started });
        self.in_flight.start(len);
        let token = token(slot, piece.at - request.span.at);
        let ended = self.submit(DiskRequest { token, op: operation(&request), span: piece, buffer });
        ended.map_or(Ok(None), |completion| self.finish(completion, peer).map(|()| None))
    }

    fn submit(&mut self, request: DiskRequest) -> Option<Completion> {
        let DiskRequest { token, op, .. } = request;
        if op == Op::Flush && planted!("nbd: a queued flush does not reach the disk") {
            return Some(Completion { token, buffer: request.buffer, result: Ok(()) });
        }
        self.queue.submit(request)
    }

    /// Answers the requests that have ended.
    fn collect(&mut self, wait: Wait, peer: &mut Peer<'_>) -> Result<(), End> {
        let mut completions = std::mem::take(&mut self.completions);
        self.queue.collect(wait, &mut completions).map_err(End::Queue)?;
        for completion in completions.drain(..) {
            self.finish(completion, peer)?;
        }
        self.completions = completions;
        Ok(())
    }

    /// Answers a piece that the disk has ended: a read by its data, another request once its last piece has ended.
    fn finish(&mut self, completion: Completion, peer: &mut Peer<'_>) -> Result<(), End> {
        let Completion { token, buffer, result } = completion;
        let (slot, offset) = slot_and_offset(token);
        let Some(pending) = self.in_flight.end(slot, buffer.len()) else { return Ok(()) };
        let (request, is_done) = (pending.request, pending.is_done());
        let span = Span::new(request.span.at + offset, buffer.len() as u64);
        if let Err(error) = result {
            pending.fault.get_or_insert_with(|| fault(&request, span, error));
        }
        let fault = if is_done { pending.fault.take() } else { pending.fault.clone() };
        match fault {
            Some(fault) if is_done => self.session.fail(&request, peer, &fault),
            Some(_) => {}
            None if request.command == Command::Read => {
                let part = Part { cookie: request.cookie, rest: span, is_last: is_done };
                self.session.gather_head(part, span, peer);
                peer.send_behind(&buffer)?;
            }
            None if is_done => peer.outbox.simple_reply(request.cookie, 0),
            None => {}
        }
        if is_done {
            self.in_flight.remove(slot);
        }
        self.in_flight.keep(buffer);
        peer.flush_if_full()
    }
}

fn is_flush(command: Command) -> bool {
    command == Command::Flush
}

/// Returns the operation of a checked request. With FUA each piece is durable when it ends, and so is the request.
fn operation(request: &Request) -> Op {
    let access = request.access();
    match request.command {
        Command::Write => Op::Write(access),
        Command::Flush => Op::Flush,
        Command::Trim => Op::Trim(access),
        Command::WriteZeroes => Op::Zero(request.zeroing()),
        Command::Read => Op::Read,
        other => unreachable!("{other:?} is answered past the queue"),
    }
}

fn fault(request: &Request, span: Span, error: Error) -> Fault {
    match request.command {
        Command::Read => read_fault(span, error),
        Command::WriteZeroes => Fault::of_zeroing(error, request.has(command_flag::FAST_ZERO)),
        _ => error.into(),
    }
}
