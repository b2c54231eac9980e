//! The choice of the caller that sends or receives: callers that wait do it for all.

use std::io;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ferrite_disk::{Completion, Wait};
use ferrite_memory::Result;

use super::connection::Connection;
use super::flight::{Flight, Job, Order};
use super::inbox::Inbox;
use super::link::SocketWait;

/// Time that a caller that cannot send waits before it checks again if it should receive (C5).
const SEND_RETRY: Duration = Duration::from_millis(10);

/// What a caller does that cannot send because the socket has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendWait {
    No,
    Forever,
}

impl Connection {
    pub(super) fn lock(&self) -> MutexGuard<'_, Flight> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends `order` and waits for its end. The data of a write is `payload`.
    pub(super) fn call(&self, order: Order, buffer: Vec<u8>, payload: Option<&[u8]>) -> Result<Job> {
        let mut flight = self.lock();
        flight.ensure_sound()?;
        let number = flight.start(Job::new(order, buffer, None), payload, self.export.payload_max_bytes);
        drop(self.send(flight, SendWait::Forever));
        let mut job = self.wait_until(None, |flight| flight.take_done(number));
        job.result().map(|()| job)
    }

    /// Sends as much as the socket has room for of the request of `job`, which was submitted to a queue; returns its
    /// completion if the connection is lost.
    pub(super) fn start(&self, job: Job) -> Option<Completion> {
        let mut flight = self.lock();
        if let Err(lost) = flight.ensure_sound() {
            return job.refused(lost);
        }
        flight.start(job, None, self.export.payload_max_bytes);
        drop(self.send(flight, SendWait::No));
        None
    }

    /// Sends the gathered bytes. If another caller is sending, that caller sends these bytes too (C4). A caller that does
    /// not wait leaves the bytes for which the socket has no room (C9).
    fn send<'a>(&'a self, mut flight: MutexGuard<'a, Flight>, wait: SendWait) -> MutexGuard<'a, Flight> {
        if flight.sending {
            return flight;
        }
        flight.sending = true;
        let mut has_room = true;
        while has_room && flight.lost.is_none() && !flight.outgoing.is_empty() {
            let batch = flight.take_outgoing();
            drop(flight);
            let sent = self.push(&batch, wait);
            flight = self.lock();
            match sent {
                Ok(count) => {
                    has_room = count == batch.len();
                    flight.keep_unsent(batch, count);
                }
                Err(why) => self.lose(&mut flight, &format!("sending: {why}")),
            }
        }
        flight.sending = false;
        flight
    }

