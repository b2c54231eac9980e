//! `ferrite`: durable storage at memory speed.

#[macro_use]
mod output;

mod bar;
mod buffering;
mod child;
mod command_pool;
mod commands;
mod described;
mod duration;
mod flash_drive;
mod foreign_image;
mod help;
mod host;
mod how;
mod inherited;
mod keeper;
mod log;
mod medium;
mod mount_notes;
mod nbd_addresses;
mod outcome;
mod pool_argument;
mod prefault;
mod service_manager;
mod serving_processes;
mod size;
mod source;
mod stop;
mod survival;
mod traced;

#[cfg(test)]
#[path = "tests/freeze.rs"]
mod freeze;

use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use ferrite_daemon::registry;
use ferrite_owner::ServiceRegistry;
use ferrite_pool::Trust;

use commands::{
    bench, cache, completions, disk, doctor, down, fs, guest, man, metrics, pool, run, sim, stat, status, tag, up, wal,
};
use outcome::{Failure, Outcome};

/// Durable storage at memory speed: one pool of persistent memory, served to everything that people already use.
///
/// Start with `ferrite up`: it makes a pool and a disk, serves them, and says how to reach them. Every other command
/// works beside it.
#[derive(Parser)]
#[command(version, after_help = "Exit status: 0 done, 1 failed, 2 wrong usage.")]
struct Arguments {
    #[command(flatten)]
    trust: TrustArguments,
    #[command(subcommand)]
    command: Command,
}

/// The users whose pools and images a command trusts beside its own user and root.
#[derive(Args)]
#[command(next_help_heading = "Pools and images of other users")]
struct TrustArguments {
    /// Use pools and images that belong to USER, a name or a number; repeatable. That user may change them at any time.
    /// Libraries read FERRITE_TRUST_OWNER
    #[arg(long, value_name = "USER", global = true, hide_short_help = true)]
    trust_owner: Vec<String>,
    /// Use pools and images that other users may write to. Libraries read FERRITE_TRUST_WRITABLE=1
    #[arg(long, global = true, hide_short_help = true)]
    trust_writable: bool,
}

impl TrustArguments {
    fn install(&self) -> Outcome {
        let asked = Trust::of(&self.trust_owner, self.trust_writable).map_err(Failure::Usage)?;
        asked.and(Trust::of_environment()?).install();
        Ok(())
    }
}

#[derive(Subcommand)]
enum Command {
    Up(up::Up),
    Status(status::Status),
    Stat(stat::Stat),
    Metrics(metrics::Metrics),
    Down(down::Down),
    #[command(subcommand)]
    Pool(pool::Pool),
    #[command(subcommand)]
    Tag(tag::Tag),
    #[command(subcommand)]
    Disk(disk::Disk),
    #[command(subcommand)]
    Cache(cache::Cache),
    #[command(subcommand)]
    Guest(guest::Guest),
    #[command(subcommand)]
    Wal(wal::Wal),
    #[command(subcommand)]
    Fs(fs::Fs),
    Run(run::Run),
    Bench(bench::Bench),
    /// What an experiment has work in a folder
    #[command(name = ferrite_bench::worker::SUBCOMMAND, hide = true)]
    BenchWorker(bench::BenchWorker),
    #[command(subcommand)]
    Sim(sim::Sim),
    Doctor(doctor::Doctor),
    Completions(completions::Completions),
    Man(man::Man),
}

/// A parsed command line.
enum Understood {
    /// A command of this crate.
    Own(Box<Arguments>),
    /// A subcommand that a service describes.
    Described(TrustArguments, described::DescribedCommand),
}

/// Returns the whole tree of commands, with the subcommands of `services`.
fn program(services: &ServiceRegistry) -> clap::Command {
    help::prepared(described::with_services(Arguments::command(), services))
}

/// Reads this process's command line.
fn understood() -> clap::error::Result<Understood> {
    let services = registry();
    let mut command = program(&services);
    let mut found = command.try_get_matches_from_mut(std::env::args_os())?;
    let path = help::path(&found);
    let understood = match described::found(&found, &services) {
        Some(described) => described
            .and_then(|described| Ok(Understood::Described(TrustArguments::from_arg_matches(&found)?, described))),
        None => Arguments::from_arg_matches_mut(&mut found).map(|arguments| Understood::Own(Box::new(arguments))),
    };
    understood.map_err(|error| error.format(help::found_mut(&mut command, &path)))
}

fn main() -> ExitCode {
    if let Err(error) = ferrite_memory::fault::install() {
        remark!("ferrite: stray accesses will not be explained: {error}");
    }
    let (trust, command) = match understood() {
        Ok(Understood::Own(arguments)) => (arguments.trust, Ok(arguments.command)),
        Ok(Understood::Described(trust, described)) => (trust, Err(described)),
        Err(message) => return outcome::print(&message),
    };
    // A program started by `run` inherits the handling of SIGXFSZ from this process's parent.
    if !matches!(command, Ok(Command::Run(_)))
        && let Err(error) = stop::outlive_file_limit()
    {
        remark!("ferrite: a limit on the size of files will end it: {error}");
    }
    let result = trust.install().and_then(|()| match command {
        Ok(command) => command.run(),
        Err(described) => described.run(),
    });
    outcome::exit_code(result)
}

impl Command {
    fn run(self) -> Outcome {
        match self {
            Self::Up(up) => up.run(),
            Self::Status(status) => status.run(),
            Self::Stat(stat) => stat.run(),
            Self::Metrics(metrics) => metrics.run(),
            Self::Down(down) => down.run(),
            Self::Pool(pool) => pool.run(),
            Self::Tag(tag) => tag.run(),
            Self::Disk(disk) => disk.run(),
            Self::Cache(cache) => cache.run(),
            Self::Guest(guest) => guest.run(),
            Self::Wal(wal) => wal.run(),
            Self::Fs(fs) => fs.run(),
            Self::Run(run) => run.run(),
            Self::Bench(bench) => bench.run(),
            Self::BenchWorker(worker) => worker.run(),
            Self::Sim(sim) => sim.run(),
            Self::Doctor(doctor) => doctor.run(),
            Self::Completions(completions) => completions.run(),
            Self::Man(man) => man.run(),
        }
    }
}
