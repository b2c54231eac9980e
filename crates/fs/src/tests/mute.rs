//! An owner that says hello and then nothing more.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use ferrite_pool::owner::{Call, Claim, Handler, Reply, claim};
use parking_lot::Mutex;

use super::world::NAME;
use crate::direct::settle;

/// Until somebody tells it to go on.
struct Mute(Mutex<Receiver<()>>);

impl Handler for Mute {
    fn call(&self, _: Call<'_>) -> Result<Reply, String> {
        let _ = self.0.lock().recv();
        Err("too late".into())
    }
}

#[test]
fn an_owner_that_is_silent_is_not_waited_for_for_ever() {
    let folder = tempfile::tempdir().expect("a folder");
    let pool = folder.path().join("pool");
    std::fs::File::create(&pool).expect("a file");
    let Ok(Claim::Ours(lock)) = claim(&pool) else { panic!("nobody else has it") };
    let ((go_on, may_go_on), (ended, has_ended)) = (channel(), channel());
    let _listening = lock.listen(Arc::new(Mute(Mutex::new(may_go_on)))).expect("it listens");
    std::thread::spawn(move || {
        ended.send(settle(&pool, NAME, Duration::from_secs(60), Duration::from_millis(20)).is_err())
    });
    let failed = has_ended.recv_timeout(Duration::from_secs(30));
    drop(go_on);
    assert_eq!(failed, Ok(true));
}
