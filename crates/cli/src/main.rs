//! `ferrite`: durable storage at memory speed.

#[macro_use]
mod tell;

mod bar;
mod buffering;
mod calls;
mod child;
mod commands;
mod door;
mod engine;
mod flash_drive;
mod given;
mod help;
mod host;
mod how;
mod lacks;
mod log;
mod medium;
mod mounts;
mod outcome;
mod owners;
mod paths;
mod pool_argument;
mod reach;
mod request;
mod served;
mod size;
mod source;
mod standpoint;
mod stop;
mod survival;
mod traced;
mod trees;
mod warm;
mod watched;
mod wear;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use commands::{bench, disk, down, fs, pool, run, sim, status, tag, up, wal};

/// Durable storage at memory speed: one pool of persistent memory, served to everything that people already use.
///
/// Start with `ferrite up`: it makes a pool and a disk, serves them, and says how to reach them. Every other command
/// works beside it.
#[derive(Parser)]
#[command(version, after_help = "Exit status: 0 done, 1 failed, 2 wrong usage.")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(up::Up),
    Status(status::Status),
    Down(down::Down),
    #[command(subcommand)]
    Pool(pool::Pool),
    #[command(subcommand)]
    Tag(tag::Tag),
    #[command(subcommand)]
    Disk(disk::Disk),
    #[command(subcommand)]
    Wal(wal::Wal),
    #[command(subcommand)]
    Fs(fs::Fs),
    Run(run::Run),
    Bench(bench::Bench),
    /// What an experiment has work in a folder
    #[command(name = ferrite_bench::worker::SUBCOMMAND, hide = true)]
    BenchWorker(bench::Worker),
    #[command(subcommand)]
    Sim(sim::Sim),
}

/// Reads this process's command line.
fn arguments() -> clap::error::Result<Arguments> {
    let mut command = help::prepared(Arguments::command());
    let mut found = command.try_get_matches_from_mut(std::env::args_os())?;
    let path = help::path(&found);
    Arguments::from_arg_matches_mut(&mut found).map_err(|error| error.format(help::found_mut(&mut command, &path)))
}

fn main() -> ExitCode {
    if let Err(error) = ferrite_medium::fault::install() {
        remark!("ferrite: stray accesses will not be explained: {error}");
    }
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(told) => return outcome::tell(&told),
    };
    // What `run` starts has it as whoever started that has.
    if !matches!(arguments.command, Command::Run(_))
        && let Err(error) = stop::outlive_file_limit()
    {
        remark!("ferrite: a limit on the size of files will end it: {error}");
    }
    let result = match arguments.command {
        Command::Up(up) => up.run(),
        Command::Status(status) => status.run(),
        Command::Down(down) => down.run(),
        Command::Pool(pool) => pool.run(),
        Command::Tag(tag) => tag.run(),
        Command::Disk(disk) => disk.run(),
        Command::Wal(wal) => wal.run(),
        Command::Fs(fs) => fs.run(),
        Command::Run(run) => run.run(),
        Command::Bench(bench) => bench.run(),
        Command::BenchWorker(worker) => worker.run(),
        Command::Sim(sim) => sim.run(),
    };
    outcome::exit_code(result)
}
