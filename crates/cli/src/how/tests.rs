//! Tests of every combination of the options that decide how a disk is kept and served. The tests list each refused
//! combination. Each accepted combination serves a small disk that keeps the options' promises, also after a kill and a
//! reopening.
//!
//! The product is complete: guard (buffered in three forms) x scheme x in place x verify x checksum x memory. The
//! memory's fence is durable, or only a barrier, as on a file. On a real file, whose barriers are slow, the tests cover
//! each pair of values of guard, scheme, and the three flags together. Every second guard also has emulated speed,
//! which only adds waits.

mod lossy;
mod stage;

use std::path::Path;

use clap::Parser;
use ferrite_memory::{Guard, Scheme};

use super::How;

use stage::Stage;

/// The options as they are typed.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    how: How,
}

/// Parses `words`. Returns the text of the refusal if they are refused.
fn understood(words: &[&str]) -> Result<How, String> {
    let line = Line::try_parse_from(["serve"].iter().chain(words)).map_err(|error| error.to_string())?;
    match line.how.serving() {
        Ok(_) => Ok(line.how),
        Err(failure) => Err(failure.text().into()),
    }
}

/// The guards, each with the options that only it accepts.
const GUARDS: [&[&str]; 8] = [
    &["--guard", "none"],
    &["--guard", "pagetable"],
    &["--guard", "private"],
    &["--guard", "keys"],
    &["--guard", "keys=strict"],
    &["--guard", "buffered", "--buffer-size", "64K"],
    &["--guard", "buffered", "--buffer-size", "16K", "--no-batch"],
    &["--guard", "buffered", "--buffers", "3", "--buffer-size", "16K", "--high", "0.5", "--low", "0.2"],
];

const PACES: [&[&str]; 2] = [&[], &["--rdlat", "50", "--wrsx", "2"]];

/// One way to serve a disk on a given medium.
#[derive(Clone, Copy, Debug)]
struct Way {
    scheme: Scheme,
    in_place: bool,
    verify: bool,
    checksum: bool,
}

impl Way {
    /// Returns all ways that this processor supports.
    fn all() -> Vec<Self> {
        let schemes = Scheme::ALL.into_iter().map(|(_, scheme)| scheme).filter(|scheme| has(*scheme));
        let of = |scheme, bits: u32| {
            let [in_place, verify, checksum] = [1, 2, 4].map(|bit| bits & bit != 0);
            Self { scheme, in_place, verify, checksum }
        };
        schemes.flat_map(|scheme| (0..8).map(move |bits| of(scheme, bits))).collect()
    }

    /// Returns the way as command-line words.
    fn words(self) -> Vec<&'static str> {
        let mut words = vec!["--scheme", self.scheme.name()];
        words.extend(self.in_place.then_some("--in-place"));
        words.extend(self.verify.then_some("--verify"));
        words
    }
}

fn has(scheme: Scheme) -> bool {
    let lack = scheme.ensure_available().err();
    lack.iter().for_each(|why| println!("skipped: {} ({why})", scheme.name()));
    lack.is_none()
}

/// Serves disks in a pool in `folder` under every guard. `chosen` returns the ways for the guard with the given number.
fn serve_all(folder: &Path, needs_barriers: bool, chosen: impl Fn(usize) -> Vec<Way>) {
    for (number, guard) in GUARDS.into_iter().enumerate() {
        let name = guard[1];
        if let Some(Err(why)) = Guard::from_name(name).map(Guard::ensure_available) {
            let refused = understood(guard).err().expect("what the machine lacks is refused");
            assert!(refused.contains("use the guard"), "{refused}");
            println!("skipped: {name} ({why})");
            continue;
        }
        let words = [guard, PACES[number % PACES.len()]].concat();
        println!("{words:?}");
        // After the first store of that scheme, every barrier is slow.
        let is_slow = |way: &Way| way.scheme == Scheme::WritebackAll;
        let (slow, quick): (Vec<_>, Vec<_>) = chosen(number).into_iter().partition(is_slow);
        for ways in [slow, quick] {
            Stage::new(folder, ways.len(), &words, needs_barriers).play(&ways);
        }
    }
}

#[test]
fn every_accepted_combination_serves_a_disk_in_memory() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    serve_all(folder.path(), false, |_| Way::all());
}

