//! Files as places of a mapping.

use super::*;
use crate::records::data;

/// Were two files one place, threads would fight over lines that no file system has them share.
#[test]
fn files_lie_beside_each_other_and_keep_what_is_written() {
    let place = tempfile::tempdir().expect("a folder");
    let mut folder = BareFolder::new(place.path(), 8 << 20, false).expect("it can be mapped");
    let bytes = 1 << 20;
    folder.order(&FileOrder::Prepare { files: 2, file_bytes: bytes }).expect("there is room");
    let names = [data(0), data(1), format!("{FRESH}-0"), format!("{FRESH}-1")];
    let files: Vec<BareFile> = names.iter().map(|name| folder.create(name).expect("a place")).collect();
    for (number, file) in (1..).zip(&files) {
        [0, bytes - 64].into_iter().for_each(|at| file.write(at, &[number; 64]).expect("written"));
    }
    for (number, file) in (1..).zip(&files) {
        for at in [0, bytes - 64] {
            let mut found = [0; 64];
            file.read(at, &mut found).expect("read");
            assert_eq!(found, [number; 64], "file {number} at {at}");
        }
    }
}
