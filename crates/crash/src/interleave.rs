//! Turns.

use ferrite_medium::Span;

pub(crate) fn turn() {}

pub(crate) fn parts(span: Span) -> impl Iterator<Item = Span> {
    std::iter::once(span)
}
