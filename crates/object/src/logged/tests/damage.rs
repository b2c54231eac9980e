//! LG4, CK4: for any damaged words of an object, opening reports damage or returns sound content. A salvage returns
//! only content that was there, and leaves an object that continues.

use std::collections::BTreeSet;

use ferrite_pool::Error as PoolError;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::object_queue::QueueEntries;
use crate::tests::support::{cases, hold};
use crate::{Queue, QueueEnd};

const SALVAGE: Logging = Logging { salvage: true, ..LOGGING };

/// A damaged word: the role of its stream, its offset in words, and its new value.
type Blow = (u8, u64, u64);

/// Returns damage mostly in used places: heads and words, headers, and the first lines of each stream.
fn blows() -> impl Strategy<Value = Vec<Blow>> {
    let role = prop_oneof![Just(Role::MAP.0), Just(Role::DATA.0), Just(2), Just(3)];
    vec((role, prop_oneof![0..24_u64, 0..512_u64], prop_oneof![Just(0), any::<u64>()]), 1..4)
}

fn strike(pool: &ferrite_pool::Pool, blows: &[Blow]) {
    let tag = pool.tag("it").unwrap();
    for (role, word, value) in blows {
        let place = Stream::new(&tag.extents, Role(*role)).locate(word * 8).filter(|run| run.len >= 8);
        place.inspect(|run| pool.memory().store_word(run.at, *value));
    }
}

/// Opens the structure, damaged or not; `None` if even a salvage cannot begin because the log does not open.
fn opened<S: LoggedStructure>(pool: &Arc<ferrite_pool::Pool>) -> Option<Arc<Logged<S>>> {
    match logged::<S>(pool, LOGGING) {
        Ok(whole) => return Some(whole),
        Err(Error::Damaged { .. } | Error::Pool(PoolError::Corrupt { .. })) => {}
        Err(error) => panic!("{error}"),
    }
    match logged::<S>(pool, SALVAGE) {
        Ok(left) => {
            assert!(!left.losses().is_empty(), "told as damaged, and nothing is lost");
            Some(left)
        }
        Err(Error::Pool(PoolError::Corrupt { .. })) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn lg4_crash_seeded_a_map_is_salvaged_from_any_damage() {
    proptest!(cases(150), |(steps in vec((0..20_u8, 0..12_u8), 1..120), blows in blows())| {
        let pool = open_pool(&new_pool(Model::MAPPED));
        let mut known = BTreeSet::new();
        {
            let map = map(&pool);
            for (number, (key, what)) in (0_u64..).zip(steps) {
                match what {
                    0 => map.checkpoint().unwrap(),
                    1..3 => drop(map.remove(&[key]).unwrap()),
                    _ => {
                        let value = number.to_le_bytes().repeat(what as usize);
                        map.put(&[key], &value).unwrap();
                        known.insert((vec![key], value));
                    }
                }
            }
        }
        strike(&pool, &blows);
        let Some(left) = opened::<MapEntries>(&pool) else { return Ok(()) };
        let map = Map::new(left);
        prop_assert!(content(&map).into_iter().all(|entry| known.contains(&entry)), "what was never put");
        map.put(b"more", b"x").unwrap();
        let before = content(&map);
        drop(map);
        prop_assert_eq!(content(&self::map(&pool)), before);
    });
}

#[test]
fn lg4_crash_seeded_a_queue_is_salvaged_from_any_damage() {
    proptest!(cases(150), |(steps in vec(0..8_u8, 1..200), blows in blows())| {
        let pool = open_pool(&new_pool(Model::MAPPED));
        let mut pushed = 0_u64;
        {
            let queue = Queue::new(logged::<QueueEntries>(&pool, LOGGING).unwrap());
            for what in steps {
                match what {
                    0 => queue.checkpoint().unwrap(),
                    1..3 => drop(queue.pop(QueueEnd::Front).unwrap()),
                    _ => {
                        queue.push(QueueEnd::Back, &pushed.to_le_bytes().repeat(what as usize)).unwrap();
                        pushed += 1;
                    }
                }
            }
        }
        strike(&pool, &blows);
        let Some(left) = opened::<QueueEntries>(&pool) else { return Ok(()) };
        let queue = Queue::new(left);
        let entries = |queue: &Queue| (0..queue.len()).map(|at| queue.get(at).unwrap()).collect::<Vec<_>>();
        let numbers: Vec<u64> = entries(&queue).iter().map(|it| u64::from_le_bytes(it[..8].try_into().unwrap())).collect();
        prop_assert!(numbers.is_sorted_by(|one, next| one < next), "{:?} come twice, or in another order", numbers);
        prop_assert!(numbers.last().is_none_or(|last| *last < pushed), "what was never pushed");
        queue.push(QueueEnd::Back, b"further").unwrap();
        let before = entries(&queue);
        drop(queue);
        prop_assert_eq!(entries(&Queue::new(logged::<QueueEntries>(&pool, LOGGING).unwrap())), before);
    });
}

/// A word that names a checkpoint which leaves no room for another is damage, and a salvage counts on from another.
#[test]
fn ck4_a_checkpoint_that_no_object_comes_to_is_damage() {
    for number in [ferrite_pool::SEQUENCE_BOUND, ferrite_pool::NUMBER_MAX] {
        let pool = open_pool(&new_pool(Model::MAPPED));
        map(&pool).put(b"key", b"value").unwrap();
        object_word::store(&hold(&pool, &label::<MapEntries>().unwrap(), 0), number).unwrap();
        let refused = logged::<MapEntries>(&pool, LOGGING).unwrap_err();
        assert!(matches!(&refused, Error::Damaged { what, .. } if what.contains("counts up to")), "{refused}");
        let left = Map::new(logged::<MapEntries>(&pool, SALVAGE).unwrap());
        left.checkpoint().unwrap();
        assert_eq!(left.get(b"key"), Some(b"value".to_vec()));
    }
}
