//! The threads that read pages from SSDs before a sequential read asks for them: one checks what it read while the SSD
//! answers another.
//!
//! They start with the first sequential read, and end with the store, so that no request to an SSD comes later.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::format::segment::SEGMENT_BLOCKS;
use crate::format::word::AwayPage;
use crate::store::slots::SlotStore;

/// Threads that read ahead.
const THREADS: usize = 2;
/// Requests that wait for a thread at most. A stream whose request finds no room is read by its reader.
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

impl AheadRequest {
    fn fetch(&self) {
        self.slots.fetch_ahead(&self.pages);
    }
}

#[derive(Debug)]
struct AheadThreads {
    requests: SyncSender<AheadRequest>,
    threads: Vec<JoinHandle<()>>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead(Mutex<Option<AheadThreads>>);

impl ReadAhead {
    /// Has the threads read `pages`, at most as many as a segment has at a time, without pages that are kept or being read.
    /// Readers of these pages wait for the threads.
    pub fn request(&self, slots: &Arc<SlotStore>, pages: Vec<AwayPage>) {
        let pages = slots.fetched.begin_ahead(pages);
        if pages.is_empty() {
            return;
        }
        let mut started = self.0.lock();
        if started.is_none() {
            *started = start();
        }
        for part in pages.chunks(SEGMENT_BLOCKS as usize) {
            let request = AheadRequest { slots: Arc::clone(slots), pages: part.to_vec() };
            if let Some(AheadThreads { requests, .. }) = &*started {
                // If there is no room, the request is dropped and the readers read the pages.
                let _ = requests.try_send(request);
            }
        }
    }
}

/// Starts the threads, unless the system has no room for one.
fn start() -> Option<AheadThreads> {
    let (requests, to_read) = sync_channel(REQUESTS_MAX);
    let to_read = Arc::new(Mutex::new(to_read));
    let begin = |_| {
        let to_read = Arc::clone(&to_read);
        std::thread::Builder::new().name("ferrite-ahead".into()).spawn(move || serve(&to_read)).ok()
    };
    let threads: Vec<JoinHandle<()>> = (0..THREADS).filter_map(begin).collect();
    (!threads.is_empty()).then_some(AheadThreads { requests, threads })
}

/// Answers requests until no more can come.
fn serve(requests: &Mutex<Receiver<AheadRequest>>) {
    loop {
        let Ok(request) = requests.lock().recv() else { return };
        request.fetch();
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        if let Some(AheadThreads { requests, threads }) = self.0.get_mut().take() {
            drop(requests);
            // A panic of a thread was reported by the thread.
            threads.into_iter().for_each(|thread| _ = thread.join());
        }
    }
}
