//! A file system of each version, kept as it was written: what reads it today must read it for ever.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use ferrite_disk::Access;
use ferrite_pool::Pool;

use super::crash::{client, leave};
use super::support::*;
use super::tiers;
use crate::client::direct_io::DirectOutcome;
use crate::client::known_end::KnownEnd;
use crate::file::ahead;
use crate::{FileKind, FileSystem, Ino, SetXattr};

fn path(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/files-v{version}.lines"))
}

/// The lines of 64 bytes that are not zeros, each with its place, and how often it is repeated.
fn encode(what: &str, image: &[u8]) -> String {
    let mut text = format!("# {what}, {} bytes: its lines that are not zeros.\n", image.len());
    let mut lines = image.chunks(64).enumerate().filter(|(_, line)| line.iter().any(|byte| *byte != 0)).peekable();
    while let Some((number, line)) = lines.next() {
        let mut times = 1;
        while lines.next_if(|(next, other)| *next == number + times && *other == line).is_some() {
            times += 1;
        }
        write!(text, "{:x} {times} ", number * 64).unwrap();
        line.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
        text.push('\n');
    }
    text
}

fn decode(text: &str, bytes: u64) -> Vec<u8> {
    let mut image = vec![0; bytes as usize];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.split(' ').collect();
        let (place, times) = (usize::from_str_radix(cells[0], 16).unwrap(), cells[1].parse::<usize>().unwrap());
        for (index, digits) in cells[2].as_bytes().chunks(2).enumerate() {
            let byte = u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
            (0..times).for_each(|time| image[place + time * 64 + index] = byte);
        }
    }
    image
}

/// A little of everything; stopped without closing, so that there is something to replay and to end.
fn make() -> Vec<u8> {
    let memory = new_memory(Model::MAPPED, POOL_BYTES);
    let fs = open(&memory, None).unwrap();
    fill(&fs);
    append_directly(&fs);
    memory.snapshot()
}

/// A file whose size rests on its last two lines.
fn append_directly(fs: &FileSystem) {
    let ino = fs.create_file(Ino::ROOT, b"a", &new(FileKind::File)).unwrap().ino;
    fs.write(ino, 0, &[4; 64]).unwrap();
    fs.hold(ino).unwrap();
    ahead::reserve_ahead(fs, ino, 20_000, 8).unwrap();
    let end = KnownEnd::new();
    let client = client(fs, &end);
    assert_eq!(client.append(0, Some(64), &[5; 64], || 3_000_000_000), DirectOutcome::Done(64));
    client.append_together(0, 128, &[6; 128], || 3_000_000_000).unwrap();
    leave(fs);
}

fn fill(fs: &FileSystem) {
    let file = |dir, name: &str| fs.create_file(dir, name.as_bytes(), &new(FileKind::File)).unwrap().ino;
    let dir = fs.create_file(Ino::ROOT, b"directory", &new(FileKind::Directory)).unwrap().ino;
    for i in 0..100 {
        file(dir, &format!("a name of number {i}"));
    }
    let moved = file(Ino::ROOT, "moved to superpages");
    fs.write(moved, 0, &vec![1; SUPER_THRESHOLD as usize]).unwrap();
    run_steps(fs);
    let sparse = file(Ino::ROOT, "sparse");
    fs.write(sparse, 3 << 40, b"far away").unwrap();
    let small = file(Ino::ROOT, "small");
    fs.append(small, b"appended ").unwrap();
    fs.append(small, b"twice").unwrap();
    fs.set_xattr(small, b"user.note", b"kept", SetXattr::Any).unwrap();
    fs.symlink(Ino::ROOT, b"short link", b"small", ME).unwrap();
    fs.symlink(Ino::ROOT, b"long link", &[b'l'; 200], ME).unwrap();
    fs.link(small, dir, b"second name").unwrap();
    let gone = file(Ino::ROOT, "unlinked while held");
    fs.write(gone, 0, &[3; 20_000]).unwrap();
    fs.hold(gone).unwrap();
    fs.unlink(Ino::ROOT, b"unlinked while held").unwrap();
}

/// `FERRITE_GOLDEN=write cargo test -p ferrite-fs golden` rewrites it, which only a new format version may require.
#[test]
fn a_file_system_of_version_2_opens_and_has_all_it_had() {
    if std::env::var("FERRITE_GOLDEN").is_ok_and(|value| value == "write") {
        std::fs::write(path(2), encode("A pool with a file system of version 2", &make())).unwrap();
    }
    let fs = open(&image(2), None).unwrap();
    let ino = fs.lookup(Ino::ROOT, b"a").unwrap().ino;
    assert!(fs.load(ino).unwrap().needs_commit(), "its size rests on its last lines");
    assert!(content(&fs, ino).unwrap() == [[4; 64], [5; 64], [6; 64], [6; 64]].concat());
    assert_has_all(&fs);
}

