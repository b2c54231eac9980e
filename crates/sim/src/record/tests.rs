//! A real program under QEMU; skipped if it is not installed.

mod access_meaning;

use super::*;
use crate::cache::CacheShape;

fn first() -> FirstLevel {
    FirstLevel { shape: CacheShape { bytes: 64 << 10, ways: 2, line_bytes: 64 }, cores: 1, instructions: false }
}

fn program(words: &[&str]) -> Program {
    Program { words: words.iter().map(Into::into).collect(), folder: None, output: ProgramOutput::Discarded }
}

/// Returns all events of a program, and its accesses; `None` if QEMU is missing.
fn recorded(words: &[&str]) -> Option<(Vec<CacheEvent>, u64)> {
    recorded_behind(first(), words)
}

fn recorded_behind(first: FirstLevel, words: &[&str]) -> Option<(Vec<CacheEvent>, u64)> {
    if let Err(error) = qemu_files::qemu() {
        println!("recording was not tested: {error}");
        return None;
    }
    let mut recording = program(words).start(first).expect("it runs");
    let mut events = Vec::new();
    while recording.read(&mut events).expect("it is whole") {}
    Some((events, recording.accesses()))
}

/// dd writes its buffer of 1 MiB through the kernel, which is not recorded; `sort` reads and writes by itself.
#[test]
fn a_program_is_recorded_to_its_end() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let lines: String = (0..20_000_u32).map(|n| format!("{}\n", n.wrapping_mul(2_654_435_761))).collect();
    std::fs::write(file.path(), lines).expect("it can be written");
    let path = file.path().to_str().expect("UTF-8");
    let Some((events, accesses)) = recorded(&["sort", "-n", path]) else { return };
    assert!(accesses > 5_000_000, "{accesses} accesses");
    assert!(events.len() > 10_000 && (events.len() as u64) < accesses / 10, "{} events", events.len());
    let writes = events.iter().filter(|event| event.is_write()).count();
    assert!(writes > 1000 && writes < events.len(), "{writes} writes of {}", events.len());
}

/// A first level that holds more dirty lines at the end than a frame may have events.
#[test]
fn what_a_large_first_level_writes_back_arrives() {
    let shape = CacheShape { bytes: 256 << 20, ways: 16, line_bytes: 64 };
    let words = ["perl", "-e", "my $x = 'a' x 80_000_000; exit length($x) != 80_000_000"];
    let Some((events, _)) = recorded_behind(FirstLevel { shape, ..first() }, &words) else { return };
    let writes = events.iter().filter(|event| event.is_write()).count();
    assert!(writes > 80_000_000 / 64, "{writes} lines");
}

/// A recording that cannot run must end, and say why.
#[test]
fn what_is_no_program_is_refused() {
    if qemu_files::qemu().is_err() {
        return;
    }
    let script = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(script.path(), "#!/bin/sh\n").expect("it can be written");
    let script = script.path().to_str().expect("UTF-8");
    for (word, message) in
        [("no-such-program-anywhere", "no program"), (script, "script"), ("/proc/cpuinfo", "qemu-user")]
    {
        let refused = program(&[word]).start(first()).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains(message), "{word}: {refused}");
    }
}

/// Builds a program of a few lines of C; `None` without a compiler.
fn built(text: &str, flags: &[&str]) -> Option<(tempfile::TempDir, String)> {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, path) = (folder.path().join("a.c"), folder.path().join("a").display().to_string());
    std::fs::write(&source, text).expect("it can be written");
    match Command::new("cc").args(flags).arg("-o").arg(&path).arg(&source).status() {
        Ok(status) => assert!(status.success(), "it compiles: {text}"),
        Err(error) => {
            println!("skipped: there is no C compiler: {error}");
            return None;
        }
    }
    Some((folder, path))
}

/// If nothing is known of a program, that is reported, and not figures of a program that does nothing.
#[test]
fn a_program_of_which_nothing_is_known_is_told() {
    if qemu_files::qemu().is_err() {
        return;
    }
    let refused = |text: &str, flags: &[&str]| {
        let (_folder, path) = built(text, flags)?;
        let mut recording = program(&[&path]).start(first()).expect("QEMU runs");
        while recording.program().ended().is_none() {
            std::thread::sleep(POLL_INTERVAL);
        }
        let mut events = Vec::new();
        loop {
            match recording.read(&mut events) {
                Ok(true) => {}
                Ok(false) => panic!("{text}: {} events", events.len()),
                Err(error) => return Some(error.to_string()),
            }
        }
    };
    let missing = refused("int main(void) { return 0; }", &["-Wl,--dynamic-linker=/no/such/loader"]);
    let Some(missing) = missing else { return };
    assert!(missing.contains("could not be run"), "its loader is missing: {missing}");
    let alone = ["-O1", "-static", "-nostdlib", "-Wl,-estart"];
    let trapped = refused("void start(void) { __builtin_trap(); }", &alone).unwrap_or_default();
    assert!(trapped.contains("ended with signal"), "{trapped}");
    if cfg!(target_arch = "x86_64") {
        // execve("/bin/true", 0, 0)
        let text = "__asm__(\".globl start\\nstart: mov $59, %eax\\nlea path(%rip), %rdi\\nxor %esi, %esi\\n\
                    xor %edx, %edx\\nsyscall\\npath: .asciz \\\"/bin/true\\\"\\n\");";
        let message = refused(text, &alone).unwrap_or_default();
        assert!(
            message.contains("(exec; record that one by its own name), and ended with exit status: 0"),
            "{message}"
        );
    }
}

