//! Writes that are atomic through the mount.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use crate::kill::{Seed, kill_round_count, number};
use crate::mount::{Place, start};
use crate::server::assert_sound;

/// An offset that makes the write begin and end within a page.
const OFFSET: u64 = 1000;
const LEN: usize = 200_000;

/// FM6: after any kill of the server, a file holds all bytes of one `pwrite` or none. They are the bytes of the last
/// acknowledged write, or of the next write.
#[test]
fn kill_rounds_tear_no_write_of_an_atomic_mount() {
    let seed = number("FERRITE_SEED", 1);
    println!("FERRITE_SEED={seed}");
    let mut random = Seed(seed);
    let Some(Place { folder: _folder, pool, at }) = Place::new() else { return };
    let serve = |more: &[&str]| start(&pool, &at, &[&["--data", "atomic"], more].concat());
    let mut server = Some(serve(&["--size", "64M", "--disk", "d=8M"]));
    let path = at.join("file");
    let mut last = 0_u8;
    File::create(&path).and_then(|file| file.write_all_at(&[last; LEN], OFFSET)).expect("written");
    let mut total = 0;
    for round in 0..kill_round_count() {
        let serving = server.take().expect("one serves");
        let wait = Duration::from_millis(5 + random.below(60));
        let acknowledged = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let file = File::options().write(true).open(&path).expect("opened");
                let is_done = |count: &usize| {
                    let value = last.wrapping_add(*count as u8).wrapping_add(1);
                    file.write_all_at(&[value; LEN], OFFSET).is_ok()
                };
                (0..).take_while(is_done).count()
            });
            std::thread::sleep(wait);
            serving.kill();
            writer.join().expect("the writer ends")
        });
        total += acknowledged;
        let acknowledged = last.wrapping_add(acknowledged as u8);
        server = Some(serve(&[]));
        let mut found = vec![0; LEN];
        File::open(&path).and_then(|file| file.read_exact_at(&mut found, OFFSET)).expect("read");
        last = found[0];
        assert!([acknowledged, acknowledged.wrapping_add(1)].contains(&last), "round {round}: {acknowledged}, {last}");
        let torn = found.iter().position(|byte| *byte != last);
        assert_eq!(torn, None, "round {round}: torn after {acknowledged}");
    }
    println!("{total} writes");
    assert!(total > 0, "nothing was ever acknowledged, so nothing was proven");
    server.expect("one serves").interrupt();
    assert_sound(&pool);
}
