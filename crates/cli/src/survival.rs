//! The user's statement about the failures that a pool's medium survives.

use clap::Args;

/// The user's word for the medium.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Trust {
    /// Claim that the medium keeps what is durable through kernel crashes and power loss, whatever Ferrite finds; the
    /// pool records it, and every claim says so. =no takes it back
    #[arg(long, value_name = "yes|no", num_args = 0..=1, require_equals = true, default_missing_value = "yes", value_parser = yes_or_no)]
    pub trust_medium: Option<bool>,
}

fn yes_or_no(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("yes or no".into()),
    }
}
