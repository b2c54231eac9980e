//! The counts in a file that the program and its children share. The library documents the layout.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{MemfdFlags, memfd_create};
use serde::Serialize;

use crate::outcome::Outcome;
use crate::size;

/// The variable that names the file.
pub const VARIABLE: &str = "FERRITE_RUN_TALLY";
const LINES: u64 = 64;
const LINE_BYTES: u64 = 64;

/// An unnamed file of counts.
pub struct Tally(File);

/// Calls and their bytes, on one way to a file.
#[derive(Default, Serialize)]
struct Way {
    calls: u64,
    bytes: u64,
}

#[derive(Default, Serialize)]
struct Counts {
    direct: Way,
    mount: Way,
    /// Sessions that the owner of a pool refused.
    refused: u64,
    /// The number of programs that counted.
    #[serde(skip)]
    programs: u64,
}

/// The report if no program counted: all counts are unknown.
#[derive(Default, Serialize)]
struct Unknown {
    direct: Option<Way>,
    mount: Option<Way>,
    refused: Option<u64>,
}

impl Tally {
    pub fn new() -> io::Result<Self> {
        let file = File::from(memfd_create("ferrite: counts", MemfdFlags::CLOEXEC)?);
        file.set_len(LINES * LINE_BYTES)?;
        Ok(Self(file))
    }

    /// Returns the path by which other processes open the file while this process exists.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    fn sum(&self) -> io::Result<Counts> {
        let mut sum = Counts::default();
        for line in 0..LINES {
            let mut bytes = [0; 48];
            self.0.read_exact_at(&mut bytes, line * LINE_BYTES)?;
            let counts =
                [0, 8, 16, 24, 32, 40].map(|at| u64::from_le_bytes(*bytes[at..].first_chunk().expect("8 bytes")));
            let Counts { direct, mount, refused, programs } = &mut sum;
            let sums = [&mut direct.calls, &mut direct.bytes, &mut mount.calls, &mut mount.bytes, refused, programs];
            sums.into_iter().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        Ok(sum)
    }

    /// Prints the counts on standard error.
    pub fn print(&self, json: bool) -> Outcome {
        let sum = self.sum()?;
        if sum.programs == 0 {
            match json {
                true => remark!("{}", serde_json::to_string(&Unknown::default())?),
                false => remark!("ferrite run: nothing was counted: no program had the library loaded that counts"),
            }
            return Ok(());
        }
        if json {
            remark!("{}", serde_json::to_string(&sum)?);
            return Ok(());
        }
        let way = |way: &Way| format!("{}, {}", size::counted(way.calls, "call"), size::show(way.bytes));
        remark!("ferrite run: directly {}; through the mount {}", way(&sum.direct), way(&sum.mount));
        if sum.refused > 0 {
            remark!("ferrite run: the pool's owner refused its programs {}", size::counted(sum.refused, "time"));
        }
        Ok(())
    }
}
