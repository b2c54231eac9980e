use std::os::unix::fs::FileExt;

use super::*;

/// A disk is created, lengthened by its stamp or left alone, and a refused guest leaves it as it was.
#[test]
fn the_file_of_a_refused_guest_is_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk");
    let len = || fs::metadata(&path).map(|found| found.len()).ok();
    let created = DiskFile::prepare(&path, 8192).expect("prepared");
    assert_eq!((created, len()), (DiskFile::Created, Some(16384)));
    assert_eq!(DiskFile::prepare(&path, 8192).expect("prepared"), DiskFile::AsItWas);
    created.undo(&path, 8192);
    assert_eq!(len(), None);
    fs::write(&path, [1; 4096]).expect("written");
    let lengthened = DiskFile::prepare(&path, 4096).expect("prepared");
    assert_eq!((lengthened, len()), (DiskFile::Lengthened, Some(12288)));
    lengthened.undo(&path, 4096);
    assert_eq!(len(), Some(4096));
    let lengthened = DiskFile::prepare(&path, 4096).expect("prepared");
    let file = File::options().write(true).open(&path).expect("opened");
    file.write_all_at(&[2; 4096], 4096).expect("stamped");
    lengthened.undo(&path, 4096);
    assert_eq!(len(), Some(12288), "a guest that was made keeps its stamp");
    fs::write(&path, [1; 4096]).expect("written");
    assert_eq!(DiskFile::prepare(Path::new(""), 4096).expect("an NBD export"), DiskFile::AsItWas);
    assert!(DiskFile::prepare(&folder.path().join("no/disk"), 4096).is_err());
}