#[test]
fn every_accepted_combination_serves_a_disk_where_only_a_barrier_is_durable() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    serve_all(folder.path(), true, |_| Way::all());
}

#[test]
fn each_two_options_together_serve_a_disk_in_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let chosen = |guard| {
        let meets = |(i, way): (usize, Way)| ((i / 8 + guard) % 8 == i % 8).then_some(way);
        Way::all().into_iter().enumerate().filter_map(meets).collect()
    };
    serve_all(folder.path(), false, chosen);
}

/// The options that only `--guard buffered` accepts.
const OF_BUFFERS: [&[&str]; 6] = [
    &["--buffers", "2"],
    &["--buffer-size", "64K"],
    &["--batch"],
    &["--no-batch"],
    &["--high", "0.9"],
    &["--low", "0.2"],
];

/// Without buffers, options for buffers are refused with a message that says so.
#[test]
fn options_of_buffers_go_with_buffers_alone() {
    for guard in [&[][..]].into_iter().chain(GUARDS) {
        let is_buffered = guard.contains(&"buffered");
        for option in OF_BUFFERS.into_iter().filter(|option| !guard.contains(&option[0])) {
            match understood(&[guard, option].concat()) {
                Ok(_) => assert!(is_buffered, "{guard:?} {option:?}"),
                Err(why) if is_buffered => panic!("{guard:?} {option:?}: {why}"),
                Err(why) => assert!(why.contains(option[0]) && why.contains("--guard buffered"), "{why}"),
            }
        }
    }
}

/// The options of emulated speed, each with a value.
const OF_SPEED: [[&str; 2]; 7] = [
    ["--pace", "pcm"],
    ["--rdsx", "2"],
    ["--wrsx", "2"],
    ["--rdlat", "100"],
    ["--wrlat", "100"],
    ["--rdbw", "500"],
    ["--wrbw", "500"],
];

/// Returns true if two options contradict each other. A named medium sets all speeds, and a multiple of the access time
/// excludes an absolute time.
fn exclude_each_other(one: &str, other: &str) -> bool {
    const PAIRS: [[&str; 2]; 4] =
        [["--rdsx", "--rdlat"], ["--rdsx", "--rdbw"], ["--wrsx", "--wrlat"], ["--wrsx", "--wrbw"]];
    one == "--pace" || other == "--pace" || PAIRS.iter().any(|pair| pair.contains(&one) && pair.contains(&other))
}

#[test]
fn options_of_speed_exclude_each_other_by_a_list() {
    for (i, one) in OF_SPEED.into_iter().enumerate() {
        assert!(understood(&one).is_ok(), "{one:?} alone is good");
        for other in OF_SPEED.into_iter().skip(i + 1) {
            match understood(&[one, other].concat()) {
                Ok(_) => assert!(!exclude_each_other(one[0], other[0]), "{one:?} {other:?}"),
                Err(why) => {
                    assert!(exclude_each_other(one[0], other[0]), "{one:?} {other:?}: {why}");
                    assert!(why.contains(one[0]) && why.contains(other[0]), "{why}");
                }
            }
        }
    }
}

/// An impossible value is refused with the list of possible values.
#[test]
fn impossible_values_are_refused_with_possible_ones() {
    for (words, message) in [
        (&["--guard", "magic"][..], "none, pagetable, private, keys, keys=strict or buffered"),
        (&["--scheme", "magic"], "nt, flush, clwb, clflushopt, clflush, writeback, writeback-all or writethrough"),
        (&["--pace", "magic"], "dram, pcm, memristor, stt-ram, nvdimm, optane or cxl"),
        (&["--wear", "magic"], "page or line"),
        (&["--rdsx", "0.5"], "give 1 to"),
        (&["--guard", "buffered", "--buffers", "0"], "give 1 to"),
        (&["--guard", "buffered", "--buffer-size", "5000"], "a multiple of 4096"),
        (&["--guard", "buffered", "--high", "0.1"], "0 <= low < high <= 1"),
        (&["--guard", "buffered", "--low", "0.9"], "0 <= low < high <= 1"),
    ] {
        let why = understood(words).err().unwrap_or_else(|| panic!("{words:?} is accepted"));
        assert!(why.contains(message), "{words:?}: {why}");
    }
}
