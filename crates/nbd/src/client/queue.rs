//! A queue of a connection.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use ferrite_disk::{Completion, Op, Queue, Request, Wait};
use ferrite_memory::{Error, Result, Span, planted};
use rustix::event::{EventfdFlags, epoll, eventfd};

use super::connection::Connection;
use super::flight::{Job, Submitted};

/// A queue of a connection, which it keeps open.
pub(super) struct NbdQueue {
    connection: Arc<Connection>,
    number: u64,
    /// Readable when the socket is, or when another caller received a reply of this queue (C8).
    readable: OwnedFd,
    /// The events of the socket that make `readable` readable; none once the connection is lost, because a closed socket
    /// is readable for ever (C8).
    watched: epoll::EventFlags,
    in_flight: usize,
}

impl NbdQueue {
    /// Opens a queue.
    pub fn open(connection: &Arc<Connection>) -> Result<Self> {
        let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(refused)?);
        let readable = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(refused)?;
        for part in [connection.link.socket(), event.as_fd()] {
            epoll::add(&readable, part, epoll::EventData::new_u64(0), epoll::EventFlags::IN).map_err(refused)?;
        }
        let number = connection.lock().open_queue(event);
        Ok(Self { connection: Arc::clone(connection), number, readable, watched: epoll::EventFlags::IN, in_flight: 0 })
    }
}

impl NbdQueue {
    /// Watches the socket for replies, and for room if bytes wait for it.
    fn watch(&mut self) -> Result<()> {
        let flight = self.connection.lock();
        let wanted = match flight.lost {
            // Every job has ended, so nothing more arrives.
            Some(_) if !planted!("nbd: a queue watches a lost connection") => epoll::EventFlags::empty(),
            _ if flight.has_followers() => epoll::EventFlags::IN | epoll::EventFlags::OUT,
            _ => epoll::EventFlags::IN,
        };
        if wanted == self.watched {
            return Ok(());
        }
        let socket = self.connection.link.socket();
        let changed = match wanted.is_empty() {
            true => epoll::delete(&self.readable, socket),
            false => epoll::modify(&self.readable, socket, epoll::EventData::new_u64(0), wanted),
        };
        self.watched = wanted;
        changed.map_err(refused)
    }
}

fn refused(why: rustix::io::Errno) -> Error {
    Error::io("opening a queue to an NBD export", io::Error::from(why))
}

impl Queue for NbdQueue {
    /// Sends as much of the request as the socket has room for (C9). Zeros that the server does not know wait for room.
    fn submit(&mut self, request: Request) -> Option<Completion> {
        let Request { token, op, span, buffer } = request;
        let span = if matches!(op, Op::Read | Op::Write(_)) { Span::new(span.at, buffer.len() as u64) } else { span };
        let result = match op {
            Op::Zero(how) if self.connection.writes_zeros(op) => self.connection.write_zeros(span, how.access),
            _ => match self.connection.order(op, span) {
                Ok(Some(order)) => {
                    let submitted = Submitted { queue: self.number, token };
                    let refused = self.connection.start(Job::new(order, buffer, Some(submitted)));
                    self.in_flight += usize::from(refused.is_none());
                    // Without the watch, the rest waits for the next call.
                    let _ = self.watch();
                    return refused;
                }
                other => other.map(drop),
            },
        };
        Some(Completion { token, buffer, result })
    }

    fn collect(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> Result<usize> {
        let count = self.connection.collect(self.number, wait, completions);
        self.in_flight -= count;
        self.watch()?;
        Ok(count)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.readable.as_fd()
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl Drop for NbdQueue {
    /// Waits until the server has answered, or the connection is lost.
    fn drop(&mut self) {
        let number = self.number;
        self.connection.wait_until(None, |flight| {
            let is_idle = flight.jobs_of(number).is_idle();
            is_idle.then(|| flight.close_queue(number))
        });
    }
}
