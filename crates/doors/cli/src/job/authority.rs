//! The certificates by which the hosts of a job and the members of etcd know each other.

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair,
};
use terrace::Access;

use super::folder::SharedFolder;

const AUTHORITY_FILE: &str = "authority.pem";

/// Makes an authority, and a certificate of each host, in the place of those of earlier jobs. Only the authority's certificate is kept: it
/// signs nothing later.
pub fn certify(folder: &SharedFolder, hosts: &[String]) -> Result<()> {
    let made = make(folder, hosts);
    made.context("making the certificates of the hosts")
}

fn make(folder: &SharedFolder, hosts: &[String]) -> Result<()> {
    let mut parameters = CertificateParams::new(Vec::new())?;
    parameters.distinguished_name = named("terrace job");
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let authority = CertifiedIssuer::self_signed(parameters, KeyPair::generate()?)?;
    folder.write_bytes(AUTHORITY_FILE, authority.pem().as_bytes())?;
    for host in hosts {
        let mut parameters = CertificateParams::new(vec![host.clone()])?;
        parameters.distinguished_name = named(host);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = parameters.signed_by(&key, &authority)?;
        folder.write_bytes(&key_file(host), key.serialize_pem().as_bytes())?;
        folder.write_bytes(&certificate_file(host), certificate.pem().as_bytes())?;
    }
    Ok(())
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn certificate_file(host: &str) -> String {
    format!("hosts/{host}.pem")
}

fn key_file(host: &str) -> String {
    format!("hosts/{host}.key")
}

/// The files by which a host and the members of etcd know each other.
pub struct HostFiles {
    pub authority: std::path::PathBuf,
    pub certificate: std::path::PathBuf,
    pub key: std::path::PathBuf,
}

impl HostFiles {
    pub fn of(folder: &SharedFolder, host: &str) -> HostFiles {
        HostFiles {
            authority: folder.path(AUTHORITY_FILE),
            certificate: folder.path(&certificate_file(host)),
            key: folder.path(&key_file(host)),
        }
    }

    /// The same for the client of a node.
    pub fn access(self) -> Access {
        Access {
            authorities: Some(self.authority),
            certificate: Some(self.certificate),
            key: Some(self.key),
            ..Access::default()
        }
    }
}
