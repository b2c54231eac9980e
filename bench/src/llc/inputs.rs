//! The inputs of the programs: made here, the same on every machine.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use crate::bench_random::BenchRandom;
use crate::options::Length;
use crate::scratch::Scratch;
use crate::{Error, Result};

/// Makes the inputs in a folder of `scratch`, and returns its path.
pub fn make(scratch: &Scratch, length: Length) -> Result<PathBuf> {
    let size: u64 = length.pick([16, 4, 1]);
    let folder = scratch.folder("inputs")?;
    let text = text((size << 18) as usize);
    let lines = lines(size * 7500);
    let passage = text[..text.len() / 8].to_owned();
    let files = [
        ("edited", edited(&lines)),
        ("pairs", pairs(size * 10_000)),
        ("passage", passage),
        ("program.s", assembly(size * 4000)),
        ("table.json", table(size * 4000)),
        ("lines", lines),
        ("text", text),
        ("program.c", program(size as usize * 6)),
        ("one.fa", proteins(1)),
        ("all.fa", proteins(size * 180)),
        ("moves", moves(size / 3 + 1)),
        ("numbers.1", numbers(size * 3125)),
        ("numbers.2", numbers(size * 6250)),
        ("numbers.4", numbers(size * 12_500)),
        ("count.awk", COUNT.into()),
        ("words.pl", WORDS.into()),
        ("tables.py", TABLES.replace("SIZE", &(size * 10_000).to_string())),
        ("tables.sql", QUERIES.replace("SIZE", &(size * 4000).to_string())),
    ];
    for (name, content) in files {
        fs::write(folder.join(name), content).map_err(Error::io(format!("writing {name}")))?;
    }
    Ok(folder)
}

const LETTERS: &[u8] = b"etaoinshrdlucmfwypvbgk";

fn word(random: &mut BenchRandom) -> String {
    let length = 2 + random.below(8);
    (0..length).map(|_| char::from(LETTERS[random.below(LETTERS.len() as u64) as usize])).collect()
}

fn dictionary(random: &mut BenchRandom) -> Vec<String> {
    (0..8000).map(|_| word(random)).collect()
}

/// A text of words by Zipf's law: the n-th word is about 1/n times as frequent as the first.
fn text(bytes: usize) -> String {
    let mut random = BenchRandom::new(1);
    let words = dictionary(&mut random);
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        let share = random.below(1 << 20) as f64 / f64::from(1 << 20);
        let rank = (words.len() as f64).powf(share) as usize - 1;
        text.push_str(&words[rank.min(words.len() - 1)]);
        text.push_str(if random.below(10) == 0 { ".\n" } else { " " });
    }
    text
}

fn lines(count: u64) -> String {
    let mut random = BenchRandom::new(2);
    let words = dictionary(&mut random);
    let line = |random: &mut BenchRandom| {
        format!("{} {}\n", random.below(1_000_000_000), words[random.below(words.len() as u64) as usize])
    };
    (0..count).map(|_| line(&mut random)).collect()
}

/// Numbers in a scrambled order.
fn numbers(count: u64) -> String {
    (1..=count).map(|number| format!("{}\n", number * 2_654_435_761 % (1 << 32))).collect()
}

fn proteins(count: u64) -> String {
    let mut random = BenchRandom::new(3 + count);
    let mut text = String::new();
    for number in 0..count {
        let length = if count == 1 { 300 } else { 100 + random.below(800) };
        let acids: String =
            (0..length).map(|_| char::from(b"ACDEFGHIKLMNPQRSTVWY"[random.below(20) as usize])).collect();
        let _ = write!(text, ">s{number}\n{acids}\n");
    }
    text
}

fn moves(pairs: u64) -> String {
    format!("boardsize 19\n{}quit\n", "genmove black\ngenmove white\n".repeat(pairs as usize))
}

/// The lines with every thirtieth one edited.
fn edited(lines: &str) -> String {
    let edit = |(at, line)| if at % 30 == 29 { format!("{at} edited\n") } else { format!("{line}\n") };
    lines.lines().enumerate().map(edit).collect()
}

