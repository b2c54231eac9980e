//! CK5, and what is left to do where a type does not say how much longer it gets.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use ferrite_medium::forward_memory;

use super::*;
use crate::queue::Waiting;
use crate::{End, Queue, QueueBatch};

/// A memory whose host has no more space while it is `full`.
struct Hosted {
    memory: Arc<LyingMemory>,
    full: Arc<AtomicBool>,
}

impl Memory for Hosted {
    forward_memory!(self => self.memory; size, survival, fence_is_durable, load, store, zero, load_word, store_word,
        flush, fence, barrier);

    fn reserve(&self, _: Span) -> ferrite_medium::Result<()> {
        if self.full.load(SeqCst) { Err(ferrite_medium::Error::NoSpace("the host's".into())) } else { Ok(()) }
    }
}

/// A queue that says of no change how much longer it gets by it.
#[derive(Default)]
struct Unsaid(Waiting);

impl Structure for Unsaid {
    const TYPE: &'static str = "unsaid";

    fn apply(&mut self, change: &[u8]) -> bool {
        self.0.apply(change)
    }

    fn growth(_: &[u8]) -> u64 {
        0
    }

    fn save(&self, item: &mut dyn FnMut(&[&[u8]])) {
        self.0.save(item);
    }

    fn restore(&mut self, item: &[u8]) -> bool {
        self.0.restore(item)
    }
}

/// LG3: what a change did is not told as a failure because the checkpoint behind it found no room on the host.
#[test]
fn lg3_a_checkpoint_without_room_costs_no_change() {
    let full = Arc::new(AtomicBool::new(false));
    let memory = Arc::new(Hosted { memory: new_pool(Model::MAPPED), full: Arc::clone(&full) });
    let logging = Logging { checkpoint_records: 4, ..LOGGING };
    let queue = logged::<Unsaid>(&open_pool(&memory), logging).unwrap();
    let push = |entry: &[u8]| queue.make(QueueBatch::default().push(End::Back, &entry.repeat(1500)).bytes());
    [b"a", b"b", b"c"].into_iter().for_each(|entry| push(entry).unwrap());
    full.store(true, SeqCst);
    push(b"d").unwrap();
    assert!(queue.log_bytes() > 0, "no checkpoint was taken");
    full.store(false, SeqCst);
    push(b"e").unwrap();
    assert_eq!((queue.log_bytes(), queue.read(|it| it.0.len())), (0, 5));
}

/// What CK5 promises, of a queue and of a map that have filled the store or its host.
fn assert_gives_back(queue: &Queue, map: &Map) {
    let count = queue.len();
    for number in 0..count as u32 {
        let popped = queue.pop(End::Front).unwrap_or_else(|error| panic!("entry {number} of {count}: {error}"));
        assert_eq!(popped, Some(entry(number)));
        assert!(map.remove(&number.to_le_bytes()).unwrap().is_some());
    }
    assert_eq!(queue.pop(End::Front).unwrap(), None);
    map.clear().unwrap();
    assert!(queue.is_empty() && map.is_empty());
}

fn entry(number: u32) -> Vec<u8> {
    number.to_le_bytes().repeat(500)
}

/// A queue and a map whose logs are much smaller than what they hold, each filled until it is refused.
fn filled(pool: &Arc<ferrite_pool::Pool>, is_full: impl Fn(u32) -> bool) -> (Queue, Map) {
    let hold = |name: &str, label: Label| {
        label.spec(name, LOGGING.log_bytes).create(pool).unwrap();
        pool.hold(name).unwrap()
    };
    let queue = Queue::new(Logged::open(hold("queue", label::<Waiting>().unwrap()), LOGGING).unwrap());
    let map = Map::new(Logged::open(hold("map", label::<Entries>().unwrap()), LOGGING).unwrap());
    let mut count = 0;
    let refused = loop {
        if is_full(count) {
            break queue.push(End::Back, &vec![1; 7000]).unwrap_err();
        }
        let put = map.put(&count.to_le_bytes(), &entry(count));
        match put.and_then(|()| queue.push(End::Back, &entry(count))) {
            Ok(()) => count += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(&refused, Error::Pool(full) if full.is_want_of_space()), "{refused}");
    assert!(count > 40, "{count} entries");
    (queue, map)
}

#[test]
fn ck5_a_full_store_takes_back_and_takes_again() {
    let pool = open_pool(&new_pool(Model::MAPPED));
    let (queue, map) = filled(&pool, |_| false);
    let before = (queue.len(), content(&map));
    assert!(queue.push(End::Back, &vec![1; 7000]).is_err() && map.put(b"large", &vec![1; 7000]).is_err());
    assert_eq!((queue.len(), content(&map)), before, "what is refused changes nothing");
    let other = ferrite_pool::Put::default();
    assert!(pool.put("other", &mut &[7; 64 << 10][..], &other).is_err(), "there is nothing left");
    assert_gives_back(&queue, &map);
    (0..40).for_each(|number| queue.push(End::Back, &entry(number)).unwrap());
}

/// What was made while there was room takes something in when there is none.
#[test]
fn ck5_a_new_object_has_room_of_its_own() {
    let pool = open_pool(&new_pool(Model::MAPPED));
    let (label, name) = (label::<Entries>().unwrap(), "made before");
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
    // Full when what has room is used up.
    let (queue, map) = filled(&pool, |count| {
        full.store(count > 40, SeqCst);
        false
    });
    assert_gives_back(&queue, &map);
}

/// The room that is seen to is enough, whatever items there are.
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
