//! CK5, and the behaviour of a type that announces less growth than it has.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};

use ferrite_memory::forward_memory;
use ferrite_memory::planted::plant;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::bundle::BundleMembers;
use crate::object_queue::QueueEntries;
use crate::tests::support::cases;
use crate::{BundleChange, Queue, QueueBatch, QueueEnd};

/// A memory whose host has no more space while it is `full`.
struct Hosted {
    memory: Arc<LyingMemory>,
    full: Arc<AtomicBool>,
}

impl Memory for Hosted {
    forward_memory!(self => self.memory; size, survival, fence_is_durable, load, store, zero, load_word, store_word,
        flush, fence, barrier);

    fn reserve(&self, _: Span) -> ferrite_memory::Result<()> {
        if self.full.load(SeqCst) { Err(ferrite_memory::Error::NoSpace("the host's".into())) } else { Ok(()) }
    }
}

/// A queue that announces its growth, or does not.
#[derive(Default)]
struct Saying<const IS_SAID: bool>(QueueEntries);

impl<const IS_SAID: bool> LoggedStructure for Saying<IS_SAID> {
    const TYPE: &'static str = "saying";

    fn apply(&mut self, change: &[u8]) -> bool {
        self.0.apply(change)
    }

    fn growth(change: &[u8]) -> u64 {
        if IS_SAID { QueueEntries::growth(change) } else { 0 }
    }

    fn save(&self, item: &mut dyn FnMut(&[&[u8]])) {
        self.0.save(item);
    }

    fn restore(&mut self, item: &[u8]) -> bool {
        self.0.restore(item)
    }
}

/// LG3: a change succeeds even if the checkpoint behind it finds no room on the host.
#[test]
fn lg3_a_checkpoint_without_room_costs_no_change() {
    let full = Arc::new(AtomicBool::new(false));
    let memory = Arc::new(Hosted { memory: new_pool(Model::MAPPED), full: Arc::clone(&full) });
    let logging = Logging { checkpoint_records: 4, ..LOGGING };
    let queue = logged::<Saying<false>>(&open_pool(&memory), logging).unwrap();
    let push = |entry: &[u8]| queue.make(QueueBatch::default().push(QueueEnd::Back, &entry.repeat(1500)).bytes());
    [b"a", b"b", b"c"].into_iter().for_each(|entry| push(entry).unwrap());
    full.store(true, SeqCst);
    push(b"d").unwrap();
    assert!(queue.log_bytes() > 0, "no checkpoint was taken");
    full.store(false, SeqCst);
    push(b"e").unwrap();
    assert_eq!((queue.log_bytes(), queue.read(|it| it.0.len())), (0, 5));
}

/// Checks the promise of CK5 for a queue and a map that have filled the store or its host.
fn assert_gives_back(queue: &Queue, map: &Map) {
    let count = queue.len();
    for number in 0..count as u32 {
        let popped = queue.pop(QueueEnd::Front).unwrap_or_else(|error| panic!("entry {number} of {count}: {error}"));
        assert_eq!(popped, Some(entry(number)));
        assert!(map.remove(&number.to_le_bytes()).unwrap().is_some());
    }
    assert_eq!(queue.pop(QueueEnd::Front).unwrap(), None);
    map.clear().unwrap();
    assert!(queue.is_empty() && map.is_empty());
}

fn entry(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(500)
}

