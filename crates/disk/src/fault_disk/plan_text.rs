//! Fault plans as text.

use std::fmt;
use std::str::FromStr;

use ferrite_memory::Span;

use super::{FaultAction, FaultChance, FaultCondition, FaultError, FaultOp, FaultPlan, FaultRule};

impl FaultPlan {
    /// The grammar, for help texts.
    pub const GRAMMAR: &str = "\
PLAN       none, or RULE[+RULE]...; the first rule that chooses a request decides
RULE       ACTION[@CONDITION[,CONDITION]...]; without conditions it chooses every request
ACTION     error[=io|space|damaged|poisoned]   the request fails and changes nothing
           hang             the request does not end
           corrupt          a read returns a flipped bit in each sector
           truncate=BYTES   from then on the device ends there
           drop             from then on every request fails
CONDITION  request=N        the request of this number, counted from 0
           from=N           that request and all later ones
           every=N          each N-th request
           span=FROM-TO     requests that touch bytes FROM to TO, TO excluded
           op=read|write|flush|trim|zero
           chance=N/M       N of M requests at random; seed=S chooses others
Bytes take the suffixes K, M, G and T. Example: hang@from=100,op=write+corrupt@span=1M-2M";
}

/// A text that is not a fault plan. The message names the wrong part and the possible ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPlanError(String);

impl fmt::Display for FaultPlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fault plan: {}", self.0)
    }
}

impl std::error::Error for FaultPlanError {}

type Parsed<T> = Result<T, FaultPlanError>;

fn wrong<T>(what: impl Into<String>) -> Parsed<T> {
    Err(FaultPlanError(what.into()))
}

impl FromStr for FaultPlan {
    type Err = FaultPlanError;

    fn from_str(text: &str) -> Parsed<Self> {
        match text {
            "none" => Ok(Self::default()),
            _ => text.split('+').map(rule).collect::<Parsed<_>>().map(|rules| Self { rules }),
        }
    }
}

fn rule(text: &str) -> Parsed<FaultRule> {
    let (action_text, conditions) = match text.split_once('@') {
        Some((action, conditions)) => (action, Some(conditions)),
        None => (text, None),
    };
    let action = action(action_text)?;
    let (mut when, mut seed) = (FaultCondition::default(), None);
    for text in conditions.iter().flat_map(|conditions| conditions.split(',')) {
        condition(text, &mut when, &mut seed)?;
    }
    match (seed, &mut when.chance) {
        (Some(seed), Some(chance)) => chance.seed = seed,
        (Some(_), None) => return wrong(format!("`{text}` has a seed and no chance: add chance=N/M")),
        (None, _) => {}
    }
    Ok(FaultRule { action, when })
}

fn action(text: &str) -> Parsed<FaultAction> {
    match text.split_once('=') {
        None if text == "error" => Ok(FaultAction::Error(FaultError::Io)),
        None if text == "hang" => Ok(FaultAction::Hang),
        None if text == "corrupt" => Ok(FaultAction::Corrupt),
        None if text == "drop" => Ok(FaultAction::Drop),
        Some(("truncate", size)) => Ok(FaultAction::Truncate(bytes(size)?)),
        Some(("error", kind)) => match kind {
            "io" => Ok(FaultAction::Error(FaultError::Io)),
            "space" => Ok(FaultAction::Error(FaultError::NoSpace)),
            "damaged" => Ok(FaultAction::Error(FaultError::Damaged)),
            "poisoned" => Ok(FaultAction::Error(FaultError::Poisoned)),
            _ => wrong(format!("`{kind}` is not an error: use io, space, damaged or poisoned")),
        },
        _ => wrong(format!("`{text}` is not an action: use error, hang, corrupt, truncate=BYTES or drop")),
    }
}

fn condition(text: &str, when: &mut FaultCondition, seed: &mut Option<u64>) -> Parsed<()> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    match name {
        "request" => once(&mut when.request, text, number(value)?),
        "from" => once(&mut when.from, text, number(value)?),
        "every" => once(&mut when.every, text, above_zero(number(value)?, text)?),
        "span" => once(&mut when.span, text, span(value)?),
        "op" => once(&mut when.op, text, op(value)?),
        "chance" => once(&mut when.chance, text, chance(value)?),
        "seed" => once(seed, text, number(value)?),
        _ => wrong(format!("`{text}` is not a condition: use request, from, every, span, op, chance or seed")),
    }
}

