//! The command-line options for the medium of a pool.

use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use ferrite_memory::{Guard, MapOptions, Memory, Pace, Paced, Speed, Tsc, WearUnit, Worn};
use ferrite_owner::PoolMemory;
use ferrite_pool::Lock;
use ferrite_pool::layout::POOL_BYTES_MIN;

use crate::outcome::{Failure, Outcome};
use crate::size;
use crate::survival::Trust;

/// How a pool's memory behaves. It holds for the whole pool, for as long as this process owns it.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "The pool's memory, for all that is served from it")]
pub struct MediumArguments {
    /// What keeps stray writes out: none, pagetable, private, keys, keys=strict or buffered [default: keys where the
    /// CPU has them, else none]
    ///
    /// keys costs a few ns an access; keys=strict denies stray reads too, for a third of a 4 KiB read; pagetable and
    /// private cost microseconds; buffered is pagetable behind buffers in DRAM, so a write is durable when flushed.
    #[arg(long)]
    guard: Option<String>,
    /// Emulate a medium: dram, pcm, memristor, stt-ram, nvdimm, optane or cxl
    #[arg(long, conflicts_with_all = ["rdsx", "wrsx", "rdlat", "wrlat", "rdbw", "wrbw"])]
    pace: Option<String>,
    /// Emulate reads so many times as long as DRAM's
    #[arg(long, value_name = "X", conflicts_with_all = ["rdlat", "rdbw"])]
    rdsx: Option<f64>,
    /// Emulate writes so many times as long as DRAM's
    #[arg(long, value_name = "X", conflicts_with_all = ["wrlat", "wrbw"])]
    wrsx: Option<f64>,
    /// Emulate a read latency
    #[arg(long, value_name = "NS", value_parser = size::whole::<u64>)]
    rdlat: Option<u64>,
    /// Emulate a write latency
    #[arg(long, value_name = "NS", value_parser = size::whole::<u64>)]
    wrlat: Option<u64>,
    /// Emulate a read bandwidth, in 1,000,000 bytes a second
    #[arg(long, value_name = "MB", value_parser = size::whole::<u64>)]
    rdbw: Option<u64>,
    /// Emulate a write bandwidth, in 1,000,000 bytes a second
    #[arg(long, value_name = "MB", value_parser = size::whole::<u64>)]
    wrbw: Option<u64>,
    /// Count writes for `ferrite pool wear`, by page or by line: costs 50 to 400 ns a write
    #[arg(long, value_name = "page|line", value_parser = wear_unit)]
    wear: Option<WearUnit>,
    #[command(flatten)]
    pub trust: Trust,
}

impl MediumArguments {
    /// Returns the defaults with the user's word for the medium.
    pub fn trusting(trust: Trust) -> Self {
        Self { trust, ..Self::default() }
    }

    /// Returns true unless all options are the defaults.
    pub fn is_default(&self) -> bool {
        let Self { guard, pace, rdsx, wrsx, rdlat, wrlat, rdbw, wrbw, wear, trust } = self;
        let speeds = rdsx.is_some() || wrsx.is_some() || rdlat.or(*wrlat).or(*rdbw).or(*wrbw).is_some();
        guard.is_none() && pace.is_none() && wear.is_none() && trust.trust_medium.is_none() && !speeds
    }

    /// Returns true if the options ask for buffering in DRAM, in front of the page table's guard.
    pub fn is_buffered(&self) -> bool {
        self.guard.as_deref() == Some("buffered")
    }

    /// Returns the requested guard, or the best one of this machine.
    pub fn guard(&self) -> Outcome<Guard> {
        if self.is_buffered() {
            return Ok(Guard::Pagetable);
        }
        let Some(name) = &self.guard else { return Ok(Guard::best()) };
        let mut known = Guard::ALL.map(|(known, _)| known).to_vec();
        known.push("buffered");
        let guard = Guard::from_name(name).ok_or_else(|| unknown("guard", name, &known))?;
        guard.ensure_available()?;
        Ok(guard)
    }

    fn pace(&self) -> Outcome<Pace> {
        if let Some(name) = &self.pace {
            let known = Pace::PRESETS.map(|(known, _)| known);
            return Pace::from_name(name).ok_or_else(|| unknown("pace", name, &known));
        }
        let speed = |times: Option<f64>, latency_ns: Option<u64>, bandwidth_mb_s| Speed {
            times: times.unwrap_or(1.0),
            latency_ns: latency_ns.unwrap_or(0),
            bandwidth_mb_s,
        };
        let pace =
            Pace { read: speed(self.rdsx, self.rdlat, self.rdbw), write: speed(self.wrsx, self.wrlat, self.wrbw) };
        pace.check().map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(pace)
    }

    /// Returns the reason why every access must go through the owner, if a reason exists.
    fn sees_all(&self) -> Option<&'static str> {
        if self.wear.is_some() {
            return Some("its writes are counted (--wear)");
        }
        self.pace().is_ok_and(|pace| !pace.is_dram()).then_some("its speed is emulated (--pace)")
    }

    /// Refuses contradicting options, before the command opens anything.
    pub fn check(&self) -> Outcome {
        self.guard()?;
        self.pace().map(drop)
    }

    /// Maps the file that `lock` holds.
    pub fn map(&self, lock: &Lock) -> Outcome<PoolMemory> {
        let (guard, pace) = (self.guard()?, self.pace()?);
        let name = lock.path().display().to_string();
        let found = lock.file().metadata()?;
        if found.is_file() && found.len() < POOL_BYTES_MIN {
            let (has, least) = (size::show(found.len()), size::show(POOL_BYTES_MIN));
            return Err(format!(
                "{name} is no pool: it has {has} and the smallest has {least}; make one with `ferrite pool create`"
            )
            .into());
        }
        let options = MapOptions { guard, name, ..MapOptions::default() };
        let mapped = Arc::new(lock.map(&options)?);
        let mut speed = String::new();
        let mut memory: Arc<dyn Memory> = mapped.clone();
        if !pace.is_dram() {
            let start = Instant::now();
            let ticks = Tsc::calibrate(move || start.elapsed().as_nanos() as u64)?;
            memory = Arc::new(Paced::new(memory, pace, ticks)?);
            speed = format!("; emulated speed: {pace}");
        }
        let counted = self.wear.map(|unit| Arc::new(Worn::new(Arc::clone(&memory), unit)));
        if let Some(counted) = &counted {
            memory = counted.clone();
        }
        Ok(PoolMemory { memory, mapped: Some(mapped), counted, speed, sees_all: self.sees_all() })
    }
}

/// Returns the failure for an unknown `name` of a `what`, with the `known` names.
pub fn unknown(what: &str, name: &str, known: &[&str]) -> Failure {
    let (last, first) = known.split_last().unwrap_or((&"", &[]));
    Failure::Usage(format!("there is no {what} {name:?}: give {} or {last}", first.join(", ")))
}

fn wear_unit(text: &str) -> Result<WearUnit, String> {
    match text {
        "page" => Ok(WearUnit::Page),
        "line" => Ok(WearUnit::Line),
        _ => Err("page or line".into()),
    }
}
