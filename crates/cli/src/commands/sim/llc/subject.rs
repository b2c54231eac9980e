//! The subject of a simulation of the last level: a trace, or a program while it runs.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

use clap::Args;
use ferrite_sim::cache::{CacheShape, StudyEnd};
use ferrite_sim::record::{Program, ProgramOutput, RunningProgram};
use ferrite_sim::trace::{AccessFormat, EventSource, FilteredTrace, FirstLevel, FirstLevelFilter, TraceOptions};

use super::super::{opened_accesses, shown};
use super::{LINE, line, shape};
use crate::outcome::{Failure, Outcome};
use crate::stop;

/// What is simulated, up to the first level.
#[derive(Args)]
pub struct Subject {
    /// A program and its arguments, run under qemu-user and recorded as it runs; what it prints goes to standard error,
    /// except with --output. Processes that it starts are not recorded
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
    /// A file instead, or - for standard input
    #[arg(long, value_name = "FILE", conflicts_with = "program")]
    pub trace: Option<PathBuf>,
    /// Its form, if its content does not show it: lackey, din, champsim, drmemtrace, ramulator, compact, compact-pc
    #[arg(long, value_name = "FORM", requires = "trace", conflicts_with = "program")]
    format: Option<AccessFormat>,
    /// The trace has passed a first-level cache already
    #[arg(long, requires = "trace", conflicts_with_all = ["program", "l1", "instructions"])]
    filtered: bool,
    /// The first level of each core: size and ways
    #[arg(long, value_name = "SIZE:WAYS", default_value = "64K:2", value_parser = shape)]
    l1: (u64, u32),
    /// Cores of the trace, each with a first level of its own [default: 1]. Of a program every thread is a core;
    /// several have a larger last level, unless --llc names it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    cores: Option<u16>,
    /// Bytes of a line
    #[arg(long, value_name = "BYTES", default_value_t = LINE, value_parser = line)]
    pub line: u32,
    /// Fetches of instructions too, through another first level as large
    #[arg(long)]
    instructions: bool,
}

/// The origin of the events.
pub struct Origin {
    pub source: Box<dyn EventSource>,
    /// The program, if the subject is one.
    pub running: Option<RunningProgram>,
    /// The format of the trace, if the subject is one.
    pub form: Option<AccessFormat>,
}

/// The end of a program.
pub struct ProgramEnd {
    /// True if the recording is complete.
    pub is_whole: bool,
    /// The exit status of a failed program. If a signal ended the program, the status is 128 plus the signal's number,
    /// as in shells.
    pub failure: Option<u8>,
}

impl Subject {
    /// Opens the trace, or starts the program. If `keeps_output`, the program writes to this process's standard output.
    pub fn source(&self, keeps_output: bool, is_llc_named: bool) -> Outcome<Origin> {
        let shape = CacheShape { bytes: self.l1.0, ways: self.l1.1, line_bytes: self.line };
        let first = FirstLevel { shape, cores: self.cores(), instructions: self.instructions };
        first.check().map_err(|error| Failure::Usage(error.to_string()))?;
        let Some(trace) = &self.trace else {
            if self.program.is_empty() {
                return Err(Failure::Usage("name a program to run with its arguments, or a trace with --trace".into()));
            }
            self.refuse_idle(None, is_llc_named)?;
            let output = if keeps_output { ProgramOutput::Kept } else { ProgramOutput::StandardError };
            let program = Program { words: self.program.clone(), folder: None, output };
            let recording = program.start(first)?;
            let running = recording.program();
            stop::watch()?;
            return Ok(Origin { source: Box::new(recording), running: Some(running), form: None });
        };
        let line_bits = self.line.ilog2();
        let reading = TraceOptions { form: self.format, line_bits, cores: self.cores() };
        let (form, reader) = opened_accesses(trace, reading)?;
        self.refuse_idle(Some(form), is_llc_named)?;
        let source: Box<dyn EventSource> = if self.filtered {
            Box::new(FilteredTrace::new(reader, line_bits))
        } else {
            Box::new(FirstLevelFilter::new(reader, first)?)
        };
        Ok(Origin { source, running: None, form: Some(form) })
    }

    /// Returns the number of cores, or 1 if the user gave none.
    pub fn cores(&self) -> u16 {
        self.cores.unwrap_or(1)
    }

    /// Returns the bytes of the first level, or `None` for a filtered trace.
    pub fn first_level(&self) -> Option<u64> {
        (!self.filtered).then_some(self.l1.0)
    }

    /// Refuses options that have no effect on this program, or on a trace of this format.
    fn refuse_idle(&self, form: Option<AccessFormat>, is_llc_named: bool) -> Outcome {
        if self.cores() > 1 && is_llc_named && !form.is_some_and(AccessFormat::names_cores) {
            let why = form.map_or_else(
                || "of a program every thread is a core".into(),
                |form| format!("a trace of form {} names no cores", form.name()),
            );
            return Err(Failure::Usage(format!("--cores changes nothing: {why}, and --llc names the last level")));
        }
        if let Some(form) = form.filter(|form| self.instructions && !form.has_fetches()) {
            let why = format!("a trace of form {} has no fetches of instructions", form.name());
            return Err(Failure::Usage(format!("--instructions changes nothing: {why}")));
        }
        Ok(())
    }

    /// Waits for the program, and returns how it ended.
    pub fn finish(&self, program: &RunningProgram, end: StudyEnd) -> ProgramEnd {
        let ended = program.finish(end).filter(|status| end == StudyEnd::Whole && !status.success());
        if let Some(status) = ended {
            remark!("ferrite: {} ended with {status}", self.name());
        }
        if program.has_forked() {
            remark!(
                "ferrite: {} started other processes, which were not recorded: record what does the work by itself",
                self.name()
            );
        }
        let is_whole = end == StudyEnd::Stopped || program.is_whole();
        // Ctrl-C also reaches the program, which may exit before this process stops it.
        if stop::is_asked() {
            return ProgramEnd { is_whole, failure: None };
        }
        if !is_whole {
            self.tell_lost(ended.is_some_and(|status| status.signal().is_some()));
        }
        let status = |ended: ExitStatus| ended.code().or_else(|| Some(128 + ended.signal()?));
        ProgramEnd { is_whole, failure: ended.and_then(status).and_then(|status| status.try_into().ok()) }
    }

    fn tell_lost(&self, was_killed: bool) {
        if was_killed {
            remark!("ferrite: what {} did last is missing", self.name());
        } else {
            remark!(
                "ferrite: {} became another program (exec), and what it did then is missing: record that program by its \
                 own name",
                self.name()
            );
        }
    }

    /// Returns the program's command line, or the trace's name.
    pub fn name(&self) -> String {
        let words = || self.program.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        self.trace.as_ref().map_or_else(words, |trace| shown(trace))
    }
}
