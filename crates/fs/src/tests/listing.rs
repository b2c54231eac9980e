//! Listings of directories that change meanwhile.

use std::collections::BTreeSet;

use super::world::*;
use crate::{FileSystem, Ino, Kind};

fn make(fs: &FileSystem, dir: Ino, name: &str) {
    fs.create_file(dir, name.as_bytes(), &new(Kind::File)).expect("room");
}

/// Up to 40 names behind `cookie`, which is that of the last one then.
fn some(fs: &FileSystem, dir: Ino, cookie: &mut u64) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    fs.readdir(dir, *cookie, &mut |entry| {
        if names.len() < 40 {
            *cookie = entry.cookie;
            names.push(entry.name.to_vec());
        }
        names.len() < 40
    })
    .expect("it lists");
    names
}

/// Pages of names are split, emptied and given back between two looks. FN3: the size is told with each.
#[test]
fn fn2_fn3_what_stays_is_listed_once_and_counted_while_others_come_and_go() {
    let fs = new_fs();
    let dir = fs.create_file(Ino::ROOT, b"dir", &new(Kind::Directory)).expect("made").ino;
    (0..600).for_each(|i| make(&fs, dir, &format!("stays {i}")));
    (0..600).for_each(|i| make(&fs, dir, &format!("goes {i}")));
    let (mut cookie, mut seen, mut entries, mut round) = (0, BTreeSet::new(), 1200, 0);
    loop {
        let names = some(&fs, dir, &mut cookie);
        if names.is_empty() {
            break;
        }
        let again = names.into_iter().find(|name| !seen.insert(name.clone()));
        assert_eq!(again, None, "FN2: listed twice");
        for i in round * 20..(round + 1) * 20 {
            let gone = fs.unlink(dir, format!("goes {i}").as_bytes()).is_ok();
            (0..3).for_each(|more| make(&fs, dir, &format!("comes {i} {more}")));
            entries += 3 - u64::from(gone);
        }
        assert_eq!(fs.getattr(dir).expect("there").size, entries * 32, "FN3");
        round += 1;
    }
    assert!(round > 20, "it was changed between many looks");
    assert!((0..600).all(|i| seen.contains(format!("stays {i}").as_bytes())), "FN2: missed");
    assert_eq!(fs.list(dir, 0, usize::MAX).expect("it lists").len() as u64, entries, "FN3");
    assert_sound(&fs);
}
