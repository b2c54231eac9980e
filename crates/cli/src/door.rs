//! Where disks are served, as the command line asks for it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use ferrite_daemon::disks::{Door, TcpDoor};
use ferrite_nbd::Network;

use crate::host::absolute;
use crate::outcome::{Failure, Outcome};

/// Where disks are served over NBD.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Where it is reached")]
pub struct DoorArguments {
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

/// Says what it means to serve this machine by an address.
fn warn(TcpDoor { address, tls, .. }: &TcpDoor) {
    let knows_clients = tls.as_ref().is_some_and(|(_, _, authority)| authority.is_some());
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

impl DoorArguments {
    /// Refuses to serve a network that nothing guards.
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

    /// The door; its socket is at `otherwise` where none was named.
    pub fn door(&self, otherwise: &Path) -> Outcome<Door> {
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                let authority = self.tls_client_ca.as_deref().map(absolute).transpose()?;
                Some((absolute(certificate)?, absolute(key)?, authority))
            }
            _ => None,
        };
        let tcp = self.tcp.map(|address| TcpDoor { address, allow: self.allow.clone(), tls });
        self.check()?;
        tcp.iter().for_each(warn);
        Ok(Door { unix: absolute(self.unix.as_deref().unwrap_or(otherwise))?, tcp })
    }
}
