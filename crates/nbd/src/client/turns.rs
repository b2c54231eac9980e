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

impl Connection {
    pub(super) fn lock(&self) -> MutexGuard<'_, Flight> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends `order` and waits for its end. The data of a write is `payload`.
    pub(super) fn call(&self, order: Order, buffer: Vec<u8>, payload: Option<&[u8]>) -> Result<Job> {
        let mut flight = self.lock();
        flight.ensure_sound()?;
        let number = flight.start(Job::new(order, buffer, None), payload, self.export.payload_max_bytes);
        self.send(flight);
        let mut job = self.wait_until(None, |flight| flight.take_done(number));
        job.result().map(|()| job)
    }

    /// Sends the request of `job`, which was submitted to a queue; returns its completion if the connection is lost.
    pub(super) fn start(&self, job: Job) -> Option<Completion> {
        let mut flight = self.lock();
        if let Err(lost) = flight.ensure_sound() {
            return job.refused(lost);
        }
        flight.start(job, None, self.export.payload_max_bytes);
        self.send(flight);
        None
    }

    /// Sends the gathered bytes. If another caller is sending, that caller sends these bytes too (C4).
    fn send<'a>(&'a self, mut flight: MutexGuard<'a, Flight>) {
        if flight.sending {
            return;
        }
        flight.sending = true;
        while flight.lost.is_none() && !flight.outgoing.is_empty() {
            let batch = flight.take_outgoing();
            drop(flight);
            let sent = self.push(&batch);
            flight = self.lock();
            flight.keep_spare(batch);
            if let Err(why) = sent {
                self.lose(&mut flight, &format!("sending: {why}"));
            }
        }
        flight.sending = false;
    }

    fn push(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.link.send_now(bytes) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => self.wait_to_send()?,
                Err(why) => return Err(why),
            }
        }
        Ok(())
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
        let mut flight = self.lock();
        loop {
            if let Some(found) = done(&mut flight) {
                return found;
            }
            if let Some(inbox) = flight.inbox.take() {
                drop(flight);
                flight = self.receive_until(inbox, limit);
            } else {
                flight.waiting += 1;
                flight = self.wait_for_receiver(flight, limit);
                flight.waiting -= 1;
            }
            flight = self.send_followers(flight);
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

    /// Sends the commands that follow from received replies; the receiving caller does this.
    fn send_followers<'a>(&'a self, flight: MutexGuard<'a, Flight>) -> MutexGuard<'a, Flight> {
        if !flight.has_followers() {
            return flight;
        }
        self.send(flight);
        self.lock()
    }

    /// Uses all bytes that have arrived, without waiting.
    pub(super) fn receive_what_is_there(&self) {
        let mut came = true;
        while came {
            let Some(inbox) = self.lock().inbox.take() else { return };
            let received = self.receive(inbox, false);
            came = received.1;
            drop(self.send_followers(received.0));
        }
    }
}
