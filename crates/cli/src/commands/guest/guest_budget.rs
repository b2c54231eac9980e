//! `ferrite guest set` and `ferrite guest budget`.

use clap::Args;
use ferrite_guest::{BudgetReport, GuestReport, GuestRequest, PmRange, ShareReport};

use super::{GuestName, show_guest};
use crate::command_pool;
use crate::commands::{WholePool, print};
use crate::outcome::{Failure, Outcome};
use crate::pool_argument::InPool;
use crate::size;

/// The word for a budget that follows the pool's free space.
const AUTO: &str = "auto";

/// Change how much of the pool a guest may have, also in use; durable when it returns
///
/// Its memory follows within seconds. A guest that gets less writes pages to its disk first. If a program has it mapped
/// from an earlier owner of the pool, it follows when the program has ended. `ferrite guest budget` shows how far it is.
#[derive(Args)]
pub struct ChangedGuest {
    #[command(flatten)]
    guest: InPool<GuestName>,
    /// Its memory in the pool, least in use and most: 64M..1G, or one size for both
    #[arg(long, value_name = "MIN..MAX", value_parser = parse_range)]
    pm: Option<PmRange>,
    /// Its weight beside other guests that want memory: 1 to 10000
    #[arg(long, value_name = "WEIGHT", value_parser = size::whole::<u32>)]
    weight: Option<u32>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ChangedGuest {
    /// Changes the share.
    pub fn run(self) -> Outcome {
        let Self { guest: InPool { pool, words: GuestName { name } }, pm, weight, json } = self;
        if pm.is_none() && weight.is_none() {
            return Err(Failure::Usage("nothing to change: --pm MIN..MAX or --weight WEIGHT".into()));
        }
        let guest: GuestReport = command_pool::ask(&pool.path()?, GuestRequest::Set { name, pm, weight }, None)?;
        print(json, &guest, show_guest)
    }
}

/// Show or set the memory that all guests of a pool share; each guest is shown with what it has and waits for
///
/// Each guest in use has its minimum. The rest goes to the guests that read pages again which they dropped lately, by
/// weight. A guest that no client uses gives all but 2M when others want it.
#[derive(Args)]
pub struct GuestBudget {
    #[command(flatten)]
    whole: WholePool,
    /// The bytes for all guests; `auto`: half of what they have and the pool has free, at least what they have
    #[arg(long, value_name = "BYTES", value_parser = parse_budget)]
    set: Option<u64>,
}

impl GuestBudget {
    /// Sets the budget if that is asked for, and prints it.
    pub fn run(self) -> Outcome {
        let Self { whole: WholePool { at, json }, set } = self;
        let budget: BudgetReport = command_pool::ask(&at.pool.path()?, GuestRequest::Budget { set_bytes: set }, None)?;
        print(json, &budget, show_budget)
    }
}

fn parse_budget(text: &str) -> Result<u64, String> {
    if text == AUTO { Ok(0) } else { size::parse(text) }
}

/// Returns the range in `text`: `MIN..MAX`, or one size for both.
pub fn parse_range(text: &str) -> Result<PmRange, String> {
    let (min, max) = text.split_once("..").unwrap_or((text, text));
    Ok(PmRange { min_bytes: size::parse(min)?, max_bytes: size::parse(max)? })
}

fn show_budget(budget: &BudgetReport) -> String {
    let how = if budget.is_set { "set" } else { "half of what is free and given, at least what they have" };
    let [bytes, given] = [budget.bytes, budget.given_bytes].map(size::show);
    let head = format!("{bytes} for all guests ({how}), {given} given\n");
    budget.guests.iter().map(show_share).fold(head, |text, line| text + &line)
}

fn show_share(share: &ShareReport) -> String {
    let ShareReport { name, weight, missed_pages, .. } = share;
    let [has, min, max] = [share.pm_bytes, share.min_bytes, share.max_bytes].map(size::show);
    let state = if share.is_used { "in use" } else { "at rest" };
    let missed = size::show(missed_pages.saturating_mul(4096));
    let waits = share.waits_for.as_ref().map_or_else(String::new, |what| format!("  {what}\n"));
    format!("{name:<20} {has} ({min} to {max}, weight {weight}), {state}, {missed} read again\n{waits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_two_sizes_or_one() {
        let range = |min_bytes, max_bytes| Ok(PmRange { min_bytes, max_bytes });
        assert_eq!(parse_range("4M..1G"), range(4 << 20, 1 << 30));
        assert_eq!(parse_range("16M"), range(16 << 20, 16 << 20));
        assert!(parse_range("..4M").is_err() && parse_range("4M...8M").is_err());
        assert_eq!((parse_budget(AUTO), parse_budget("2M")), (Ok(0), Ok(2 << 20)));
    }

    #[test]
    fn a_budget_says_who_has_what_and_waits_for_what() {
        let share = ShareReport {
            name: "g".into(),
            pm_bytes: 4 << 20,
            target_bytes: 4 << 20,
            wanted_bytes: 8 << 20,
            min_bytes: 2 << 20,
            max_bytes: 64 << 20,
            weight: 100,
            is_used: true,
            missed_pages: 256,
            waits_for: Some("waits for 4194304 bytes from h".into()),
        };
        let budget = BudgetReport { bytes: 32 << 20, is_set: true, given_bytes: 30 << 20, guests: vec![share] };
        let text = show_budget(&budget);
        for part in ["32 MiB for all guests (set), 30 MiB given", "in use, 1 MiB read again", "  waits for 4194304"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
