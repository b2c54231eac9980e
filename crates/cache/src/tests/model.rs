//! Random requests and background steps against a model (CA1, CA2, CA7, CA8, CA10).

use ferrite_crash::{Model, World};
use ferrite_disk::{Access, Disk, Zeroing};
use ferrite_memory::Span;
use proptest::prelude::*;

use super::cache_rig::BLOCKS;
use super::{CacheRig, RigShape};
use crate::{BLOCK, CacheMode, CachePolicy, CacheSettings, CopyRule, StampPlace};

#[derive(Clone, Debug)]
enum Op {
    Read { sector: u64, sectors: u64 },
    Write { sector: u64, sectors: u64, fill: u8 },
    Trim { block: u64, blocks: u64 },
    Zero { sector: u64, sectors: u64 },
    Flush,
    Step(u8),
    Clean,
    Mode(CacheMode),
    Policy(CachePolicy),
    Copies(CopyRule),
    Reopen,
    Kill,
}

const SECTORS: u64 = BLOCKS * 8;

fn op() -> impl Strategy<Value = Op> {
    let whole = (0..BLOCKS, 1..5_u64).prop_map(|(block, count)| (block * 8, count.min(BLOCKS - block) * 8));
    let any_sectors = (0..SECTORS, 1..20_u64).prop_map(|(at, count)| (at, count.min(SECTORS - at)));
    let place = prop_oneof![4 => whole, 1 => any_sectors];
    let mode = prop_oneof![
        3 => Just(CacheMode::WriteBack),
        1 => Just(CacheMode::WriteThrough),
        1 => Just(CacheMode::WriteAround),
    ];
    prop_oneof![
        8 => place.clone().prop_map(|(sector, sectors)| Op::Read { sector, sectors }),
        12 => (place.clone(), any::<u8>()).prop_map(|((sector, sectors), fill)| Op::Write { sector, sectors, fill }),
        1 => (0..BLOCKS, 1..4_u64).prop_map(|(block, count)| Op::Trim { block, blocks: count.min(BLOCKS - block) }),
        1 => place.prop_map(|(sector, sectors)| Op::Zero { sector, sectors }),
        1 => Just(Op::Flush),
        6 => (1..3_u8).prop_map(Op::Step),
        1 => Just(Op::Clean),
        1 => mode.prop_map(Op::Mode),
        1 => prop_oneof![Just(CachePolicy::Ferrite), Just(CachePolicy::Paper), Just(CachePolicy::Fifo)]
            .prop_map(Op::Policy),
        1 => prop_oneof![Just(CopyRule::Dirty), Just(CopyRule::All), Just(CopyRule::One)].prop_map(Op::Copies),
        1 => Just(Op::Reopen),
        1 => Just(Op::Kill),
    ]
}

/// The bytes of the disk; after a trim a sector may also be zeros.
struct DiskModel {
    bytes: Vec<u8>,
    maybe_zero: Vec<bool>,
}

