//! What is under way: requests, the commands they were cut into, and what waits to be sent.

use std::collections::HashMap;

use ferrite_disk::{Completion, Run};
use ferrite_memory::{Error, Result, Span};

use super::error::{Failure, failed};
use super::inbox::Inbox;
use super::received::Received;
use crate::consts::{REQUEST_BYTES, REQUEST_MAGIC, command};

/// Most bytes of one command that sends none of them.
pub(super) const RANGE_MAX_BYTES: u64 = 1 << 30;
/// A buffer for sending that is larger is not kept.
const SPARE_MAX_BYTES: usize = 1 << 20;

/// A request in the protocol's words, of any length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub command: u16,
    pub flags: u16,
    pub span: Span,
    /// A flush follows once it is done.
    pub then_flush: bool,
}

/// A request that somebody waits for.
#[derive(Debug)]
pub(super) struct Job {
    order: Order,
    /// What is read into it or, of a submitted write, sent.
    pub buffer: Vec<u8>,
    /// What is told of the states of its span.
    pub runs: Vec<Run>,
    /// That of a submitted request.
    token: Option<u64>,
    /// Commands that are not answered.
    left: usize,
    error: Option<Error>,
}

/// A part of a job that one command is enough for.
#[derive(Debug)]
pub(super) struct Piece {
    job: u64,
    pub command: u16,
    pub span: Span,
    /// What has come of a read.
    received: Received,
    /// States are told of so many bytes.
    told_bytes: u64,
    failed: bool,
}

/// Everything that callers share. Behind a lock that is never held while the socket is waited for (C4).
#[derive(Debug)]
pub(super) struct Flight {
    uri: String,
    cookies: u64,
    pieces: HashMap<u64, Piece>,
    jobs: HashMap<u64, Job>,
    /// Submitted jobs that are done.
    submitted: Vec<u64>,
    /// Submitted jobs that are not collected.
    owed: usize,
    pub outgoing: Vec<u8>,
    spare: Vec<u8>,
    /// A caller is sending.
    pub sending: bool,
    /// Not there while a caller receives.
    pub inbox: Option<Inbox>,
    /// Callers that wait for `changed`.
    pub waiting: usize,
    /// Why the connection is lost.
    pub lost: Option<String>,
}

impl Job {
    /// `order`, to be waited for or, with a token, to be collected.
    pub fn new(order: Order, buffer: Vec<u8>, token: Option<u64>) -> Self {
        Self { order, buffer, runs: Vec::new(), token, left: 0, error: None }
    }

    /// How it went.
    pub fn result(&mut self) -> Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }
}

impl Job {
    /// The completion of a submitted job that was not sent.
    pub fn refused(self, why: Error) -> Option<Completion> {
        completion(Self { error: Some(why), ..self })
    }
}

impl Flight {
    /// Nothing, on a connection to `uri`.
    pub fn new(uri: &str, inbox: Inbox) -> Self {
        Self {
            uri: uri.to_owned(),
            cookies: 0,
            pieces: HashMap::new(),
            jobs: HashMap::new(),
            submitted: Vec::new(),
            owed: 0,
            outgoing: Vec::new(),
            spare: Vec::new(),
            sending: false,
            inbox: Some(inbox),
            waiting: 0,
            lost: None,
        }
    }

    /// C3.
    pub fn ensure_sound(&self) -> Result<()> {
        self.lost.as_ref().map_or(Ok(()), |why| Err(Error::Poisoned(why.clone())))
    }

    /// Gathers the commands of `job`, each of at most `payload_max_bytes`. What a write sends is `payload`, or its
    /// own buffer.
    pub fn start(&mut self, mut job: Job, payload: Option<&[u8]>, payload_max_bytes: u64) -> u64 {
        let number = self.next();
        let Order { command, span, .. } = job.order;
        let most = if matches!(command, command::READ | command::WRITE) { payload_max_bytes } else { RANGE_MAX_BYTES };
        let mut done_bytes = 0;
        while done_bytes < span.len || job.left == 0 {
            let part = Span::new(span.at + done_bytes, (span.len - done_bytes).min(most));
            self.gather(number, &job.order, part);
            if command == command::WRITE {
                let bytes = payload.unwrap_or(&job.buffer);
                self.outgoing.extend_from_slice(&bytes[done_bytes as usize..][..part.len as usize]);
            }
            job.left += 1;
            done_bytes += part.len;
        }
        self.owed += usize::from(job.token.is_some());
        self.jobs.insert(number, job);
        number
    }

    fn next(&mut self) -> u64 {
        self.cookies += 1;
        self.cookies
    }

    fn gather(&mut self, job: u64, order: &Order, span: Span) {
        let cookie = self.next();
        self.outgoing.extend_from_slice(&request(order, cookie, span));
        let received = Received::new(span.at);
        let piece = Piece { job, command: order.command, span, received, told_bytes: 0, failed: false };
        self.pieces.insert(cookie, piece);
    }

    /// The command that goes by `cookie`.
    pub fn piece(&self, cookie: u64) -> Option<&Piece> {
        self.pieces.get(&cookie)
    }

    /// Whether the bytes of `span` were asked for by `cookie` and have not come yet (C2).
    pub fn expects(&mut self, cookie: u64, span: Span) -> bool {
        let Some(piece) = self.pieces.get_mut(&cookie) else { return false };
        let within = span.at >= piece.span.at && span.fits(piece.span.at + piece.span.len);
        piece.command == command::READ && within && piece.received.add(span)
    }

