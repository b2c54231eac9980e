//! Loads on a mapped file in this process.

use super::*;

fn program(kind: RegionLoad, theta_percent: u64) -> (crate::scratch::Scratch, RegionProgram) {
    let folder = crate::scratch::Scratch::new(Path::new("/dev/shm")).expect("a folder in memory");
    let size = 4 << 20;
    folder.file("mapped", size).expect("made");
    let setup = RegionSetup {
        kind: RegionKind::FileSync,
        path: folder.path("mapped"),
        disk: "".into(),
        name: String::new(),
        is_lent: false,
        size,
        write_times: 1.0,
        has_batches: true,
        keeps_copies: true,
        load: LoadShape { own_nanos: 0, ..LoadShape::new(kind, theta_percent) },
    };
    let program = RegionProgram::open(&setup).expect("it opens");
    (folder, program)
}

/// The bytes that one step loads and stores, and those of them that it stores.
#[test]
fn steps_move_what_the_personalities_move() {
    let kib = [
        (RegionLoad::FileServer, 128 + 16 + 128, 128 + 16),
        (RegionLoad::WebServer, 160 + 16, 16),
        (RegionLoad::VarMail, 16 + 16 + 16 + 16, 32),
        (RegionLoad::Dbench, 128, 64),
        (RegionLoad::Fwr, 64, 64),
    ];
    for (kind, moved, stored) in kib {
        for theta_percent in [0, 99] {
            let (_folder, mut program) = program(kind, theta_percent);
            program.carry_out(&RegionOrder::Fill).expect("filled");
            let figures = program.carry_out(&RegionOrder::Run { nanos: 2_000_000, seed: 3 }).expect("it runs");
            let per_step = |bytes: u64| bytes / figures.steps / 1024;
            let both = (per_step(figures.moved_bytes), per_step(figures.stored_bytes));
            assert_eq!(both, (moved, stored), "{kind:?}");
            assert!(figures.nanos >= 2_000_000 && figures.rate() > 0.0, "{figures:?}");
        }
    }
}

#[test]
fn a_read_of_another_file_is_found() {
    let (_folder, mut program) = program(RegionLoad::VarMail, 0);
    program.carry_out(&RegionOrder::Fill).expect("filled");
    let nanos = 20_000_000;
    program.carry_out(&RegionOrder::Run { nanos, seed: 1 }).expect("right data");
    for at in (0..3 << 20).step_by(4096) {
        program.region.store_plain(at, &[0; 8]);
    }
    let why = program.carry_out(&RegionOrder::Run { nanos, seed: 2 }).expect_err("wrong data").to_string();
    assert!(why.contains("has wrong data"), "{why}");
}

#[test]
fn orders_before_a_region_is_open_fail_in_words() {
    let mut none = None;
    let why = |none: &mut Option<RegionProgram>, line: &str| answer(none, line).expect_err("refused").to_string();
    assert_eq!(why(&mut none, "\"Fill\""), "the order: no region is open");
    assert!(why(&mut none, "nonsense").starts_with("the order: "));
}

#[test]
fn frames_are_whole_chunks() {
    assert_eq!(frames_bytes(80 << 20, 20), 16 << 20);
    assert_eq!(frames_bytes(1 << 20, 10), 2 << 20);
    assert_eq!(frames_bytes(80 << 20, 100), 90 << 20, "an engine with all memory displaces nothing");
}
