//! [`Certificate`]: what TLS needs.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A certificate with its key, for TLS.
#[derive(Clone)]
pub struct Certificate(Arc<ServerConfig>);

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Certificate(..)")
    }
}

impl Certificate {
    /// Reads a certificate, with those that lead to its authority behind it, and its key. Both files are in PEM.
    ///
    /// # Errors
    /// `InvalidInput` if a file cannot be read, or the two do not belong together.
    pub fn read(certificate: &Path, key: &Path) -> io::Result<Certificate> {
        let wrong = |path: &Path, reason: &dyn fmt::Display| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {reason}", path.display()))
        };
        let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let chain = chain.map_err(|error| wrong(certificate, &error))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.and_then(|config| config.with_no_client_auth().with_single_cert(chain, secret));
        Ok(Certificate(Arc::new(config.map_err(|error| wrong(certificate, &error))?)))
    }

    /// The configuration of a server with this certificate.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        self.0.clone()
    }
}
