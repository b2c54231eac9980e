//! What a person sees at a terminal: completions of three shells, and the screen of `stat --watch`. tmux is the terminal.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::programs::{client, ferrite, ferrite_path};
use crate::server::{Server, folder, run};

/// The time that a shell on a busy machine may take to show something.
const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal of 100 columns and 30 lines, with a tmux of its own, which ends when dropped.
struct Terminal {
    home: TempDir,
}

impl Terminal {
    /// Opens a terminal that runs `command`. `ferrite` is in its PATH, and its home is an empty folder.
    fn open(home: TempDir, command: &[&str]) -> Self {
        let terminal = Self { home };
        terminal.tmux(&[&["new-session", "-d", "-x", "100", "-y", "30"], command].concat());
        terminal
    }

    /// Calls tmux, and returns its output.
    fn tmux(&self, words: &[&str]) -> String {
        let beside = ferrite_path().canonicalize().expect("a path");
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:/usr/bin:/bin:{path}", beside.parent().expect("a folder").display());
        let home = self.home.path();
        let mut tmux = client("tmux");
        tmux.arg("-S").arg(home.join("tmux")).args(["-f", "/dev/null"]).args(words).current_dir(home);
        tmux.env("HOME", home).env("PATH", path).env("LC_ALL", "C.UTF-8").env("TERM", "xterm").env_remove("TMUX");
        run(&mut tmux)
    }

    /// Types `text` as it is.
    fn types(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
    }

    /// Presses a key by its name in tmux.
    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Returns the screen as soon as `is_shown` is true for it.
    fn wait_for(&self, what: &str, is_shown: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if is_shown(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < PATIENCE, "{what} is not shown:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = client("tmux").arg("-S").arg(self.home.path().join("tmux")).arg("kill-server").output();
    }
}

/// Writes the completions of `shell` into `home`, where the shell's start file `file` finds them.
fn completions(home: &Path, shell: &str, completions: &str, file: &str, text: &str) {
    fs::write(home.join(completions), run(ferrite().args(["completions", shell]))).expect("written");
    fs::write(home.join(file), text).expect("written");
}

/// In a terminal with a shell whose prompt is `ready>`, Tab completes a command, an option and a value.
fn completes(terminal: &Terminal) {
    terminal.wait_for("the prompt", |screen| screen.starts_with("ready>"));
    terminal.types("ferrite doct");
    terminal.press("Tab");
    terminal.wait_for("the command", |screen| screen.contains("ready> ferrite doctor"));
    terminal.press("C-u");
    terminal.types("ferrite disk create --thi");
    terminal.press("Tab");
    terminal.wait_for("the option", |screen| screen.contains("ready> ferrite disk create --thin"));
    terminal.press("C-u");
    terminal.types("ferrite cache create --mode write-t");
    terminal.press("Tab");
    terminal.wait_for("the value", |screen| screen.contains("ready> ferrite cache create --mode write-through"));
    terminal.press("C-u");
    terminal.types("ferrite stat");
    terminal.press("Tab");
    terminal.press("Tab");
    let offers = |line: &str, word: &str| !line.contains("ready>") && line.split_whitespace().any(|it| it == word);
    terminal.wait_for("the choice", |screen| {
        ["stat", "status"].iter().all(|word| screen.lines().any(|line| offers(line, word)))
    });
}

#[test]
fn bash_completes_commands_options_and_values() {
    let home = folder(false);
    completions(home.path(), "bash", "ferrite", "rc", "PS1='ready> '\nsource ./ferrite\n");
    completes(&Terminal::open(home, &["bash", "--noprofile", "--rcfile", "rc", "-i"]));
}

#[test]
fn zsh_completes_commands_options_and_values() {
    let home = folder(false);
    let start = "PS1='ready> '\nfpath=(~ $fpath)\nautoload -Uz compinit\ncompinit -u\n";
    completions(home.path(), "zsh", "_ferrite", ".zshrc", start);
    completes(&Terminal::open(home, &["zsh", "-i"]));
}

#[test]
fn fish_completes_commands_options_and_values() {
    let home = folder(false);
    let start = "function fish_prompt; echo 'ready> '; end\nset fish_greeting\nset fish_autosuggestion_enabled 0\n";
    fs::create_dir_all(home.path().join(".config/fish/completions")).expect("made");
    completions(home.path(), "fish", ".config/fish/completions/ferrite.fish", ".config/fish/config.fish", start);
    completes(&Terminal::open(home, &["fish", "-i"]));
}

/// `stat --watch` fits the terminal, shows what is written now, and restores the terminal when q is pressed.
#[test]
fn watched_statistics_follow_the_load_and_leave_the_terminal_as_it_was() {
    let at = folder(true);
    let pool = at.path().join("pool");
    let server = Server::start(&pool, &["--size", "64M", "--disk", "d=8M", "--no-attach"]);
    let home = folder(false);
    fs::write(home.path().join("rc"), "PS1='ready> '\n").expect("written");
    let terminal = Terminal::open(home, &["bash", "--noprofile", "--rcfile", "rc", "-i"]);
    terminal.wait_for("the prompt", |screen| screen.starts_with("ready>"));
    terminal.types(&format!("ferrite stat --watch {}", pool.display()));
    terminal.press("Enter");
    terminal.wait_for("the pool", |screen| screen.contains("\nopened in"));

    let copied = pool.with_file_name("copied");
    fs::write(&copied, [1; 1 << 20]).expect("written");
    let to = format!("{}:d", pool.display());
    let begun = Instant::now();
    let mut is_shown = false;
    let is_written = |line: &str| line.contains("disk d") && line.contains("write") && line.contains(" MiB ");
    while !is_shown && begun.elapsed() < PATIENCE {
        run(ferrite().args(["disk", "copy"]).arg(&copied).arg(&to));
        is_shown = terminal.tmux(&["capture-pane", "-p"]).lines().any(is_written);
    }
    assert!(is_shown, "no rate: {}", terminal.tmux(&["capture-pane", "-p"]));
    for size in ["60", "140"] {
        terminal.tmux(&["resize-window", "-x", size, "-y", "12"]);
        terminal.wait_for("the screen at another size", |screen| screen.contains(&pool.display().to_string()[..20]));
    }

    terminal.press("q");
    let left = terminal.wait_for("the prompt", |screen| screen.matches("ready>").count() == 2);
    assert!(!left.contains("p99.9"), "the screen of before is back: {left}");
    terminal.types("echo typed is shown");
    terminal.wait_for("the typed text", |screen| screen.contains("ready> echo typed is shown"));
    server.interrupt();
}
