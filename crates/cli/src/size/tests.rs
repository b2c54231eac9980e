use super::*;

#[test]
fn sizes_are_read_as_people_write_them() {
    assert_eq!(parse("4096"), Ok(4096));
    assert_eq!(parse("1G"), Ok(1 << 30));
    assert_eq!(parse("64MiB"), Ok(64 << 20));
    assert_eq!(parse("8388607T"), Ok(8_388_607 << 40));
    assert_eq!((parse("1.5G"), parse("1.5 GiB"), parse("0.5k")), (Ok(3 << 29), Ok(3 << 29), Ok(512)));
    assert_eq!((parse("4.5K"), parse("0.25T")), (Ok(4608), Ok(1 << 38)), "what is exact is kept");
    assert_eq!(parse("1.1G"), Ok(((11_u64 << 30) / 10) & !4095), "else whole pages");
    let wrong = ["", "G", "1X", "-1", "0", "99999999999T", "8388608T", "18446744073709551615", "1.5", "1.G", ".5G"];
    for wrong in wrong.into_iter().chain(["1.5.5G", "1,5G", "1.5e3K", "0.0G", "1.0000000000000000001G"]) {
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
    for (bytes, text) in
        [(100, "100"), (1536, "1.5K"), (512 << 10, "512K"), (3 << 29, "1.5G"), (1100 << 20, "1100M"), (2 << 40, "2T")]
    {
        assert_eq!((written(bytes).as_str(), parse(text)), (text, Ok(bytes)));
        assert!(parse(&show(bytes)).is_ok(), "what a table shows can be typed");
    }
}

#[test]
fn one_is_no_plural() {
    assert_eq!([0, 1, 2].map(|count| counted(count, "inode")), ["0 inodes", "1 inode", "2 inodes"]);
}
