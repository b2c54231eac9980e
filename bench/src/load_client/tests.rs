//! The client against the server of this house: what it reads is what was written, at any depth.

use std::sync::Arc;

use ferrite_disk::{Access, Disk, RamDisk};
use ferrite_nbd::{Exports, Listening, Options, Refusal, Server};

use super::*;

struct One(Arc<dyn Disk>);

impl Exports for One {
    fn list(&self) -> Vec<String> {
        vec!["one".into()]
    }

    fn open(&self, _: &str) -> Result<Arc<dyn Disk>, Refusal> {
        Ok(Arc::clone(&self.0))
    }
}

fn serve(folder: &Path) -> (Listening, LoadClient, Arc<dyn Disk>) {
    let disk: Arc<dyn Disk> = Arc::new(RamDisk::new(SIZE));
    let server = Server::new(Arc::new(One(Arc::clone(&disk))), Options::default());
    let listening = server.listen_unix(&folder.join("socket")).expect("listens");
    let client = LoadClient::connect(listening.path()).expect("connects");
    (listening, client, disk)
}

const SIZE: u64 = 2 << 20;

/// Replies of many chunks, and in another order, belong to the requests that they answer.
#[test]
fn what_is_written_is_on_the_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_listening, mut client, disk) = serve(folder.path());
    assert_eq!(client.size(), SIZE);
    let (payload, mut next) = (vec![7; 4096], 0);
    let load = RequestLoad { verb: RequestVerb::Write, payload: &payload, depth: 16, time: Duration::ZERO };
    let places = || {
        next += 8192;
        next
    };
    assert_eq!(client.run(&load, places).expect("written").0, 16);
    let mut there = vec![0; SIZE as usize];
    disk.read(0, &mut there).expect("read");
    for (number, page) in there.chunks(4096).enumerate() {
        let is_written = number > 0 && number % 2 == 0 && number <= 32;
        assert!(page.iter().all(|byte| *byte == if is_written { 7 } else { 0 }), "page {number}");
    }
}

/// A request that is counted twice, or not done, is a server twice as fast as it is.
#[test]
fn every_counted_request_reaches_the_disk() {
    for (depth, len) in [(1, 512), (32, 4096), (3, 256 << 10)] {
        let folder = tempfile::tempdir().expect("a folder");
        let disk = Arc::new(ferrite_disk::StatsDisk::new(RamDisk::new(SIZE)));
        let server = Server::new(Arc::new(One(disk.clone())), Options::default());
        let listening = server.listen_unix(&folder.path().join("socket")).expect("listens");
        let mut client = LoadClient::connect(listening.path()).expect("connects");
        let payload = vec![7; len];
        disk.inner().write(0, &payload, Access::Cached).expect("a hole would not be read");
        for verb in [RequestVerb::Read, RequestVerb::Write] {
            let load = RequestLoad { verb, payload: &payload, depth, time: Duration::from_millis(5) };
            let (done, took) = client.run(&load, || 0).unwrap_or_else(|why| panic!("{verb:?} at depth {depth}: {why}"));
            let stats = disk.stats();
            let bytes = if verb == RequestVerb::Read { stats.read_bytes } else { stats.written_bytes };
            assert_eq!(bytes, done * len as u64, "{verb:?} at depth {depth}");
            assert!(took >= load.time);
        }
    }
}

#[test]
fn a_request_that_fails_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_listening, mut client, _) = serve(folder.path());
    let load = RequestLoad { verb: RequestVerb::Write, payload: &[0; 512], depth: 1, time: Duration::ZERO };
    let error = client.run(&load, || SIZE).expect_err("behind the end");
    assert!(error.to_string().contains("error 28") || error.to_string().contains("error 22"), "{error}");
}
