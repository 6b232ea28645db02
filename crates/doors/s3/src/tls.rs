//! [`Certificate`]: what TLS needs.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::BeginError;

/// A certificate with its key, for TLS.
#[derive(Clone)]
pub struct Certificate(Arc<ServerConfig>);

impl Certificate {
    /// Reads a certificate, with those that lead to its authority behind it, and its key. Both files are in PEM.
    ///
    /// # Errors
    /// If a file cannot be read, or the two do not belong together.
    pub fn read(certificate: &Path, key: &Path) -> Result<Certificate, BeginError> {
        let wrong =
            |path: &Path, reason: &dyn std::fmt::Display| BeginError::new(format!("{}: {reason}", path.display()));
        let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let chain = chain.map_err(|error| wrong(certificate, &error))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.and_then(|config| config.with_no_client_auth().with_single_cert(chain, secret));
        Ok(Certificate(Arc::new(config.map_err(|error| wrong(certificate, &error))?)))
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.0.clone())
    }
}
