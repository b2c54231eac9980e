use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{PAGE, TrapFault, TrapRegion};
use crate::planted::plant;
use crate::{Error, MapOptions, Mapped, Memory, Span};

const PAGES: u64 = 16;

/// A region and the memory of its frames: page `n` has frame `n`. `None` if this machine reports no faults.
fn new_region() -> Option<(TrapRegion, Mapped)> {
    let memory = Mapped::anonymous(PAGES * PAGE, &MapOptions::default()).expect("memory");
    let region = match TrapRegion::new(PAGES * PAGE) {
        Ok(region) => region,
        Err(Error::Unsupported(why)) => {
            println!("skipped: {why}");
            return None;
        }
        Err(other) => panic!("{other}"),
    };
    let all = Span::new(0, PAGES * PAGE);
    region.add_source(all, memory.share(all).expect("shared")).expect("mapped");
    Some((region, memory))
}

fn page(number: u64) -> Span {
    Span::new(number * PAGE, PAGE)
}

/// Ends the thread that answers, also if the program panics.
struct StopAtEnd<'a>(&'a TrapRegion);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Runs `program` while this thread answers its faults: a store gets the page's frame, a load sees its bytes. Returns the
/// faults.
fn run(region: &TrapRegion, memory: &Mapped, program: impl FnOnce() + Send) -> Vec<TrapFault> {
    let mut faults = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _stop = StopAtEnd(region);
            program();
        });
        while let Some(fault) = region.next_fault().expect("the kernel says") {
            faults.push(fault);
            if fault.is_store {
                region.map(Span::new(fault.at, PAGE), fault.at).expect("mapped");
                region.wake(Span::new(fault.at, PAGE));
                continue;
            }
            let mut bytes = [0; PAGE as usize];
            memory.load(fault.at, &mut bytes);
            region.fill(fault.at, &bytes).expect("shown");
        }
    });
    faults
}

fn store(region: &TrapRegion, number: u64, value: u64) {
    region.word(number * PAGE).store(value, Ordering::Release);
}

fn load(region: &TrapRegion, number: u64) -> u64 {
    region.word(number * PAGE).load(Ordering::Acquire)
}

#[test]
fn tr2_tr3_tr4_accesses_fault_once_for_each_change_of_a_page() {
    let Some((region, memory)) = new_region() else { return };
    memory.store_word(2 * PAGE, 20);
    let faults = run(&region, &memory, || {
        assert_eq!(load(&region, 2), 20);
        store(&region, 2, 21);
        store(&region, 2, 22);
        assert_eq!((load(&region, 2), memory.load_word(2 * PAGE)), (22, 22), "the store is in the frame");
        store(&region, 3, 30);
        region.stage(Span::new(2 * PAGE, 2 * PAGE));
        memory.store_word(2 * PAGE, 23);
        assert_eq!((load(&region, 2), load(&region, 3)), (23, 30), "DRAM had older bytes of page 2");
        store(&region, 2, 24);
        assert_eq!(memory.load_word(2 * PAGE), 24);
    });
    let of = |number: u64, is_store| TrapFault { at: number * PAGE, is_store };
    let expected = [(2, false), (2, true), (3, true), (2, false), (3, false), (2, true)];
    assert_eq!(faults, expected.map(|(number, is_store)| of(number, is_store)));
}

/// Returns true if a store behind a stage of two pages faults.
fn faults_behind_stage(planted: Option<&'static str>) -> Option<bool> {
    let (region, memory) = new_region()?;
    let faults = run(&region, &memory, || {
        [6, 7].into_iter().for_each(|number| store(&region, number, 1));
        let bug = planted.map(plant);
        region.stage(Span::new(6 * PAGE, 2 * PAGE));
        drop(bug);
        store(&region, 7, 2);
    });
    Some(faults.len() == 3)
}

#[test]
fn canary_tr2_a_page_that_stays_mapped_is_caught() {
    assert_ne!(faults_behind_stage(None), Some(false));
    assert_ne!(faults_behind_stage(Some("trap: the last page stays mapped")), Some(true));
}

