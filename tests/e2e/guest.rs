//! A guest: a small machine with Debian's kernel. The kernel has features that this machine's own may lack: the NBD
//! driver, persistent memory, file systems and devices with DAX. The test can cut its power.
//!
//! ```text
//! here                                              in the guest (QEMU)
//! the first test boots it               ---->       this binary, FERRITE_GUEST=working: the bodies of the tests
//! each test asserts that it passed there <- serial    ... FERRITE_GUEST=writing: writes, prints what is durable
//! the power fails (QEMU is killed)      ---->
//! QEMU boots it on the same NVDIMMs     ---->       FERRITE_GUEST=afterwards: all durable data is there
//! ```
//!
//! QEMU keeps every store to an NVDIMM, flushed or not. A power failure loses the guest's own memory, with its page
//! cache and all data that its file systems had not written. `crates/crash` tests the loss of lines in a processor's
//! cache.

mod archive;
mod dax;
mod machine;
mod nbd;
mod pmem;
mod power;
mod region;
mod report;

use report::Report;

/// The time at which a test's body runs in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The guest runs before the power failure.
    Working,
    /// The guest writes until the power fails.
    Writing,
    /// The guest runs after the power failure.
    Afterwards,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::Writing => "writing",
            Self::Afterwards => "afterwards",
        }
    }
}

/// Runs `body` if this process runs in the guest at `stage`. On the host, asserts that the test of this name passed
/// there.
fn inside(stage: Stage, test: &str, body: impl FnOnce()) {
    match std::env::var("FERRITE_GUEST") {
        Ok(here) if here == stage.name() => body(),
        Ok(_) => {}
        Err(_) => match Report::get() {
            Ok(report) => report.assert_passed(stage, test),
            Err(lacking) => println!("skipped: {lacking}"),
        },
    }
}
