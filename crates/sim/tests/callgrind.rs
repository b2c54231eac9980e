//! LRU compared with `valgrind --tool=callgrind --simulate-wb=yes`, on a whole program.
//!
//! Callgrind's first level writes through: every store reaches the last level, and the results of stores that hit in
//! the first are not counted. An access over two lines is one miss; an instruction that modifies only writes. The first
//! level here does the same, and the last level is compared: its misses, and the dirty lines that they replace.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use ferrite_sim::TraceInput;
use ferrite_sim::cache::policy::Lru;
use ferrite_sim::cache::{Bank, BankGeometry, CacheEvent, CacheShape, L1};
use ferrite_sim::trace::{self, AccessFormat, AccessKind, MemoryAccess, TraceOptions};

const FIRST: CacheShape = CacheShape { bytes: 4096, ways: 2, line_bytes: 64 };
const LAST: CacheShape = CacheShape { bytes: 65536, ways: 16, line_bytes: 64 };

/// The most by which each count may differ: two runs of the program differ in a few instructions.
const TOLERANCE: f64 = 0.002;

/// The counts of callgrind's last level.
#[derive(Debug, Default)]
struct Counts {
    read_misses: u64,
    write_misses: u64,
    dirty_evictions: u64,
}

/// The last level, and callgrind's two first ones.
struct Model {
    data: L1,
    code: L1,
    geometry: BankGeometry,
    banks: Vec<Bank<Lru>>,
    counts: Counts,
}

impl Model {
    fn new() -> Self {
        let sets = FIRST.sets().expect("a cache") as usize;
        let first = || L1::new(sets, FIRST.ways as usize);
        let geometry = BankGeometry::of(LAST).expect("a cache");
        let bank = |_| Bank::new(geometry, Lru { ways: LAST.ways });
        let banks = (0..geometry.banks()).map(bank).collect();
        Self { data: first(), code: first(), geometry, banks, counts: Counts::default() }
    }

    fn access(&mut self, access: &MemoryAccess) {
        let (mut missed, is_write) = (false, access.kind == AccessKind::Write);
        let first = if access.kind == AccessKind::Fetch { &mut self.code } else { &mut self.data };
        access.lines(6).for_each(|line| first.access(line, false, || 0, |_| missed = true));
        if !missed && !is_write {
            return;
        }
        let (misses, evictions) = self.last(access, is_write);
        if missed {
            let count = if is_write { &mut self.counts.write_misses } else { &mut self.counts.read_misses };
            *count += u64::from(misses > 0);
            self.counts.dirty_evictions += u64::from(misses > 0 && evictions > 0);
        }
    }

    /// Returns the misses and dirty evictions of the last level.
    fn last(&mut self, access: &MemoryAccess, is_write: bool) -> (u64, u64) {
        let (mut misses, mut evictions) = (0, 0);
        for line in access.lines(6) {
            let bank = &mut self.banks[self.geometry.bank(line)];
            let before = *bank.counts();
            bank.run(&[if is_write { CacheEvent::write(line) } else { CacheEvent::read(line) }]);
            let after = bank.counts();
            misses += after.read_misses + after.write_misses - before.read_misses - before.write_misses;
            evictions += after.writebacks - before.writebacks;
        }
        (misses, evictions)
    }
}

/// Returns a command under valgrind, with nothing in its environment.
fn valgrind(arguments: &[&str], numbers: &Path) -> Command {
    let mut command = Command::new("valgrind");
    command.args(arguments).args(["/usr/bin/sort", "-n"]).arg(numbers).env_clear().stdout(Stdio::null());
    command
}

fn by_lackey(numbers: &Path, folder: &Path) -> Counts {
    let log = folder.join("lackey");
    let to_log = format!("--log-file={}", log.display());
    let status = valgrind(&["--tool=lackey", "--trace-mem=yes", &to_log], numbers).status().expect("it runs");
    assert!(status.success());
    let reading = TraceOptions { form: Some(AccessFormat::Lackey), line_bits: 6, cores: 1 };
    let mut reader = trace::open(TraceInput::open(&log).expect("it is there"), reading).expect("lackey's");
    let (mut model, mut accesses) = (Model::new(), Vec::new());
    let mut more = true;
    while more {
        accesses.clear();
        more = reader.read(&mut accesses).expect("it is whole");
        for (at, access) in accesses.iter().enumerate() {
            let modified = MemoryAccess { kind: AccessKind::Write, ..*access };
            if access.kind != AccessKind::Read || accesses.get(at + 1) != Some(&modified) {
                model.access(access);
            }
        }
    }
    model.counts
}

fn by_callgrind(numbers: &Path, folder: &Path) -> Counts {
    let out = folder.join("callgrind");
    let to_out = format!("--callgrind-out-file={}", out.display());
    let caches = ["--I1=4096,2,64", "--D1=4096,2,64", "--LL=65536,16,64"];
    let arguments = [&["--tool=callgrind", "--cache-sim=yes", "--simulate-wb=yes", &to_out][..], &caches].concat();
    let run = valgrind(&arguments, numbers).stderr(Stdio::null()).status();
    assert!(run.expect("it runs").success());
    let text = std::fs::read_to_string(out).expect("it wrote them");
    let line = |name: &str| -> Vec<String> {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("callgrind's");
        line.split_whitespace().map(str::to_owned).collect()
    };
    let (names, totals) = (line("events:"), line("totals:"));
    let count = |name: &str| -> u64 {
        let at = names.iter().position(|one| one == name).expect("it is counted");
        totals.get(at).map_or(0, |total| total.parse().expect("a number"))
    };
    Counts {
        read_misses: count("ILmr") + count("DLmr"),
        write_misses: count("DLmw"),
        dirty_evictions: count("ILdmr") + count("DLdmr") + count("DLdmw"),
    }
}

#[test]
fn lru_counts_what_callgrind_counts() {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("skipped: valgrind is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let numbers = folder.path().join("numbers");
    let mut text = String::new();
    (0..4000_u32).for_each(|n| writeln!(text, "{}", n.wrapping_mul(2_654_435_761) >> 8).expect("memory"));
    std::fs::write(&numbers, text).expect("it can be written");
    let (ours, theirs) = (by_lackey(&numbers, folder.path()), by_callgrind(&numbers, folder.path()));
    println!("ours {ours:?}, callgrind's {theirs:?}");
    let pairs = [
        (ours.read_misses, theirs.read_misses),
        (ours.write_misses, theirs.write_misses),
        (ours.dirty_evictions, theirs.dirty_evictions),
    ];
    for (own, other) in pairs {
        assert!(own.abs_diff(other) as f64 <= TOLERANCE * other as f64, "ours {ours:?}, callgrind's {theirs:?}");
    }
}
