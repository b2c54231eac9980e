//! The simulated drive as a disk: the disk below holds the data, and the figures follow the requests.

use ferrite_disk::{Access, Disk, RamDisk, Request, SsdDisk, SsdProfile, VirtualClock, Wait, Zeroing};
use ferrite_memory::Span;
use proptest::prelude::*;

use super::super::{DriveSpec, FlashTiming, FtlDisk, FtlScheme, VictimChoice};
use super::shape;
use crate::support;

const PAGES: u64 = 64;

fn disk(scheme: FtlScheme) -> FtlDisk<RamDisk> {
    // Pages of 1024 bytes on sectors of 512: some requests touch a page in part.
    let shape = super::super::FlashShape { page_bytes: 1024, ..shape(0, 8, 4) };
    FtlDisk::new(RamDisk::new(PAGES * 1024), DriveSpec { scheme, shape, timing: FlashTiming::default() })
        .expect("it fits")
}

const SCHEMES: [FtlScheme; 2] = [FtlScheme::Page(VictimChoice::Greedy), FtlScheme::Fast { log_blocks: None }];

#[test]
fn a_request_counts_every_page_that_it_touches() {
    for scheme in SCHEMES {
        let disk = disk(scheme);
        disk.write(512, &[1; 1024], Access::Cached).unwrap();
        disk.write(0, &[2; 512], Access::Fua).unwrap();
        disk.read(1024, &mut [0; 512]).unwrap();
        let figures = disk.figures().unwrap();
        assert_eq!((figures.host_writes, figures.host_reads, figures.trimmed_pages), (3, 1, 0), "{scheme:?}");
        // A trim of half a page frees nothing; zeros that keep their space are a write.
        disk.trim(Span::new(512, 2048), Access::Cached).unwrap();
        disk.write_zeroes(Span::new(4096, 1024), Zeroing { keep_space: true, ..Zeroing::default() }).unwrap();
        disk.write_zeroes(Span::new(4096, 1024), Zeroing::default()).unwrap();
        let figures = disk.figures().unwrap();
        assert_eq!((figures.host_writes, figures.trimmed_pages), (4, 2), "{scheme:?}");
        // Zeros in a part of a page are new content: half a page, one and a half, and a part of one.
        for (at, len) in [(512, 512), (2560, 1536), (8704, 512)] {
            disk.write_zeroes(Span::new(at, len), Zeroing::default()).unwrap();
        }
        let figures = disk.figures().unwrap();
        assert_eq!((figures.host_writes, figures.trimmed_pages), (7, 3), "{scheme:?}");
    }
}

/// A queued request counts as a call does, once it completes.
#[test]
fn queued_requests_count_as_calls_do() {
    let shape = super::super::FlashShape { page_bytes: 1024, ..shape(0, 8, 4) };
    let drive = SsdDisk::new(RamDisk::new(PAGES * 1024), &SsdProfile::x25e(), VirtualClock::default(), 1);
    let disk = FtlDisk::new(drive, DriveSpec { scheme: SCHEMES[0], shape, timing: FlashTiming::default() }).unwrap();
    let mut queue = disk.queue().unwrap().expect("the drive's queue");
    let requests = [
        (ferrite_disk::Op::Write(Access::Cached), Span::new(512, 1024), vec![1; 1024]),
        (ferrite_disk::Op::Read, Span::new(1024, 512), vec![0; 512]),
        (ferrite_disk::Op::Trim(Access::Cached), Span::new(2048, 2048), Vec::new()),
        (ferrite_disk::Op::Write(Access::Cached), Span::new(PAGES * 1024, 512), vec![1; 512]),
    ];
    let mut ended = Vec::new();
    for (token, (op, span, buffer)) in (0..).zip(requests) {
        ended.extend(queue.submit(Request { token, op, span, buffer }));
        while queue.in_flight() > 0 {
            queue.collect(Wait::Forever, &mut ended).unwrap();
        }
    }
    assert_eq!(ended.iter().map(|ended| ended.result.is_ok()).collect::<Vec<_>>(), [true, true, true, false]);
    let figures = disk.figures().unwrap();
    assert_eq!((figures.host_writes, figures.host_reads, figures.trimmed_pages), (2, 1, 2));
}

#[test]
fn what_is_refused_below_is_not_counted() {
    let disk = disk(SCHEMES[0]);
    assert!(disk.write(PAGES * 1024, &[0; 512], Access::Cached).is_err());
    assert!(disk.write(1, &[0; 512], Access::Cached).is_err());
    assert!(disk.read(100, &mut [0; 512]).is_err());
    assert_eq!(disk.figures().unwrap().host_writes, 0);
}

#[derive(Clone, Debug)]
enum Op {
    Write(Span, u8),
    Read(Span),
    Trim(Span),
    Zero(Span, bool),
    Flush,
}

fn op() -> impl Strategy<Value = Op> {
    let span = (0..2 * PAGES, 0_u64..12).prop_map(|(at, len)| Span::new(at * 512, len.min(2 * PAGES - at) * 512));
    prop_oneof![
        6 => (span.clone(), any::<u8>()).prop_map(|(span, byte)| Op::Write(span, byte)),
        2 => span.clone().prop_map(Op::Read),
        1 => span.clone().prop_map(Op::Trim),
        1 => (span, any::<bool>()).prop_map(|(span, keep)| Op::Zero(span, keep)),
        1 => Just(Op::Flush),
    ]
}

fn ask(disk: &dyn Disk, op: &Op) -> Vec<u8> {
    match *op {
        Op::Write(span, byte) => disk.write(span.at, &vec![byte; span.len as usize], Access::Cached).unwrap(),
        Op::Trim(span) => disk.trim(span, Access::Cached).unwrap(),
        Op::Zero(span, keep_space) => {
            disk.write_zeroes(span, Zeroing { keep_space, ..Zeroing::default() }).unwrap();
        }
        Op::Flush => disk.flush().unwrap(),
        Op::Read(span) => {
            let mut bytes = vec![0; span.len as usize];
            disk.read(span.at, &mut bytes).unwrap();
            return bytes;
        }
    }
    Vec::new()
}

proptest! {
    #![proptest_config(support::cases(64))]

    /// D1 to D4 by comparison with the model of all disks, and TL2 at every read and at the end.
    #[test]
    fn it_is_the_disk_below(ops in prop::collection::vec(op(), 0..300), which in 0_usize..2) {
        let (disk, model) = (disk(SCHEMES[which]), RamDisk::new(PAGES * 1024));
        for op in &ops {
            prop_assert_eq!(ask(&disk, op), ask(&model, op), "{:?}", op);
        }
        let all = Op::Read(Span::new(0, PAGES * 1024));
        prop_assert_eq!(ask(&disk, &all), ask(&model, &all));
        disk.figures().unwrap();
    }
}