    /// Returns how many bytes were sent: all of them, unless the caller does not wait.
    fn push(&self, bytes: &[u8], wait: SendWait) -> io::Result<usize> {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.link.send_now(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(why) if why.kind() == io::ErrorKind::WouldBlock && wait == SendWait::No => break,
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => self.wait_to_send()?,
                Err(why) => return Err(why),
            }
        }
        Ok(sent)
    }

    /// Waits until the socket has room or, if no caller receives, until bytes arrive (C5).
    fn wait_to_send(&self) -> io::Result<()> {
        let Some(inbox) = self.lock().inbox.take() else {
            let wait = SocketWait { for_sending: true, for_receiving: false, timeout: Some(SEND_RETRY) };
            return self.link.wait(wait);
        };
        let waited = self.link.wait(SocketWait { for_sending: true, for_receiving: true, timeout: None });
        drop(self.receive(inbox, false));
        waited
    }

    /// Receives once into `inbox`, puts it back and uses the complete messages. Returns true if bytes arrived.
    fn receive(&self, mut inbox: Inbox, wait: bool) -> (MutexGuard<'_, Flight>, bool) {
        let got = self.link.receive(inbox.space(), wait);
        let mut flight = self.lock();
        let came = match got {
            Ok(0) => {
                self.lose(&mut flight, "the server closed the connection");
                false
            }
            Ok(count) => {
                inbox.received(count);
                if let Err(why) = inbox.absorb(&mut flight) {
                    self.lose(&mut flight, &format!("the server breaks the protocol: {why}"));
                }
                true
            }
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => false,
            Err(why) => {
                self.lose(&mut flight, &format!("receiving: {why}"));
                false
            }
        };
        flight.inbox = Some(inbox);
        if flight.waiting > 0 {
            self.changed.notify_all();
        }
        (flight, came)
    }

    /// Ends all jobs and cuts the connection (C1, C3).
    fn lose(&self, flight: &mut Flight, why: &str) {
        if flight.lost.is_none() {
            flight.lose(format!("{}: {why}", self.uri));
            self.link.cut();
            self.changed.notify_all();
        }
    }

    /// Receives for all callers, or waits while another caller does, until `done` returns a value. From `limit` on it
    /// waits no more, and `done` must return one.
    pub(super) fn wait_until<T>(&self, limit: Option<Instant>, mut done: impl FnMut(&mut Flight) -> Option<T>) -> T {
        let send_wait = if limit.is_none() { SendWait::Forever } else { SendWait::No };
        let mut flight = self.lock();
        loop {
            if let Some(found) = done(&mut flight) {
                return found;
            }
            // Bytes that a queue left may be all that the server waits for.
            flight = self.send_followers(flight, send_wait);
            if let Some(found) = done(&mut flight) {
                return found;
            }
            let soon = flight.has_followers().then(|| Instant::now() + SEND_RETRY);
            let limit = [limit, soon].into_iter().flatten().min();
            if let Some(inbox) = flight.inbox.take() {
                drop(flight);
                flight = self.receive_until(inbox, limit);
            } else {
                flight.waiting += 1;
                flight = self.wait_for_receiver(flight, limit);
                flight.waiting -= 1;
            }
            flight = self.send_followers(flight, SendWait::No);
        }
    }

    fn receive_until(&self, inbox: Inbox, limit: Option<Instant>) -> MutexGuard<'_, Flight> {
        let Some(limit) = limit else { return self.receive(inbox, true).0 };
        let timeout = Some(limit.saturating_duration_since(Instant::now()));
        // If the wait fails, receiving finds the reason.
        let _ = self.link.wait(SocketWait { for_sending: false, for_receiving: true, timeout });
        self.receive(inbox, false).0
    }

    fn wait_for_receiver<'a>(&self, flight: MutexGuard<'a, Flight>, limit: Option<Instant>) -> MutexGuard<'a, Flight> {
        match limit {
            None => self.changed.wait(flight).unwrap_or_else(PoisonError::into_inner),
            Some(limit) => {
                let left = limit.saturating_duration_since(Instant::now());
                self.changed.wait_timeout(flight, left).unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// Appends the completions of `queue` to `completions`; returns their number. Waits as [`Wait`] says.
    pub(super) fn collect(&self, queue: u64, wait: Wait, completions: &mut Vec<Completion>) -> usize {
        let limit = match wait {
            Wait::Forever => None,
            Wait::No => Some(Instant::now()),
            Wait::AtMost(time) => Instant::now().checked_add(time),
        };
        self.lock().jobs_of(queue).begin_collecting();
        self.receive_what_is_there();
        self.wait_until(limit, |flight| {
            let jobs = flight.jobs_of(queue);
            let is_over = jobs.has_ended() || jobs.is_idle() || limit.is_some_and(|limit| Instant::now() >= limit);
            is_over.then(|| flight.take_ended(queue, completions))
        })
    }

    /// Sends what waits to be sent and uses all bytes that have arrived, without waiting.
    pub(super) fn receive_what_is_there(&self) {
        let mut came = true;
        while came {
            let mut flight = self.send_followers(self.lock(), SendWait::No);
            let Some(inbox) = flight.inbox.take() else { return };
            drop(flight);
            let received = self.receive(inbox, false);
            came = received.1;
            drop(self.send_followers(received.0, SendWait::No));
        }
    }

    /// Sends what waits to be sent: commands that follow from received replies, and what queues left (C9).
    fn send_followers<'a>(&'a self, flight: MutexGuard<'a, Flight>, wait: SendWait) -> MutexGuard<'a, Flight> {
        if flight.has_followers() { self.send(flight, wait) } else { flight }
    }
}
