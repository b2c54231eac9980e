//! Tests of DU1 to DU5.

use ferrite_crash::{Crash, CrashReport, LyingMemory, Model, explore};

use super::*;
use crate::tests::support::{Deaf, Verdict, hold, new_pool, open_pool, options, reopen};

fn value(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (number as usize * 31 + at) as u8 | 1).collect()
}

fn open(pool: &Arc<ferrite_pool::Pool>, bytes: usize, scheme: Scheme) -> Result<Arc<DirectBytes>> {
    let label = label("value", bytes)?;
    DirectBytes::open(hold(pool, &label, 0), &label, &value(0, bytes), scheme)
}

/// The value is the acknowledged one or the next; setting continues from it, and a value that was read never reverts.
fn judge(crash: &Crash<'_>, bytes: usize) -> Verdict {
    let (memory, pool) = reopen(crash)?;
    let acknowledged = crash.last_mark().unwrap_or(0);
    let found = open(&pool, bytes, Scheme::Nt).map_err(|error| error.to_string())?.get();
    let number = (acknowledged..=acknowledged + 1).find(|number| value(*number, bytes) == found);
    let number = number.ok_or_else(|| format!("DU1: neither value {acknowledged} nor the next: {found:?}"))?;
    if crash.place().variant % 20 != 0 {
        return Ok(());
    }
    let nested = explore(&memory, &options(16, 6), |crash| {
        let (_, pool) = reopen(crash)?;
        let again = open(&pool, bytes, Scheme::Nt).map_err(|error| error.to_string())?;
        // A process that crashed before it returned a value may return either.
        let known = [number, number.saturating_sub(1), number + 1].map(|number| value(number, bytes));
        if known.contains(&again.get()) { Ok(()) } else { Err(format!("DU3: {:?}", again.get())) }
    });
    nested.failure.map_or(Ok(()), |failure| Err(format!("within recovery: {failure}")))
}

fn updates(
    model: Model,
    bytes: usize,
    scheme: Scheme,
    ignores: impl Fn(Span) -> bool + Send + Sync + 'static,
) -> CrashReport {
    let memory = new_pool(model);
    open(&open_pool(&memory), bytes, scheme).unwrap();
    let pool = open_pool(&Deaf::new(&memory, ignores));
    let it = open(&pool, bytes, scheme).unwrap();
    memory.barrier().unwrap();
    memory.forget_trace();
    for number in 1..=4 {
        it.set(&value(number, bytes)).unwrap();
        memory.mark(number);
    }
    explore(&memory, &options(1 << 9, 60), |crash| judge(crash, bytes))
}

#[test]
fn du1_du2_crash_leaves_the_value_of_before_or_after() {
    for model in Model::ALL {
        for (bytes, scheme) in [(8, Scheme::Nt), (48, Scheme::Flush), (48, Scheme::Nt), (48, Scheme::Writeback)] {
            let report = updates(model, bytes, scheme, |_| false);
            println!("{bytes} bytes by {}: {report}", scheme.name());
            report.assert_clean().assert_exhaustive();
        }
    }
}

#[test]
fn du1_crash_leaves_values_of_many_lines_whole() {
    for model in Model::ALL {
        for scheme in [Scheme::Nt, Scheme::Flush, Scheme::Writethrough] {
            updates(model, 300, scheme, |_| false).assert_clean();
        }
    }
}

#[test]
fn canary_an_update_without_its_fence_is_caught() {
    for model in Model::ALL {
        updates(model, 48, Scheme::Nt, |stored| stored.len == 64).expect_failure();
    }
}

/// DU3: opening returns the value that a killed process left visible, and then power fails.
#[test]
fn du3_crash_after_a_kill_keeps_what_was_shown() {
    for model in Model::ALL {
        let memory = new_pool(model);
        let it = open(&open_pool(&memory), 48, Scheme::Nt).unwrap();
        {
            let _killed = memory.as_thread(9);
            let mut image = vec![0; 64];
            image[HEADER..].copy_from_slice(&value(7, 48));
            let sequence = it.state.lock().sequence + 1;
            seal(&mut image, it.salt, sequence);
            memory.store(it.at + sequence % 2 * 64, &image, Scheme::Writeback);
        }
        drop(it);
        let _successor = memory.as_thread(1);
        let it = open(&open_pool(&memory), 48, Scheme::Nt).unwrap();
        assert_eq!(it.get(), value(7, 48));
        memory.forget_trace();
        memory.mark(1);
        let report = explore(&memory, &options(1 << 10, 100), |crash| {
            let found = open(&reopen(crash)?.1, 48, Scheme::Nt).map_err(|error| error.to_string())?.get();
            if found == value(7, 48) { Ok(()) } else { Err(format!("DU3: {found:?}")) }
        });
        report.assert_clean();
    }
}

