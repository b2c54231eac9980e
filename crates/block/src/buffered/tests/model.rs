//! Acknowledged and flushed is never lost, and what is read is what was written: U1 to U6.

use std::result::Result;

use super::*;

/// What happens to a buffered disk.
#[derive(Clone, Copy, Debug)]
enum Act {
    Ask(Op),
    /// A write that is durable when it completes.
    Fua {
        block: u64,
        seed: u8,
    },
    /// A step of one syncer.
    Step(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => op().prop_map(Act::Ask),
        1 => (0..BLOCKS, any::<u8>()).prop_map(|(block, seed)| Act::Fua { block, seed }),
        4 => (0..3_usize).prop_map(Act::Step),
    ]
}

/// A disk, what it must hold, and what it held after each request since the last that made all durable.
struct Run {
    disk: Buffered<LyingDisk>,
    bytes: Vec<u8>,
    since_durable: Vec<Vec<u8>>,
}

impl Run {
    fn new(options: BufferOptions) -> Self {
        let bytes = vec![0; (BLOCKS * BLOCK) as usize];
        Self { disk: over_lies(options), since_durable: vec![bytes.clone()], bytes }
    }

    fn act(&mut self, act: Act) -> Result<(), String> {
        match act {
            Act::Step(number) => drop(self.disk.step(number).expect("nothing fails")),
            Act::Fua { block, seed } => {
                self.disk.write(block * BLOCK, &content(8, seed), Access::Fua).expect("written");
                self.bytes[(block * BLOCK) as usize..][..BLOCK as usize].copy_from_slice(&content(8, seed));
            }
            Act::Ask(op) => {
                op.run(&self.disk);
                let before = self.bytes.clone();
                op.apply(&mut self.bytes);
                if matches!(op, Op::Trim { .. }) {
                    self.heed_trim(&before);
                }
            }
        }
        self.since_durable.push(self.bytes.clone());
        if matches!(act, Act::Fua { .. } | Act::Ask(Op::Flush)) {
            self.since_durable.drain(..self.since_durable.len() - 1);
        }
        if read_all(&self.disk) == self.bytes { Ok(()) } else { Err(format!("after {act:?} something else is read")) }
    }

    /// Trimmed bytes read as zeros or as before.
    fn heed_trim(&mut self, before: &[u8]) {
        let found = read_all(&self.disk);
        for ((was, found), is) in before.chunks(4096).zip(found.chunks(4096)).zip(self.bytes.chunks_mut(4096)) {
            if found == was {
                is.copy_from_slice(was);
            }
        }
    }

    /// Crashes now: each block is as after some request since the last flush.
    fn judge_crash(&self, seed: u64) -> Result<(), String> {
        let left = read_all(&self.disk.inner().crash(seed));
        for (block, part) in left.chunks(BLOCK as usize).enumerate() {
            let range = block * BLOCK as usize..(block + 1) * BLOCK as usize;
            if !self.since_durable.iter().any(|bytes| bytes[range.clone()] == *part) {
                return Err(format!("crash {seed}: block {block} is of no state since the last flush"));
            }
        }
        Ok(())
    }
}

fn run(acts: &[Act], options: BufferOptions) -> Result<(), String> {
    let mut run = Run::new(options);
    for (number, act) in acts.iter().enumerate() {
        run.act(*act)?;
        for seed in 0..4 {
            run.judge_crash(number as u64 * 4 + seed)?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn u1_to_u6_reads_see_buffers_and_flushed_is_never_lost(
        acts in prop::collection::vec(act(), 1..40), batch: bool
    ) {
        run(&acts, small(batch)).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn canary_a_flush_that_forgets_one_buffer_is_caught() {
    let acts = [Act::Ask(Op::Write { sector: 0, sectors: 48, seed: 1 }), Act::Ask(Op::Flush)];
    let bug = plant("block: flush forgets a buffer");
    let found = run(&acts, small(true));
    drop(bug);
    assert!(found.expect_err("found").contains("of no state since the last flush"));
    run(&acts, small(true)).expect("without the bug all is well");
}

/// U6: if any request of the disk fails, for any caller, acknowledged durable data survives a crash, and a later flush
/// writes the rest.
#[test]
fn u6_every_failed_request_of_the_disk_leaves_what_was_acknowledged() {
    let acts = |disk: &Buffered<LyingDisk>, of_round: &[u8], number| -> Result<(), Error> {
        disk.write(0, of_round, Access::Cached)?;
        disk.step(number)?;
        disk.flush()
    };
    let of_round: Vec<Vec<u8>> = (0..=4).map(|round| content(BLOCKS * 8, round)).collect();
    for nth in 0.. {
        let disk = over_lies(small(nth % 2 == 0));
        let mut durable = 0;
        disk.write(0, &content(BLOCKS * 8, 0), Access::Fua).expect("written");
        disk.inner().fail_nth(disk.inner().requests() + nth);
        let mut failures = 0;
        for round in 1..=4 {
            match acts(&disk, &of_round[round], round % 3) {
                Ok(()) => durable = round,
                Err(_) => failures += 1,
            }
            let left = read_all(&disk.inner().crash(nth));
            for (block, part) in left.chunks(4096).enumerate() {
                let is_of = |round: usize| of_round[round][block * 4096..][..4096] == *part;
                assert!((durable..=round).any(is_of), "failed request {nth}, round {round}, block {block}");
            }
        }
        if failures == 0 {
            assert!(nth > 8 && durable == 4, "nothing failed");
            return;
        }
        disk.flush().expect("it fails only once");
        assert!(disk.inner().crash(nth).snapshot() == disk.inner().snapshot());
    }
}
