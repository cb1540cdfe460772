//! Certificates, keys and tokens of one control plane, valid for nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use super::Error;
use crate::root;

/// Bearer token of the administrator. The server listens on loopback and lives for minutes.
const TOKEN: &str = "e2e-administrator";

/// Files of a control plane in its directory.
#[derive(Clone, Debug)]
pub(super) struct Credentials {
    directory: PathBuf,
}

impl Credentials {
    /// Makes everything anew for a server on `port`.
    pub(super) fn make(directory: &Path, port: u16) -> Result<Self, Error> {
        let made = Self {
            directory: directory.to_owned(),
        };
        let authority_key = KeyPair::generate()?;
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        authority
            .distinguished_name
            .push(DnType::CommonName, "kruntimes e2e");
        let certificate = authority.self_signed(&authority_key)?;
        let issuer = Issuer::new(authority, authority_key);
        let names = ["127.0.0.1", "localhost"].map(str::to_owned);
        let server_key = KeyPair::generate()?;
        let server = CertificateParams::new(names)?.signed_by(&server_key, &issuer)?;
        made.write("ca.crt", &certificate.pem())?;
        made.write("server.crt", &server.pem())?;
        made.write("server.key", &server_key.serialize_pem())?;
        let accounts_key = KeyPair::generate()?;
        made.write("service-accounts.key", &accounts_key.serialize_pem())?;
        made.write("service-accounts.pub", &accounts_key.public_key_pem())?;
        made.write(
            "tokens.csv",
            &format!("{TOKEN},admin,admin,system:masters\n"),
        )?;
        made.write("kubeconfig", &made.text(port))?;
        Ok(made)
    }

    /// Path of one of the files.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Path of the kubeconfig of the administrator.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.path("kubeconfig")
    }

    fn text(&self, port: u16) -> String {
        let authority = self.path("ca.crt");
        let authority = authority.display();
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: e2e\n\
             clusters: [{{name: e2e, cluster: {{server: \"https://127.0.0.1:{port}\", \
             certificate-authority: \"{authority}\"}}}}]\n\
             users: [{{name: admin, user: {{token: {TOKEN}}}}}]\n\
             contexts: [{{name: e2e, context: {{cluster: e2e, user: admin}}}}]\n"
        )
    }

    fn write(&self, name: &str, text: &str) -> Result<(), root::Error> {
        let path = self.path(name);
        fs::write(&path, text).map_err(root::Error::at(&path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubeconfig_is_one() {
        let directory = tempfile::tempdir().unwrap();
        let made = Credentials::make(directory.path(), 6443).unwrap();
        let read = kube::config::Kubeconfig::read_from(made.kubeconfig()).unwrap();
        let cluster = read.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:6443"));
        let authority = fs::read_to_string(cluster.certificate_authority.as_ref().unwrap());
        assert!(authority.unwrap().starts_with("-----BEGIN CERTIFICATE"));
        assert_eq!(read.current_context.as_deref(), Some("e2e"));
    }
}
