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

#[test]
fn what_is_written_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_listening, mut client, disk) = serve(folder.path());
    assert_eq!(client.size(), SIZE);
    let payload: Vec<u8> = (0..1 << 20).map(|i: u32| (i / 4096 % 250) as u8 + 1).collect();
    client.write(512 << 10, &payload).expect("written");
    let (mut read, mut there) = (vec![9; SIZE as usize], vec![0; SIZE as usize]);
    client.read(0, &mut read).expect("read");
    disk.read(0, &mut there).expect("read");
    assert!(read == there && read[512 << 10..][..1 << 20] == payload[..]);
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
    let error = client.write(SIZE, &[0; 512]).expect_err("behind the end");
    assert!(error.to_string().contains("error 28") || error.to_string().contains("error 22"), "{error}");
}
