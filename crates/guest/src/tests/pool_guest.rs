//! Guests in a real pool: creation, the check, the crash of a creation, and the image of version 1.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_crash::{LyingDisk, LyingMemory, Model, World};
use ferrite_disk::{Access, Disk, Geometry};
use ferrite_memory::Memory;
use ferrite_pool::check::{PoolCheckReport, TagOwners, check};
use ferrite_pool::layout::{CHUNK, PAGE, POOL_BYTES_MIN};
use ferrite_pool::{Format, Pool, Role, Stream};

use crate::guest_share::{SetBudget, ShareRecord};
use crate::guest_spec::disk_address;
use crate::{DirectPlane, GuestDisk, GuestEngine, GuestError, GuestService, GuestShare, GuestSpec, GuestStep};

const BOOT: [u8; 16] = [7; 16];
pub(crate) const SIZE: u64 = 4 << 20;

fn geometry(size: u64) -> Geometry {
    Geometry {
        size,
        sector_bytes: 512,
        atomic_bytes: 4096,
        preferred_bytes: 4096,
        volatile_cache: true,
        read_only: false,
        trim: false,
        identity: [0; 16],
    }
}

/// Returns a world with an empty pool and a disk of `disk_bytes` bytes.
fn new_world(disk_bytes: u64) -> World {
    let memory = LyingMemory::new(POOL_BYTES_MIN + 3 * CHUNK, Model::MAPPED);
    Pool::create(&memory, &Format { uuid: [1; 16], boot_id: BOOT }).expect("a new pool");
    memory.barrier().expect("nothing fails yet");
    World::new(memory, [LyingDisk::new(geometry(disk_bytes))])
}

pub(crate) fn pool_of(world: &World) -> Arc<Pool> {
    let memory = Arc::clone(world.memory()) as Arc<dyn Memory>;
    Arc::new(Pool::open(memory, BOOT).expect("it opens").0)
}

pub(crate) fn disk_of(world: &World) -> Arc<dyn Disk> {
    Arc::clone(world.disk(0)) as _
}

fn spec() -> GuestSpec {
    let address = "/mnt/g.img".into();
    GuestSpec {
        name: "g".into(),
        size: SIZE,
        pm_bytes: CHUNK,
        share: GuestShare { min: 1, max: 2, weight: 50 },
        budget: SetBudget { number: 1, chunks: 3 },
        address,
        identity: [9; 16],
        nonce: 3,
    }
}

pub(crate) fn open(pool: &Arc<Pool>, world: &World) -> GuestDisk {
    GuestDisk(GuestEngine::open(pool, "g", disk_of(world), Box::new(DirectPlane), || 4).expect("it opens"))
}

pub(crate) fn checked(world: &World) -> PoolCheckReport {
    let mut owners = TagOwners::default();
    owners.register(Box::new(GuestService::new(Arc::new(|_: &str| Err(String::new())))));
    check(&(Arc::clone(world.memory()) as Arc<dyn Memory>), &owners, &mut |_| ())
}

/// A guest whose frames hold truths and copies, and whose disk has the rest.
pub(crate) fn make() -> World {
    make_on(SIZE + 2 * PAGE)
}

/// Returns what [`make`] does, on a disk of `disk_bytes` bytes.
pub(crate) fn make_on(disk_bytes: u64) -> World {
    let world = new_world(disk_bytes);
    world.memory().keep_trace(false);
    let pool = pool_of(&world);
    spec().create(&pool, &disk_of(&world)).expect("created");
    let disk = open(&pool, &world);
    for page in 0..530u64 {
        disk.write(page * PAGE, &[page as u8 | 1; PAGE as usize], Access::Cached).expect("written");
    }
    disk.write(5 * PAGE + 512, &[200; 512], Access::Cached).expect("written");
    while disk.0.step().expect("nothing fails") != GuestStep::Rests {}
    drop(disk);
    Arc::into_inner(pool).expect("alone").close().expect("closed");
    world
}

/// Checks that the guest of `world` has what [`make`] wrote.
fn ensure_made(world: &World) {
    let pool = pool_of(world);
    let tag = pool.tag("g").expect("there");
    assert_eq!((tag.size, disk_address(&pool, &tag).as_deref()), (SIZE, Some("/mnt/g.img")));
    let disk = open(&pool, world);
    let counts = disk.0.counts();
    assert!(counts.truth_frames > 0 && counts.copy_frames > 0, "{counts:?}");
    for page in 0..SIZE / PAGE {
        let mut bytes = [0; PAGE as usize];
        disk.read(page * PAGE, &mut bytes).expect("read");
        let mut expected = [if page < 530 { page as u8 | 1 } else { 0 }; PAGE as usize];
        if page == 5 {
            expected[512..1024].fill(200);
        }
        assert!(bytes == expected, "page {page}");
    }
    assert!(disk.0.demote_all(&mut |_, _| true).expect("nothing fails"));
}

