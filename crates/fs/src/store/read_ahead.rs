//! The thread that reads pages from SSDs before a sequential read asks for them.
//!
//! The thread starts with the first sequential read. It ends with the store, so that no request to an SSD comes later.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::format::word::AwayPage;
use crate::store::slots::SlotStore;

/// Requests that wait for the thread at most. A stream whose request finds no room is read by its reader.
const REQUESTS_MAX: usize = 4;

/// Pages that are being read ahead, until dropped.
struct AheadRequest {
    slots: Arc<SlotStore>,
    pages: Vec<AwayPage>,
}

impl Drop for AheadRequest {
    fn drop(&mut self) {
        self.slots.fetched.end_ahead(&self.pages);
    }
}

#[derive(Debug)]
struct AheadThread {
    requests: SyncSender<AheadRequest>,
    thread: JoinHandle<()>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead(Mutex<Option<AheadThread>>);

impl ReadAhead {
    /// Has the thread read those of `pages` that are neither kept nor being read. Readers of them wait for the thread.
    pub fn request(&self, slots: &Arc<SlotStore>, pages: Vec<AwayPage>) {
        let pages = slots.fetched.begin_ahead(pages);
        if pages.is_empty() {
            return;
        }
        let request = AheadRequest { slots: Arc::clone(slots), pages };
        let mut started = self.0.lock();
        if started.is_none() {
            *started = start();
        }
        if let Some(AheadThread { requests, .. }) = &*started {
            // If there is no room, the request is dropped and the readers read the pages.
            let _ = requests.try_send(request);
        }
    }
}

/// Starts the thread, unless the system has no room for one.
fn start() -> Option<AheadThread> {
    let (requests, to_read) = sync_channel::<AheadRequest>(REQUESTS_MAX);
    let work = move || to_read.iter().for_each(|request| request.slots.fetch_ahead(&request.pages));
    let thread = std::thread::Builder::new().name("ferrite-ahead".into()).spawn(work).ok()?;
    Some(AheadThread { requests, thread })
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        if let Some(AheadThread { requests, thread }) = self.0.get_mut().take() {
            drop(requests);
            // A panic of the thread was reported by the thread.
            let _ = thread.join();
        }
    }
}
