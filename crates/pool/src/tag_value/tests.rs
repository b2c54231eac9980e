use std::io;

use ferrite_crash::{Crash, ExploreOptions, LyingMemory, Model, Points, explore};
use proptest::prelude::*;

use super::*;
use crate::layout::POOL_BYTES_MIN;
use crate::tests::support::HoardService;
use crate::{Format, NewTag, SpaceNeed};

const BOOT: [u8; 16] = [2; 16];

fn format(size_bytes: u64, model: Model) -> Arc<LyingMemory> {
    let memory = Arc::new(LyingMemory::new(size_bytes, model));
    Pool::create(&*memory, &Format { uuid: [1; 16], boot_id: BOOT }).unwrap();
    memory
}

fn open(memory: Arc<LyingMemory>) -> Pool {
    Pool::open(memory, BOOT).unwrap().0
}

fn pool() -> Pool {
    open(format(POOL_BYTES_MIN * 2, Model::MAPPED))
}

/// Bytes that differ everywhere, from `seed`.
fn content(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|i| ((i + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

fn put(pool: &Pool, name: &str, bytes: &[u8], replace: bool) -> Result<Arc<Tag>> {
    let old = pool.tag(name).ok().filter(|_| replace);
    pool.put(name, &mut &*bytes, &PutOptions { lose: old.map(|tag| tag.size), size_hint_bytes: None })
}

fn get(pool: &Pool, name: &str) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let length = pool.get(name, &mut out)?;
    assert_eq!(length, out.len() as u64);
    Ok(out)
}

/// Every length around the units comes back, also after the pool was opened again, and all space with it.
#[test]
fn what_was_put_comes_back() {
    let memory = format(POOL_BYTES_MIN * 3, Model::MAPPED);
    let pool = open(Arc::clone(&memory));
    let free_bytes = pool.usage().free_bytes;
    let chunk = CHUNK as usize;
    let lengths = [0, 1, 4095, 4096, 4097, 300_000, chunk - 1, chunk, chunk + 1, 2 * chunk + 5000];
    for (i, len) in lengths.into_iter().enumerate() {
        put(&pool, &format!("v{i}"), &content(len, i as u64), false).unwrap();
    }
    pool.close().unwrap();
    let pool = open(memory);
    for (i, len) in lengths.into_iter().enumerate() {
        let name = format!("v{i}");
        assert!(get(&pool, &name).unwrap() == content(len, i as u64), "a value of {len} bytes");
        pool.remove_tag(&pool.tag(&name).unwrap()).unwrap();
    }
    assert_eq!(pool.usage().free_bytes, free_bytes - 3 * PAGE, "all but the further pages of the tag table");
}

#[test]
fn a_long_value_has_few_extents_and_wastes_less_than_a_page() {
    let pool = pool();
    let tag = put(&pool, "long", &content(3 * CHUNK as usize + 1, 0), false).unwrap();
    assert!(tag.extents.len() <= 4, "{:?}", tag.extents);
    let bytes: u64 = tag.extents.iter().map(|extent| extent.span().len).sum();
    assert_eq!(bytes, 3 * CHUNK + PAGE);
}

/// A pool whose chunks are all broken into takes a long value page by page.
#[test]
fn a_long_value_fits_where_no_superpage_is_left() {
    let pool = pool();
    let chunks = pool.usage().free_bytes / CHUNK;
    let half = vec![1; CHUNK as usize / 2 + 4096];
    for chunk in 0..chunks {
        put(&pool, &format!("{chunk}"), &half, false).unwrap();
        put(&pool, &format!("{chunk}b"), &half[65536..], false).unwrap();
    }
    for chunk in 0..chunks {
        pool.remove_tag(&pool.tag(&format!("{chunk}b")).unwrap()).unwrap();
    }
    let long = content(CHUNK as usize + 10, 5);
    let tag = put(&pool, "long", &long, false).unwrap();
    assert!(tag.extents.iter().all(|extent| extent.zone == Zone::Normal));
    assert!(get(&pool, "long").unwrap() == long);
}

#[test]
fn a_name_in_use_is_replaced_only_on_demand() {
    let pool = pool();
    let first = put(&pool, "name", b"first", false).unwrap();
    for lose in [None, Some(0), Some(4), Some(6)] {
        let refused = pool.put("name", &mut &b"second"[..], &PutOptions { lose, size_hint_bytes: None }).unwrap_err();
        assert!(matches!(&refused, Error::Occupied(why) if why.contains("has 5 bytes") && why.contains("--lose 5 ")));
    }
    assert_eq!(get(&pool, "name").unwrap(), b"first");
    let second = put(&pool, "name", b"second", true).unwrap();
    assert_eq!(get(&pool, "name").unwrap(), b"second");
    assert!(second.generation > first.generation, "T3: other content, other generation");
    assert_eq!(pool.usage().normal_bytes, 4096, "the old value's space is free");
}

#[test]
fn other_kinds_are_left_alone() {
    let pool = pool();
    let needs = [SpaceNeed { role: Role::DATA, zone: Zone::Normal, bytes: PAGE }];
    let new = NewTag { name: "disk", kind: TagKind::DISK, size: PAGE, attributes: [0; 64], needs: &needs };
    pool.create_tag(&new, |_| Ok(())).unwrap();
    assert!(matches!(get(&pool, "disk"), Err(Error::WrongKind { .. })));
    assert!(matches!(put(&pool, "disk", b"bytes", true), Err(Error::WrongKind { .. })));
    assert!(matches!(put(&pool, "", b"bytes", true), Err(Error::BadName(_))));
    assert!(matches!(get(&pool, "absent"), Err(Error::NotFound(_))));
}

/// Gives some bytes, then fails.
struct Failing(u64);

impl Read for Failing {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = (into.len() as u64).min(self.0);
        self.0 -= len;
        if len == 0 { Err(io::Error::other("planted")) } else { Ok(len as usize) }
    }
}

/// A put that fails leaves the old value and takes no space: no room, a source that fails, a hint that cannot fit.
#[test]
fn a_put_that_fails_changes_nothing() {
    let pool = pool();
    put(&pool, "name", b"old", false).unwrap();
    let before = pool.usage();
    let replace = PutOptions { lose: Some(3), size_hint_bytes: None };
    assert!(matches!(pool.put("name", &mut io::repeat(7), &replace), Err(Error::Full { .. })));
    assert!(matches!(pool.put("name", &mut Failing(3 * CHUNK + 7), &replace), Err(Error::Medium(_))));
    let hinted = PutOptions { size_hint_bytes: Some(1 << 40), ..replace };
    let mut untouched = Failing(0);
    assert!(matches!(pool.put("name", &mut untouched, &hinted), Err(Error::Full { .. })));
    assert_eq!(get(&pool, "name").unwrap(), b"old");
    assert_eq!(pool.usage().free_bytes, before.free_bytes);
}

/// V2: one flipped bit, anywhere, and not a byte is handed out.
#[test]
fn v2_damage_is_told_and_nothing_handed_out() {
    let memory = format(POOL_BYTES_MIN, Model::MAPPED);
    let pool = open(Arc::clone(&memory));
    let bytes = content(5000, 9);
    let at = put(&pool, "name", &bytes, false).unwrap().extents[0].span().at;
    for place in [0, 1, 4095, 4096, 4999] {
        memory.store(at + place, &[bytes[place as usize] ^ 0x10], Scheme::Nt);
        let mut out = Vec::new();
        assert!(matches!(pool.get("name", &mut out), Err(Error::DamagedValue(_))), "byte {place}");
        assert!(out.is_empty());
        memory.store(at + place, &[bytes[place as usize]], Scheme::Nt);
    }
    assert_eq!(get(&pool, "name").unwrap(), bytes);
}

/// Replaces the value as soon as the first block is out.
struct Replacing<'pool>(&'pool Pool, Vec<u8>);

