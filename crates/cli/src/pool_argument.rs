//! The pool that a command works on: its first word, `--pool`, or the default.
//!
//! A command declares only the words after the pool, and a hidden last argument accepts one more word. If the line has
//! more words than the command requires, and no `--pool`, the first word is the pool.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use ferrite_owner::paths::quoted;

use crate::host;
use crate::outcome::{Failure, Outcome};
use crate::serving_processes;

/// The id of the option that names the pool.
pub const OPTION: &str = "pool_option";
/// The id of the hidden word.
const EXTRA: &str = "one_word_more";

/// The words of a command that takes only its pool.
#[derive(Args)]
pub struct NoWords {}

/// The pool, and `words`, a struct of positional arguments behind it. With `NAMED` there is no default pool.
pub struct InPool<T, const NAMED: bool = false> {
    /// The pool as the command line has it.
    pub pool: PoolArgument,
    /// The words after the pool.
    pub words: T,
}

/// The pool as the command line has it.
#[derive(Debug)]
pub struct PoolArgument {
    /// The path that the command line names.
    named: Option<PathBuf>,
    /// True if the command has a default pool.
    has_default: bool,
    /// The words after the pool.
    words: Vec<OsString>,
    /// The name of the last word that the command requires.
    last: Option<String>,
}

impl<T: Args, const NAMED: bool> Args for InPool<T, NAMED> {
    fn augment_args(command: Command) -> Command {
        with_pool(T::augment_args(command), NAMED)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Args, const NAMED: bool> FromArgMatches for InPool<T, NAMED> {
    fn from_arg_matches(matches: &ArgMatches) -> clap::error::Result<Self> {
        let own = T::augment_args(Command::new("words").no_binary_name(true));
        let (pool, found) = read(matches, own, !NAMED)?;
        Ok(Self { pool, words: T::from_arg_matches(&found)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> clap::error::Result<()> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Adds the pool to `command`, which declares the words after it. If the pool `is_named`, there is no default.
pub fn with_pool(command: Command, is_named: bool) -> Command {
    let plain = |arg: Arg| if arg.is_positional() { arg.value_parser(value_parser!(OsString)) } else { arg };
    let command = command.mut_args(plain);
    let is_open_ended = command.get_positionals().any(|arg| matches!(arg.get_action(), ArgAction::Append));
    let extra = Arg::new(EXTRA).hide(true).value_parser(value_parser!(OsString));
    let option = Arg::new(OPTION).long("pool").value_name("POOL").value_parser(value_parser!(PathBuf));
    let option = if is_named {
        option.help("The pool, if it is not the first word")
    } else {
        option.help("The pool, if it is not the first word [default: the served one]").long_help(
            "The pool, if it is not the first word [default: $FERRITE_POOL, else the one pool that this user \
             serves, else the pool that `ferrite up` makes]",
        )
    };
    let command = if is_open_ended { command } else { command.arg(extra) };
    command.arg(option)
}

/// Returns the pool that `matches` names, and the words after it as `own` declares them.
pub fn read(
    matches: &ArgMatches,
    mut own: Command,
    has_default: bool,
) -> clap::error::Result<(PoolArgument, ArgMatches)> {
    let (named, words) = split(matches, &own);
    let is_open_ended = own.get_positionals().any(|arg| matches!(arg.get_action(), ArgAction::Append));
    if let Some(more) = words.get(own.get_positionals().count()).filter(|_| !is_open_ended) {
        let why = format!("unexpected argument '{}': --pool names the pool\n", more.display());
        return Err(clap::Error::raw(ErrorKind::UnknownArgument, why));
    }
    let last = required(&own).last().map(name_of);
    let found = own.try_get_matches_from_mut(std::iter::once(OsStr::new("--")).chain(words.iter().map(|it| &**it)))?;
    Ok((PoolArgument { named, has_default, words, last }, found))
}

/// Returns the words that `command` requires.
fn required(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_positionals().filter(|arg| arg.is_required_set())
}

fn name_of(arg: &Arg) -> String {
    arg.get_value_names().and_then(|names| names.first()).map_or_else(|| arg.get_id().to_string(), ToString::to_string)
}

/// Returns the pool that `matches` names, and the words after it, which `command` declares.
pub fn split(matches: &ArgMatches, command: &Command) -> (Option<PathBuf>, Vec<OsString>) {
    let own = command.get_positionals().map(|arg| arg.get_id().as_str()).filter(|id| *id != EXTRA);
    let ids = own.chain([EXTRA]);
    let raw = ids.filter_map(|id| matches.try_get_raw(id).ok().flatten()).flatten();
    let mut words: Vec<OsString> = raw.map(OsStr::to_owned).collect();
    let named = matches.get_one::<PathBuf>(OPTION).cloned();
    let is_first = named.is_none() && words.len() > required(command).count();
    let named = if is_first { Some(words.remove(0).into()) } else { named };
    (named, words)
}

/// Returns the usage of `command`, which the words of `path` call, if it works on a pool.
pub fn usage(path: &str, command: &Command) -> Option<String> {
    let has_default = command.get_arguments().find(|arg| arg.get_id() == OPTION)?.get_long_help().is_some();
    let option = |arg: &Arg| format!("--{} <{}>", arg.get_long().unwrap_or_default(), name_of(arg));
    let options = command.get_opts().filter(|arg| arg.is_required_set()).map(option);
    let pool = if has_default { "[POOL]" } else { "<POOL>" };
    let word = |arg: &Arg| match (arg.is_required_set(), arg.get_action()) {
        (true, _) => format!("<{}>", name_of(arg)),
        (false, ArgAction::Append) => format!("[{}]...", name_of(arg)),
        (false, _) => format!("[{}]", name_of(arg)),
    };
    let words = command.get_positionals().filter(|arg| !arg.is_hide_set()).map(word);
    let all: Vec<String> = options.chain([pool.to_owned()]).chain(words).collect();
    Some(format!("{path} [OPTIONS] {}", all.join(" ")))
}

impl PoolArgument {
    /// Returns the path of the pool.
    pub fn path(&self) -> Outcome<PathBuf> {
        match &self.named {
            Some(path) => self.ensure_order(path).map(|()| path.clone()),
            None => {
                self.ensure_complete()?;
                if self.has_default { default() } else { Err(self.unnamed()) }
            }
        }
    }

    /// Returns the path of the pool, which the command line must name.
    pub fn named_path(&self) -> Outcome<PathBuf> {
        if self.named.is_some() { self.path() } else { Err(self.unnamed()) }
    }

    /// Returns true if the command line names the pool.
    pub fn is_named(&self) -> bool {
        self.named.is_some()
    }

    /// Refuses `named` if no such file exists and a word after it is a pool.
    fn ensure_order(&self, named: &Path) -> Outcome {
        let pool = self.words.iter().find(|word| is_pool(word));
        let Some(pool) = pool.filter(|_| !named.exists()) else { return Ok(()) };
        let swapped = |word: OsString| match word {
            word if word == named => pool.clone(),
            word if word == *pool => named.into(),
            word => word,
        };
        let (named, first) = (named.display(), pool.display());
        let typed = shown(typed().map(swapped));
        Err(Failure::Usage(format!("there is no {named}, and {first} is a pool: the pool comes first: `{typed}`")))
    }

    /// Refuses the words if one of them is a pool, because then another word is missing.
    fn ensure_complete(&self) -> Outcome {
        let Some(pool) = self.words.iter().find(|word| is_pool(word)) else { return Ok(()) };
        let (pool, last) = (pool.display(), self.last.as_deref().unwrap_or("NAME"));
        let typed = shown(typed());
        Err(Failure::Usage(format!("{pool} is a pool, and the {last} behind it is missing: `{typed} {last}`")))
    }

    /// Returns the refusal of a command line that must name its pool.
    fn unnamed(&self) -> Failure {
        let served = serving_processes::of_this_user();
        let pool = if let [one] = &served[..] { quoted(&one.path) } else { "POOL".into() };
        let mut words: Vec<String> = typed().map(|word| quoted(Path::new(&word))).collect();
        let at = self.words.first().and_then(|first| typed().position(|word| word == *first));
        words.insert(at.unwrap_or(words.len()), pool);
        Failure::Usage(format!("name the pool, for which there is no default here: `ferrite {}`", words.join(" ")))
    }
}

/// Returns the pool of a command line that names no pool.
pub fn default() -> Outcome<PathBuf> {
    if let Some(path) = host::named_pool() {
        return Ok(path);
    }
    let served = serving_processes::of_this_user();
    match &served[..] {
        [] => Ok(host::default_pool()?),
        [one] => Ok(one.path.clone()),
        several => {
            let lines: Vec<String> =
                several.iter().map(|it| format!("\n  {} (process {})", quoted(&it.path), it.pid)).collect();
            Err(Failure::Usage(format!(
                "{} pools are served: name one by --pool or in FERRITE_POOL:{}",
                several.len(),
                lines.concat()
            )))
        }
    }
}

fn is_pool(path: impl AsRef<Path>) -> bool {
    let found = ferrite_pool::ensure_no_pool(path.as_ref());
    matches!(found, Err(ferrite_pool::Error::Occupied(_)))
}

/// Returns the words of this process's command line.
fn typed() -> impl Iterator<Item = OsString> {
    std::env::args_os().skip(1)
}

/// Returns `words` as a command to type.
fn shown(words: impl Iterator<Item = OsString>) -> String {
    let words: Vec<String> = words.map(|word| quoted(Path::new(&word))).collect();
    format!("ferrite {}", words.join(" "))
}
