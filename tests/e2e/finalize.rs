//! A program that is killed while it finalizes its store.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use ferrite_object::{Finish, Logging, NewStore, OpenStore, QueueEnd, Store};

use crate::kill::kill_round_count;
use crate::server::{assert_sound, folder};

/// The environment variable that names the store for the child, a second run of this test binary.
const PART: &str = "FERRITE_FINALIZE_TEST_STORE";
const SMALL: Logging = Logging { log_bytes: 1 << 20, checkpoint_records: 0, checkpoint_bytes: 8 << 10, salvage: false };
const ENTRIES: u32 = 3000;

fn open(path: &Path) -> Store {
    Store::open(path, &OpenStore::default()).expect("it opens")
}

fn image(path: &Path) -> PathBuf {
    path.with_extension("image")
}

/// Runs in the child that is killed. Without the variable, this test does nothing.
#[test]
fn end() {
    let Ok(path) = std::env::var(PART) else { return };
    let path = Path::new(&path);
    let store = open(path);
    println!("\nready");
    let finish = Finish { defragment: true, backup: Some((image(path), *b"image of a test.")) };
    store.finalize(&finish).expect("finalized");
    println!("\ndone");
}

struct Program(Child, Lines<BufReader<ChildStdout>>);

impl Program {
    /// Starts the child and waits until it begins to finalize.
    fn start(path: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "finalize::end", "--nocapture", "--test-threads=1"])
            .env(PART, path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let mut program = Self(process, lines);
        assert!(program.says("ready"));
        program
    }

    fn says(&mut self, word: &str) -> bool {
        self.1.by_ref().map_while(Result::ok).any(|line| line == word)
    }
}

/// Makes a store that has holes before its objects.
fn scattered(path: &Path) {
    let new = NewStore { bytes: 64 << 20, uuid: *b"a store of tests" };
    let store = Store::initialize(path, &new, &OpenStore::default()).expect("made");
    let holes: Vec<String> = (0..6).map(|number| format!("hole {number}")).collect();
    let (map, queue) = (store.map("map", SMALL).expect("map"), store.queue("queue", SMALL).expect("queue"));
    for (number, hole) in (0..).zip(&holes) {
        drop(store.log(hole, Logging { log_bytes: 3 << 20, ..SMALL }).expect("a log"));
        for entry in (number..ENTRIES).step_by(holes.len()) {
            map.put(&entry.to_be_bytes(), &[entry as u8; 300]).expect("put");
            queue.push(QueueEnd::Back, &entry.to_be_bytes()).expect("pushed");
        }
    }
    drop((map, queue));
    holes.iter().for_each(|hole| store.free(hole).expect("freed"));
}

fn assert_kept(path: &Path) {
    let store = open(path);
    let (map, queue) = (store.map("map", SMALL).expect("map"), store.queue("queue", SMALL).expect("queue"));
    assert_eq!((map.len(), queue.len()), (ENTRIES as usize, ENTRIES as usize));
    assert!((0..ENTRIES).all(|entry| map.get(&entry.to_be_bytes()) == Some(vec![entry as u8; 300])));
}

/// Returns true if there is an image. Panics if the image is not whole.
fn has_backup(path: &Path) -> bool {
    if !image(path).exists() {
        return false;
    }
    let restored = path.with_extension("restored");
    fs::File::create(&restored).and_then(|file| file.set_len(64 << 20)).expect("a file");
    Store::restore(&image(path), &restored, None).expect("a whole image");
    assert_kept(&restored);
    assert_sound(&restored);
    fs::remove_file(restored).expect("removed");
    true
}

#[test]
fn kill_rounds_of_a_finalize_leave_the_store_and_a_whole_backup_or_none() {
    let folder = folder(true);
    let (path, before) = (folder.path().join("store"), folder.path().join("before"));
    scattered(&before);
    fs::copy(&before, &path).expect("copied");
    let mut program = Program::start(&path);
    let start = Instant::now();
    assert!(program.says("done") && program.0.wait().expect("ended").success());
    let whole = start.elapsed();
    assert!(has_backup(&path));
    let (mut with, mut without) = (0, 0);
    let rounds = kill_round_count();
    for round in 0..rounds {
        let _ = fs::remove_file(image(&path));
        fs::copy(&before, &path).expect("copied");
        let mut program = Program::start(&path);
        // The wait may exceed the child's running time.
        std::thread::sleep(whole.mul_f64(2.0 * round as f64 / rounds as f64));
        program.0.kill().expect("killed");
        program.0.wait().expect("reaped");
        assert_sound(&path);
        assert_kept(&path);
        *(if has_backup(&path) { &mut with } else { &mut without }) += 1;
        let finish = Finish { defragment: true, backup: Some((image(&path), *b"image of a test.")) };
        open(&path).finalize(&finish).expect("finished by the next");
        assert!(has_backup(&path) && !image(&path).with_extension("image.partial").exists());
    }
    println!("{with} rounds with a backup, {without} without, of {whole:?} each");
}
