//! Stray accesses from other threads while a thread works on the same bytes (GU1). The handler here does what the
//! program's own never does: it counts the fault and goes on after the instruction.
#![cfg(target_arch = "x86_64")]
#![allow(unsafe_code, reason = "stray accesses, and a handler that counts them")]

use std::arch::asm;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use ferrite_memory::{Guard, MapOptions, Mapped, Memory, Scheme, Span};

const SIZE: u64 = 4 << 20;
const STRAYS: u64 = 100_000;
const SEED: u64 = 0x5eed_0000_0000_0001;

/// `mov [rdi], rax` and `mov rax, [rdi]`.
const STORE: [u8; 3] = [0x48, 0x89, 0x07];
const LOAD: [u8; 3] = [0x48, 0x8b, 0x07];

static CAUGHT: AtomicU64 = AtomicU64::new(0);
/// One test at a time: they share the count.
static TURN: Mutex<()> = Mutex::new(());

extern "C" fn skip(signal: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO the context, whose instruction pointer it has just executed.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let rip = &mut registers[libc::REG_RIP as usize];
        let instruction = (*rip as *const [u8; 3]).read_unaligned();
        if instruction == STORE || instruction == LOAD {
            CAUGHT.fetch_add(1, Ordering::SeqCst);
            *rip += 3;
            return;
        }
        libc::signal(signal, libc::SIG_DFL);
    }
}

fn install() {
    // SAFETY: the handler touches an atomic and its own context only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = skip as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()), 0);
    }
}

fn stray_store(address: usize, value: u64) {
    // SAFETY: none: the store must not get through. It keeps its registers, and `skip` knows its bytes.
    unsafe { asm!("mov [rdi], rax", in("rdi") address, in("rax") value, options(nostack)) };
}

/// A stray load; its result is `canary` where the load was not let through.
fn stray_load(address: usize, canary: u64) -> u64 {
    let mut value = canary;
    // SAFETY: none: the load must not get through. `skip` knows its bytes.
    unsafe { asm!("mov rax, [rdi]", in("rdi") address, inout("rax") value, options(nostack)) };
    value
}

/// xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled").
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// A mapping and its address, which its interface does not return.
fn mapped(guard: Guard) -> (Mapped, usize) {
    let file = tempfile::tempfile().unwrap();
    file.set_len(SIZE).unwrap();
    let inode = std::os::unix::fs::MetadataExt::ino(&file.metadata().unwrap()).to_string();
    assert!(file.as_raw_fd() > 2);
    let options = MapOptions { guard, name: "stray".into(), ..MapOptions::default() };
    let memory = Mapped::map(file, &options).unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.split_whitespace().nth(4) == Some(&inode)).unwrap();
    let base = usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
    (memory, base)
}

/// Stores, loads, zeroes and words at random, checked against a copy in ordinary memory, until `done`.
fn work(memory: &Mapped, done: &AtomicBool) {
    let (mut model, mut random) = (vec![0_u8; SIZE as usize], Random(SEED));
    while !done.load(Ordering::SeqCst) {
        let len = [8, 100, 4096, 256 << 10][random.below(4) as usize];
        let at = random.below(SIZE - len) / 8 * 8;
        let range = at as usize..(at + len) as usize;
        match random.below(4) {
            0 => {
                model[range].fill(0);
                memory.zero(Span::new(at, len), Scheme::Nt);
            }
            1 => {
                model[at as usize..][..8].copy_from_slice(&at.to_le_bytes());
                memory.store_word(at, at);
            }
            2 => {
                model[range.clone()].fill(random.next() as u8);
                memory.store(at, &model[range], Scheme::Nt);
            }
            _ => {
                let mut back = vec![0; len as usize];
                memory.load(at, &mut back);
                assert!(back == model[range], "seed {SEED:#x}: {len} bytes at {at} changed");
            }
        }
        memory.fence();
    }
    let mut back = vec![0; SIZE as usize];
    memory.load(0, &mut back);
    assert!(back == model, "seed {SEED:#x}: a byte changed");
}

/// Two threads, one older than the mapping and one newer, do `STRAYS` stray deeds while this one works.
fn besiege(guard: Guard, stray: fn(usize, &mut Random)) {
    if let Err(why) = guard.ensure_available() {
        return println!("skipped: {why}");
    }
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    install();
    let before = CAUGHT.load(Ordering::SeqCst);
    let (give, given) = std::sync::mpsc::channel();
    let run = move |base: usize, seed: u64| {
        let mut random = Random(seed);
        (0..STRAYS / 2).for_each(|_| stray(base + random.below(SIZE - 8) as usize, &mut random));
    };
    let older = thread::spawn(move || run(given.recv().unwrap(), SEED + 1));
    let (memory, base) = mapped(guard);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let worker = scope.spawn(|| work(&memory, &done));
        give.send(base).unwrap();
        let newer = thread::spawn(move || run(base, SEED + 2));
        let ends = [older, newer].map(thread::JoinHandle::join);
        done.store(true, Ordering::SeqCst);
        ends.into_iter().for_each(|end| end.unwrap());
        worker.join().unwrap();
    });
    assert_eq!(CAUGHT.load(Ordering::SeqCst) - before, STRAYS, "some were let through");
}

fn wild_store(address: usize, random: &mut Random) {
    stray_store(address, random.next());
}

fn wild_load(address: usize, random: &mut Random) {
    let canary = random.next();
    assert_eq!(stray_load(address, canary), canary, "a stray load saw the byte");
}

#[test]
fn gu1_no_wild_store_gets_through_keys() {
    besiege(Guard::Keys, wild_store);
}

#[test]
fn gu1_no_wild_store_gets_through_strict_keys() {
    besiege(Guard::KeysStrict, wild_store);
}

#[test]
fn gu1_no_wild_load_gets_through_strict_keys() {
    besiege(Guard::KeysStrict, wild_load);
}

#[test]
fn gu1_no_wild_store_gets_through_private_windows() {
    besiege(Guard::Private, wild_store);
}

/// Between its windows, `pagetable` shuts out every thread, the storing one too.
#[test]
fn gu1_no_wild_store_gets_through_closed_pages() {
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    install();
    let (memory, base) = mapped(Guard::Pagetable);
    memory.store(4096, &[9; 4096], Scheme::Nt);
    let before = CAUGHT.load(Ordering::SeqCst);
    (0..1000).for_each(|i| stray_store(base + 4000 + i, 1));
    assert_eq!(CAUGHT.load(Ordering::SeqCst) - before, 1000);
    let mut back = [0; 4096];
    memory.load(4096, &mut back);
    assert!(back == [9; 4096]);
}
