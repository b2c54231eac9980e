//! Short-lived certificates, made by openssl.

use std::path::{Path, PathBuf};
use std::process::Command;

use ferrite_nbd::{Tls, TlsFiles};
use tempfile::{TempDir, tempdir};

/// The server's files, and a folder for each kind of client in the layout of libnbd and QEMU: `ca-cert.pem`,
/// `client-cert.pem`, `client-key.pem`. A `member` and a client that is only `trusting` know the server's authority. A
/// `stranger` knows it too, but its own certificate comes from another authority. A `doubting` client knows only the
/// other authority.
pub struct Certificates {
    dir: TempDir,
}

impl Certificates {
    pub fn new() -> Self {
        let certificates = Self { dir: tempdir().unwrap() };
        for authority in ["ca", "other"] {
            certificates.authority(authority);
        }
        certificates.issue("ca", "server", "subjectAltName=DNS:localhost,IP:127.0.0.1\n");
        for (client, knows, issuer) in [
            ("member", "ca", Some("ca")),
            ("trusting", "ca", None),
            ("stranger", "ca", Some("other")),
            ("doubting", "other", None),
        ] {
            let folder = certificates.path(client);
            std::fs::create_dir(&folder).unwrap();
            std::fs::copy(certificates.path(&format!("{knows}-cert.pem")), folder.join("ca-cert.pem")).unwrap();
            if let Some(issuer) = issuer {
                certificates.issue(issuer, &format!("{client}/client"), "extendedKeyUsage=clientAuth\n");
            }
        }
        certificates
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the server's files, with or without an authority for clients.
    pub fn files(&self, client_authority: Option<&str>) -> TlsFiles {
        TlsFiles {
            certificate: self.path("server-cert.pem"),
            key: self.path("server-key.pem"),
            client_authority: client_authority.map(|name| self.path(name)),
        }
    }

    pub fn tls(&self, client_authority: Option<&str>) -> Tls {
        Tls::load(&self.files(client_authority)).unwrap()
    }

    fn authority(&self, name: &str) {
        let (key, cert) = (self.path(&format!("{name}-key.pem")), self.path(&format!("{name}-cert.pem")));
        let subject = format!("/CN=authority {name}");
        let args =
            ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
        openssl(&[&args[..], &["-subj", &subject, "-keyout", text(&key), "-out", text(&cert)]].concat());
    }

    fn issue(&self, authority: &str, name: &str, extensions: &str) {
        let place = |end: &str| self.path(&format!("{name}{end}"));
        let (key, request, cert, with) = (place("-key.pem"), place(".csr"), place("-cert.pem"), place(".ext"));
        std::fs::write(&with, format!("basicConstraints=CA:FALSE\n{extensions}")).unwrap();
        let args =
            ["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost"];
        openssl(&[&args[..], &["-keyout", text(&key), "-out", text(&request)]].concat());
        let (ca, ca_key) = (self.path(&format!("{authority}-cert.pem")), self.path(&format!("{authority}-key.pem")));
        let args = ["x509", "-req", "-days", "2", "-CAcreateserial", "-CA", text(&ca), "-CAkey", text(&ca_key)];
        let more = ["-in", text(&request), "-extfile", text(&with), "-out", text(&cert)];
        openssl(&[&args[..], &more].concat());
    }
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn openssl(args: &[&str]) {
    match Command::new("openssl").args(args).output() {
        Ok(output) => {
            assert!(output.status.success(), "openssl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
        Err(error) => panic!("openssl: {error}; install the Debian package openssl"),
    }
}
