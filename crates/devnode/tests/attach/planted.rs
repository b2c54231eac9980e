//! Planted bugs between programs and the disk (AT1), made by a layer over the disk, and leftovers of a killed server
//! (AT4). The checks find them.

use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ferrite_devnode::{Attached, clear_stale};
use ferrite_disk::{Access, Disk, Geometry, Run, Zeroing};
use ferrite_memory::{Result, Span};

use crate::killed::Victim;
use crate::ram::{Asked, Fault, RamDisk};
use crate::stand::{Aligned, Stand, direct, run, text};

const MIB: u64 = 1 << 20;
const PAGE: Span = Span { at: 2 * MIB, len: 4096 };

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    LostWrite,
    WriteElsewhere,
    OldRead,
    LostFlush,
    LostTrim,
    HiddenError,
}

struct Layer(Arc<RamDisk>, Option<Bug>);

impl Layer {
    fn has(&self, bug: Bug) -> bool {
        self.1 == Some(bug)
    }

    fn report(&self, done: Result<()>) -> Result<()> {
        if self.has(Bug::HiddenError) { Ok(()) } else { done }
    }
}

impl Disk for Layer {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        if self.has(Bug::OldRead) && at == PAGE.at {
            into.fill(0);
            return Ok(());
        }
        self.report(self.0.read(at, into))
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        match self.1 {
            Some(Bug::LostWrite) => Ok(()),
            Some(Bug::WriteElsewhere) => self.0.write(at + PAGE.len, from, access),
            _ => self.report(self.0.write(at, from, access)),
        }
    }

    fn flush(&self) -> Result<()> {
        if self.has(Bug::LostFlush) { Ok(()) } else { self.0.flush() }
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        if self.has(Bug::LostTrim) { Ok(()) } else { self.0.trim(span, access) }
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.0.write_zeroes(span, how)
    }

    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.0.extents(span)
    }
}

/// Returns true if the program's operations on the node reach the disk, and the disk's data and errors reach the
/// program.
fn passes_all_on(stand: &Stand, bug: Option<Bug>) -> bool {
    let disk = Arc::new(RamDisk::new(16 * MIB));
    let mut attached = Attached::new(Arc::new(Layer(disk.clone(), bug)), stand.options("layer")).unwrap();
    disk.asked();
    let file = direct(attached.device());
    let mut page = Aligned::filled(4096, 7);
    file.write_all_at(page.get(), PAGE.at).unwrap();
    file.sync_all().unwrap();
    let mut found = [0; 4096];
    disk.read(PAGE.at, &mut found).unwrap();
    let is_there = found == [7; 4096];
    page.get().fill(1);
    file.read_exact_at(page.get(), PAGE.at).unwrap();
    let is_read = *page.get() == [7; 4096];
    run("blkdiscard", &["-o", "4194304", "-l", "1048576", &text(attached.device())]);
    disk.fail_at(8 * MIB, Fault::Io(libc::EIO));
    let is_told = [file.write_all_at(page.get(), 8 * MIB), file.read_exact_at(page.get(), 8 * MIB)]
        .iter()
        .all(|done| done.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EIO)));
    let expected = [Asked::Write(PAGE), Asked::Flush, Asked::Trim(Span::new(4 * MIB, MIB))];
    // Detaching flushes the disk too.
    let asked = disk.asked();
    drop(file);
    attached.detach().unwrap();
    stand.assert_clean();
    let is_asked = expected.iter().all(|one| asked.contains(one));
    is_there && is_read && is_told && is_asked
}

#[test]
fn at1_what_reaches_the_node_reaches_the_disk() {
    let Some(stand) = Stand::new() else { return };
    assert!(passes_all_on(&stand, None));
}

#[test]
fn canary_what_does_not_reach_the_disk_is_found() {
    let Some(stand) = Stand::new() else { return };
    use Bug::{HiddenError, LostFlush, LostTrim, LostWrite, OldRead, WriteElsewhere};
    for bug in [LostWrite, WriteElsewhere, OldRead, LostFlush, LostTrim, HiddenError] {
        assert!(!passes_all_on(&stand, Some(bug)), "{bug:?} was not found");
    }
}

/// AT4: the checks find all leftovers, and only `clear_stale` removes them.
#[test]
fn canary_what_a_killed_server_left_is_found_until_it_is_cleared() {
    let Some(stand) = Stand::new() else { return };
    let mut victim = Victim::start(&stand, "once");
    victim.device();
    victim.kill();
    let found = catch_unwind(AssertUnwindSafe(|| stand.assert_clean()));
    clear_stale(&stand.places());
    stand.assert_clean();
    assert!(found.is_err());
}
