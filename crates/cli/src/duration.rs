//! Durations and parts of a whole as users write them.

/// Nanoseconds of each unit.
const UNITS: [(&str, u64); 5] = [
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// Returns the nanoseconds of `text`: a whole number and one of the units ms, s, m, h and d. `0` needs no unit.
pub fn parse(text: &str) -> Result<u64, String> {
    let number = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let count: Option<u64> = number.parse().ok();
    let unit = UNITS.iter().find(|(name, _)| *name == text[number.len()..].trim_start()).map(|(_, unit)| *unit);
    let unit = unit.or_else(|| (text == "0").then_some(0));
    let ns = count.zip(unit).and_then(|(count, unit)| count.checked_mul(unit));
    ns.ok_or_else(|| format!("{text:?} is no duration: write 500ms, 10s, 5m, 2h or 1d"))
}

/// Returns `ns` in the largest unit that shows it exactly.
pub fn show(ns: u64) -> String {
    let whole = UNITS.iter().rev().find(|(_, unit)| ns > 0 && ns.is_multiple_of(*unit));
    whole.map_or_else(|| format!("{}ms", ns / 1_000_000), |(name, unit)| format!("{}{name}", ns / unit))
}

/// Returns the thousandths of `text`, a percentage with at most one digit behind the point.
pub fn permille(text: &str) -> Result<u32, String> {
    let none = || format!("{text:?} is no percentage: write 10% or 2.5%");
    let number = text.strip_suffix('%').ok_or_else(none)?.trim_end();
    let (whole, tenth) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(tenth) || tenth.len() > 1 {
        return Err(none());
    }
    let whole: u32 = whole.parse().ok().filter(|whole| *whole <= 100).ok_or_else(none)?;
    Ok(whole * 10 + tenth.parse::<u32>().map_err(|_| none())?)
}

/// Returns `permille` as a percentage.
pub fn show_permille(permille: u32) -> String {
    match permille % 10 {
        0 => format!("{}%", permille / 10),
        tenth => format!("{}.{tenth}%", permille / 10),
    }
}

#[cfg(test)]
mod tests;
