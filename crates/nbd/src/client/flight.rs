//! The state of a connection: requests, the commands into which they were cut, and the bytes that wait to be sent.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use ferrite_disk::{Completion, Run};
use ferrite_memory::{Error, Result, Span, planted};

use super::error::{Failure, failed};
use super::inbox::Inbox;
use super::queue_jobs::QueueJobs;
use super::received::Received;
use crate::consts::{REQUEST_BYTES, REQUEST_MAGIC, command};

/// Longest command without payload, in bytes.
pub(super) const RANGE_MAX_BYTES: u64 = 1 << 30;
/// A larger buffer for sending is dropped after use, in bytes.
const SPARE_MAX_BYTES: usize = 1 << 20;

/// A request in the protocol's terms, of any length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub command: u16,
    pub flags: u16,
    pub span: Span,
    /// If true, a flush follows once the command is done.
    pub then_flush: bool,
}

/// A request for which a caller waits.
#[derive(Debug)]
pub(super) struct Job {
    order: Order,
    /// The data of a read, or the payload of a submitted write.
    pub buffer: Vec<u8>,
    /// The extents of the span that the server has reported.
    pub runs: Vec<Run>,
    /// The queue to which the request was submitted, if no caller waits for it.
    submitted: Option<Submitted>,
    /// Number of commands without an answer.
    left: usize,
    error: Option<Error>,
}

/// The origin of a request that was submitted to a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Submitted {
    /// The number of the queue.
    pub queue: u64,
    /// The request's token.
    pub token: u64,
}

/// A part of a job that fits into one command.
#[derive(Debug)]
pub(super) struct Piece {
    job: u64,
    pub command: u16,
    pub span: Span,
    /// The bytes of a read that have arrived.
    received: Received,
    /// Number of bytes whose states the server has reported.
    told_bytes: u64,
    failed: bool,
}

/// The state that callers share. Its lock is never held during a wait for the socket (C4).
#[derive(Debug)]
pub(super) struct Flight {
    uri: String,
    cookies: u64,
    pieces: HashMap<u64, Piece>,
    jobs: HashMap<u64, Job>,
    /// The jobs of each queue, by its number.
    queues: HashMap<u64, QueueJobs>,
    pub outgoing: Vec<u8>,
    spare: Vec<u8>,
    /// True while a caller is sending.
    pub sending: bool,
    /// The inbox, or `None` while a caller receives.
    pub inbox: Option<Inbox>,
    /// Number of callers that wait for `changed`.
    pub waiting: usize,
    /// The reason why the connection is lost.
    pub lost: Option<String>,
}

impl Job {
    /// Creates the job of `order`. A caller waits for the job or, if it was submitted to a queue, collects it.
    pub fn new(order: Order, buffer: Vec<u8>, submitted: Option<Submitted>) -> Self {
        Self { order, buffer, runs: Vec::new(), submitted, left: 0, error: None }
    }

    /// Returns the result of the job.
    pub fn result(&mut self) -> Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }
}

impl Job {
    /// Returns the completion of a submitted job that was not sent.
    pub fn refused(self, why: Error) -> Option<Completion> {
        completion(Self { error: Some(why), ..self })
    }
}

impl Flight {
    /// Creates the state of a connection to `uri` without requests.
    pub fn new(uri: &str, inbox: Inbox) -> Self {
        Self {
            uri: uri.to_owned(),
            cookies: 0,
            pieces: HashMap::new(),
            jobs: HashMap::new(),
            queues: HashMap::new(),
            outgoing: Vec::new(),
            spare: Vec::new(),
            sending: false,
            inbox: Some(inbox),
            waiting: 0,
            lost: None,
        }
    }

    /// Returns an error if the connection is lost (C3).
    pub fn ensure_sound(&self) -> Result<()> {
        self.lost.as_ref().map_or(Ok(()), |why| Err(Error::Poisoned(why.clone())))
    }

    /// Gathers the commands of `job`, each of at most `payload_max_bytes`. The data of a write is `payload`, or the
    /// job's own buffer.
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
        if let Some(submitted) = job.submitted {
            self.jobs_of(submitted.queue).begin();
        }
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

    /// Returns the command with the cookie `cookie`.
    pub fn piece(&self, cookie: u64) -> Option<&Piece> {
        self.pieces.get(&cookie)
    }

    /// Returns true if the command `cookie` requested the bytes of `span` and they have not arrived yet (C2).
    pub fn expects(&mut self, cookie: u64, span: Span) -> bool {
        let Some(piece) = self.pieces.get_mut(&cookie) else { return false };
        let within = span.at >= piece.span.at && span.fits(piece.span.at + piece.span.len);
        piece.command == command::READ && within && piece.received.add(span)
    }