/// A program that is killed, or becomes another, before there are many events.
#[test]
fn what_a_program_did_before_it_went_is_known() {
    if qemu_files::qemu().is_err() {
        return;
    }
    let alone = ["-O1", "-static", "-nostdlib", "-Wl,-estart"];
    let text =
        "volatile int a[4096]; void start(void) { for (int i = 0; i < 4096; i += 16) a[i] = i; __builtin_trap(); }";
    let Some((_folder, path)) = built(text, &alone) else { return };
    let mut recording = program(&[&path]).start(first()).expect("QEMU runs");
    let mut events = Vec::new();
    while recording.read(&mut events).expect("it is known") {}
    assert!((128..=256).contains(&events.len()), "{} events of 256", events.len());
    assert!(!recording.program().is_whole());
    let text = "#include <unistd.h>\nint main(void) { execl(\"/bin/true\", \"true\", (char *)0); }";
    let Some((_folder, path)) = built(text, &["-static", "-O1"]) else { return };
    let mut recording = program(&[&path]).start(first()).expect("QEMU runs");
    while recording.read(&mut events).expect("it is known") {}
    assert!(recording.accesses() > 0 && !recording.program().is_whole());
}

/// The accesses of other processes are not in the recording, and a reader of the report must know.
#[test]
fn that_a_program_starts_others_is_known() {
    if qemu_files::qemu().is_err() {
        return;
    }
    for (script, forks) in [(":", false), ("(:); :", true), ("/bin/true; :", true)] {
        let mut recording = program(&["sh", "-c", script]).start(first()).expect("it runs");
        let mut events = Vec::new();
        while recording.read(&mut events).expect("it is whole") {}
        assert_eq!(recording.program().has_forked(), forks, "{script}");
    }
}

/// Ring 2: numbers of descriptors are the program's own, and so are its files.
#[test]
fn a_program_that_uses_any_descriptor_is_left_alone() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let script = "exec 3>\"$0\" 4>&- 5>&-; echo first >&3; \
                  i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); x=$x$i; done; echo last >&3";
    let Some((events, _)) = recorded(&["sh", "-c", script, file.path().to_str().expect("UTF-8")]) else { return };
    assert!(events.len() > 10_000, "{} events are no recording of it", events.len());
    assert_eq!(std::fs::read_to_string(file.path()).expect("it can be read"), "first\nlast\n");
}

/// Ring 1: one side takes the words that the other puts, in order, however often the circle wraps.
#[test]
fn words_go_round_in_their_order() {
    let file = qemu_files::shared(shared_ring::BYTES).expect("memory");
    let (from, to) = (SharedRing::map(&file).expect("mapped"), SharedRing::map(&file).expect("mapped"));
    let (mut put, mut taken, mut into) = (0_u64, 0, vec![0; 700_000]);
    for round in 0..8 {
        let words: Vec<u64> = (put..put + 600_000 + round).collect();
        put += from.put(&words) as u64;
        let count = to.take(&mut into);
        assert!(into[..count].iter().zip(taken..).all(|(word, wanted)| *word == wanted), "after {taken}");
        taken += count as u64;
    }
    assert!(put > 4 << 20 && taken == put, "{put} put, {taken} taken");
    while from.put(&[1]) == 1 {}
    assert_eq!(from.put(&[1]), 0, "what is not taken is not lost");
    assert_eq!(to.take(&mut into), into.len());
}

#[test]
fn a_recording_that_is_dropped_ends_its_program() {
    if qemu_files::qemu().is_err() {
        return;
    }
    let mut recording = program(&["sleep", "1000"]).start(first()).expect("it runs");
    assert!(recording.read(&mut Vec::new()).expect("it begins"));
    let program = recording.program();
    drop(recording);
    assert!(program.ended().is_some(), "it would run for ever");
}
