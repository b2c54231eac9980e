//! Tests of LG1 to LG5 and CK1 to CK5, on maps.

mod damage;
mod full;

use ferrite_crash::{Crash, CrashReport, LyingMemory, Model, explore};
use ferrite_memory::{Memory, Scheme, Span};
use ferrite_pool::{Role, Stream};

use super::*;
use crate::object_map::MapEntries;
use crate::tests::support::{Deaf, LOGGING, Verdict, logged, new_pool, open_pool, options, reopen};
use crate::{Map, MapBatch};

fn map(pool: &Arc<ferrite_pool::Pool>) -> Map {
    Map::new(logged::<MapEntries>(pool, LOGGING).unwrap())
}

/// Does step `number` of the run that is crashed: puts, removals, batches and checkpoints.
fn step(map: &Map, number: u64) {
    let key = [(number % 3) as u8];
    match number % 5 {
        0 => map.put(&key, &[number as u8; 30]).unwrap(),
        1 => map.commit(MapBatch::default().put(&key, &[number as u8; 70]).remove(&[1]).put(&[9], &key)).unwrap(),
        2 => drop(map.remove(&key).unwrap()),
        3 => map.checkpoint().unwrap(),
        _ => map.put(&key, &[number as u8; 5000 % 64]).unwrap(),
    }
}

fn content(map: &Map) -> Vec<(Vec<u8>, Vec<u8>)> {
    map.page(None, usize::MAX)
}

/// Returns the map's content after each step.
fn expected(steps: u64) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
    let map = map(&open_pool(&new_pool(Model::MAPPED)));
    let mut states = vec![content(&map)];
    for number in 0..steps {
        step(&map, number);
        states.push(content(&map));
    }
    states
}

const STEPS: u64 = 9;

fn run(model: Model, ignores: impl Fn(Span) -> bool + Send + Sync + 'static) -> CrashReport {
    let memory = new_pool(model);
    drop(map(&open_pool(&memory)));
    let map = map(&open_pool(&Deaf::new(&memory, ignores)));
    // The slots exist already: the pool's tests cover their creation.
    (0..2).for_each(|_| map.checkpoint().unwrap());
    memory.barrier().unwrap();
    memory.forget_trace();
    for number in 0..STEPS {
        step(&map, number);
        memory.mark(number + 1);
    }
    let states = expected(STEPS);
    explore(&memory, &options(1 << 8, 40), |crash| judge(crash, &states))
}

fn judge(crash: &Crash<'_>, states: &[Vec<(Vec<u8>, Vec<u8>)>]) -> Verdict {
    let (memory, pool) = reopen(crash)?;
    let acknowledged = crash.last_mark().unwrap_or(0) as usize;
    let opened = logged::<MapEntries>(&pool, LOGGING).map_err(|error| error.to_string())?;
    let map = Map::new(opened);
    let found = content(&map);
    let known = [acknowledged, acknowledged + 1];
    if !known.iter().any(|number| states.get(*number) == Some(&found)) {
        return Err(format!("LG3: {found:?} after step {acknowledged}"));
    }
    if crash.place().variant % 40 == 0 {
        let nested = explore(&memory, &options(16, 6), |crash| {
            let map = Map::new(logged::<MapEntries>(&reopen(crash)?.1, LOGGING).map_err(|error| error.to_string())?);
            if content(&map) == found { Ok(()) } else { Err("CK3: another one after a crash in recovery".into()) }
        });
        nested.failure.map_or(Ok(()), |failure| Err(format!("within recovery: {failure}")))?;
    }
    map.put(b"after", b"x").map_err(|error| error.to_string())?;
    drop(map);
    let again = Map::new(logged::<MapEntries>(&pool, LOGGING).map_err(|error| error.to_string())?);
    if again.len() == found.len() + 1 { Ok(()) } else { Err("LG1: what is put after a recovery is lost".into()) }
}

#[test]
fn lg1_lg2_lg3_ck1_ck2_ck3_crash_leaves_the_structure_of_before_or_after() {
    for model in Model::ALL {
        let report = run(model, |_| false);
        println!("logged: {report}");
        report.assert_clean();
    }
}

/// Returns the place of a part of "it".
fn part(role: Role) -> Span {
    let pool = open_pool(&new_pool(Model::MAPPED));
    let map = map(&pool);
    (0..2).for_each(|_| map.checkpoint().unwrap());
    drop(map);
    let stream = Stream::new(&pool.tag("it").unwrap().extents, role);
    stream.locate(0).unwrap()
}