fn once<T>(place: &mut Option<T>, text: &str, value: T) -> Parsed<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => wrong(format!("`{text}` repeats a condition: write each once, or write a second rule")),
    }
}

fn number(text: &str) -> Parsed<u64> {
    text.parse().or_else(|_| wrong(format!("`{text}` is not a number from 0 to {}", u64::MAX)))
}

fn above_zero(number: u64, text: &str) -> Parsed<u64> {
    if number > 0 { Ok(number) } else { wrong(format!("`{text}`: the number is at least 1")) }
}

fn bytes(text: &str) -> Parsed<u64> {
    let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let unit = units.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
    let (digits, shift) = unit.unwrap_or((text, 0));
    let count: Option<u64> = digits.parse().ok();
    let count = count.and_then(|count| count.checked_mul(1 << shift));
    count.map_or_else(|| wrong(format!("`{text}` is not a number of bytes, such as 4096, 64K or 1M")), Ok)
}

fn span(text: &str) -> Parsed<Span> {
    let Some((from, to)) = text.split_once('-') else {
        return wrong(format!("`{text}` is not a span: write span=FROM-TO, such as span=1M-2M"));
    };
    let (from, to) = (bytes(from)?, bytes(to)?);
    if from < to { Ok(Span::new(from, to - from)) } else { wrong(format!("the span `{text}` is empty")) }
}

fn op(text: &str) -> Parsed<FaultOp> {
    match text {
        "read" => Ok(FaultOp::Read),
        "write" => Ok(FaultOp::Write),
        "flush" => Ok(FaultOp::Flush),
        "trim" => Ok(FaultOp::Trim),
        "zero" => Ok(FaultOp::Zero),
        _ => wrong(format!("`{text}` is not a kind of request: use read, write, flush, trim or zero")),
    }
}

fn chance(text: &str) -> Parsed<FaultChance> {
    let parts = text.split_once('/').map(|(chosen, of)| (chosen.parse(), of.parse()));
    match parts {
        Some((Ok(chosen), Ok(of))) if chosen <= of && of > 0 => Ok(FaultChance { chosen, of, seed: 0 }),
        _ => wrong(format!("`{text}` is not a chance: write chance=N/M with N at most M, such as chance=1/1000")),
    }
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rules.is_empty() {
            return f.write_str("none");
        }
        for (at, rule) in self.rules.iter().enumerate() {
            write!(f, "{}{rule}", if at == 0 { "" } else { "+" })?;
        }
        Ok(())
    }
}

impl fmt::Display for FaultRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.action {
            FaultAction::Error(FaultError::Io) => f.write_str("error")?,
            FaultAction::Error(FaultError::NoSpace) => f.write_str("error=space")?,
            FaultAction::Error(FaultError::Damaged) => f.write_str("error=damaged")?,
            FaultAction::Error(FaultError::Poisoned) => f.write_str("error=poisoned")?,
            FaultAction::Hang => f.write_str("hang")?,
            FaultAction::Corrupt => f.write_str("corrupt")?,
            FaultAction::Truncate(size) => write!(f, "truncate={size}")?,
            FaultAction::Drop => f.write_str("drop")?,
        }
        let FaultCondition { request, from, every, span, op, chance } = self.when;
        let kinds = |op| match op {
            FaultOp::Read => "read",
            FaultOp::Write => "write",
            FaultOp::Flush => "flush",
            FaultOp::Trim => "trim",
            FaultOp::Zero => "zero",
        };
        let parts = [
            request.map(|number| format!("request={number}")),
            from.map(|number| format!("from={number}")),
            every.map(|number| format!("every={number}")),
            span.map(|span| format!("span={}-{}", span.at, span.at.saturating_add(span.len))),
            op.map(|op| format!("op={}", kinds(op))),
            chance.map(|chance| format!("chance={}/{},seed={}", chance.chosen, chance.of, chance.seed)),
        ];
        for (at, part) in parts.into_iter().flatten().enumerate() {
            write!(f, "{}{part}", if at == 0 { "@" } else { "," })?;
        }
        Ok(())
    }
}
