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
    /// True until the connection is lost: a closed socket would be readable for ever (C8).
    watches_socket: bool,
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
        Ok(Self { connection: Arc::clone(connection), number, readable, watches_socket: true, in_flight: 0 })
    }
}

fn refused(why: rustix::io::Errno) -> Error {
    Error::io("opening a queue to an NBD export", io::Error::from(why))
}

impl Queue for NbdQueue {
    /// Sends the request. If the socket has no room, it waits, and receives during the wait (C5).
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
        if self.watches_socket && self.connection.lock().lost.is_some() {
            // Every job has ended, so nothing more arrives.
            self.watches_socket = planted!("nbd: a queue watches a lost connection");
            if !self.watches_socket {
                epoll::delete(&self.readable, self.connection.link.socket()).map_err(refused)?;
            }
        }
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
