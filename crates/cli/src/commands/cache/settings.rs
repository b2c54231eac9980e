//! The settings of a cache as options.

use clap::Args;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser;
use ferrite_cache::{CacheMode, CachePolicy, CopyRule, RateChoice, SettingsChange};

use crate::duration;
use crate::outcome::{Failure, Outcome};
use crate::size;

/// The settings that `create` chooses and `set` changes.
#[derive(Args)]
pub struct SettingArguments {
    /// What a write does: write-back completes it in the cache, write-through on the disk too, write-around on the disk
    /// alone, read-only refuses it; a new cache has write-back with two SSDs or more if they and the pool survive a power
    /// loss, else write-through
    #[arg(long, value_name = "MODE", value_parser = PossibleValuesParser::new(["write-back", "write-through", "write-around", "read-only"]).map(|it| mode(&it)))]
    mode: Option<CacheMode>,
    /// Blocks on two SSDs: the dirty ones, all, or none (one); dirty in a new cache
    #[arg(long, value_name = "RULE", value_parser = PossibleValuesParser::new(["dirty", "all", "one"]).map(|it| copies(&it)))]
    copies: Option<CopyRule>,
    /// Which blocks enter and stay: ferrite admits at the second miss and keeps what is hit, paper admits at the first
    /// miss and keeps once, fifo keeps nothing; ferrite in a new cache
    #[arg(long, value_name = "POLICY", value_parser = PossibleValuesParser::new(["ferrite", "paper", "fifo"]).map(|it| policy(&it)))]
    policy: Option<CachePolicy>,
    /// A sequential stream longer than this goes around the cache, or `never`; 4M in a new cache
    #[arg(long, value_name = "SIZE|never", value_parser = bypass)]
    bypass: Option<u64>,
    /// The largest part of the SSDs that may be dirty; above it writes go to the disk; 10% in a new cache
    #[arg(long, value_name = "PERCENT", value_parser = duration::permille)]
    dirty_max: Option<u32>,
    /// Dirty data older than this is written to the disk, or 0 for never because of its age; 5m in a new cache
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    dirty_age: Option<u64>,
    /// Blocks a second that go to the disk: `auto` keeps the dirty part below its limit, 0 sends none; auto in a new cache
    #[arg(long, value_name = "auto|N", value_parser = rate)]
    destage_rate: Option<RateChoice>,
    /// An SSD that does not answer for this long has failed; 10s in a new cache
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    ssd_timeout: Option<u64>,
    /// An SSD that is missing may come back for this long before its dirty blocks are copied again; 60s in a new cache
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    grace: Option<u64>,
    /// Trim each LEB of an SSD before it is written again; on in a new cache
    #[arg(long, value_name = "on|off", value_parser = on_or_off)]
    discard: Option<bool>,
}

impl SettingArguments {
    /// Returns the settings that the command line names.
    pub fn change(&self) -> SettingsChange {
        SettingsChange {
            mode: self.mode,
            copies: self.copies,
            policy: self.policy,
            bypass_bytes: self.bypass,
            dirty_max_permille: self.dirty_max,
            dirty_age_ns: self.dirty_age,
            destage_rate: self.destage_rate,
            ssd_timeout_ns: self.ssd_timeout,
            grace_ns: self.grace,
            discard: self.discard,
        }
    }

    /// Returns the settings that the command line names; refuses a command line that names none.
    pub fn change_of_some(&self) -> Outcome<SettingsChange> {
        let change = self.change();
        if change == SettingsChange::default() {
            return Err(Failure::Usage("name a setting to change, such as --mode write-through".into()));
        }
        Ok(change)
    }
}

fn mode(text: &str) -> CacheMode {
    match text {
        "write-back" => CacheMode::WriteBack,
        "write-around" => CacheMode::WriteAround,
        "read-only" => CacheMode::ReadOnly,
        _ => CacheMode::WriteThrough,
    }
}

fn copies(text: &str) -> CopyRule {
    match text {
        "all" => CopyRule::All,
        "one" => CopyRule::One,
        _ => CopyRule::Dirty,
    }
}

fn policy(text: &str) -> CachePolicy {
    match text {
        "paper" => CachePolicy::Paper,
        "fifo" => CachePolicy::Fifo,
        _ => CachePolicy::Ferrite,
    }
}

fn bypass(text: &str) -> Result<u64, String> {
    if text == "never" { Ok(0) } else { size::parse(text) }
}

fn rate(text: &str) -> Result<RateChoice, String> {
    if text == "auto" { Ok(RateChoice::Auto) } else { size::whole(text).map(RateChoice::Pages) }
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("on or off".into()),
    }
}
