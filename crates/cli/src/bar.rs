//! How far a long command has come.

use std::time::Duration;

use ferrite_pool::owner::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::stop;

/// A bar on standard error where that is a terminal, and nothing elsewhere.
pub struct Bar(ProgressBar);

impl Bar {
    /// A bar that has not moved.
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(
            ProgressStyle::with_template("{msg} {wide_bar} {percent}% {eta}").expect("the template is well formed"),
        );
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Moves it; whether to go on.
    pub fn show(&self, progress: &Progress) -> bool {
        if progress.total > 0 {
            self.0.set_length(progress.total);
        }
        self.0.set_position(progress.done);
        self.0.set_message(progress.what.clone());
        !stop::is_asked()
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
