//! What was counted in a file that the program and its children share; the library says how it is laid out.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use serde::Serialize;

use crate::outcome::Outcome;
use crate::size;

/// The variable that names the file.
pub const VARIABLE: &str = "FERRITE_RUN_TALLY";
const LINES: u64 = 64;
const LINE_BYTES: u64 = 64;

/// A file without a name.
pub struct Tally(File);

/// Calls and their bytes.
#[derive(Default, Serialize)]
struct Way {
    calls: u64,
    bytes: u64,
}

#[derive(Default, Serialize)]
struct Counts {
    direct: Way,
    mount: Way,
}

impl Tally {
    pub fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("ferrite-run-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        file.set_len(LINES * LINE_BYTES)?;
        Ok(Self(file))
    }

    /// By which others reach it while this process is there.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    fn sum(&self) -> io::Result<Counts> {
        let mut sum = Counts::default();
        for line in 0..LINES {
            let mut bytes = [0; 32];
            self.0.read_exact_at(&mut bytes, line * LINE_BYTES)?;
            let counts = [0, 8, 16, 24].map(|at| u64::from_le_bytes(*bytes[at..].first_chunk().expect("8 bytes")));
            let ways = [&mut sum.direct.calls, &mut sum.direct.bytes, &mut sum.mount.calls, &mut sum.mount.bytes];
            ways.into_iter().zip(counts).for_each(|(way, count)| *way += count);
        }
        Ok(sum)
    }

    /// Says it on standard error.
    pub fn tell(&self, json: bool) -> Outcome {
        let Counts { direct, mount } = self.sum()?;
        if json {
            remark!("{}", serde_json::to_string(&Counts { direct, mount })?);
        } else {
            let way = |way: &Way| format!("{} calls, {}", way.calls, size::show(way.bytes));
            remark!("ferrite run: directly {}; through the mount {}", way(&direct), way(&mount));
        }
        Ok(())
    }
}
