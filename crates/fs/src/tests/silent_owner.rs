//! Who is asked to make durable what was written to a mount: one that says hello and then nothing more, and one that
//! serves another mount.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use ferrite_owner::{Handler, ListeningSocket, ServiceCall, ServiceReply};
use ferrite_pool::{Claim, Failure, claim};
use parking_lot::Mutex;

use super::client_house::House;
use super::support::NAME;
use crate::Ino;
use crate::client::flush_mount;
use crate::share::CachedCopies;

/// Silent until the test sends to it.
struct Mute(Mutex<Receiver<()>>);

impl Handler for Mute {
    fn call(&self, _: ServiceCall<'_>) -> Result<ServiceReply, Failure> {
        let _ = self.0.lock().recv();
        Err(Failure::failed("too late"))
    }
}

#[test]
fn an_owner_that_is_silent_is_not_waited_for_for_ever() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    std::fs::File::create(&pool).expect("a file");
    let Ok(Claim::Ours(lock)) = claim(&pool) else { panic!("nobody else has it") };
    let ((go_on, may_go_on), (ended, has_ended)) = (channel(), channel());
    let _listening = ListeningSocket::start(&lock, Arc::new(Mute(Mutex::new(may_go_on)))).expect("it listens");
    std::thread::spawn(move || {
        ended.send(flush_mount(&pool, NAME, 7, Duration::from_secs(60), Duration::from_millis(20)).is_err())
    });
    let failed = has_ended.recv_timeout(Duration::from_secs(30));
    drop(go_on);
    assert_eq!(failed, Ok(true));
}

/// A kernel that has it mounted, and keeps nothing.
struct Mounted;

impl CachedCopies for Mounted {
    fn forget(&self, _: Ino) -> std::io::Result<()> {
        Ok(())
    }

    fn forget_attributes(&self, _: Ino) {}

    fn device(&self) -> Option<u64> {
        Some(7)
    }
}

/// Of a pool that was at the same path before: what is written to that is not durable by what this owner does.
#[test]
fn who_serves_another_mount_does_not_say_that_all_is_durable() {
    let house = House::new();
    house.fs.set_copies(Arc::new(Mounted));
    let patience = Duration::from_secs(60);
    let flush = |device| flush_mount(&house.pool_file, NAME, device, patience, patience);
    flush(7).expect("durable");
    let said = flush(8).expect_err("another mount").to_string();
    assert!(said.contains("another server's"), "{said}");
}