/// TR1, TR7: threads count in pages of their own while another takes pages away all the time.
#[test]
fn tr1_no_store_is_lost_while_pages_are_staged() {
    let Some((region, memory)) = new_region() else { return };
    let is_done = AtomicBool::new(false);
    let counted = Mutex::new([0; 6]);
    let faults = run(&region, &memory, || {
        std::thread::scope(|scope| {
            let (region, is_done, counted) = (&region, &is_done, &counted);
            for number in [0, 3] {
                scope.spawn(move || {
                    let mut round = 0;
                    while !is_done.load(Ordering::Relaxed) {
                        for own in number..number + 3 {
                            assert_eq!(region.word(own * PAGE).fetch_add(1, Ordering::AcqRel), round);
                        }
                        round += 1;
                    }
                    counted.lock().expect("no panic")[number as usize..][..3].fill(round);
                });
            }
            for first in (0..6).cycle().take(300) {
                region.stage(Span::new(first * PAGE, (6 - first).min(3) * PAGE));
            }
            is_done.store(true, Ordering::Relaxed);
        });
    });
    assert_eq!(
        [0, 1, 2, 3, 4, 5].map(|number| memory.load_word(number * PAGE)),
        counted.into_inner().expect("no panic")
    );
    assert!(faults.len() > 6, "pages were staged in between");
}

#[test]
fn tr5_a_stage_returns_behind_the_message_about_it() {
    let Some((region, _memory)) = new_region() else { return };
    std::thread::scope(|scope| {
        let staging = scope.spawn(|| region.stage(page(4)));
        std::thread::sleep(Duration::from_millis(5));
        assert!(!staging.is_finished(), "no thread has read the message");
        scope.spawn(|| {
            let _stop = StopAtEnd(&region);
            staging.join().expect("no panic");
        });
        assert_eq!(region.next_fault().expect("the kernel says"), None);
    });
}

/// A store behind a load reaches the frame.
fn store_behind_load(region: &TrapRegion, memory: &Mapped) -> bool {
    run(region, memory, || {
        load(region, 1);
        store(region, 1, 11);
    });
    memory.load_word(PAGE) == 11
}

#[test]
fn canary_tr3_a_filled_page_that_is_writable_is_caught() {
    let Some((region, memory)) = new_region() else { return };
    let bug = plant("trap: a filled page is writable");
    assert!(!store_behind_load(&region, &memory));
    drop(bug);
    let Some((region, memory)) = new_region() else { return };
    assert!(store_behind_load(&region, &memory));
}

/// Returns the kernel's flags of each mapping that lies in `span` of addresses.
fn mappings(span: Span) -> Vec<String> {
    let text = std::fs::read_to_string("/proc/self/smaps").expect("read");
    let mut is_inside = false;
    let mut flags = Vec::new();
    for line in text.lines() {
        let head = line.split(' ').next().and_then(|range| range.split_once('-'));
        if let Some((start, _)) = head.filter(|_| !line.starts_with(|first: char| first.is_ascii_uppercase())) {
            let start = u64::from_str_radix(start, 16).expect("an address");
            is_inside = (span.at..span.at + span.len).contains(&start);
        } else if let Some(flags_of) = line.strip_prefix("VmFlags:")
            && is_inside
        {
            flags.push(format!("{flags_of} "));
        }
    }
    flags
}

/// Stores to some pages, and returns the mappings of the region.
fn mapped_some(region: &TrapRegion, memory: &Mapped) -> Vec<String> {
    run(region, memory, || [5, 3, 4, 6].into_iter().for_each(|number| store(region, number, 1)));
    mappings(Span::new(region.base() as u64, region.size()))
}