    /// Copies expected bytes to their place in the buffer.
    pub fn fill(&mut self, cookie: u64, at: u64, bytes: &[u8]) {
        let job = self.pieces.get(&cookie).and_then(|piece| self.jobs.get_mut(&piece.job));
        let job = job.expect("bytes are expected only of what is in flight");
        job.buffer[(at - job.order.span.at) as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Zeros expected bytes in the buffer, like [`Flight::fill`].
    pub fn clear(&mut self, cookie: u64, span: Span) {
        let job = self.pieces.get(&cookie).and_then(|piece| self.jobs.get_mut(&piece.job));
        let job = job.expect("zeros are expected only of what is in flight");
        job.buffer[(span.at - job.order.span.at) as usize..][..span.len as usize].fill(0);
    }

    /// Records the states of the beginning of the range of `cookie`. Returns false if the command did not ask for
    /// states, or has received them before (C2).
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

    /// Records that the command `cookie` has failed; its reply may continue.
    pub fn fail(&mut self, cookie: u64, failure: &Failure) {
        let Some(piece) = self.pieces.get_mut(&cookie) else { return };
        piece.failed = true;
        if let Some(job) = self.jobs.get_mut(&piece.job) {
            job.error.get_or_insert_with(|| failed(piece, &self.uri, failure));
        }
    }

    /// Ends the command `cookie`, whose reply is complete. Returns true if the reply holds all requested data;
    /// otherwise the job is not done.
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
            let submitted = job.submitted;
            self.gather(number, &flush, flush.span);
            if let Some(submitted) = submitted {
                self.jobs_of(submitted.queue).wake();
            }
        } else if let Some(submitted) = job.submitted {
            self.jobs_of(submitted.queue).end(number);
        }
    }

    /// Removes and returns the job if it is done.
    pub fn take_done(&mut self, number: u64) -> Option<Job> {
        let done = self.jobs.get(&number)?.left == 0;
        done.then(|| self.jobs.remove(&number)).flatten()
    }

    /// Adds a queue; `event` wakes its owner. Returns its number.
    pub fn open_queue(&mut self, event: Arc<OwnedFd>) -> u64 {
        let number = self.next();
        self.queues.insert(number, QueueJobs::new(event));
        number
    }

    /// Returns the jobs of a queue, which is open while a caller uses it or one of its jobs is in flight (C7).
    pub fn jobs_of(&mut self, queue: u64) -> &mut QueueJobs {
        let queue = if planted!("nbd: the first queue gets all completions") {
            *self.queues.keys().min().unwrap_or(&queue)
        } else {
            queue
        };
        self.queues.get_mut(&queue).expect("the queue is open")
    }

    /// Appends the completions of the ended jobs of `queue` to `completions`; returns their number.
    pub fn take_ended(&mut self, queue: u64, completions: &mut Vec<Completion>) -> usize {
        let ended = self.jobs_of(queue).take_ended();
        let before = completions.len();
        let jobs = ended.into_iter().filter_map(|number| self.jobs.remove(&number));
        completions.extend(jobs.filter_map(completion));
        completions.len() - before
    }

    /// Removes an idle queue and its completions.
    pub fn close_queue(&mut self, queue: u64) {
        self.take_ended(queue, &mut Vec::new());
        self.queues.remove(&queue);
    }

    /// Returns true if bytes wait to be sent and no caller is sending them.
    pub fn has_followers(&self) -> bool {
        !self.sending && self.lost.is_none() && !self.outgoing.is_empty()
    }

    /// Returns the bytes to send; the calling thread then sends them.
    pub fn take_outgoing(&mut self) -> Vec<u8> {
        std::mem::replace(&mut self.outgoing, std::mem::take(&mut self.spare))
    }

    /// Keeps the bytes of `batch` behind the first `sent` for the next send, before what was gathered since.
    pub fn keep_unsent(&mut self, mut batch: Vec<u8>, sent: usize) {
        if sent == batch.len() {
            return self.keep_spare(batch);
        }
        batch.drain(..sent);
        batch.append(&mut self.outgoing);
        self.outgoing = batch;
    }

    /// Keeps a buffer for the next send.
    fn keep_spare(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= SPARE_MAX_BYTES {
            buffer.clear();
            self.spare = buffer;
        }
    }

    /// Returns true if no request is in flight: a last command cannot become part of another message.
    pub fn is_idle(&self) -> bool {
        self.pieces.is_empty() && self.outgoing.is_empty() && !self.sending
    }

    /// Gathers the command that ends the session.
    pub fn say_goodbye(&mut self) {
        let order = Order { command: command::DISC, flags: 0, span: Span::new(0, 0), then_flush: false };
        let cookie = self.next();
        self.outgoing.extend_from_slice(&request(&order, cookie, order.span));
    }

    /// Ends every job now (C1); jobs without an answer end with an error.
    pub fn lose(&mut self, why: String) {
        let mut ended = Vec::new();
        for (number, job) in &mut self.jobs {
            if job.left > 0 {
                job.left = 0;
                job.error = Some(Error::io(why.clone(), std::io::ErrorKind::ConnectionAborted.into()));
                ended.extend(job.submitted.map(|submitted| (submitted.queue, *number)));
            }
        }
        ended.into_iter().for_each(|(queue, number)| self.jobs_of(queue).end(number));
        self.pieces.clear();
        self.outgoing.clear();
        self.lost = Some(why);
    }
}

fn completion(mut job: Job) -> Option<Completion> {
    let result = job.result();
    Some(Completion { token: job.submitted?.token, buffer: job.buffer, result })
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
