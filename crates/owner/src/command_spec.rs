//! Subcommands of a service, described as data. The crate `cli` builds its command line from them.

/// A subcommand: `ferrite SERVICE NAME [POOL] ARGUMENT... [--OPTION]`.
#[derive(Clone, Copy, Debug)]
pub struct CommandSpec {
    /// The name of the subcommand.
    pub name: &'static str,
    /// The help, in one line.
    pub help: &'static str,
    /// The arguments behind the pool.
    pub arguments: &'static [ArgumentSpec],
    /// The value of `do` in the request. Each argument is a field of the request by its name.
    pub request: &'static str,
    /// The columns of the answer, which is a list of objects; without columns the answer is not printed.
    pub table: &'static [ColumnSpec],
}

/// An argument of a subcommand.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentSpec {
    /// The name, which is also the field of the request.
    pub name: &'static str,
    /// The help, in one line.
    pub help: &'static str,
    /// The form.
    pub kind: ArgumentKind,
}

/// The form of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A word that the command requires, at its place; the field is a string.
    Word,
    /// `--NAME N`, a whole number; without it the field is missing.
    Number,
    /// `--NAME SIZE`, in bytes or with a suffix; without it the field is missing.
    Size,
    /// `--NAME`; the field is true or false.
    Flag,
}

/// A column of a table.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSpec {
    /// The head.
    pub head: &'static str,
    /// The field of each object.
    pub field: &'static str,
    /// How the field is shown.
    pub show: ColumnKind,
}

/// How a field is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// As text, at the left.
    Text,
    /// As a number, at the right.
    Number,
    /// As bytes with a unit, at the right.
    Bytes,
}
