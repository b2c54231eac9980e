//! A program of its own process whose memory is a region of a guest, by orders on its standard input.
//!
//! ```text
//!   experiment --- RegionOrder, a line of JSON ---> worker: ProgramRegion, ProgramLoad
//!              <-- RegionFigures, a line of JSON ---
//! ```

use std::io::{BufRead, Write};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::child_process::ChildProcess;
use crate::worker::SUBCOMMAND;
use crate::{Error, Result};

mod file_mapping;
mod guest_pool;
mod program_load;
mod program_region;
mod region_load;
mod region_order;
mod store_pace;

pub use guest_pool::{BenchGuest, GuestPool, MappedPeer, frames_bytes};
pub use region_load::{LoadShape, RegionLoad};
pub use region_order::{RegionFigures, RegionKind, RegionOrder, RegionSetup};

use program_load::ProgramLoad;
use program_region::ProgramRegion;

/// The first argument of a worker whose memory is a region.
pub const ARGUMENT: &str = "--region";

/// The answer of a worker, as a line of JSON.
#[derive(Serialize, Deserialize)]
enum RegionAnswer {
    Done(RegionFigures),
    Failed(String),
}

/// The region of a worker, and its load.
struct RegionProgram {
    region: ProgramRegion,
    load: ProgramLoad,
    open_nanos: u64,
}

impl RegionProgram {
    fn open(setup: &RegionSetup) -> Result<Self> {
        let begun = Instant::now();
        let region = ProgramRegion::open(setup)?;
        let open_nanos = begun.elapsed().as_nanos() as u64;
        let load = ProgramLoad::new(setup.load.clone(), setup.size)?;
        Ok(Self { region, load, open_nanos })
    }

    fn carry_out(&mut self, order: &RegionOrder) -> Result<RegionFigures> {
        let figures = match order {
            RegionOrder::Open(_) => RegionFigures { nanos: self.open_nanos, ..RegionFigures::default() },
            RegionOrder::Fill => self.load.fill(&self.region)?,
            RegionOrder::Run { nanos, seed } => self.load.run(&self.region, *nanos, *seed)?,
            RegionOrder::Update { nanos } => self.load.update(&self.region, *nanos)?,
            RegionOrder::Unmap => self.region.unmap(),
        };
        Ok(RegionFigures { counts: self.region.counts(), last_step: self.load.last_step(&self.region)?, ..figures })
    }
}

/// Carries out the orders of standard input until it ends. The first one opens the region.
///
/// # Errors
/// [`Error::Io`] if the orders cannot be read or the answers not be written. A failed order is an answer.
pub fn work_on_region() -> Result<()> {
    let mut out = std::io::stdout().lock();
    let mut program: Option<RegionProgram> = None;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(Error::io("reading an order"))?;
        let answer = match answer(&mut program, &line) {
            Ok(figures) => RegionAnswer::Done(figures),
            Err(why) => RegionAnswer::Failed(why.to_string()),
        };
        let text = serde_json::to_string(&answer).map_err(|why| Error::io("answering")(why.into()))?;
        writeln!(out, "{text}").and_then(|()| out.flush()).map_err(Error::io("answering"))?;
    }
    Ok(())
}

fn answer(program: &mut Option<RegionProgram>, line: &str) -> Result<RegionFigures> {
    let order: RegionOrder = serde_json::from_str(line).map_err(|why| Error::server("the order", why.to_string()))?;
    if let RegionOrder::Open(setup) = &order {
        // The region before it ends first, because a guest has one user.
        drop(program.take());
        *program = Some(RegionProgram::open(setup)?);
    }
    let program = program.as_mut().ok_or_else(|| Error::server("the order", "no region is open"))?;
    program.carry_out(&order)
}

/// A worker process with a region. Dropped, it ends.
pub struct RegionWorker {
    name: String,
    process: ChildProcess,
    /// The time in which the region was opened.
    pub opened: RegionFigures,
}

impl RegionWorker {
    /// Starts the worker of the program `ferrite`, called `name` in errors, and opens the region of `setup`.
    ///
    /// # Errors
    /// [`Error::Io`] if the system does not start it, [`Error::Server`] if it cannot open the region.
    pub fn start(ferrite: &Path, name: &str, setup: RegionSetup) -> Result<Self> {
        let mut command = Command::new(ferrite);
        command.args([SUBCOMMAND, ARGUMENT]).current_dir("/");
        let process = ChildProcess::start_answering(name, &mut command)?;
        let mut started = Self { name: name.into(), process, opened: RegionFigures::default() };
        started.opened = started.order(&RegionOrder::Open(setup))?;
        Ok(started)
    }

    /// Carries out `order`.
    ///
    /// # Errors
    /// [`Error::Server`] if the worker could not do that, [`Error::Io`] if it has ended.
    pub fn order(&mut self, order: &RegionOrder) -> Result<RegionFigures> {
        let answer = self.process.ask(&serde_json::to_string(order).expect("orders are plain"))?;
        match serde_json::from_str(&answer) {
            Ok(RegionAnswer::Done(figures)) => Ok(figures),
            Ok(RegionAnswer::Failed(what)) => Err(Error::server(&self.name, what)),
            Err(_) => Err(Error::server(&self.name, format!("it answered {answer:?}"))),
        }
    }

    /// Kills the process `after` it began to carry out `order`. Returns when it has ended.
    ///
    /// # Errors
    /// [`Error::Io`] if the system does not kill it.
    pub fn kill_during(mut self, order: &RegionOrder, after: Duration) -> Result<()> {
        let pid = Pid::from_raw(self.process.id() as i32).expect("a process has a number");
        // Its number is not used again before it is waited for, at the end of this value.
        thread::scope(|scope| {
            let killed = scope.spawn(move || {
                thread::sleep(after);
                kill_process(pid, Signal::KILL)
            });
            // It fails, because the answer does not come.
            let _ = self.order(order);
            killed.join().expect("no panic").map_err(|why| Error::io("killing a worker")(why.into()))
        })
    }
}

#[cfg(test)]
mod tests;
