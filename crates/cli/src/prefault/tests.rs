use super::*;

#[test]
fn pieces_are_short_runs_of_what_is_in_use() {
    let mut kinds = vec![ChunkUse::Meta, ChunkUse::Meta, ChunkUse::Free, ChunkUse::Super];
    kinds.extend([ChunkUse::Normal; 9]);
    let span = |chunk: u64, count: u64| Span::new(chunk * CHUNK, count * CHUNK);
    assert_eq!(pieces(&kinds), [span(0, 2), span(3, 8), span(11, 2)]);
    assert!(pieces(&[ChunkUse::Free; 3]).is_empty());
}
