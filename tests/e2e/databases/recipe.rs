//! The commands of docs/recipes.md, run unchanged except for their paths.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::programs::{client, ferrite, ferrite_path};
use crate::server::{Server, run};

/// The page of recipes, and this test's replacement for each of its paths.
pub struct Recipe {
    pub mount: PathBuf,
    pool: PathBuf,
    /// The folder for sockets.
    pub folder: PathBuf,
    tables: PathBuf,
}

impl Recipe {
    /// Returns a recipe that keeps all its files in `folder`.
    pub fn new(folder: &Path) -> Self {
        let all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder, all).expect("others may look into it");
        let at = |name: &str| folder.join(name);
        Self { mount: at("mnt"), pool: at("pool"), folder: folder.into(), tables: at("tables") }
    }

    /// Returns the shell commands of block `number` under `heading`, with the paths of this test.
    fn block(&self, heading: &str, number: usize) -> String {
        let page = include_str!("../../../docs/recipes.md");
        let section = page.split("\n## ").find_map(|section| section.strip_prefix(heading));
        let section = section.unwrap_or_else(|| panic!("docs/recipes.md has no section {heading}"));
        let mut blocks = section.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
        let block = blocks.nth(number).unwrap_or_else(|| panic!("{heading} has no block {number}"));
        let mut block = block.to_owned();
        for (theirs, ours) in
            [("/mnt/pmem/pool", &self.pool), ("/mnt/ferrite", &self.mount), ("/srv/postgres", &self.tables)]
        {
            block = block.replace(theirs, ours.to_str().expect("text"));
        }
        block
    }

    /// Starts the pool's server from a block, and waits until the server is ready. The server attaches no disk.
    pub fn serve(&self, heading: &str, number: usize) -> Server {
        let block = self.block(heading, number);
        let words: Vec<&str> = block.split_whitespace().collect();
        assert_eq!(words[..2], ["ferrite", "up"], "{heading}");
        Server::of(ferrite().args(&words[1..]).arg("--no-attach"), &self.pool, "Ctrl-C ends it.")
    }

    fn shell(&self, text: &str) -> Command {
        let mut shell = client("sh");
        let path = std::env::var("PATH").unwrap_or_default();
        let ours = ferrite_path();
        let folder = ours.parent().expect("in a folder").display();
        shell.env("PATH", format!("{folder}:/usr/sbin:/usr/bin:/sbin:/bin:{path}"));
        shell.args(["-e", "-c", text]).current_dir("/");
        shell
    }

    /// Runs a block to its end.
    pub fn run(&self, heading: &str, number: usize) {
        run(&mut self.shell(&self.block(heading, number)));
    }

    /// Starts the server in a block's last line, with `more` arguments after its name.
    pub fn start(&self, heading: &str, number: usize, (server, more): (&str, &str)) -> Child {
        let block = self.block(heading, number);
        let (before, last) = block.trim_end().rsplit_once('\n').map_or(("", block.trim_end()), |parts| parts);
        // The last occurrence is the server, because a user may have the same name.
        let (front, back) = last.rsplit_once(&format!("{server} ")).unwrap_or_else(|| panic!("{server} in {last}"));
        let mut shell = self.shell(&format!("{before}\nexec {front}{server} {more} {back}"));
        shell.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        shell.spawn().expect("a shell starts")
    }
}