fn within(part: Span) -> impl Fn(Span) -> bool + Send + Sync {
    move |stored| (part.at..part.at + part.len).contains(&stored.at)
}

#[test]
fn canary_a_change_without_its_fence_is_caught() {
    for model in Model::ALL {
        run(model, within(part(Role::DATA))).expect_failure();
    }
}

#[test]
fn canary_a_checkpoint_that_is_named_before_it_is_durable_is_caught() {
    for model in Model::ALL {
        let (even, odd) = (within(part(Role(2))), within(part(Role(3))));
        run(model, move |stored| even(stored) || odd(stored)).expect_failure();
    }
}

#[test]
fn canary_a_log_cut_before_the_checkpoint_is_named_is_caught() {
    for model in Model::ALL {
        let word = part(Role::MAP).at + 64;
        run(model, move |stored| stored.at == word).expect_failure();
    }
}

/// A crash between the naming and the cut, with damage in records that the checkpoint covers: nothing is lost.
#[test]
fn ck2_a_cut_that_did_not_come_is_made_by_the_next_opening() {
    let memory = new_pool(Model::MAPPED);
    let pool = open_pool(&memory);
    let map = map(&pool);
    (0..20).for_each(|number| map.put(&[number], &[number; 40]).unwrap());
    let logged = &map.0;
    let (writer, state) = (logged.writer.lock(), logged.state.read());
    checkpoint::store(&logged.holding, 1, writer.log.end(), &|item| state.save(item)).unwrap();
    let at = writer.log.place(writer.log.records().nth(5).unwrap().unwrap().0);
    memory.store_word(at + 24, 0);
    drop((writer, state));
    let before = content(&map);
    drop(map);
    let map = self::map(&pool);
    assert_eq!(content(&map), before);
    map.put(b"more", b"x").unwrap();
    drop(map);
    assert_eq!(self::map(&pool).get(b"more"), Some(b"x".to_vec()));
}

#[test]
fn a_full_log_takes_a_checkpoint_and_a_change_that_never_fits_is_refused() {
    let memory: Arc<LyingMemory> = new_pool(Model::MAPPED);
    let pool = open_pool(&memory);
    let map = map(&pool);
    for number in 0..1000u64 {
        map.put(&(number % 50).to_le_bytes(), &number.to_le_bytes()).unwrap();
    }
    assert!(map.0.writer.lock().sequence > 2, "checkpoints were taken");
    let refused = map.put(b"large", &vec![1; LOGGING.log_bytes as usize]);
    assert!(matches!(refused, Err(Error::TooLarge { .. })));
    let before = content(&map);
    drop(map);
    assert_eq!(content(&self::map(&pool)), before);
}

#[test]
fn checkpoints_come_after_so_many_records_or_bytes() {
    let pool = open_pool(&new_pool(Model::MAPPED));
    let logging = Logging { checkpoint_records: 4, ..LOGGING };
    let map = Map::new(logged::<MapEntries>(&pool, logging).unwrap());
    (0..12).for_each(|number| map.put(&[number], b"").unwrap());
    let state = |map: &Map| (map.0.log_bytes(), map.0.writer.lock().sequence);
    assert_eq!(state(&map), (0, 3));
    drop(map);
    let logging = Logging { checkpoint_bytes: 640, ..LOGGING };
    let map = Map::new(logged::<MapEntries>(&pool, logging).unwrap());
    (0..10).for_each(|number| map.put(&[number], b"").unwrap());
    assert_eq!(state(&map), (0, 4));
}

