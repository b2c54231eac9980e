use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use super::*;
use crate::area::AreaPlan;
use crate::{MapOptions, Mapped, Memory, Scheme};

const PAGE: u64 = 4096;
const SPAN: Span = Span { at: 100, len: 50 };

fn covered(guard: Guard) -> (Shield, Area) {
    let file = tempfile::tempfile().unwrap();
    file.set_len(4 * PAGE).unwrap();
    let shield = Shield::new(guard).unwrap();
    let rights = shield.closed_protection(true);
    let plan =
        AreaPlan { span: Span::new(0, 4 * PAGE), rights, flags: libc::MAP_SHARED, page_bytes: PAGE, wants_huge: false };
    let area = Area::map(file, &plan).unwrap();
    shield.cover(&area, true).unwrap();
    (shield, area)
}

/// Guards of this machine that hold stray writes off.
fn guards() -> impl Iterator<Item = Guard> {
    let all = Guard::ALL.into_iter().map(|(_, guard)| guard);
    all.filter(|guard| *guard != Guard::None && guard.ensure_available().is_ok())
}

/// Whether this thread may store at `ptr`, asked without a fault: the kernel's copies obey the same rights.
fn may_store(ptr: *mut u8) -> bool {
    let zeros = File::open("/dev/zero").unwrap();
    // SAFETY: the kernel writes one zero there or refuses with EFAULT.
    unsafe { libc::read(std::os::fd::AsRawFd::as_raw_fd(&zeros), ptr.cast(), 1) == 1 }
}

/// GU1 and GU2: a store goes through inside a window and nowhere else, in this thread.
#[test]
fn gu2_a_window_is_open_until_it_is_dropped() {
    for guard in guards() {
        let (shield, area) = covered(guard);
        assert!(!may_store(area.base()), "{guard:?} is open before any window");
        let window = shield.open(&area, SPAN, Right::Write);
        assert!(may_store(window.ptr()), "{guard:?}: the window is closed");
        drop(window);
        assert!(!may_store(area.base().wrapping_add(100)), "{guard:?} stays open");
        let window = shield.open(&area, SPAN, Right::Read);
        assert!(!may_store(window.ptr()), "{guard:?}: a window for reading lets a store through");
    }
}

#[test]
fn gu2_a_panic_closes_the_window() {
    for guard in guards() {
        let (shield, area) = covered(guard);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let window = shield.open(&area, SPAN, Right::Write);
            assert!(may_store(window.ptr()), "{guard:?}: the window is closed");
            std::panic::resume_unwind(Box::new(()));
        }));
        assert!(panicked.is_err());
        assert!(!may_store(area.base().wrapping_add(100)), "{guard:?} stays open after a panic");
        drop(shield.open(&area, SPAN, Right::Write));
    }
}

/// GU2: a thread made before the mapping, before its key even, and one made after it are both shut out while another
/// thread's window is open. (`pagetable` opens pages, not threads.)
#[test]
fn gu2_a_window_is_open_for_one_thread() {
    let (ask, asked) = channel::<usize>();
    let (tell, message) = channel();
    let old = thread::spawn(move || {
        asked.iter().for_each(|address| tell.send(may_store(address as *mut u8)).unwrap());
    });
    for guard in guards().filter(|guard| *guard != Guard::Pagetable) {
        let (shield, area) = covered(guard);
        let window = shield.open(&area, SPAN, Right::Write);
        let address = area.base() as usize + 100;
        ask.send(address).unwrap();
        assert!(!message.recv().unwrap(), "{guard:?}: an older thread could store");
        drop(window);
        let newer = thread::spawn(move || may_store(address as *mut u8));
        assert!(!newer.join().unwrap(), "{guard:?}: a newer thread could store");
    }
    drop(ask);
    old.join().unwrap();
}

