use super::*;

#[test]
fn the_seeds_are_valid() {
    for form in AccessFormat::ALL.into_iter().map(|one| Some(one.1)).chain([None]) {
        for seed in seeds(form) {
            let input = TraceInput::over(Path::new(PATH), Cursor::new(seed.clone())).expect("it can be opened");
            let mut reader =
                trace::open(input, TraceOptions { form, line_bits: 6, cores: 1 }).expect("its form is told");
            let mut accesses = Vec::new();
            while reader.read(&mut accesses).expect("it is sound") {}
            assert!(!accesses.is_empty(), "{:?}", String::from_utf8_lossy(&seed));
        }
    }
}
