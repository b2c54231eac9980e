//! The words and numbers of one line.

use ferrite_memory::Span;

use super::BlockRequest;

/// The result of a line: a request, nothing of interest, or the reason why the line is malformed.
pub(super) type ParsedRequest = Result<Option<BlockRequest>, String>;

/// Bytes of a sector, in every format that counts in sectors.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Returns the words of a line between blanks.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Returns the fields of a line between commas, without the blanks around them.
pub(super) fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Returns the next word; `what` names it in the error if the line ends before.
pub(super) fn next<'a>(words: &mut impl Iterator<Item = &'a [u8]>, what: &str) -> Result<&'a [u8], String> {
    words.next().ok_or_else(|| format!("the line ends before its {what}"))
}

/// Returns the next word as a number.
pub(super) fn next_number<'a>(words: &mut impl Iterator<Item = &'a [u8]>, what: &str) -> Result<u64, String> {
    number(next(words, what)?, what)
}

/// Returns the number that decimal digits form.
pub(super) fn number(word: &[u8], what: &str) -> Result<u64, String> {
    digits(word).ok_or_else(|| format!("the {what} is {}: expected a number", quoted(word)))
}

pub(super) fn digits(word: &[u8]) -> Option<u64> {
    /// This many digits always fit 64 bits.
    const ALWAYS_FIT: usize = 19;
    if word.is_empty() {
        return None;
    }
    if word.len() <= ALWAYS_FIT {
        let (mut sum, mut wrong) = (0_u64, false);
        for byte in word {
            let digit = byte.wrapping_sub(b'0');
            wrong |= digit > 9;
            sum = sum.wrapping_mul(10).wrapping_add(u64::from(digit));
        }
        return (!wrong).then_some(sum);
    }
    word.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { sum.checked_mul(10)?.checked_add(u64::from(digit)) }
    })
}

/// Returns the nanoseconds of a time such as `12.000345` or `5e-05`, whose unit is `unit_ns` nanoseconds.
pub(super) fn time_ns(word: &[u8], unit_ns: u64, what: &str) -> Result<u64, String> {
    let refusal = || format!("the {what} is {}: expected a time such as 12.000345", quoted(word));
    if word.iter().any(|byte| byte.eq_ignore_ascii_case(&b'e')) {
        return scientific_ns(word, unit_ns).ok_or_else(refusal);
    }
    let (whole, part) = match word.iter().position(|byte| *byte == b'.') {
        Some(point) => (&word[..point], &word[point + 1..]),
        None => (word, &b""[..]),
    };
    let whole_ns = digits(whole).and_then(|whole| whole.checked_mul(unit_ns)).ok_or_else(refusal)?;
    let mut part_ns = 0;
    let mut step_ns = unit_ns;
    for byte in part {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(refusal());
        }
        step_ns /= 10;
        part_ns += u64::from(digit) * step_ns;
    }
    whole_ns.checked_add(part_ns).ok_or_else(refusal)
}

/// Returns the nanoseconds of a time with an exponent, cut below a nanosecond.
fn scientific_ns(word: &[u8], unit_ns: u64) -> Option<u64> {
    let (number, exponent) = std::str::from_utf8(word).ok()?.split_once(['e', 'E'])?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let (sign, power) = match exponent.strip_prefix('-') {
        Some(power) => (-1, power),
        None => (1, exponent.strip_prefix('+').unwrap_or(exponent)),
    };
    let power = i64::try_from(digits(power.as_bytes())?).ok()?;
    let mantissa = u128::from(digits(format!("{}{part}", Some(whole).filter(|whole| !whole.is_empty())?).as_bytes())?);
    let shift = sign * power - i64::try_from(part.len()).ok()?;
    let (ns, ten_to) = (mantissa * u128::from(unit_ns), 10_u128.checked_pow(shift.unsigned_abs().try_into().ok()?));
    let scaled = match (shift < 0, ten_to) {
        (true, ten_to) => ten_to.map_or(0, |ten_to| ns / ten_to),
        (false, _) if ns == 0 => 0,
        (false, ten_to) => ns.checked_mul(ten_to?)?,
    };
    scaled.try_into().ok()
}

/// Returns the bytes of `sectors` sectors from `sector`.
pub(super) fn sectors(sector: u64, sectors: u64) -> Result<Span, String> {
    span(sector, sectors, SECTOR_BYTES)
}

/// Returns the bytes of `count` units from unit `first`.
pub(super) fn span(first: u64, count: u64, unit_bytes: u64) -> Result<Span, String> {
    let bytes = first.checked_mul(unit_bytes).zip(count.checked_mul(unit_bytes));
    let span = bytes.map(|(at, len)| Span::new(at, len)).filter(|span| span.end().is_some());
    span.ok_or_else(|| format!("{count} from {first} lie beyond 2^64 bytes"))
}

/// Returns a device's number.
pub(super) fn device(word: &[u8], what: &str) -> Result<u32, String> {
    let number = number(word, what)?;
    u32::try_from(number).map_err(|_| format!("the {what} is {number}, which is out of range"))
}

/// Quotes a word for a message; a long word is cut.
pub(super) fn quoted(word: &[u8]) -> String {
    const SHOWN: usize = 40;
    let shown = String::from_utf8_lossy(&word[..word.len().min(SHOWN)]).escape_debug().to_string();
    if word.len() > SHOWN { format!("\"{shown}...\"") } else { format!("\"{shown}\"") }
}

#[cfg(test)]
mod tests;
