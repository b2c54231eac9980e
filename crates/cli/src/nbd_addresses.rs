//! The options for the addresses at which disks are served over NBD.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use ferrite_daemon::disks::{NbdAddresses, TcpAddress, TlsPaths};
use ferrite_nbd::Network;

use crate::host::absolute;
use crate::outcome::{Failure, Outcome};

/// Where disks are served over NBD.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Where it is reached")]
pub struct NbdAddressArguments {
    /// The Unix socket to serve on
    #[arg(long)]
    unix: Option<PathBuf>,
    /// A TCP address to serve on too, such as 127.0.0.1:10809; its clients take no places of the socket's (256 each)
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = socket_address)]
    tcp: Option<SocketAddr>,
    /// Which clients may connect by TCP: an address or a network, such as 10.0.0.0/8; repeatable. Beyond this machine
    /// --tcp takes it, or TLS [default: all]
    #[arg(long, value_name = "NETWORK", requires = "tcp", value_parser = network)]
    allow: Vec<String>,
    /// Require TLS on TCP, with this certificate (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["tcp", "tls_key"])]
    tls_cert: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Require of clients a certificate that this authority (PEM) has signed
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
}

/// Warns about an address that every user of this machine can reach.
fn warn(TcpAddress { address, tls, .. }: &TcpAddress) {
    let knows_clients = tls.as_ref().is_some_and(|tls| tls.client_authority.is_some());
    if address.ip().is_loopback() && !knows_clients {
        remark!(
            "ferrite: every user of this machine can read and write the disks at {address}: the Unix socket is for this \
             user alone, --tls-client-ca for users with a certificate"
        );
    }
}

fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "write an IP address and a port, such as 127.0.0.1:10809 or [::1]:10809".into())
}

fn network(text: &str) -> Result<String, String> {
    text.parse::<Network>().map(|_| text.into()).map_err(|error| error.to_string())
}

impl NbdAddressArguments {
    /// Checks that no network is served without a guard.
    pub fn check(&self) -> Outcome {
        match self.tcp {
            Some(address) if !address.ip().is_loopback() && self.allow.is_empty() && self.tls_cert.is_none() => {
                Err(Failure::Usage(format!(
                    "every machine that reaches {address} could read and write the disks: say which may (--allow \
                     10.0.0.0/8), or require TLS (--tls-cert, --tls-client-ca)"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Returns the addresses; the socket is at `otherwise` if the user named none.
    pub fn resolve(&self, otherwise: &Path) -> Outcome<NbdAddresses> {
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                let client_authority = self.tls_client_ca.as_deref().map(absolute).transpose()?;
                Some(TlsPaths { certificate: absolute(certificate)?, key: absolute(key)?, client_authority })
            }
            _ => None,
        };
        let tcp = self.tcp.map(|address| TcpAddress { address, allow: self.allow.clone(), tls });
        self.check()?;
        tcp.iter().for_each(warn);
        Ok(NbdAddresses { unix: absolute(self.unix.as_deref().unwrap_or(otherwise))?, tcp })
    }
}