/// LG4, CK4: damage is reported by name, and the rest can be read.
#[test]
fn lg4_damage_is_told_by_name_and_what_is_left_is_salvaged() {
    let salvage = Logging { salvage: true, ..LOGGING };
    type Spoil<'a> = &'a dyn Fn(&Map, &LyingMemory);
    let in_log: Spoil = &|map: &Map, memory: &LyingMemory| {
        let log = &map.0.writer.lock().log;
        memory.store_word(log.place(log.records().nth(2).unwrap().unwrap().0) + 24, 0);
    };
    let in_checkpoint: Spoil = &|map: &Map, memory: &LyingMemory| {
        map.checkpoint().unwrap();
        memory.store_word(map.0.holding.stream(Role(3)).locate(5 * 4096).unwrap().at + 16, 0);
    };
    let in_header: Spoil = &|map: &Map, memory: &LyingMemory| {
        map.checkpoint().unwrap();
        memory.store_word(map.0.holding.stream(Role(3)).locate(0).unwrap().at + 16, 0);
        map.put(b"later", b"x").unwrap();
    };
    let store_in_word = |map: &Map, memory: &LyingMemory, word| {
        for key in [b"one", b"two"] {
            map.put(key, b"x").unwrap();
            map.checkpoint().unwrap();
        }
        memory.store_word(map.0.holding.stream(Role::MAP).locate(64).unwrap().at, word);
        map.put(b"later", b"x").unwrap();
    };
    let in_word: Spoil = &|map: &Map, memory: &LyingMemory| store_in_word(map, memory, 1);
    let all_of_word: Spoil = &|map: &Map, memory: &LyingMemory| store_in_word(map, memory, 0);
    for (spoil, most) in [(in_log, 1), (in_checkpoint, 45), (in_header, 0), (in_word, 0), (all_of_word, 0)] {
        let memory = new_pool(Model::MAPPED);
        let pool = open_pool(&memory);
        let logging = Logging { log_bytes: 64 << 10, ..LOGGING };
        let map = Map::new(logged::<MapEntries>(&pool, logging).unwrap());
        (0..400u64).for_each(|number| map.put(&number.to_be_bytes(), &[number as u8; 80]).unwrap());
        spoil(&map, &memory);
        let before = content(&map);
        drop(map);
        let error = logged::<MapEntries>(&pool, LOGGING).unwrap_err().to_string();
        assert!(error.starts_with("object \"it\" is damaged: "), "{error}");
        let map = Map::new(logged::<MapEntries>(&pool, salvage).unwrap());
        assert!(!map.0.losses().is_empty());
        let left = content(&map);
        let lost = before.len() - left.len();
        assert!(lost <= most && (lost > 0) == (most > 0), "{lost} of {most} are lost");
        assert!(left.iter().all(|entry| before.contains(entry)), "nothing that was not there");
        map.put(b"more", b"x").unwrap();
        drop(map);
        let map = Map::new(logged::<MapEntries>(&pool, LOGGING).unwrap());
        assert_eq!(map.len(), left.len() + 1, "sound again");
    }
}

#[test]
fn lg5_every_failed_persist_poisons_and_leaves_old_or_new() {
    let run = |failing: Option<u64>| {
        let memory = new_pool(Model::FILE);
        let map = map(&open_pool(&memory));
        (0..2).for_each(|_| map.checkpoint().unwrap());
        let before = memory.calls();
        failing.inspect(|number| memory.fail_nth(before + number));
        let done = map.put(&[1], &[1]).and_then(|()| map.checkpoint()).and_then(|()| map.put(&[2], &[2]));
        (memory.clone(), map, done, memory.calls() - before)
    };
    let (.., done, calls) = run(None);
    done.unwrap();
    for number in 0..calls {
        let (memory, map, done, _) = run(Some(number));
        assert!(done.unwrap_err().to_string().contains("planted"), "call {number}");
        assert!(map.put(&[3], &[3]).unwrap_err().to_string().contains("poisoned"));
        let seen = content(&map);
        for seed in 0..4 {
            let found = content(&self::map(&open_pool(&Arc::new(memory.crash(seed)))));
            assert!(found.starts_with(&seen), "call {number}: {found:?} without {seen:?}");
        }
    }
}

/// F1: while the pool is frozen changes wait, and reads do not.
#[test]
fn f1_changes_wait_while_the_pool_stands_still() {
    let pool = open_pool(&new_pool(Model::MAPPED));
    let map = map(&pool);
    let frozen = pool.freeze();
    std::thread::scope(|scope| {
        let put = scope.spawn(|| map.put(b"k", b"v"));
        for _ in 0..1000 {
            assert!(map.is_empty());
            std::thread::yield_now();
        }
        drop(frozen);
        put.join().unwrap().unwrap();
    });
    assert_eq!(map.len(), 1);
}

#[test]
fn stores_by_scheme_are_the_pools_alone() {
    let pool = open_pool(&new_pool(Model::MAPPED));
    let tag = ObjectLabel::new(ObjectForm::Direct, "value", 8).unwrap().spec("it", 0).create(&pool).unwrap();
    pool.memory().store(tag.extents[0].span().at, &[0; 8], Scheme::Nt);
    assert!(matches!(logged::<MapEntries>(&pool, LOGGING), Err(Error::WrongType { .. })));
}

impl<S: LoggedStructure> Logged<S> {
    pub(crate) fn log_end(&self) -> LogPosition {
        self.writer.lock().log.end()
    }
}
