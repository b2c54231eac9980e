//! Subcommands that services describe as data: `ferrite SERVICE COMMAND [POOL] ...`.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use ferrite_owner::{ArgumentKind, ArgumentSpec, ColumnKind, CommandSpec, ServiceRegistry, ServiceRequest};
use serde_json::{Map, Value};

use crate::command_pool::CommandPool;
use crate::commands::print;
use crate::outcome::{Failure, Outcome, and_then_cleared};
use crate::pool_argument::{self, PoolArgument};
use crate::{size, stop};

/// The option that asks for JSON.
const JSON: &str = "json";

/// A subcommand of a service, with the arguments of the command line.
pub struct DescribedCommand {
    service: &'static str,
    spec: &'static CommandSpec,
    pool: PoolArgument,
    request: Value,
    json: bool,
}

/// Adds the subcommands of the services of `registry` to `program`.
pub fn with_services(program: Command, registry: &ServiceRegistry) -> Command {
    let described = registry.services().filter(|service| !service.commands().is_empty());
    described.fold(program, |program, service| {
        let about = format!("Requests to the service {:?}", service.name());
        let command = Command::new(service.name()).about(about).subcommand_required(true).arg_required_else_help(true);
        program.subcommand(service.commands().iter().map(subcommand).fold(command, Command::subcommand))
    })
}

/// Returns the subcommand of a service of `registry` that `found` calls, if it calls one.
pub fn found(found: &ArgMatches, registry: &ServiceRegistry) -> Option<clap::error::Result<DescribedCommand>> {
    let (service_name, below) = found.subcommand()?;
    let service = registry.services().find(|service| service.name() == service_name)?;
    let (name, matches) = below.subcommand()?;
    let spec = service.commands().iter().find(|spec| spec.name == name)?;
    Some(read(service.name(), spec, matches))
}

fn subcommand(spec: &CommandSpec) -> Command {
    let command = pool_argument::with_pool(words(spec, Command::new(spec.name)).about(spec.help), false);
    let command = command.args(spec.arguments.iter().filter_map(option));
    command.arg(Arg::new(JSON).long(JSON).action(ArgAction::SetTrue).help("Print JSON"))
}

/// Adds the words after the pool to `command`.
fn words(spec: &CommandSpec, command: Command) -> Command {
    let word = |argument: &&ArgumentSpec| argument.kind == ArgumentKind::Word;
    let words = spec.arguments.iter().filter(word);
    command.args(words.map(|argument| {
        let name = argument.name.to_uppercase();
        Arg::new(argument.name).help(argument.help).value_name(name).required(true)
    }))
}

fn option(argument: &ArgumentSpec) -> Option<Arg> {
    let option = Arg::new(argument.name).long(argument.name).help(argument.help);
    match argument.kind {
        ArgumentKind::Word => None,
        ArgumentKind::Number => Some(option.value_name("N").value_parser(size::whole::<u64>)),
        ArgumentKind::Size => Some(option.value_name("SIZE").value_parser(size::parse)),
        ArgumentKind::Flag => Some(option.action(ArgAction::SetTrue)),
    }
}

fn read(
    service: &'static str,
    spec: &'static CommandSpec,
    matches: &ArgMatches,
) -> clap::error::Result<DescribedCommand> {
    let own = words(spec, Command::new("words").no_binary_name(true));
    let own = own.mut_args(|arg| arg.value_parser(value_parser!(OsString)));
    let (pool, found) = pool_argument::read(matches, own, true)?;
    let mut request = Map::from_iter([("do".to_owned(), Value::from(spec.request))]);
    for argument in spec.arguments {
        let value = match argument.kind {
            ArgumentKind::Word => {
                found.get_one::<OsString>(argument.name).map(|word| Value::from(word.to_string_lossy().into_owned()))
            }
            ArgumentKind::Number | ArgumentKind::Size => {
                matches.get_one::<u64>(argument.name).copied().map(Value::from)
            }
            ArgumentKind::Flag => Some(matches.get_flag(argument.name).into()),
        };
        request.extend(value.map(|value| (argument.name.to_owned(), value)));
    }
    let (request, json) = (Value::Object(request), matches.get_flag(JSON));
    Ok(DescribedCommand { service, spec, pool, request, json })
}

impl DescribedCommand {
    /// Sends the request to the owner, and prints the answer.
    pub fn run(self) -> Outcome {
        stop::watch()?;
        let mut command_pool = CommandPool::new(&self.pool.path()?)?;
        let answer = command_pool.call_described(ServiceRequest::new(self.service, &self.request));
        let answer = and_then_cleared(answer, command_pool.close())?;
        if self.spec.table.is_empty() && !self.json {
            return Ok(());
        }
        let rows = answer.as_array().ok_or_else(|| Failure::from("the service's answer is not a list"))?;
        print(self.json, &answer, |_| table(self.spec, rows))
    }
}

/// Returns `rows` as a table with the columns of `spec`.
fn table(spec: &CommandSpec, rows: &[Value]) -> String {
    let heads = spec.table.iter().map(|column| column.head.to_owned()).collect();
    let cells = |row: &Value| spec.table.iter().map(|column| cell(&row[column.field], column.show)).collect();
    let lines: Vec<Vec<String>> = std::iter::once(heads).chain(rows.iter().map(cells)).collect();
    let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..spec.table.len()).map(width).collect();
    let shown = |line: &Vec<String>| {
        let cells = spec.table.iter().zip(line.iter().zip(&widths)).map(|(column, (cell, width))| match column.show {
            ColumnKind::Text => format!("{cell:<width$}"),
            ColumnKind::Number | ColumnKind::Bytes => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join(" ").trim_end().to_owned() + "\n"
    };
    lines.iter().map(shown).collect()
}

fn cell(value: &Value, show: ColumnKind) -> String {
    match (show, value) {
        (_, Value::Null) => "-".into(),
        (ColumnKind::Bytes, value) => value.as_u64().map_or_else(|| value.to_string(), size::show),
        (_, Value::String(text)) => text.clone(),
        (_, value) => value.to_string(),
    }
}

#[cfg(test)]
mod tests;