    /// Puts bytes that were expected where they belong.
    pub fn fill(&mut self, cookie: u64, at: u64, bytes: &[u8]) {
        let job = self.pieces.get(&cookie).and_then(|piece| self.jobs.get_mut(&piece.job));
        let job = job.expect("bytes are expected only of what is in flight");
        job.buffer[(at - job.order.span.at) as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    /// As [`Flight::fill`], with zeros.
    pub fn clear(&mut self, cookie: u64, span: Span) {
        let job = self.pieces.get(&cookie).and_then(|piece| self.jobs.get_mut(&piece.job));
        let job = job.expect("zeros are expected only of what is in flight");
        job.buffer[(span.at - job.order.span.at) as usize..][..span.len as usize].fill(0);
    }

    /// The states of the beginning of what `cookie` asked for; false where they were not asked for, or told before (C2).
    pub fn tell(&mut self, cookie: u64, runs: impl Iterator<Item = Run>) -> bool {
        let Some(piece) = self.pieces.get_mut(&cookie) else { return false };
        let Some(job) = self.jobs.get_mut(&piece.job) else { return false };
        if piece.command != command::BLOCK_STATUS || piece.told_bytes > 0 {
            return false;
        }
        for run in runs {
            let len = run.len.min(piece.span.len - piece.told_bytes);
            if len > 0 {
                piece.told_bytes += len;
                job.runs.push(Run { len, ..run });
            }
        }
        true
    }

    /// The command that goes by `cookie` has failed; its reply may go on.
    pub fn fail(&mut self, cookie: u64, failure: &Failure) {
        let Some(piece) = self.pieces.get_mut(&cookie) else { return };
        piece.failed = true;
        if let Some(job) = self.jobs.get_mut(&piece.job) {
            job.error.get_or_insert_with(|| failed(piece, &self.uri, failure));
        }
    }

    /// The reply to `cookie` is whole. Says whether it holds what was asked for; else the job is not done.
    pub fn end(&mut self, cookie: u64) -> bool {
        let Some(piece) = self.pieces.remove(&cookie) else { return false };
        let is_whole = match piece.command {
            command::READ => piece.received.reaches(piece.span.at + piece.span.len),
            command::BLOCK_STATUS => piece.told_bytes > 0,
            _ => true,
        };
        let Some(job) = self.jobs.get_mut(&piece.job).filter(|_| is_whole || piece.failed) else { return false };
        job.left -= 1;
        if job.left == 0 {
            self.end_job(piece.job);
        }
        true
    }

    fn end_job(&mut self, number: u64) {
        let Some(job) = self.jobs.get_mut(&number) else { return };
        if std::mem::take(&mut job.order.then_flush) && job.error.is_none() {
            job.left = 1;
            let flush = Order { command: command::FLUSH, flags: 0, span: Span::new(0, 0), then_flush: false };
            self.gather(number, &flush, flush.span);
        } else if job.token.is_some() {
            self.submitted.push(number);
        }
    }

    /// The job, once it is done.
    pub fn take_done(&mut self, number: u64) -> Option<Job> {
        let done = self.jobs.get(&number)?.left == 0;
        done.then(|| self.jobs.remove(&number)).flatten()
    }

    /// The submitted jobs that are done.
    pub fn take_submitted(&mut self) -> Vec<Completion> {
        let done = std::mem::take(&mut self.submitted).into_iter().filter_map(|number| self.jobs.remove(&number));
        let completions: Vec<_> = done.filter_map(completion).collect();
        self.owed -= completions.len();
        completions
    }

    /// Whether a submitted job was not collected yet.
    pub fn owes_submitted(&self) -> bool {
        self.owed > 0
    }

    /// Whether something waits to be sent, and for somebody to send it.
    pub fn has_followers(&self) -> bool {
        !self.sending && self.lost.is_none() && !self.outgoing.is_empty()
    }

    /// What is to be sent, taken over by a caller who sends it.
    pub fn take_outgoing(&mut self) -> Vec<u8> {
        std::mem::replace(&mut self.outgoing, std::mem::take(&mut self.spare))
    }

    /// Gives back a buffer for sending.
    pub fn keep_spare(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= SPARE_MAX_BYTES {
            buffer.clear();
            self.spare = buffer;
        }
    }

    /// Nothing is in flight: a last word would not be taken for part of something.
    pub fn is_idle(&self) -> bool {
        self.pieces.is_empty() && self.outgoing.is_empty() && !self.sending
    }

    /// Gathers the command that ends the session.
    pub fn say_goodbye(&mut self) {
        let order = Order { command: command::DISC, flags: 0, span: Span::new(0, 0), then_flush: false };
        let cookie = self.next();
        self.outgoing.extend_from_slice(&request(&order, cookie, order.span));
    }

    /// C1: every job ends now, those that are not answered with an error.
    pub fn lose(&mut self, why: String) {
        for (number, job) in &mut self.jobs {
            if job.left > 0 {
                job.left = 0;
                job.error = Some(Error::io(why.clone(), std::io::ErrorKind::ConnectionAborted.into()));
                self.submitted.extend(job.token.map(|_| *number));
            }
        }
        self.pieces.clear();
        self.outgoing.clear();
        self.lost = Some(why);
    }
}

fn completion(mut job: Job) -> Option<Completion> {
    let result = job.result();
    Some(Completion { token: job.token?, buffer: job.buffer, result })
}

fn request(order: &Order, cookie: u64, span: Span) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&order.flags.to_be_bytes());
    bytes[6..8].copy_from_slice(&order.command.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..24].copy_from_slice(&span.at.to_be_bytes());
    bytes[24..].copy_from_slice(&(span.len as u32).to_be_bytes());
    bytes
}