/// Fills a queue and a map, whose logs are much smaller than their content, until each is refused.
fn filled(pool: &Arc<ferrite_pool::Pool>, is_full: impl Fn(u32) -> bool) -> (Queue, Map) {
    let hold = |name: &str, label: ObjectLabel| {
        label.spec(name, LOGGING.log_bytes).create(pool).unwrap();
        pool.hold(name).unwrap()
    };
    let queue = Queue::new(Logged::open(hold("queue", label::<QueueEntries>().unwrap()), LOGGING).unwrap());
    let map = Map::new(Logged::open(hold("map", label::<MapEntries>().unwrap()), LOGGING).unwrap());
    let mut count = 0;
    let refused = loop {
        if is_full(count) {
            break queue.push(QueueEnd::Back, &vec![1; 7000]).unwrap_err();
        }
        let put = map.put(&count.to_le_bytes(), &entry(count));
        match put.and_then(|()| queue.push(QueueEnd::Back, &entry(count))) {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(&refused, Error::Pool(full) if full.is_want_of_space()), "{refused}");
    assert!(count > 40, "{count} entries");
    (queue, map)
}

/// Checks the promise of CK5 for a queue that has filled its store, after this many empty checkpoints.
fn gives_back<const IS_SAID: bool>(checkpoints: u32) -> Verdict {
    let queue = logged::<Saying<IS_SAID>>(&open_pool(&new_pool(Model::MAPPED)), LOGGING).unwrap();
    (0..checkpoints).for_each(|_| queue.checkpoint().unwrap());
    let push = |number| queue.make(QueueBatch::default().push(QueueEnd::Back, &entry(number)).bytes());
    let count = (0..).take_while(|number| push(*number).is_ok()).count();
    assert!(count > 40, "{count} entries");
    for number in 0..count {
        let popped = queue.make(QueueBatch::default().pop(QueueEnd::Front).bytes());
        popped.map_err(|error| format!("CK5: entry {number} of {count}: {error}"))?;
    }
    Ok(())
}

#[test]
fn ck5_a_type_that_says_how_much_it_grows_gives_back() {
    (0..2).for_each(|checkpoints| gives_back::<true>(checkpoints).unwrap());
}

#[test]
fn canary_a_change_that_is_logged_before_it_has_room_is_caught() {
    gives_back::<false>(0).unwrap_err();
}

/// Either slot may be the next one when the store is full.
#[test]
fn canary_room_in_one_slot_only_is_caught() {
    let planted = plant("object: checkpoint widens one slot");
    let verdicts = [0, 1].map(gives_back::<true>);
    drop(planted);
    assert!(verdicts.iter().any(Result::is_err), "{verdicts:?}");
}

#[test]
fn ck5_a_full_store_takes_back_and_takes_again() {
    let pool = open_pool(&new_pool(Model::MAPPED));
    let (queue, map) = filled(&pool, |_| false);
    let before = (queue.len(), content(&map));
    assert!(queue.push(QueueEnd::Back, &vec![1; 7000]).is_err() && map.put(b"large", &vec![1; 7000]).is_err());
    assert_eq!((queue.len(), content(&map)), before, "what is refused changes nothing");
    let other = ferrite_pool::PutOptions::default();
    assert!(pool.put("other", &mut &[7; 64 << 10][..], &other).is_err(), "there is nothing left");
    assert_gives_back(&queue, &map);
    (0..40).for_each(|number| queue.push(QueueEnd::Back, &entry(number)).unwrap());
}

/// An object that was created while the pool had room accepts content when the pool is full.
#[test]
fn ck5_a_new_object_has_room_of_its_own() {
    let pool = open_pool(&new_pool(Model::MAPPED));
    let (label, name) = (label::<MapEntries>().unwrap(), "made before");
    label.spec(name, LOGGING.log_bytes).create(&pool).unwrap();
    let _full = filled(&pool, |_| false);
    let map = Map::new(Logged::open(pool.hold(name).unwrap(), LOGGING).unwrap());
    for number in 0..1000_u32 {
        map.put(&(number % 20).to_le_bytes(), &number.to_le_bytes().repeat(10)).unwrap();
    }
    assert_eq!(map.len(), 20);
}

#[test]
fn ck5_a_full_host_takes_back() {
    let full = Arc::new(AtomicBool::new(false));
    let memory = Arc::new(Hosted { memory: new_pool(Model::MAPPED), full: Arc::clone(&full) });
    let pool = open_pool(&memory);
    // Full when the existing room is used up.
    let (queue, map) = filled(&pool, |count| {
        full.store(count > 40, SeqCst);
        false
    });
    assert_gives_back(&queue, &map);
}

/// The prepared room is enough for any items.
#[test]
fn ck5_a_checkpoint_takes_no_more_than_is_seen_to() {
    for item in [0, 1, 40, 43, 44, 59, 100, 1000, 4071, 4072, 4073, 5000] {
        for count in [0, 1, 2, 3, 50, 101] {
            let items = |visit: &mut dyn FnMut(&[&[u8]])| (0..count).for_each(|_| visit(&[&vec![7; item]]));
            let bound = checkpoint::slot_bytes(checkpoint::content_bytes(&items));
            let taken = checkpoint::lines_of(&items) * 64;
            assert!(taken <= bound, "{count} items of {item} bytes take {taken}, beyond {bound}");
        }
    }
}

/// A map that counts how often all its content is passed.
#[derive(Default)]
struct Counted {
    entries: MapEntries,
    looks: AtomicU64,
}

impl LoggedStructure for Counted {
    const TYPE: &'static str = "counted";

    fn apply(&mut self, change: &[u8]) -> bool {
        self.entries.apply(change)
    }

    fn save(&self, item: &mut dyn FnMut(&[&[u8]])) {
        self.looks.fetch_add(1, SeqCst);
        self.entries.save(item);
    }

    fn growth(change: &[u8]) -> u64 {
        MapEntries::growth(change)
    }

    fn content_after(&self, change: &[u8]) -> u64 {
        self.entries.content_after(change)
    }

    fn restore(&mut self, item: &[u8]) -> bool {
        self.entries.restore(item)
    }
}

/// CK5: in a full store a change that adds no content is neither refused nor expensive, however often it comes.
#[test]
fn ck5_what_does_not_grow_is_not_refused_and_looks_through_nothing() {
    let map = logged::<Counted>(&open_pool(&new_pool(Model::MAPPED)), LOGGING).unwrap();
    let put = |key: u32, bytes: usize| map.make(MapBatch::default().put(&key.to_le_bytes(), &vec![7; bytes]).bytes());
    let mut sizes = Vec::new();
    for bytes in [2000, 100, 1, 0] {
        while put(sizes.len() as u32, bytes).is_ok() {
            sizes.push(bytes);
        }
    }
    let looks = |map: &Logged<Counted>| map.read(|it| it.looks.load(SeqCst));
    let checkpoints = || map.writer.lock().sequence;
    let before = (looks(&map), checkpoints());
    for _ in 0..3 {
        for (key, bytes) in (0..).zip(&sizes) {
            put(key, *bytes).unwrap();
        }
    }
    let (first, last) = (0_u32.to_le_bytes(), (sizes.len() as u32).to_le_bytes());
    for (gone, new) in [(first, last), (last, first)] {
        map.make(MapBatch::default().put(&new, &[8; 2000]).remove(&gone).bytes()).unwrap();
    }
    let taken = checkpoints() - before.1;
    assert!(taken > 10, "{taken} checkpoints");
    assert_eq!(looks(&map) - before.0, 2 * taken, "each measures and stores");
    assert!(put(0, 2000 + 12).is_err() && put(sizes.len() as u32, 0).is_err());
    put(0, 2000 - 12).unwrap();
    put(sizes.len() as u32, 0).unwrap();
}

/// Applies `change` and checks that the type announced the exact length of its content.
fn assert_announced<S: LoggedStructure>(state: &mut S, change: &[u8]) {
    let bytes = |state: &S| checkpoint::content_bytes(&|item| state.save(item));
    let (before, announced) = (bytes(state), state.content_after(change));
    assert!(state.apply(change));
    assert_eq!(announced, bytes(state));
    assert!(announced <= before + S::growth(change), "{before} bytes become {announced}");
}

/// The operation, its key or end, and the number of bytes.
type Choice = (u8, u8, usize);

fn map_batch(choices: &[Choice]) -> MapBatch {
    let mut batch = MapBatch::default();
    for (what, key, bytes) in choices {
        match what {
            0..5 => batch.put(&vec![*key; *key as usize], &vec![1; *bytes]),
            5..9 => batch.remove(&vec![*key; *key as usize]),
            _ => batch.clear(),
        };
    }
    batch
}

/// Returns a batch for a queue of `len` entries.
fn queue_batch(choices: &[Choice], len: usize) -> QueueBatch {
    let mut batch = QueueBatch::default();
    for (what, end, bytes) in choices {
        let (end, before) = (if end % 2 == 0 { QueueEnd::Back } else { QueueEnd::Front }, batch.clone());
        match what {
            0..4 => batch.push(end, &vec![1; *bytes]),
            4..9 => batch.pop(end),
            _ => batch.clear(),
        };
        if !batch.fits(len) {
            batch = before;
        }
    }
    batch
}

/// CK5: types announce their content exactly, for any combination of changes.
#[test]
fn ck5_maps_queues_and_bundles_know_how_long_their_content_is() {
    let changes = vec(vec((0..10u8, 0..6u8, 0..50usize), 0..8), 1..12);
    proptest!(cases(200), |(changes in changes)| {
        let (mut map, mut queue, mut members) = (MapEntries::default(), QueueEntries::default(), BundleMembers::default());
        for choices in changes {
            assert_announced(&mut map, map_batch(&choices).bytes());
            let len = queue.len();
            assert_announced(&mut queue, queue_batch(&choices, len).bytes());
            let mut change = BundleChange::default();
            for (name, choices) in ["a", "member", ""].into_iter().zip(choices.chunks(3)) {
                *change.map(name) = map_batch(choices);
                *change.queue(name) = queue_batch(choices, members.queue(name).len());
            }
            assert_announced(&mut members, &change.bytes());
        }
    });
}
