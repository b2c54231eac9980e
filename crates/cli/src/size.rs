//! Sizes as people write them.

/// No file is longer: its length is a signed number.
const BYTES_MAX: u64 = i64::MAX as u64;

/// Bytes of `text`: digits with at most one suffix K, M, G or T (powers of 1024; "KiB" and the like too).
pub fn parse(text: &str) -> Result<u64, String> {
    let none = || format!("{text:?} is no size: write 4096, 512K, 64M, 1G or 2T, in powers of 1024");
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1_u64 << 40,
        _ => return Err(none()),
    };
    let count: u64 = digits.parse().map_err(|_| none())?;
    let bytes = count.checked_mul(unit).filter(|bytes| (1..=BYTES_MAX).contains(bytes));
    bytes.ok_or_else(|| format!("{text:?} is out of range: sizes are of 1 byte to {}T", BYTES_MAX >> 40))
}

/// A whole number.
pub fn whole<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let number = text.parse::<u64>().ok().and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| "write a whole number, 0 or more, in digits".into())
}

/// `bytes` for people.
pub fn show(bytes: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

/// `count` of what one is called `what`.
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// `bytes` as [`parse`] reads them.
pub fn written(bytes: u64) -> String {
    let units = [(1_u64 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")];
    let whole = units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    whole.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("1G"), Ok(1 << 30));
        assert_eq!(parse("64MiB"), Ok(64 << 20));
        assert_eq!(parse("8388607T"), Ok(8_388_607 << 40));
        for wrong in ["", "G", "1X", "-1", "1.5G", "0", "99999999999T", "8388608T", "18446744073709551615"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn whole_numbers_are_read_or_told_what_they_are() {
        assert_eq!((whole("0"), whole::<u32>("4294967295")), (Ok(0_u64), Ok(u32::MAX)));
        for wrong in ["-1", "1.5", "", "4294967296"] {
            assert!(whole::<u32>(wrong).is_err_and(|why| why.contains("whole number")), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_written_as_they_are_read() {
        for (bytes, text) in [(100, "100"), (1536, "1536"), (512 << 10, "512K"), (3 << 29, "1536M"), (2 << 40, "2T")] {
            assert_eq!((written(bytes).as_str(), parse(text)), (text, Ok(bytes)));
        }
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "inode")), ["0 inodes", "1 inode", "2 inodes"]);
    }

    #[test]
    fn sizes_are_shown_with_the_largest_unit_that_fits() {
        assert_eq!(show(1 << 30), "1 GiB");
        assert_eq!(show(3 << 29), "1.5 GiB");
        assert_eq!(show(100), "100 B");
    }
}
