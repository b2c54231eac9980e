//! `ferrite cache create`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use ferrite_cache::{CacheRequest, CreatedCache, MemberAddress, NewCacheDisk, StampPlace};
use ferrite_disk_address::{DiskAddress, DiskPlace};
use ferrite_owner::paths::quoted;

use super::settings::SettingArguments;
use super::{CacheName, shown};
use crate::command_pool;
use crate::commands::new_ssd::{NewSsd, new_ssd, with_files};
use crate::commands::print;
use crate::outcome::{Failure, Outcome};
use crate::pool_argument::InPool;
use crate::size;

#[derive(Args)]
pub struct Create {
    #[command(flatten)]
    cache: InPool<CacheName, true>,
    /// A disk behind the cache, with the name by which it is used [default: the name of the cache]; repeatable, with a
    /// name for each. A file, a block device or an NBD export
    #[arg(long, required = true, value_name = "[NAME=]DISK", value_parser = named_disk)]
    disk: Vec<(Option<String>, MemberAddress)>,
    /// An SSD; repeatable, up to 15. A file, which is made if it is missing and has a SIZE, a block device or an NBD
    /// export. Its content is lost
    #[arg(long, required = true, value_name = "SSD[=SIZE]", value_parser = new_ssd)]
    ssd: Vec<NewSsd>,
    /// Where the stamp of a disk goes, which keeps it from being used by mistake: its first MiB (head), for a disk
    /// without data, its last MiB (tail), or nowhere (none); tail and none keep the data of the disk in place
    #[arg(long, value_name = "PLACE", default_value = "head", value_parser = stamp_values())]
    stamp: StampPlace,
    /// Bytes of a LEB, the unit in which SSDs are written; a power of two from 16K to 8M
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = size::parse)]
    leb: u64,
    /// Bytes of the pool that gather writes, at least four LEBs
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = size::parse)]
    buffer: u64,
    /// Use SSDs that may hold data: the bytes that they have, which are lost
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    lose: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten, next_help_heading = "Settings, which `ferrite cache set` changes")]
    settings: SettingArguments,
}

impl Create {
    /// Makes the cache.
    pub fn run(self) -> Outcome {
        let InPool { pool, words: CacheName { name } } = self.cache;
        if self.disk.len() > 1 && self.disk.iter().any(|(export, _)| export.is_none()) {
            return Err(Failure::Usage("several disks need a name each: --disk NAME=DISK".into()));
        }
        let stamp = self.stamp;
        let disks = self.disk.into_iter().map(|(export, at)| NewCacheDisk { export, at, stamp }).collect();
        let settings = self.settings.change();
        let (leb_bytes, buffer_bytes, lose) = (self.leb, self.buffer, self.lose);
        let pool = pool.path()?;
        let made: CreatedCache = with_files(&self.ssd, &mut Vec::new(), |ssds| {
            let request = CacheRequest::Create { name, disks, ssds, settings, leb_bytes, buffer_bytes, lose };
            command_pool::ask(&pool, request, None)
        })?;
        print(self.json, &made, |made| {
            let notes: String = made.notes.iter().map(|note| format!("  note: {note}\n")).collect();
            let disk = made.report.disks.first().map_or("", String::as_str);
            let serve = format!("  `ferrite disk serve {} {}` serves it\n", quoted(&pool), quoted(disk.as_ref()));
            shown::show_line(&made.report) + &shown::show_survival(&made.survives) + &notes + &serve
        })
    }
}

/// Parses the address of a member.
pub fn member(text: &str) -> Result<MemberAddress, String> {
    let address = DiskAddress::parse(text).and_then(DiskAddress::absolute).map_err(|error| error.to_string())?;
    let path = match &address.place {
        DiskPlace::File(path) => path.clone(),
        DiskPlace::Nbd(uri) if uri.contains("socket=") && !uri.contains("socket=/") => {
            return Err(format!("the socket of {uri} needs an absolute path, as the pool's owner may run elsewhere"));
        }
        DiskPlace::Nbd(_) | DiskPlace::InPool { .. } => PathBuf::new(),
    };
    Ok(MemberAddress { address: address.to_string(), path })
}

/// Parses `[NAME=]DISK`. An address with a `=` has a `:`, `/` or `?` before it.
pub(super) fn named_disk(text: &str) -> Result<(Option<String>, MemberAddress), String> {
    let named = text.split_once('=').filter(|(name, _)| !name.contains([':', '/', '?']));
    match named {
        Some((name, address)) => {
            ferrite_pool::check_name(name).map_err(|error| error.to_string())?;
            Ok((Some(name.into()), member(address)?))
        }
        None => Ok((None, member(text)?)),
    }
}

/// Returns the parser of `--stamp`.
pub(super) fn stamp_values() -> impl TypedValueParser<Value = StampPlace> {
    PossibleValuesParser::new(["head", "tail", "none"]).map(|text| stamp(&text))
}

fn stamp(text: &str) -> StampPlace {
    match text {
        "tail" => StampPlace::Tail,
        "none" => StampPlace::None,
        _ => StampPlace::Head,
    }
}
