//! Rust source as tokens with their lines; comments and whitespace are gone, strings are one token.
//!
//! It knows just enough of the language that no rule is fooled by a word in a comment or a brace in a string.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name or a keyword; a raw name comes without its `r#`.
    Ident,
    /// A string, character or number.
    Literal,
    /// A lifetime or a label.
    Lifetime,
    /// One character of punctuation.
    Punct,
}

/// A token and where it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its text.
    pub text: &'a str,
    /// Its first line, from 1.
    pub line: usize,
}

impl Token<'_> {
    /// Whether it is the name or keyword `word`.
    pub fn is_ident(&self, word: &str) -> bool {
        self.kind == Kind::Ident && self.text == word
    }

    /// Whether it is the punctuation `mark`.
    pub fn is_punct(&self, mark: char) -> bool {
        self.kind == Kind::Punct && self.text.starts_with(mark)
    }
}

/// The tokens of `text`.
pub fn lex(text: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer { text, at: 0, line: 1 };
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next_token() {
        tokens.push(token);
    }
    tokens
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Lexer<'a> {
    fn next_token(&mut self) -> Option<Token<'a>> {
        self.skip_blanks_and_comments();
        let rest = &self.text[self.at..];
        let first = rest.chars().next()?;
        let (kind, skip, len) = match first {
            'r' | 'b' | 'c' if string_with_prefix(rest).is_some() => (Kind::Literal, 0, string_with_prefix(rest)?),
            'r' if rest.starts_with("r#") && rest[2..].starts_with(is_name_start) => {
                (Kind::Ident, 2, 2 + name_len(&rest[2..]))
            }
            '"' => (Kind::Literal, 0, quoted_len(rest, '"')),
            '\'' => quote_or_lifetime(rest),
            c if is_name_start(c) => (Kind::Ident, 0, name_len(rest)),
            c if c.is_ascii_digit() => (Kind::Literal, 0, number_len(rest)),
            c => (Kind::Punct, 0, c.len_utf8()),
        };
        let token = Token { kind, text: &rest[skip..len], line: self.line };
        self.advance(len);
        Some(token)
    }

    fn skip_blanks_and_comments(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let blank = rest.len() - rest.trim_start().len();
            let len = match &rest[blank..] {
                after if after.starts_with("//") => blank + after.find('\n').unwrap_or(after.len()),
                after if after.starts_with("/*") => blank + block_comment_len(after),
                _ => {
                    self.advance(blank);
                    return;
                }
            };
            self.advance(len);
        }
    }

    fn advance(&mut self, len: usize) {
        self.line += self.text[self.at..self.at + len].matches('\n').count();
        self.at += len;
    }
}

fn is_name_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn name_len(rest: &str) -> usize {
    rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len())
}

/// A number ends where a name would, or at a point that starts a range or a method.
fn number_len(rest: &str) -> usize {
    let whole = name_len(rest);
    let fraction = &rest[whole..];
    if fraction.starts_with('.') && fraction[1..].starts_with(|c: char| c.is_ascii_digit()) {
        return whole + 1 + name_len(&fraction[1..]);
    }
    whole
}

/// Length of what lies between two `quote`s, backslashes heeded, both quotes counted.
fn quoted_len(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Length of a string that starts with `r`, `b`, `c`, `br` or `cr`, if `rest` is one.
fn string_with_prefix(rest: &str) -> Option<usize> {
    let prefix = rest.find(|c| !matches!(c, 'r' | 'b' | 'c'))?;
    let body = &rest[prefix..];
    if !matches!(&rest[..prefix], "r" | "b" | "c" | "br" | "cr") {
        return None;
    }
    if rest[..prefix].ends_with('r') {
        let hashes = body.find(|c| c != '#')?;
        let open = body[hashes..].starts_with('"');
        let close = format!("\"{}", "#".repeat(hashes));
        return open.then(|| prefix + raw_len(body, hashes + 1, &close));
    }
    match body.chars().next()? {
        '"' => Some(prefix + quoted_len(body, '"')),
        '\'' if &rest[..prefix] == "b" => Some(prefix + quoted_len(body, '\'')),
        _ => None,
    }
}

fn raw_len(body: &str, opening: usize, close: &str) -> usize {
    body[opening..].find(close).map_or(body.len(), |at| opening + at + close.len())
}

/// A character where the quote closes after one (or an escape), else a lifetime.
fn quote_or_lifetime(rest: &str) -> (Kind, usize, usize) {
    let mut chars = rest.chars().skip(1);
    let (first, second) = (chars.next(), chars.next());
    if first == Some('\\') || second == Some('\'') {
        return (Kind::Literal, 0, quoted_len(rest, '\''));
    }
    (Kind::Lifetime, 0, 1 + name_len(&rest[1..]))
}

/// Length of a block comment; they nest.
fn block_comment_len(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        let here = &rest[at..];
        if here.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if here.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += here.chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        lex(source).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_vanish_and_nest() {
        assert_eq!(texts("a // unsafe\n/* x /* fn */ y */ b"), ["a", "b"]);
    }

    #[test]
    fn strings_of_every_kind_are_one_token() {
        let source = r####"x("a\"}", r#"raw " }"#, b"by\\", br##"q"# "##, c"c", b'\'', '}', '\u{1}')"####;
        let literals = lex(source).iter().filter(|token| token.kind == Kind::Literal).count();
        assert_eq!(literals, 8);
        assert!(!texts(source).contains(&"}"), "a brace in a string is no brace");
    }

    #[test]
    fn lifetimes_are_not_characters() {
        let tokens = lex("fn f<'a>(x: &'a str, c: char) { 'out: loop { break 'out; } g('a') }");
        let of = |kind| tokens.iter().filter(|token| token.kind == kind).map(|token| token.text).collect::<Vec<_>>();
        assert_eq!(of(Kind::Lifetime), ["'a", "'a", "'out", "'out"]);
        assert_eq!(of(Kind::Literal), ["'a'"]);
    }

    #[test]
    fn numbers_stop_before_ranges_and_methods() {
        assert_eq!(
            texts("0..4 1.5e3 2.max(3) 0xff_u8"),
            ["0", ".", ".", "4", "1.5e3", "2", ".", "max", "(", "3", ")", "0xff_u8"]
        );
    }

    #[test]
    fn raw_names_lose_their_mark_and_lines_count() {
        let tokens = lex("r#fn\n\"two\nlines\"\nend");
        assert_eq!((tokens[0].text, tokens[0].kind), ("fn", Kind::Ident));
        assert_eq!((tokens[2].text, tokens[2].line), ("end", 4));
    }

    #[test]
    fn unfinished_text_ends_without_harm() {
        for source in ["\"open", "/* open", "r#\"open", "'", "b'", "r#"] {
            let _ = lex(source);
        }
    }
}