/// Pairs for tsort, without a cycle.
fn pairs(count: u64) -> String {
    let mut random = BenchRandom::new(5);
    let mut pair = || {
        let first = random.below(count);
        format!("n{first} n{}\n", first + 1 + random.below(count))
    };
    (0..count).map(|_| pair()).collect()
}

/// Assembly of labels, data and references.
fn assembly(functions: u64) -> String {
    let mut random = BenchRandom::new(6);
    let mut text = String::from(".text\n");
    for number in 0..functions {
        let _ = writeln!(text, "f{number}:");
        for _ in 0..4 + random.below(8) {
            let (other, value) = (random.below(functions), random.below(1 << 20));
            let _ = write!(text, " .long {value}\n .quad f{other} + {}\n .asciz \"w{value}\"\n", value % 64);
        }
    }
    text
}

fn table(rows: u64) -> String {
    let mut random = BenchRandom::new(7);
    let mut row = || {
        let (key, value) = (random.below(5000), random.below(1 << 30));
        format!("{{\"k\":{key},\"v\":{value},\"s\":\"w{}\"}}", value % 1000)
    };
    let rows: Vec<String> = (0..rows).map(|_| row()).collect();
    format!("[{}]\n", rows.join(",\n"))
}

/// C functions with loops, branches and tables that call one another.
fn program(functions: usize) -> String {
    let mut random = BenchRandom::new(4);
    let mut text = String::from("typedef unsigned long u;\n");
    for number in 0..functions {
        let _ = write!(text, "static u t{number}[64];\nu f{number}(u a, u b, u *p) {{\n u s = a;\n");
        for _ in 0..4 + random.below(10) {
            let n = 2 + random.below(28);
            let _ = match random.below(5) {
                0 => writeln!(
                    text,
                    " for (u i = 0; i < b % {n}; i++) {{ s += p[i] ^ t{number}[i & 63]; if (s & {n}) s <<= 3; }}"
                ),
                1 => writeln!(
                    text,
                    " switch (s % 4) {{ case 0: s += {n}; break; case 1: s ^= b; break; default: s--; }}"
                ),
                2 if number > 0 => writeln!(text, " s ^= f{}(s, b + {n}, p);", random.below(number as u64)),
                3 => writeln!(text, " p[s % 8] = s + t{number}[b & 63]; t{number}[a & 63] = s;"),
                _ => writeln!(text, " while (s > {n}00000) {{ s /= {n}; if (!(s % 7)) break; a += s; }}"),
            };
        }
        text.push_str(" return s + a;\n}\n");
    }
    text
}

const COUNT: &str = "{ for (i = 1; i <= NF; i++) { c[$i]++; p[$i, last]++; last = $i } }\n\
    END { for (k in c) n += c[k]; for (k in p) m += p[k]; print n, m }\n";

const WORDS: &str = r#"my (%h, @a);
open my $f, "<", "text" or die;
while (<$f>) { for my $w (split) { $h{$w}{$. % 50}++; push @a, $w if $h{$w}{1}; } }
my $n = 0;
for my $k (sort keys %h) { $n += scalar keys %{$h{$k}}; }
@a = sort @a;
print $n, " ", scalar(@a), "\n";
"#;

const TABLES: &str = "import random
r = random.Random(2)
d, l = {}, []
for i in range(SIZE):
    k = r.randrange(60000)
    d[k] = d.get(k, 0) + i
    if i % 3 == 0: l.append((k, str(i)))
l.sort()
s = set(x[1] for x in l if x[0] % 2)
m = [[0] * 300 for _ in range(300)]
for i in range(300):
    for j in range(300): m[i][j] = d.get(i * j, 0)
print(len(s), sum(map(sum, m)))
";

const QUERIES: &str = "create table t(a integer primary key, b int, c text);
with recursive n(i) as (select 1 union all select i + 1 from n where i < SIZE)
insert into t select i, (i * 7919) % 10007, hex(zeroblob(20)) from n;
create index tb on t(b);
update t set b = b + 1 where a % 5 = 0;
select count(*), sum(b) from t where b between 100 and 5000;
select b, count(*) from t group by b order by 2 desc limit 3;
delete from t where b % 7 = 0;
select count(*) from t x join t y on x.b = y.a;
";
