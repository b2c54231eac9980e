//! A program with objects beside `ferrite up`, killed by a signal or outliving a killed server.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use ferrite_memory::Scheme;
use ferrite_object::{Logging, MapBatch, OpenStore, QueueEnd, Store};

use crate::kill::kill_round_count;
use crate::server::{Server, assert_sound, folder, json, ok};

/// The environment variable that names the pool for the child, a second run of this test binary.
const PART: &str = "FERRITE_OBJECT_TEST_POOL";
/// A small log, so that checkpoints are frequent and grow.
const SMALL: Logging =
    Logging { log_bytes: 16 << 10, checkpoint_records: 0, checkpoint_bytes: 8 << 10, salvage: false };

fn open(pool: &Path) -> Store {
    Store::open(pool, &OpenStore::default()).expect("it opens")
}

/// Runs in the child that is killed. Without the variable, this test does nothing.
#[test]
fn play() {
    let Ok(pool) = std::env::var(PART) else { return };
    let store = open(Path::new(&pool));
    assert!(store.owner_pid().is_some(), "the server owns it");
    let (map, queue) = (store.map("map", SMALL).expect("map"), store.queue("queue", SMALL).expect("queue"));
    let log = store.log("log", SMALL).expect("log");
    let counter = store.direct("counter", &[0u64; 12], Scheme::Flush).expect("value");
    for number in counter.get()[0] + 1.. {
        let (key, value) = (number.to_be_bytes(), [number as u8; 50]);
        map.commit(MapBatch::default().put(&key, &value).put(b"last", &key)).expect("put");
        queue.push(QueueEnd::Back, &key).expect("pushed");
        if number > 5 {
            queue.pop(QueueEnd::Front).expect("popped");
        }
        if log.append(&key).is_err() {
            log.cut(log.end() - 5).expect("cut");
            log.append(&key).expect("appended");
        }
        counter.set(&[number; 12]).expect("set");
        println!("\ndone {number}");
    }
}

struct Program {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(pool: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "objects::play", "--nocapture", "--test-threads=1"])
            .env(PART, pool)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        Self { process, lines }
    }

    /// Returns the last step that the child has done, after `count` more steps or at its end.
    fn done(&mut self, count: usize) -> Option<u64> {
        let lines = self.lines.by_ref().map_while(Result::ok);
        lines.filter_map(|line| line.strip_prefix("done ")?.parse().ok()).take(count).last()
    }

    fn kill(mut self) -> u64 {
        let before = self.done(20).expect("it works");
        self.process.kill().expect("killed");
        let done = self.done(usize::MAX).unwrap_or(before);
        self.process.wait().expect("reaped");
        done
    }
}

/// Panics unless every object has the first `done` steps, and at most one more that was not acknowledged.
fn assert_whole(store: &Store, done: u64) {
    let counter = store.direct("counter", &[0u64; 12], Scheme::Flush).expect("value").get();
    let steps = counter[0];
    assert!(counter == [steps; 12] && (done..=done + 1).contains(&steps), "{counter:?} after {done}");
    let map = store.map("map", SMALL).expect("map");
    let last = u64::from_be_bytes(map.get(b"last").expect("set").try_into().expect("eight bytes"));
    assert!((steps..=steps + 1).contains(&last));
    assert_eq!(map.len() as u64, last + 1);
    assert!((1..=last).all(|number| map.get(&number.to_be_bytes()) == Some([number as u8; 50].to_vec())));
    let numbers = |bytes: Vec<u8>| u64::from_be_bytes(bytes.try_into().expect("eight bytes"));
    let queue = store.queue("queue", SMALL).expect("queue");
    let waiting: Vec<u64> = (0..queue.len()).map(|at| numbers(queue.get(at).expect("there"))).collect();
    assert!(waiting.last().is_some_and(|last| (steps..=steps + 1).contains(last)), "{waiting:?} after {steps}");
    let log = store.log("log", SMALL).expect("log");
    let newest = numbers(log.get(log.end() - 1).expect("sound").expect("there"));
    assert!((steps..=steps + 1).contains(&newest));
}

#[test]
fn kill_rounds_of_a_program_lose_nothing_it_was_told() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let server = Server::start(&pool, &["--no-attach", "--size", "96M", "--disk", "d=4M"]);
    for round in 0..kill_round_count() {
        let done = Program::start(&pool).kill();
        println!("round {round}: {done} steps");
        // The owner revokes the grants once it knows that the process has ended.
        let until = std::time::Instant::now() + Duration::from_secs(30);
        while open(&pool).map("map", SMALL).is_err() {
            assert!(std::time::Instant::now() < until, "its grants were never taken back");
            std::thread::yield_now();
        }
        assert_whole(&open(&pool), done);
        assert_sound(&pool);
    }
    let tags = json(&["tag", "list", pool.to_str().expect("text")]);
    assert_eq!(tags.as_array().expect("a list").iter().filter(|tag| tag["kind"] == "object").count(), 4);
    server.interrupt();
    let store = open(&pool);
    let steps = store.direct("counter", &[0u64; 12], Scheme::Flush).expect("value").get()[0];
    assert_whole(&store, steps);
}

/// HO4: after a kill of its server, a program changes no data and loses none. It reopens its objects with the next
/// server, and until then no other process can open them.
#[test]
fn kill_of_the_server_leaves_its_clients_their_objects() {
    let folder = folder(true);
    let pool = folder.path().join("pool");
    let words = ["--no-attach", "--size", "96M", "--disk", "d=4M"];
    let server = Server::start(&pool, &words);
    let store = open(&pool);
    let log = store.log("log", SMALL).expect("log");
    log.append(b"with a server").expect("appended");
    server.kill();
    let message = log.append(b"without").expect_err("nobody lends it").to_string();
    assert!(message.contains("open the pool again"), "{message}");
    let _next = Server::start(&pool, &words);
    assert!(log.append(b"without").is_err(), "the next server has lent nothing yet");
    assert_eq!(log.get(0).expect("sound"), Some(b"with a server".to_vec()));
    let message = open(&pool).log("log", SMALL).expect_err("it is in use").to_string();
    assert!(message.contains(&format!("in use by process {}", std::process::id())), "{message}");
    drop((log, store));
    let store = open(&pool);
    let log = store.log("log", SMALL).expect("nobody has it any more");
    log.append(b"with another one").expect("appended");
    let mut program = Command::new(std::env::current_exe().expect("this program"));
    // Another process cannot open the object either, nor free it by the command line.
    program.args(["--exact", "objects::play"]).env(PART, &pool).stdout(Stdio::null()).stderr(Stdio::null());
    assert!(!program.status().expect("it runs").success());
    let refused = crate::programs::ferrite().args(["tag", "remove"]).arg(&pool).arg("log").output().expect("it runs");
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(log.get(1).expect("sound"), Some(b"with another one".to_vec()));
    assert_eq!(log.end(), 2, "and nothing else");
    ok(&["pool", "info", pool.to_str().expect("text")]);
}
