use std::collections::VecDeque;
use std::os::unix::net::UnixStream;

use super::super::transport::Hangup;
use super::*;

/// A stream of prepared receives: bytes, or a timeout that passes.
struct Script {
    /// A socket without content.
    socket: UnixStream,
    receives: VecDeque<Option<Vec<u8>>>,
    timeouts: Vec<Option<Duration>>,
}

impl Transport for Script {
    fn receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let Some(Some(mut bytes)) = self.receives.pop_front() else { return Err(io::ErrorKind::WouldBlock.into()) };
        let now = bytes.len().min(into.len());
        into[..now].copy_from_slice(&bytes[..now]);
        let later = bytes.split_off(now);
        if !later.is_empty() {
            self.receives.push_front(Some(later));
        }
        Ok(now)
    }

    fn try_receive(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.receives.front() {
            Some(Some(_)) => self.receive(into),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn send(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn set_timeouts(&mut self, receive: Option<Duration>, _: Option<Duration>) -> io::Result<()> {
        self.timeouts.push(receive);
        Ok(())
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.descriptor()
    }

    fn hangup(&self) -> io::Result<Hangup> {
        self.socket.hangup()
    }
}

fn script(receives: impl IntoIterator<Item = Option<Vec<u8>>>) -> Script {
    let socket = UnixStream::pair().expect("a pair").0;
    Script { socket, receives: receives.into_iter().collect(), timeouts: Vec::new() }
}

/// N3: the memory of a large request and a large reply is freed once the client has been idle for a while. A wait only
/// ends by itself while there is memory to free.
#[test]
fn an_idle_connection_gives_memory_back() {
    let large = 4 * IDLE_BYTES;
    let mut stream = script([Some(vec![1; large]), None, Some(vec![2; 28]), Some(vec![3; 28])]);
    let mut peer = Peer::new(&mut stream, Duration::ZERO, Arc::default(), Arc::new(Waiting::new()));
    peer.need(large).unwrap();
    peer.outbox.extend(large);
    peer.inbox.consume(large);
    assert!(peer.inbox.is_enlarged() && peer.outbox.is_enlarged());
    peer.need(28).unwrap();
    assert!(!peer.inbox.is_enlarged() && !peer.outbox.is_enlarged());
    assert_eq!(peer.take::<56>().unwrap()[27..29], [2, 3]);
    assert_eq!(stream.timeouts, [Some(ENLARGED), None]);
}

/// N3: a timeout in the middle of a large request changes nothing.
#[test]
fn a_slow_large_request_stays_whole() {
    let large = 4 * IDLE_BYTES;
    let bytes: Vec<u8> = (0..large).map(|at| at as u8).collect();
    let mut stream = script([Some(bytes[..1000].to_vec()), None, Some(bytes[1000..].to_vec())]);
    let mut peer = Peer::new(&mut stream, Duration::ZERO, Arc::default(), Arc::new(Waiting::new()));
    peer.need(large).unwrap();
    assert!(peer.inbox.held() == bytes);
}

/// N9: with a deadline, a wait that passes it ends the connection.
#[test]
fn a_deadline_ends_the_wait() {
    let mut stream = script([Some(vec![1]), None]);
    let mut peer = Peer::new(&mut stream, Duration::ZERO, Arc::default(), Arc::new(Waiting::new()));
    peer.set_deadline(Some(Instant::now() + Duration::from_secs(3600))).unwrap();
    assert!(matches!(peer.need(2), Err(End::Silent)));
    assert!(matches!(peer.set_deadline(Some(Instant::now())), Err(End::Silent)));
}
