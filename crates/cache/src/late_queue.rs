//! Queues whose device has not ended all requests.

use std::thread::Builder;

use ferrite_disk::Queue;

/// Drops `queue`, which waits for requests in flight: in a thread if there are any. Then calls `after`.
pub(crate) fn drop_queue(queue: Box<dyn Queue>, after: impl FnOnce() + Send + 'static) {
    let is_idle = queue.in_flight() == 0;
    let finish = move || {
        drop(queue);
        after();
    };
    match is_idle {
        true => finish(),
        false => _ = Builder::new().name("cache-late".into()).spawn(finish),
    }
}