/// From then on no program writes to it that does not know version 2.
#[test]
fn a_file_system_of_version_1_opens_has_all_it_had_and_becomes_one_of_version_2() {
    let memory = image(1);
    assert_eq!(version_of(&memory), 1);
    assert_has_all(&open(&memory, None).unwrap());
    assert_eq!(version_of(&memory), 2);
}

/// Bytes of the SSD of the image of version 3.
const SSD_BYTES: u64 = 4 << 20;

fn ssd_path() -> PathBuf {
    path(3).with_extension("ssd.lines")
}

/// A file that is away, one of which a page is in the pool again, and one that is in the pool alone.
fn make_tiered() -> (Vec<u8>, Vec<u8>) {
    let (memory, ssd) = (new_memory(Model::MAPPED, POOL_BYTES), tiers::ssd(SSD_BYTES));
    tiers::add(&memory, &ssd);
    let fs = tiers::open(&memory, None, Some(&ssd)).unwrap();
    let file = |name: &str, byte: u8| {
        let ino = fs.create_file(Ino::ROOT, name.as_bytes(), &new(FileKind::File)).unwrap().ino;
        fs.write(ino, 0, &[byte; 20_000]).unwrap();
        ino
    };
    file("away", 1);
    let partly = file("partly", 2);
    tiers::send_away(&fs);
    fs.write(partly, 5000, &[9; 100]).unwrap();
    file("here", 3);
    let mut drive = vec![0; SSD_BYTES as usize];
    ssd.disk.read(0, &mut drive).unwrap();
    (memory.snapshot(), drive)
}

/// `FERRITE_GOLDEN=write` rewrites it, as that of version 2.
#[test]
fn a_file_system_of_version_3_opens_with_its_ssd() {
    if std::env::var("FERRITE_GOLDEN").is_ok_and(|value| value == "write") {
        let (pool, drive) = make_tiered();
        std::fs::write(path(3), encode("A pool with a file system of version 3", &pool)).unwrap();
        std::fs::write(ssd_path(), encode("The SSD of files-v3.lines", &drive)).unwrap();
    }
    let drive = decode(&std::fs::read_to_string(ssd_path()).unwrap(), SSD_BYTES);
    let ssd = tiers::ssd(SSD_BYTES);
    ssd.disk.write(0, &drive, Access::Cached).unwrap();
    let memory = image(3);
    assert_eq!(version_of(&memory), 3);
    let fs = tiers::open(&memory, None, Some(&ssd)).unwrap();
    assert_sound(&fs);
    assert_eq!(fs.tier().unwrap().away_bytes, 9 * 4096);
    let read = |name: &str| content(&fs, fs.lookup(Ino::ROOT, name.as_bytes()).unwrap().ino).unwrap();
    let mut partly = vec![2; 20_000];
    partly[5000..5100].fill(9);
    assert!(read("away") == [1; 20_000] && read("partly") == partly && read("here") == [3; 20_000]);
}

fn image(version: u32) -> Arc<LyingMemory> {
    let path = path(version);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Arc::new(LyingMemory::from_image(&decode(&text, POOL_BYTES), Model::MAPPED))
}

fn version_of(memory: &Arc<LyingMemory>) -> u8 {
    Pool::open(memory.clone(), BOOT).unwrap().0.tag(NAME).unwrap().attributes[0]
}

fn assert_has_all(fs: &FileSystem) {
    assert_sound(fs);
    assert!(fs.step().unwrap(), "an orphan is to be ended");
    run_steps(fs);
    assert_sound(fs);
    let at = |name: &str| fs.lookup(Ino::ROOT, name.as_bytes()).unwrap();
    assert_eq!((at("moved to superpages").size, fs.statfs().super_bytes), (SUPER_THRESHOLD, 2 << 20));
    assert!(content(fs, at("moved to superpages").ino).unwrap().iter().all(|byte| *byte == 1));
    let mut far = [0; 20];
    assert_eq!(fs.read(at("sparse").ino, (3 << 40) - 2, &mut far).unwrap(), 10);
    assert_eq!(far[..10], *b"\0\0far away");
    assert_eq!(content(fs, at("small").ino).unwrap(), b"appended twice");
    assert_eq!((fs.xattr(at("small").ino, b"user.note").unwrap(), at("small").links), (b"kept".to_vec(), 2));
    assert_eq!(fs.readlink(at("short link").ino).unwrap(), b"small");
    assert_eq!(fs.readlink(at("long link").ino).unwrap(), [b'l'; 200]);
    let mut names = 0;
    fs.readdir(at("directory").ino, 2, &mut |_| {
        names += 1;
        true
    })
    .unwrap();
    assert_eq!(names, 101);
}