#[test]
fn a_guest_is_created_used_and_checked() {
    let world = make();
    assert!(checked(&world).findings.is_empty(), "{:?}", checked(&world).findings);
    ensure_made(&world);
    let pool = pool_of(&world);
    let refused = GuestSpec { name: "h".into(), ..spec() }.create(&pool, &disk_of(&world));
    assert!(matches!(&refused, Err(GuestError::Refused(why)) if why.contains("the stamp of a guest")), "{refused:?}");
    let large = GuestSpec { name: "h".into(), size: SIZE + PAGE, ..spec() }.create(&pool, &disk_of(&world));
    assert!(matches!(&large, Err(GuestError::Refused(why)) if why.contains("needs")), "{large:?}");
    assert_eq!(pool.tags().len(), 1, "nothing of a refused guest is left");
}

/// The check names each damaged word, and the engine does not open over it.
#[test]
fn vr6_the_check_names_damaged_words() {
    let world = make();
    let pool = pool_of(&world);
    let tag = pool.tag("g").expect("there");
    let map = Stream::new(&tag.extents, Role::MAP);
    let at = |offset: u64| map.locate(offset).expect("in the map").at;
    let memory = world.memory();
    let word = memory.load_word(at(PAGE + 8));
    memory.store_word(at(PAGE), word);
    memory.store_word(at(PAGE + 16), word ^ 1);
    memory.store_word(at(0), 1);
    memory.store_word(at(520), 1);
    let opened = GuestEngine::open(&pool, "g", disk_of(&world), Box::new(DirectPlane), || 4).map(drop);
    assert!(matches!(opened, Err(GuestError::Damaged(_))), "{opened:?}");
    drop(pool);
    let text: String = checked(&world).findings.iter().map(|finding| finding.what.clone() + "\n").collect();
    for part in ["both have page", "word of frame 2 is damaged", "generation", "address"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// A creation that a crash ends leaves a whole guest or none.
#[test]
fn vr1_a_crash_of_the_creation_leaves_a_guest_or_nothing() {
    for failing in 0..12 {
        let world = new_world(SIZE + 2 * PAGE);
        world.memory().keep_trace(false);
        let pool = pool_of(&world);
        world.disk(0).fail_from(world.disk(0).requests() + failing);
        let created = spec().create(&pool, &disk_of(&world));
        let crashed = world.crash(failing);
        crashed.memory().keep_trace(false);
        assert!(checked(&crashed).is_sound(), "request {failing}");
        let pool = pool_of(&crashed);
        match pool.tag("g") {
            Ok(_) => drop(open(&pool, &crashed)),
            Err(_) => assert!(created.is_err(), "request {failing}"),
        }
    }
}

fn golden(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/guest-v{version}.lines"))
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
        let bytes: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{:x} {times} {bytes}", number * 64).expect("a string grows");
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
        let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).expect("text"), 16).expect("hex");
        let bytes: Vec<u8> = cells[2].as_bytes().chunks(2).map(byte).collect();
        let image = images.last_mut().expect("a head comes first");
        (0..times).for_each(|time: usize| image[place + time * 64..][..64].copy_from_slice(&bytes));
    }
    images
}

/// Checks that the image of `version` opens, has all it had, and has the share `min`..`max`.
fn ensure_golden(version: u32, share: GuestShare) {
    let images = decode(&std::fs::read_to_string(golden(version)).expect("the image is kept"));
    let memory = LyingMemory::from_image(&images[0], Model::MAPPED);
    let disk = LyingDisk::from_image(geometry(images[1].len() as u64), &images[1]);
    let world = World::new(memory, [disk]);
    world.memory().keep_trace(false);
    assert!(checked(&world).findings.is_empty());
    let tag = pool_of(&world).tag("g").expect("there");
    assert_eq!(ShareRecord::read(&tag).map(|record| record.share), Some(share));
    ensure_made(&world);
}

/// A guest of version 1 has a fixed share.
#[test]
fn golden_guest_of_version_1_opens_and_has_all_it_had() {
    ensure_golden(1, GuestShare::fixed(1));
}

/// `FERRITE_GOLDEN=write cargo test -p ferrite-guest golden` rewrites it, which only a new format version may require.
#[test]
fn golden_guest_of_version_2_opens_and_has_all_it_had() {
    if std::env::var("FERRITE_GOLDEN").is_ok_and(|value| value == "write") {
        let (world, mut text) = (make(), String::new());
        encode(&mut text, "pool", &world.memory().snapshot());
        encode(&mut text, "disk", &world.disk(0).snapshot());
        std::fs::write(golden(2), text).expect("written");
    }
    ensure_golden(2, spec().share);
}