#[test]
fn du4_one_damaged_copy_is_healed_and_two_are_told_by_name() {
    let memory = new_pool(Model::MAPPED);
    let it = open(&open_pool(&memory), 100, Scheme::Nt).unwrap();
    it.set(&value(1, 100)).unwrap();
    let (at, newest) = (it.at, it.state.lock().sequence % 2);
    drop(it);
    memory.store(at + (1 - newest) * 128 + 70, &[0xee], Scheme::Nt);
    assert_eq!(open(&open_pool(&memory), 100, Scheme::Nt).unwrap().get(), value(1, 100));
    for slot in 0..2 {
        memory.store(at + slot * 128 + 70, &[0xee], Scheme::Nt);
    }
    let error = open(&open_pool(&memory), 100, Scheme::Nt).unwrap_err().to_string();
    assert!(error.starts_with("object \"it\" is damaged: both copies of its value at byte"), "{error}");
}

#[test]
fn du5_a_failed_persist_poisons_until_it_is_opened_again() {
    let memory: Arc<LyingMemory> = new_pool(Model::FILE);
    let it = open(&open_pool(&memory), 48, Scheme::Nt).unwrap();
    it.set(&value(1, 48)).unwrap();
    memory.fail_nth(memory.calls());
    assert!(it.set(&value(2, 48)).unwrap_err().to_string().contains("planted"));
    assert!(it.set(&value(3, 48)).unwrap_err().to_string().contains("poisoned"));
    assert_eq!(it.get(), value(1, 48), "what is seen is durable");
    let crashed = Arc::new(memory.crash(3));
    let found = open(&open_pool(&crashed), 48, Scheme::Nt).unwrap().get();
    assert!([value(1, 48), value(2, 48)].contains(&found));
}

#[test]
fn a_value_of_another_size_or_too_large_is_refused() {
    let pool = open_pool(&new_pool(Model::MAPPED));
    let it = open(&pool, VALUE_BYTES_MAX, Scheme::Nt).unwrap();
    it.set(&value(3, VALUE_BYTES_MAX)).unwrap();
    for bytes in [0, 1, VALUE_BYTES_MAX + 1] {
        let error = it.set(&vec![1; bytes]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("the value has {VALUE_BYTES_MAX} bytes, not {bytes},")), "{error}");
    }
    drop(it);
    assert!(matches!(open(&pool, 8, Scheme::Nt), Err(Error::WrongType { .. })));
    assert!(matches!(open(&pool, VALUE_BYTES_MAX + 1, Scheme::Nt), Err(Error::TooLarge { .. })));
    assert!(matches!(open(&pool, 0, Scheme::Nt), Err(Error::Refused(_))));
}

#[test]
fn typed_values_are_read_back_and_updated_in_one_step() {
    let pool = open_pool(&new_pool(Model::MAPPED));
    let label = label("value", 16).unwrap();
    let bytes = DirectBytes::open(hold(&pool, &label, 0), &label, &[0; 16], Scheme::Nt).unwrap();
    let it = DirectValue::<[u64; 2]>::new(bytes);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| it.update(|pair| *pair = [pair[0] + 1, pair[1] + 2]).unwrap()));
        }
    });
    assert_eq!(it.get(), [400, 800]);
    it.set(&[1, 2]).unwrap();
    assert_eq!(it.get(), [1, 2]);
}

/// A sequence that leaves no room for another is damage, reported by opening and by check, without a panic.
#[test]
fn du2_a_version_that_no_value_comes_to_is_damage() {
    for version in [SEQUENCE_BOUND, u64::MAX - 1] {
        let memory = new_pool(Model::MAPPED);
        let pool = open_pool(&memory);
        let it = open(&pool, 48, Scheme::Nt).unwrap();
        let (at, salt) = (it.at, it.salt);
        let mut image = it.state.lock().image.clone();
        drop(it);
        seal(&mut image, salt, version);
        memory.store(at + version % 2 * image.len() as u64, &image, Scheme::Nt);
        let refused = open(&pool, 48, Scheme::Nt).unwrap_err();
        assert!(matches!(&refused, Error::Damaged { what, .. } if what.contains("no value reaches")), "{refused}");
    }
}
