#![allow(unsafe_code, reason = "provokes faults")]

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use super::*;
use crate::{Guard, MapOptions, Mapped, Memory, Scheme};

const CHILD: &str = "FERRITE_FAULT_CHILD";
const BYTE: usize = 4096 + 24;

/// Runs `deed` in a process of its own, because it dies.
fn die_of(deed: &str) -> Output {
    let program = std::env::current_exe().unwrap();
    let only = ["--exact", "fault::tests::in_a_child", "--nocapture", "--test-threads=1"];
    Command::new(program).args(only).env(CHILD, deed).output().unwrap()
}

/// What the child does; nothing where it is run as a test.
#[test]
fn in_a_child() {
    let Ok(deed) = std::env::var(CHILD) else { return };
    let guard = match deed.as_str() {
        "read" => Guard::KeysStrict,
        "write by page" => Guard::Pagetable,
        "write by key" => Guard::Keys,
        _ => Guard::None,
    };
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 20).unwrap();
    let options = MapOptions { guard, name: "/a/pool".into(), ..MapOptions::default() };
    let memory = Mapped::map(file.try_clone().unwrap(), &options).unwrap();
    memory.store(BYTE as u64, &[7; 8], Scheme::Nt);
    install().unwrap();
    let base = TABLE[0].base.load(Ordering::Relaxed) as *mut u8;
    // SAFETY: none: these are the accesses that must not be let through, in a process made to die of them.
    unsafe {
        match deed.as_str() {
            "read" => println!("read {}", base.add(BYTE).read_volatile()),
            "cut short" => {
                file.set_len(0).unwrap();
                base.add(BYTE).write_volatile(1);
            }
            "elsewhere" => (8 as *mut u8).write_volatile(1),
            "sent" => {
                libc::kill(libc::getpid(), libc::SIGSEGV);
                // Another thread may be the one to take it.
                std::thread::sleep(std::time::Duration::from_secs(5));
            }
            "sent to a thread" => drop(libc::raise(libc::SIGBUS)),
            _ => base.add(BYTE).write_volatile(1),
        }
    }
    println!("let through");
}

fn expect(deed: &str, signal: i32, expected: &[&str]) {
    let output = die_of(deed);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.signal(), Some(signal), "{deed}: {out}{err}");
    assert!(!out.contains("let through"), "{deed}: {out}");
    expected.iter().for_each(|words| assert!(err.contains(words), "{deed}: {words:?} is not in {err:?}"));
}

/// A stray access dies, and says which byte of which pool was hit, and what denied it.
#[test]
fn a_stray_access_is_reported_and_not_let_through() {
    expect("write by page", libc::SIGSEGV, &["stray write to byte 4120 of /a/pool", "page protection", "program + 0x"]);
    if Guard::Keys.ensure_available().is_err() {
        return println!("skipped in part: this processor has no protection keys");
    }
    expect("write by key", libc::SIGSEGV, &["stray write to byte 4120 of /a/pool", "protection key"]);
    expect("read", libc::SIGSEGV, &["stray read of byte 4120 of /a/pool", "protection key"]);
}

#[test]
fn a_page_the_host_cannot_give_is_reported() {
    expect(
        "cut short",
        libc::SIGBUS,
        &["no page for a write to byte 4120 of /a/pool", "disk is full or cannot be read"],
    );
}

#[test]
fn another_fault_is_not_ours() {
    expect("elsewhere", libc::SIGSEGV, &[]);
    let output = die_of("elsewhere");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("ferrite:"));
}

/// A signal sent by a process arrives once.
#[test]
fn a_fault_that_was_sent_ends_the_program_at_once() {
    expect("sent", libc::SIGSEGV, &[]);
    expect("sent to a thread", libc::SIGBUS, &[]);
}
