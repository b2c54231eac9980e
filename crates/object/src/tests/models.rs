//! Map, queue and log compared with models in DRAM, with reopenings, kills and crashes in between.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use ferrite_pool::Pool;
use proptest::collection::vec;
use proptest::prelude::*;

use super::support::{LOGGING, cases, hold, logged, new_pool, open_pool};
use crate::{Logging, Map, MapBatch, ObjectLog, Queue, QueueEnd, object_log};

/// How the next process finds the pool.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Reopen,
    Kill,
    Crash(u64),
}

fn turns() -> impl Strategy<Value = Turn> {
    prop_oneof![Just(Turn::Reopen), Just(Turn::Kill), any::<u64>().prop_map(Turn::Crash)]
}

fn turn(memory: &Arc<LyingMemory>, how: Turn) -> Arc<LyingMemory> {
    match how {
        Turn::Reopen => Arc::clone(memory),
        Turn::Kill => Arc::new(memory.kill()),
        Turn::Crash(seed) => Arc::new(memory.crash(seed)),
    }
}

fn models() -> impl Strategy<Value = Model> {
    prop_oneof![Just(Model::MAPPED), Just(Model::FILE)]
}

fn pool(model: Model) -> (Arc<LyingMemory>, Arc<Pool>) {
    let memory = new_pool(model);
    memory.keep_trace(false);
    let pool = open_pool(&memory);
    (memory, pool)
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..150)
}

#[derive(Clone, Debug)]
enum MapStep {
    Put(u8, Vec<u8>),
    Remove(u8),
    Batch(Vec<(u8, Option<Vec<u8>>)>),
    Clear,
    Checkpoint,
    Turn(Turn),
}

fn map_steps() -> impl Strategy<Value = MapStep> {
    prop_oneof![
        6 => (0..40u8, bytes()).prop_map(|(key, value)| MapStep::Put(key, value)),
        3 => (0..40u8).prop_map(MapStep::Remove),
        2 => vec((0..40u8, proptest::option::of(bytes())), 0..8).prop_map(MapStep::Batch),
        1 => Just(MapStep::Clear),
        1 => Just(MapStep::Checkpoint),
        2 => turns().prop_map(MapStep::Turn),
    ]
}

fn open_map(pool: &Arc<Pool>, logging: Logging) -> Map {
    Map::new(logged(pool, logging).expect("it opens"))
}

fn batch(changes: &[(u8, Option<Vec<u8>>)]) -> MapBatch {
    let mut batch = MapBatch::default();
    for (key, value) in changes {
        match value {
            Some(value) => batch.put(&[*key], value),
            None => batch.remove(&[*key]),
        };
    }
    batch
}

#[test]
fn lg3_crash_seeded_a_map_is_a_map() {
    let run = (models(), 0..20u64, vec(map_steps(), 1..80));
    proptest!(cases(60), |((model, records, steps) in run)| {
        let logging = Logging { checkpoint_records: records, ..LOGGING };
        let (mut memory, mut pool) = pool(model);
        let (mut map, mut known) = (open_map(&pool, logging), BTreeMap::new());
        for step in steps {
            match step {
                MapStep::Put(key, value) => {
                    map.put(&[key], &value).unwrap();
                    known.insert(vec![key], value);
                }
                MapStep::Remove(key) => prop_assert_eq!(map.remove(&[key]).unwrap(), known.remove(&vec![key])),
                MapStep::Batch(changes) => {
                    map.commit(&batch(&changes)).unwrap();
                    for (key, value) in changes {
                        match value {
                            Some(value) => drop(known.insert(vec![key], value)),
                            None => drop(known.remove(&vec![key])),
                        }
                    }
                }
                MapStep::Clear => {
                    map.clear().unwrap();
                    known.clear();
                }
                MapStep::Checkpoint => map.checkpoint().unwrap(),
                MapStep::Turn(how) => {
                    drop((map, pool));
                    memory = turn(&memory, how);
                    pool = open_pool(&memory);
                    map = open_map(&pool, logging);
                }
            }
            prop_assert_eq!(map.page(None, usize::MAX), known.clone().into_iter().collect::<Vec<_>>());
        }
        prop_assert_eq!(map.page(Some(&[7]), 3), known.range(vec![7, 0]..).take(3).map(|(k, v)| (k.clone(), v.clone())).collect::<Vec<_>>());
    });
}

