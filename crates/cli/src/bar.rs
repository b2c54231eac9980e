//! The progress bar of a long command.

use std::sync::Once;
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use ferrite_pool::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output::shown;
use crate::stop;

/// The interval between two readings of the clock for the estimate of the remaining time.
const TICK: Duration = Duration::from_millis(200);

/// Work that ends within this time shows no bar.
const SHORT: Duration = Duration::from_millis(500);

/// A bar on standard error if that is a terminal. It appears when there is progress to show and the work is not short.
pub struct Bar {
    bar: ProgressBar,
    begun: Instant,
    appears: Once,
}

impl Bar {
    /// Returns a hidden bar. The bar appears once its length is known.
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_style(style("{msg}"));
        Self { bar, begun: Instant::now(), appears: Once::new() }
    }

    /// Updates the bar. Returns true if the command should continue.
    pub fn show(&self, progress: &Progress) -> bool {
        if progress.total > 0 {
            if self.bar.length().is_none() {
                self.bar.set_style(style("{msg} {wide_bar} {percent}% {eta}"));
            }
            self.bar.set_length(progress.total);
        }
        self.bar.set_position(progress.done);
        self.bar.set_message(shown(&progress.what));
        if self.begun.elapsed() >= SHORT {
            self.appears.call_once(|| self.appear());
        }
        !stop::is_asked()
    }

    /// Draws the bar from now on, and repeatedly if a thread can be started. The bar's own ticker would end the process
    /// if not.
    fn appear(&self) {
        self.bar.set_draw_target(ProgressDrawTarget::stderr());
        let bar = self.bar.clone();
        let follow = move || {
            while !bar.is_finished() {
                bar.tick();
                thread::sleep(TICK);
            }
        };
        if !self.bar.is_hidden() {
            let _ = Builder::new().name("bar".into()).spawn(follow);
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).expect("the template is well formed");
    if has_blocks(|name| std::env::var(name).ok()) { style } else { style.progress_chars("#- ") }
}

/// Returns true if the locale in `variable` is UTF-8, whose block characters can draw the bar.
fn has_blocks(variable: impl Fn(&str) -> Option<String>) -> bool {
    let message = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable).find(|locale| !locale.is_empty());
    let locale = message.unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests;
