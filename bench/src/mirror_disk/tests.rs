//! A mirror over two simulated SSDs.

use ferrite_disk::{Clock, RamDisk, SsdDisk, SsdProfile, VirtualClock};

use super::*;

const SIZE: u64 = 1 << 20;

fn mirror() -> (MirrorDisk, Arc<VirtualClock>, [Arc<SsdDisk<RamDisk>>; 2]) {
    let clock = Arc::new(VirtualClock::default());
    let legs =
        [1, 2].map(|seed| Arc::new(SsdDisk::new(RamDisk::new(SIZE), &SsdProfile::sata(), Arc::clone(&clock), seed)));
    (MirrorDisk::new(legs[0].clone(), legs[1].clone()), clock, legs)
}

#[test]
fn a_write_is_on_both_legs_and_a_read_goes_to_the_shorter_queue() {
    let (mirror, clock, legs) = mirror();
    mirror.write(8192, &[5; 4096], Access::Cached).expect("written");
    mirror.flush().expect("flushed");
    for leg in &legs {
        let mut read = [0; 4096];
        leg.inner().read(8192, &mut read).expect("read");
        assert_eq!(read, [5; 4096]);
    }
    let mut queue = mirror.queue().expect("a queue").expect("simulated drives have queues");
    let read = |token| Request { token, op: Op::Read, span: Span::new(8192, 4096), buffer: vec![0; 4096] };
    for token in 0..4 {
        assert!(queue.submit(read(token)).is_none());
    }
    assert_eq!([0, 1].map(|leg: usize| mirror.legs[leg].reads.load(Ordering::Relaxed)), [2, 2]);
    let mut ended = Vec::new();
    while queue.in_flight() > 0 {
        queue.collect(Wait::Forever, &mut ended).expect("collected");
    }
    assert!(ended.iter().all(|one| one.buffer == [5; 4096]) && ended.len() == 4 && clock.now_ns() > 0);
}

#[test]
fn a_queued_write_ends_when_both_legs_have_it() {
    let (mirror, _, legs) = mirror();
    let mut queue = mirror.queue().expect("a queue").expect("simulated drives have queues");
    let write = Request { token: 9, op: Op::Write(Access::Cached), span: Span::new(0, 4096), buffer: vec![3; 4096] };
    assert!(queue.submit(write).is_none());
    let mut ended = Vec::new();
    while queue.in_flight() > 0 {
        queue.collect(Wait::Forever, &mut ended).expect("collected");
    }
    assert_eq!(ended.iter().map(|one| one.token).collect::<Vec<_>>(), [9]);
    for leg in &legs {
        let mut read = [0; 4096];
        leg.inner().read(0, &mut read).expect("read");
        assert_eq!(read, [3; 4096]);
    }
}
