//! Sizes as users write them.

use ferrite_memory::ByteCount;

/// The length of the longest file: file lengths are signed numbers.
const BYTES_MAX: u64 = i64::MAX as u64;

/// The unit to which a size with a fraction is rounded, unless it is exact, because disks and pools have whole pages.
const PAGE_BYTES: u64 = 4096;

/// The number of digits after the point that are read.
const FRACTION_DIGITS_MAX: usize = 18;

/// Returns the bytes of `text`: a number, optionally with a point, and at most one suffix K, M, G or T. Suffixes are
/// powers of 1024; "KiB" and the like work too. The output of [`show`] and [`written`] is also valid.
pub fn parse(text: &str) -> Result<u64, String> {
    let none = || format!("{text:?} is no size: write 4096, 512K, 64M, 1.5G or 2T, in powers of 1024");
    let number = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text[number.len()..].trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1_u64 << 40,
        _ => return Err(none()),
    };
    let (whole, fraction) = number.split_once('.').map_or((number, None), |(whole, rest)| (whole, Some(rest)));
    let whole: u64 = whole.parse().map_err(|_| none())?;
    let part = fraction.map_or(Ok((0, true)), |digits| part_of(unit, digits).ok_or_else(none))?;
    let bytes = whole.checked_mul(unit).and_then(|bytes| bytes.checked_add(part.0));
    let rounded = bytes.map(|bytes| if part.1 || bytes < PAGE_BYTES { bytes } else { bytes - bytes % PAGE_BYTES });
    let bytes = rounded.filter(|bytes| (1..=BYTES_MAX).contains(bytes));
    bytes.ok_or_else(|| format!("{text:?} is out of range: sizes are of 1 byte to {}T", BYTES_MAX >> 40))
}

/// Returns the part of `unit` that the `digits` after the point mean, in bytes and rounded down. Also returns true if
/// that is exact. A byte has no fraction.
fn part_of(unit: u64, digits: &str) -> Option<(u64, bool)> {
    let is_number = (1..=FRACTION_DIGITS_MAX).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let count: u128 = digits.parse().ok().filter(|_| is_number && unit > 1)?;
    let scale = 10_u128.pow(digits.len() as u32);
    let scaled = u128::from(unit) * count;
    Some(((scaled / scale) as u64, scaled.is_multiple_of(scale)))
}

/// Parses a whole number.
pub fn whole<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let number = text.parse::<u64>().ok().and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| "write a whole number, 0 or more, in digits".into())
}

/// Returns `bytes` for people.
pub fn show(bytes: u64) -> String {
    ByteCount(bytes).to_string()
}

/// Returns `count` with the noun `what`, in the singular or the plural.
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Returns `bytes` exactly, in the form that [`parse`] reads.
pub fn written(bytes: u64) -> String {
    let units = [(1_u64 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    // One digit after the point is exact here, as in a table.
    let short = units.into_iter().find(|(unit, _)| bytes >= *unit).and_then(|(unit, name)| {
        let tenths = u128::from(bytes) * 10;
        let is_exact = tenths.is_multiple_of(unit.into());
        let (whole, tenth) = (bytes / unit, tenths / u128::from(unit) % 10);
        let point = if tenth == 0 { String::new() } else { format!(".{tenth}") };
        is_exact.then(|| format!("{whole}{point}{name}"))
    });
    let whole = || units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    short.or_else(|| whole().map(|(unit, name)| format!("{}{name}", bytes / unit))).unwrap_or_else(|| bytes.to_string())
}

#[cfg(test)]
mod tests;