impl DiskModel {
    fn write(&mut self, at: u64, bytes: &[u8]) {
        self.bytes[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        let sectors = at as usize / 512..(at as usize + bytes.len()) / 512;
        self.maybe_zero[sectors].fill(false);
    }

    fn check(&self, at: u64, read: &[u8]) {
        for (index, sector) in read.chunks(512).enumerate() {
            let number = at as usize / 512 + index;
            let is_zero = self.maybe_zero[number] && sector.iter().all(|byte| *byte == 0);
            let wanted = &self.bytes[number * 512..][..512];
            assert!(sector == wanted || is_zero, "sector {number}: {:?} and not {:?}", &sector[..4], &wanted[..4]);
        }
    }
}

fn run(shape: RigShape, ops: &[Op]) {
    let mut world = shape.world();
    let mut rig = shape.open(&world).expect("it opens");
    let (bytes, maybe_zero) = (vec![0; (BLOCKS * BLOCK) as usize], vec![false; SECTORS as usize]);
    let mut model = DiskModel { bytes, maybe_zero };
    let set = |rig: &CacheRig, change: &dyn Fn(&mut CacheSettings)| {
        let mut settings = rig.cache.settings();
        change(&mut settings);
        rig.cache.set(settings).expect("set");
    };
    for op in ops {
        match op {
            Op::Read { sector, sectors } => {
                let mut into = vec![0xee; (sectors * 512) as usize];
                rig.disk.read(sector * 512, &mut into).expect("read");
                model.check(sector * 512, &into);
            }
            Op::Write { sector, sectors, fill } => {
                let bytes: Vec<u8> = (0..sectors * 512).map(|at| fill.wrapping_add((at / 512) as u8) | 1).collect();
                let span = Span::new(sector * 512, sectors * 512);
                block_by_block(&rig, span, |part| {
                    let part_bytes = &bytes[(part.at - span.at) as usize..][..part.len as usize];
                    rig.disk.write(part.at, part_bytes, Access::Cached).expect("written");
                });
                model.write(span.at, &bytes);
            }
            Op::Trim { block, blocks } => {
                let span = Span::new(block * BLOCK, blocks * BLOCK);
                rig.disk.trim(span, Access::Cached).expect("trimmed");
                model.maybe_zero[(block * 8) as usize..((block + blocks) * 8) as usize].fill(true);
            }
            Op::Zero { sector, sectors } => {
                let span = Span::new(sector * 512, sectors * 512);
                block_by_block(&rig, span, |part| {
                    rig.disk.write_zeroes(part, Zeroing::default()).expect("zeroed");
                });
                model.write(span.at, &vec![0; span.len as usize]);
            }
            Op::Flush => rig.disk.flush().expect("flushed"),
            Op::Step(count) => (0..*count).for_each(|_| _ = rig.cache.step().expect("a step")),
            Op::Clean => rig.clean(),
            Op::Mode(mode) => set(&rig, &|settings| settings.mode = *mode),
            Op::Policy(policy) => set(&rig, &|settings| settings.policy = *policy),
            Op::Copies(copies) => set(&rig, &|settings| settings.copies = *copies),
            Op::Reopen | Op::Kill => {
                drop(rig);
                match op {
                    Op::Kill => world = world.kill(1),
                    _ => wait_for_late_requests(&world, shape),
                }
                rig = shape.open(&world).expect("it opens again");
            }
        }
    }
    let mut all = vec![0; (BLOCKS * BLOCK) as usize];
    rig.disk.read(0, &mut all).expect("read");
    model.check(0, &all);
    // Behind the cache the disk has everything once all is clean.
    rig.clean();
    drop(rig);
    let disk = world.disk(shape.ssds).snapshot();
    let data_at = if shape.stamp == StampPlace::Head { crate::STAMP_BYTES as usize } else { 0 };
    model.check(0, &disk[data_at..data_at + (BLOCKS * BLOCK) as usize]);
}

/// Waits until the members have ended all requests of a cache that was closed: until then the lock of a file keeps others
/// from opening it.
fn wait_for_late_requests(world: &World, shape: RigShape) {
    while (0..=shape.ssds).any(|member| world.disk(member).open_queues() > 0) {
        std::thread::yield_now();
    }
}

/// Runs `write` on each block of `span`, with a step before: nothing else here frees the buffer that it may wait for.
fn block_by_block(rig: &CacheRig, span: Span, mut write: impl FnMut(Span)) {
    let end = span.at + span.len;
    for block in (span.at / BLOCK)..end.div_ceil(BLOCK) {
        let start = (block * BLOCK).max(span.at);
        rig.settle();
        write(Span::new(start, ((block + 1) * BLOCK).min(end) - start));
    }
}

fn shapes() -> Vec<RigShape> {
    let usual = RigShape::default();
    vec![
        usual,
        RigShape { model: Model::FILE, ..usual },
        RigShape { stamp: StampPlace::Head, ..usual },
        RigShape { stamp: StampPlace::Tail, ssds: 3, ..usual },
        RigShape { deferring: Some(1), ..usual },
        RigShape { deferring: Some(7), model: Model::FILE, ssds: 3, ..usual },
        RigShape { ssds: 1, settings: CacheSettings { copies: CopyRule::One, ..usual.settings }, ..usual },
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn ca1_cache_reads_what_was_written(ops in prop::collection::vec(op(), 1..120), shape in 0..7_usize) {
        run(shapes()[shape], &ops);
    }
}
