//! A guest: a small machine with Debian's kernel, which has what this machine's own may lack: the NBD driver,
//! persistent memory, file systems and devices with DAX. Its power can fail.
//!
//! ```text
//! here                                              in the guest (QEMU)
//! the first test boots it               ---->       this very binary, FERRITE_GUEST=working: the bodies of the tests
//! each test asserts that it passed there <- serial    ... FERRITE_GUEST=writing: writes, tells what is durable
//! the power fails (QEMU is killed)      ---->
//! it is booted on the same NVDIMMs      ---->       FERRITE_GUEST=afterwards: what was durable is there
//! ```
//!
//! QEMU keeps what was stored to an NVDIMM, flushed or not: what is lost is the guest's own memory, with its page cache
//! and what its file systems had not written. Lines left in a processor's cache are the business of `crates/crash`.

mod archive;
mod dax;
mod machine;
mod nbd;
mod power;
mod report;

use report::Report;

/// When a test's body runs in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Before the power fails.
    Working,
    /// When it fails.
    Writing,
    /// When it is back.
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

/// In the guest runs `body` at its stage; here asserts that the test of this name passed there.
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
