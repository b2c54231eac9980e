//! A cache of version 1, kept as it was written: every later program has to read it.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use ferrite_crash::{LyingDisk, LyingMemory, World};
use ferrite_disk::{Access, Disk};

use super::cache_rig::{BLOCKS, geometry};
use super::{CacheRig, RigShape};
use crate::{BLOCK, CacheMode, CacheSettings, StampPlace};

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cache-v1.lines")
}

fn shape() -> RigShape {
    RigShape { stamp: StampPlace::Head, ..RigShape::default() }
}

/// Appends the lines of 64 bytes of `image` that are not zeros: each with its place, and how often it is repeated.
fn encode(text: &mut String, name: &str, image: &[u8]) {
    writeln!(text, "# {name} {}", image.len()).expect("a string grows");
    let mut lines = image.chunks(64).enumerate().filter(|(_, line)| line.iter().any(|byte| *byte != 0)).peekable();
    while let Some((number, line)) = lines.next() {
        let mut times = 1;
        while lines.next_if(|(next, other)| *next == number + times && *other == line).is_some() {
            times += 1;
        }
        write!(text, "{:x} {times} ", number * 64).expect("a string grows");
        line.iter().for_each(|byte| write!(text, "{byte:02x}").expect("a string grows"));
        text.push('\n');
    }
}

/// Returns the images in `text`, in order.
fn decode(text: &str) -> Vec<Vec<u8>> {
    let mut images: Vec<Vec<u8>> = Vec::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split(' ').collect();
        if cells[0] == "#" {
            images.push(vec![0; cells[2].parse().expect("a size")]);
            continue;
        }
        let (place, times) = (usize::from_str_radix(cells[0], 16).expect("hex"), cells[1].parse().expect("a number"));
        let image = images.last_mut().expect("a head comes first");
        for (index, digits) in cells[2].as_bytes().chunks(2).enumerate() {
            let byte = u8::from_str_radix(std::str::from_utf8(digits).expect("text"), 16).expect("hex");
            (0..times).for_each(|time: usize| image[place + time * 64 + index] = byte);
        }
    }
    images
}

fn fill(rig: &CacheRig, block: u64, byte: u8) {
    rig.settle();
    rig.disk.write(block * BLOCK, &[byte; BLOCK as usize], Access::Cached).expect("written");
}

/// A cache with dirty and clean LEBs, with dirty slots, dead pages and a block that went around.
fn make() -> World {
    let world = shape().world();
    let rig = shape().open(&world).expect("it opens");
    (0..9).for_each(|block| fill(&rig, block, 1 + block as u8));
    rig.clean();
    (4..11).for_each(|block| fill(&rig, block, 101 + block as u8));
    rig.cache.set(CacheSettings { mode: CacheMode::WriteAround, ..rig.cache.settings() }).expect("set");
    fill(&rig, 20, 200);
    rig.cache.set(CacheSettings { mode: CacheMode::WriteBack, ..rig.cache.settings() }).expect("set");
    fill(&rig, 2, 33);
    drop(rig);
    world
}

/// `FERRITE_GOLDEN=write cargo test -p ferrite-cache golden` rewrites it, which only a new format version may require.
#[test]
fn cache_of_version_1_opens_and_has_all_it_had() {
    if std::env::var("FERRITE_GOLDEN").is_ok_and(|value| value == "write") {
        let world = make();
        let mut text = String::new();
        encode(&mut text, "memory", &world.memory().snapshot());
        (0..3).for_each(|number| encode(&mut text, &format!("disk{number}"), &world.disk(number).snapshot()));
        std::fs::write(path(), text).expect("written");
    }
    let text = std::fs::read_to_string(path()).unwrap_or_else(|error| panic!("{}: {error}", path().display()));
    let images = decode(&text);
    let memory = LyingMemory::from_image(&images[0], shape().model);
    let disks = images[1..].iter().map(|image| LyingDisk::from_image(geometry(image.len() as u64), image));
    let world = World::new(memory, disks);
    let rig = shape().open(&world).expect("it opens");
    let dirty_before = rig.cache.dirty_bytes() / BLOCK;
    assert!((8..=10).contains(&dirty_before), "{dirty_before} dirty blocks");
    let byte_of = |block: u64| match block {
        2 => 33,
        4..11 => 101 + block as u8,
        0..2 | 3 => 1 + block as u8,
        20 => 200,
        _ => 0,
    };
    for block in 0..BLOCKS {
        let mut read = vec![0; BLOCK as usize];
        rig.disk.read(block * BLOCK, &mut read).expect("read");
        assert!(read.iter().all(|byte| *byte == byte_of(block)), "block {block}");
    }
    rig.clean();
}
