//! Redis, driven over its socket.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use super::Database;
use super::recipe::Recipe;

/// A Redis server, and the path of its socket.
#[derive(Default)]
pub struct Redis {
    child: Option<Child>,
    socket: PathBuf,
}

/// A connection to the server.
struct Link(BufReader<UnixStream>);

impl Link {
    fn new(socket: &std::path::Path) -> std::io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Returns the first line of the answer to `command`.
    fn ask(&mut self, command: &str) -> std::io::Result<String> {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes())?;
        let mut line = String::new();
        match self.0.read_line(&mut line)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

fn value(number: u64) -> String {
    format!("{number}").repeat(1 + number as usize % 300)
}

impl Database for Redis {
    fn make(&mut self, recipe: &Recipe) {
        self.socket = recipe.folder.join("redis");
    }

    fn start(&mut self, recipe: &Recipe) {
        let _ = std::fs::remove_file(&self.socket);
        let more = format!("--port 0 --unixsocket {}", self.socket.display());
        self.child = Some(recipe.start("Redis", 0, ("redis-server", &more)));
        let until = Instant::now() + Duration::from_secs(60);
        let answers =
            || Link::new(&self.socket).and_then(|mut link| link.ask("PING")).is_ok_and(|line| line == "+PONG");
        while !answers() {
            assert!(Instant::now() < until, "redis does not answer");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn commit_until_killed(&mut self, from: u64, after: Duration, kill_more: &mut dyn FnMut()) -> u64 {
        let mut link = Link::new(&self.socket).expect("it listens");
        std::thread::scope(|scope| {
            let writer = scope.spawn(move || {
                let written = |number: &u64| {
                    link.ask(&format!("SET {number} {}", value(*number))).is_ok_and(|answer| answer == "+OK")
                };
                (from..).take_while(written).last().unwrap_or(from - 1)
            });
            std::thread::sleep(after);
            kill_more();
            self.kill();
            writer.join().expect("the writer ends")
        })
    }

    fn count(&mut self) -> u64 {
        let mut link = Link::new(&self.socket).expect("it listens");
        let size = link.ask("DBSIZE").expect("it answers");
        let count = size.strip_prefix(':').and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("{size}"));
        for number in 1..=count {
            let length = link.ask(&format!("STRLEN {number}")).expect("it answers");
            assert_eq!(length, format!(":{}", value(number).len()), "write {number}");
        }
        count
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("killed");
            child.wait().expect("reaped");
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}