#[derive(Clone, Debug)]
enum QueueStep {
    Push(bool, Vec<Vec<u8>>),
    Pop(bool),
    Clear,
    Checkpoint,
    Turn(Turn),
}

fn queue_steps() -> impl Strategy<Value = QueueStep> {
    prop_oneof![
        6 => (any::<bool>(), vec(bytes(), 0..4)).prop_map(|(back, entries)| QueueStep::Push(back, entries)),
        5 => any::<bool>().prop_map(QueueStep::Pop),
        1 => Just(QueueStep::Clear),
        1 => Just(QueueStep::Checkpoint),
        2 => turns().prop_map(QueueStep::Turn),
    ]
}

fn end(is_back: bool) -> QueueEnd {
    if is_back { QueueEnd::Back } else { QueueEnd::Front }
}

#[test]
fn lg3_crash_seeded_a_queue_is_a_queue() {
    proptest!(cases(60), |((model, steps) in (models(), vec(queue_steps(), 1..80)))| {
        let (mut memory, mut pool) = pool(model);
        let (mut queue, mut known) = (Queue::new(logged(&pool, LOGGING).unwrap()), VecDeque::new());
        for step in steps {
            match step {
                QueueStep::Push(is_back, entries) => {
                    queue.push_all(end(is_back), &entries.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
                    for entry in entries {
                        if is_back { known.push_back(entry) } else { known.push_front(entry) }
                    }
                }
                QueueStep::Pop(is_back) => {
                    let expected = if is_back { known.pop_back() } else { known.pop_front() };
                    prop_assert_eq!(queue.pop(end(is_back)).unwrap(), expected);
                }
                QueueStep::Clear => {
                    queue.clear().unwrap();
                    known.clear();
                }
                QueueStep::Checkpoint => queue.checkpoint().unwrap(),
                QueueStep::Turn(how) => {
                    drop((queue, pool));
                    memory = turn(&memory, how);
                    pool = open_pool(&memory);
                    queue = Queue::new(logged(&pool, LOGGING).unwrap());
                }
            }
            let found: Vec<_> = (0..queue.len()).map(|index| queue.get(index).unwrap()).collect();
            prop_assert_eq!(found, known.iter().cloned().collect::<Vec<_>>());
        }
    });
}

#[derive(Clone, Debug)]
enum LogStep {
    Extend(Vec<Vec<u8>>),
    Cut(u64),
    Turn(Turn),
}

fn log_steps() -> impl Strategy<Value = LogStep> {
    prop_oneof![
        6 => vec(bytes(), 0..5).prop_map(LogStep::Extend),
        2 => (0..6u64).prop_map(LogStep::Cut),
        2 => turns().prop_map(LogStep::Turn),
    ]
}

fn open_log(pool: &Arc<Pool>) -> Arc<ObjectLog> {
    ObjectLog::open(hold(pool, &object_log::label().unwrap(), LOGGING.log_bytes), false).expect("it opens")
}

#[test]
fn al1_crash_seeded_a_log_is_a_list() {
    proptest!(cases(60), |((model, steps) in (models(), vec(log_steps(), 1..80)))| {
        let (mut memory, mut pool) = pool(model);
        let (mut log, mut first, mut known) = (open_log(&pool), 0, VecDeque::new());
        for step in steps {
            match step {
                LogStep::Extend(entries) => {
                    match log.extend(&entries.iter().map(Vec::as_slice).collect::<Vec<_>>()) {
                        Ok(_) => known.extend(entries),
                        Err(crate::Error::Pool(ferrite_pool::Error::LogFull { .. })) => {}
                        Err(error) => return Err(TestCaseError::fail(error.to_string())),
                    }
                }
                LogStep::Cut(many) => {
                    let many = many.min(known.len() as u64);
                    first += many;
                    known.drain(..many as usize);
                    log.cut(first).unwrap();
                }
                LogStep::Turn(how) => {
                    drop((log, pool));
                    memory = turn(&memory, how);
                    pool = open_pool(&memory);
                    log = open_log(&pool);
                }
            }
            let found: Vec<_> = (log.first()..log.end()).map(|number| log.get(number).unwrap().unwrap()).collect();
            prop_assert_eq!((log.first(), found), (first, known.iter().cloned().collect::<Vec<_>>()));
        }
    });
}