/// `pagetable`: a window that ends does not close the pages another one still writes.
#[test]
fn gu2_windows_on_one_page_do_not_close_each_other() {
    let (shield, area) = covered(Guard::Pagetable);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let window = shield.open(&area, SPAN, Right::Write);
                    assert!(may_store(window.ptr()), "closed by the other thread");
                }
            });
        }
    });
}

/// What [`play`] is to do, in a process of its own.
const ROLE: &str = "FERRITE_WINDOW";

/// Meets a kernel that refuses to open or to close a window.
#[test]
fn play() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (name, when) = role.split_once(' ').unwrap();
    let (shield, area) = covered(Guard::from_name(name).unwrap());
    let window = (when == "close").then(|| shield.open(&area, SPAN, Right::Write));
    if name == "private" {
        let none = libc::rlimit { rlim_cur: 1, rlim_max: 1 };
        // SAFETY: the kernel reads a live value.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const none) }, 0);
    } else {
        // SAFETY: nothing uses the mapping any more; its protection cannot be changed then.
        assert_eq!(unsafe { libc::munmap(area.base().cast(), area.len() as usize) }, 0);
    }
    drop(window);
    drop(shield.open(&area, SPAN, Right::Write));
}

/// GU4: no panic, which a service would survive with a lock in hand, but the end, and one line that says why.
#[test]
fn gu4_a_refused_window_ends_the_process() {
    for role in ["private open", "pagetable open", "pagetable close"] {
        let mut child = process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "guard::shield::tests::play", "--nocapture"]).env(ROLE, role);
        let output = child.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(signal, Some(libc::SIGABRT), "{role}: {said}");
        assert!(said.lines().count() == 1 && said.contains("choose another guard"), "{role}: {said}");
    }
}

/// GU1: what is said ahead of a window opens none, and is a hint for any place, also beside the mapping.
#[test]
fn gu1_a_store_that_is_expected_is_not_let_in_yet() {
    for guard in guards() {
        let (shield, area) = covered(guard);
        [0, 100, 4 * PAGE - 1, 4 * PAGE, u64::MAX].into_iter().for_each(|at| shield.expect(&area, at));
        assert!(!may_store(area.base()), "{guard:?} is open before any window");
    }
}

/// What a handler of a signal loads from.
static LOADED: Mutex<Option<Mapped>> = Mutex::new(None);
/// How often it has found what is there.
static FOUND: AtomicU64 = AtomicU64::new(0);

fn finds() -> bool {
    let loaded = LOADED.try_lock().unwrap();
    let (memory, mut bytes, mut summed, mut words) = (loaded.as_ref().unwrap(), [0; 8], [0; 64], [0]);
    memory.load(0, &mut bytes);
    memory.load_summed(0, &mut summed);
    memory.load_words(0, &mut words);
    bytes == [7; 8] && summed == [7; 64] && words[0] == memory.load_word(0) && words[0].to_ne_bytes() == bytes
}

extern "C" fn handle(_: libc::c_int) {
    FOUND.fetch_add(u64::from(finds()), Ordering::SeqCst);
}

/// The kernel denies a signal handler every key, whatever its thread may do. A thread that jumps out of one keeps that.
#[test]
fn gu2_a_handler_of_a_signal_loads_as_its_thread_does() {
    for guard in guards() {
        let memory = Mapped::anonymous(16 * PAGE, &MapOptions { guard, ..MapOptions::default() }).unwrap();
        memory.store(0, &[7; 64], Scheme::Nt);
        *LOADED.lock().unwrap() = Some(memory);
        assert!(finds(), "{guard:?}");
        let before = FOUND.load(Ordering::SeqCst);
        // SAFETY: the handler waits for nothing, and no other code here uses the signal.
        unsafe {
            libc::signal(libc::SIGUSR2, handle as *const () as libc::sighandler_t);
            libc::raise(libc::SIGUSR2);
        }
        assert_eq!(FOUND.load(Ordering::SeqCst), before + 1, "{guard:?}");
        keys::tests::deny_all();
        assert!(finds(), "{guard:?}: behind a jump");
    }
}