impl Write for Replacing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.extend_from_slice(bytes);
        put(self.0, "name", &content(3 << 20, 77), true).unwrap();
        put(self.0, "other", &content(3 << 20, 78), true).unwrap();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// V3: a reader that is overtaken says so; what it handed out until then was the value.
#[test]
fn v3_a_reader_never_hands_out_what_came_after() {
    let pool = open(format(POOL_BYTES_MIN * 4, Model::MAPPED));
    let old = content(2 << 20, 3);
    put(&pool, "name", &old, false).unwrap();
    let mut out = Replacing(&pool, Vec::new());
    assert!(matches!(pool.get("name", &mut out), Err(Error::Changed(_))));
    assert!(!out.1.is_empty() && old.starts_with(&out.1));
}

/// What a crash may leave of replacing `old` by `new`, given to `check` with the value found.
fn crash_replacing(model: Model, check: impl Fn(&Crash<'_>, Vec<u8>) -> std::result::Result<(), String>) -> u64 {
    let memory = format(POOL_BYTES_MIN, model);
    let pool = open(Arc::clone(&memory));
    put(&pool, "name", b"old", false).unwrap();
    memory.forget_trace();
    put(&pool, "name", &content(100, 1), true).unwrap();
    memory.mark(1);
    put(&pool, "name", &content(40, 2), true).unwrap();
    memory.mark(2);
    let options = ExploreOptions { points: Points::Widest, samples_per_point: 64, ..ExploreOptions::default() };
    let report = explore(&memory, &options, |crash| {
        let pool = open(Arc::new(crash.memory()));
        let found = get(&pool, "name").map_err(|error| error.to_string())?;
        check(crash, found)
    });
    report.assert_clean().images
}

/// V1: at every crash point the name has the old value or the new one, and the new one once that was acknowledged.
#[test]
fn v1_after_a_crash_the_value_is_old_or_new() {
    for model in Model::ALL {
        let images = crash_replacing(model, |crash, found| {
            let values = [b"old".to_vec(), content(100, 1), content(40, 2)];
            let at = values.iter().position(|value| *value == found).ok_or("neither value")? as u64;
            let marked = crash.last_mark().unwrap_or(0);
            if (marked..=marked + 1).contains(&at) { Ok(()) } else { Err(format!("value {at} after mark {marked}")) }
        });
        assert!(images > 100, "only {images} images");
    }
}

/// Fails each fallible call of the medium in turn: the pool opened again has the old value or the new one.
#[test]
fn v1_every_failed_call_leaves_old_or_new() {
    let run = |fail: Option<u64>| {
        let memory = format(POOL_BYTES_MIN, Model::FILE);
        let pool = open(Arc::clone(&memory));
        put(&pool, "name", b"old", false).unwrap();
        let first = memory.calls();
        fail.inspect(|call| memory.fail_nth(first + call));
        let result = put(&pool, "name", &content(9000, 1), true);
        assert!(result.is_ok() || fail.is_some());
        let found = get(&open(Arc::new(memory.kill())), "name").unwrap();
        // A want of space that goes by is none.
        assert!(found == content(9000, 1) || result.is_err() && found == b"old");
        memory.calls() - first
    };
    let calls = run(None);
    assert!(calls > 1);
    for call in 0..calls {
        run(Some(call));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Against a map in DRAM: any sequence of puts, replacements and removals.
    #[test]
    fn values_are_a_map(steps in prop::collection::vec((0u8..4, prop::option::of(0usize..600_000)), 1..12)) {
        let memory = format(POOL_BYTES_MIN * 2, Model::MAPPED);
        memory.keep_trace(false);
        let pool = open(Arc::clone(&memory));
        let mut model = std::collections::BTreeMap::new();
        for (i, (name, step)) in steps.into_iter().enumerate() {
            let name = name.to_string();
            match step {
                Some(len) => {
                    let bytes = content(len, i as u64);
                    put(&pool, &name, &bytes, true).unwrap();
                    model.insert(name, bytes);
                }
                None if model.remove(&name).is_some() => pool.remove_tag(&pool.tag(&name).unwrap()).unwrap(),
                None => prop_assert!(pool.tag(&name).is_err()),
            }
        }
        let pool = open(Arc::new(memory.kill()));
        prop_assert_eq!(pool.tags().len(), model.len());
        for (name, bytes) in model {
            prop_assert!(get(&pool, &name).unwrap() == bytes);
        }
    }
}

/// As a thin disk that was trimmed, and gives so many chunks at once.
#[test]
fn a_value_gets_the_space_that_services_spare() {
    for hinted in [true, false] {
        let pool = Arc::new(pool());
        let free_bytes = pool.usage().free_bytes;
        let part = content(free_bytes as usize / 5, 1);
        let names = ["a", "b", "c", "d"];
        names.iter().for_each(|name| _ = put(&pool, name, &part, false).unwrap());
        let _hoard = HoardService::of(&pool, &names);
        let bytes = content(free_bytes as usize / 2, 2);
        let size_hint_bytes = hinted.then_some(bytes.len() as u64);
        pool.put("v", &mut &bytes[..], &PutOptions { lose: None, size_hint_bytes }).unwrap();
        assert!(get(&pool, "v").unwrap() == bytes);
        assert!(pool.tag("d").is_ok(), "more was taken than was lacking");
    }
}

/// What was stored of it by then is free again as soon as this is read.
#[test]
fn a_value_of_unknown_length_that_does_not_fit_is_told_what_is_free_without_it() {
    let pool = pool();
    let free_bytes = pool.usage().free_bytes;
    match put(&pool, "v", &content(free_bytes as usize + 1, 3), false) {
        Err(Error::Full { needed_bytes, free_bytes: message }) => {
            assert!(
                message == free_bytes && needed_bytes > message,
                "{needed_bytes} needed, {message} free of {free_bytes}"
            );
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(pool.usage().free_bytes, free_bytes);
}
