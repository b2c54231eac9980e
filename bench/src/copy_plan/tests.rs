//! Plans, and copiers on disks in memory.

use ferrite_disk::{RamDisk, StatsDisk};

use super::*;
use crate::options::BenchProgress;
use crate::tests::{experiment, options};

const SMALL: CopyLoad = CopyLoad { writes: true, random: true, bytes: 4096, depth: 1 };
const MANY: CopyLoad = CopyLoad { depth: 4, ..SMALL };

fn buffers(load: &CopyLoad) -> Vec<CopyBuffer> {
    (0..load.depth).map(|_| CopyBuffer::new(load.bytes as usize)).collect()
}

#[test]
fn many_threads_have_longer_slices_and_fewer_rounds() {
    let plan = CopyPlan::of(Length::Full);
    assert_eq!((plan.rounds(&SMALL), plan.slice_ms(&SMALL)), (100, 2));
    assert_eq!((plan.rounds(&MANY), plan.slice_ms(&MANY)), (10, 40));
    let smoke = CopyPlan::of(Length::Smoke);
    assert_eq!(smoke.rounds(&MANY), 1, "every case has a round");
}

#[test]
fn loads_come_in_the_papers_order() {
    let names: Vec<String> = loads(&[false, true], &[4 << 10], &[1, 8]).iter().map(CopyLoad::name).collect();
    assert_eq!(
        names,
        [
            "RD SEQ 4K Q1",
            "RD RND 4K Q1",
            "RD SEQ 4K Q8",
            "RD RND 4K Q8",
            "WR SEQ 4K Q1",
            "WR RND 4K Q1",
            "WR SEQ 4K Q8",
            "WR RND 4K Q8",
        ]
    );
}

#[test]
fn rates_and_latencies_are_of_the_same_requests() {
    assert_eq!(CopyUnit::Rate.of(1000.0, &SMALL), 4.096);
    assert_eq!(CopyUnit::Latency.of(1000.0, &SMALL), 1e6);
    assert_eq!([CopyUnit::Rate, CopyUnit::Latency].map(CopyUnit::name), ["MB/s", "ns"]);
}

/// A barrier that is not sent makes its scheme look free.
#[test]
fn a_disk_is_flushed_by_its_barriers_and_behind_each_slice() {
    let disk = Arc::new(StatsDisk::new(RamDisk::new(1 << 20)));
    let slice = CopySlice { load: &SMALL, size: 1 << 20, time: Duration::from_millis(1), seed: 1 };
    let written = |copier: &CopySubject<'_>| {
        let before = disk.stats();
        assert!((copier.run)(&slice, &mut buffers(&SMALL)).expect("it runs") > 0.0);
        let after = disk.stats();
        (after.writes - before.writes, after.flushes - before.flushes)
    };
    let (plain_writes, plain_flushes) = written(&CopySubject::disk("plain", disk.clone(), None));
    assert_eq!((plain_writes % 64, plain_flushes), (0, 1), "batches of 256 KiB, then a flush");
    let (writes, flushes) = written(&CopySubject::disk("barriers", disk.clone(), Some(16)));
    assert_eq!(flushes, writes / 16 + 1);
    assert_eq!(written(&CopySubject::sustained("sustained", disk.clone())).1, 1);
}

#[test]
fn every_thread_of_a_slice_copies() {
    let disk = Arc::new(StatsDisk::new(RamDisk::new(1 << 20)));
    let copier = CopySubject::disk("many", disk.clone(), None);
    let slice = CopySlice { load: &MANY, size: 1 << 20, time: Duration::ZERO, seed: 1 };
    (copier.run)(&slice, &mut buffers(&MANY)).expect("it runs");
    assert!(disk.stats().writes >= 4 * 64, "each has a batch at least");
}

/// The rate that lasts counts the time that the disk takes to empty its cache.
#[test]
fn a_sustained_rate_is_lower_if_the_flush_takes_long() {
    struct SlowFlush(RamDisk);
    impl Disk for SlowFlush {
        fn geometry(&self) -> ferrite_disk::Geometry {
            self.0.geometry()
        }
        fn read(&self, at: u64, into: &mut [u8]) -> ferrite_memory::Result<()> {
            self.0.read(at, into)
        }
        fn write(&self, at: u64, from: &[u8], access: Access) -> ferrite_memory::Result<()> {
            self.0.write(at, from, access)
        }
        fn flush(&self) -> ferrite_memory::Result<()> {
            std::thread::sleep(Duration::from_millis(90));
            Ok(())
        }
    }
    let disk = || Arc::new(SlowFlush(RamDisk::new(1 << 20)));
    let slice = CopySlice { load: &SMALL, size: 1 << 20, time: Duration::from_millis(10), seed: 1 };
    let rate = |copier: CopySubject<'_>| (copier.run)(&slice, &mut buffers(&SMALL)).expect("it runs");
    let (plain, sustained) =
        (rate(CopySubject::disk("plain", disk(), None)), rate(CopySubject::sustained("sustained", disk())));
    assert!(sustained < plain / 3.0, "{sustained} is not a tenth of {plain}");
}

#[test]
fn copiers_are_measured_beside_the_first() {
    let (options, mut go_on) = (options(None), |_: &BenchProgress<'_>| true);
    let experiment = experiment(&[]);
    let mut session = BenchSession::new(&experiment, &options, &mut go_on);
    let copier = |name: &str, rate: f64| {
        CopySubject::by(name.to_owned(), move |_: &CopySlice<'_>, _: &mut [CopyBuffer]| Ok(rate))
    };
    let plan = CopyPlan { rounds: 3, ..CopyPlan::of(Length::Smoke) };
    plan.measure(&mut session, "case", &SMALL, &[copier("one", 1000.0), copier("two", 500.0)]).expect("nothing fails");
    let rows: Vec<_> =
        session.report.rows.iter().map(|row| (&*row.subject, row.value, &*row.beside, row.ratio)).collect();
    assert_eq!(rows, [("one", 4.096, "one", 1.0), ("two", 2.048, "one", 0.5)]);
}