#[test]
fn tr6_neighbours_are_one_mapping_and_no_child_has_it() {
    let Some((region, memory)) = new_region() else { return };
    let parts = mapped_some(&region, &memory);
    assert_eq!(parts.len(), 3, "{parts:?}");
    assert!(parts.iter().all(|flags| flags.contains(" dc ")), "{parts:?}");
    let Some((region, memory)) = new_region() else { return };
    run(&region, &memory, || {
        [5, 3, 4, 6].into_iter().for_each(|number| store(&region, number, 1));
        region.stage(page(4));
        region.stage(Span::new(3 * PAGE, 4 * PAGE));
    });
    let staged = mappings(Span::new(region.base() as u64, region.size()));
    assert_eq!(staged.len(), 1, "{staged:?}");
}

#[test]
fn canary_tr6_mappings_that_children_have_are_caught() {
    let bug = plant("trap: children have the region");
    let Some((region, memory)) = new_region() else { return };
    drop(bug);
    let parts = mapped_some(&region, &memory);
    assert!(!parts.iter().any(|flags| flags.contains(" dc ")), "{parts:?}");
}

#[test]
fn a_region_that_is_covered_has_no_pages() {
    let Some((region, memory)) = new_region() else { return };
    mapped_some(&region, &memory);
    region.cover();
    let covered = mappings(Span::new(region.base() as u64, region.size()));
    assert!(covered.len() == 1 && !covered[0].contains(" rd "), "{covered:?}");
}

/// Runs in a process of its own, because it locks the memory of all threads.
#[test]
fn a_process_that_locks_its_memory_gets_no_region() {
    const ROLE: &str = "FERRITE_TRAP_TEST_LOCKS";
    if std::env::var_os(ROLE).is_none() {
        let name = std::thread::current().name().expect("the test's").to_string();
        let mut locking = std::process::Command::new(std::env::current_exe().expect("this program"));
        let ended = locking.args(["--exact", &name, "--test-threads=2"]).env(ROLE, "1").output().expect("it runs");
        assert!(ended.status.success(), "{ended:?}");
    } else if new_region().is_some() {
        // SAFETY: it changes no byte. The limit of locked memory may refuse it.
        let is_locked = unsafe { libc::mlockall(libc::MCL_FUTURE) == 0 };
        let refused = TrapRegion::new(PAGES * PAGE).err();
        assert!(!is_locked || matches!(refused, Some(Error::Unsupported(_))), "{refused:?}");
    }
}

#[test]
fn a_pool_in_a_plain_file_is_refused() {
    let Some((region, _)) = new_region() else { return };
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).expect("a folder");
    let path = folder.path().join("pool");
    std::fs::write(&path, [0; 8192]).expect("written");
    let file = std::fs::File::options().read(true).write(true).open(&path).expect("opened");
    let memory = Mapped::map(file, &MapOptions::default()).expect("mapped");
    if !memory.fence_is_durable() {
        let all = Span::new(0, 8192);
        let refused = region.add_source(all, memory.share(all).expect("shared")).expect_err("its fences keep nothing");
        assert!(refused.to_string().contains("tmpfs"), "{refused}");
    }
}

/// Supplies a page twice, as after a late message, and stores in between. Returns the word of the page.
fn supplied_twice(planted: Option<&'static str>) -> Option<u64> {
    let (region, _) = new_region()?;
    let supply = |value: u64| {
        let mut bytes = [0; PAGE as usize];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        region.supply(3 * PAGE, &bytes).expect("shown");
    };
    assert!(!region.is_supplied(3 * PAGE));
    supply(1);
    assert!(region.is_supplied(3 * PAGE + 9) && !region.is_supplied(4 * PAGE));
    assert_eq!(load(&region, 3), 1);
    store(&region, 3, 2);
    let _bug = planted.map(plant);
    supply(1);
    Some(load(&region, 3))
}

#[test]
fn tr8_a_supplied_page_keeps_its_stores() {
    assert!(supplied_twice(None).is_none_or(|word| word == 2));
}

#[test]
fn canary_tr8_a_supplied_page_that_is_stored_to_again_is_caught() {
    let word = supplied_twice(Some("trap: a supplied page is stored to again"));
    assert!(word.is_none_or(|word| word == 1));
}
