//! TLS: the certificate of a node, and clients that know it by its fingerprint.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring as provider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme, version};

/// The name in the certificate. Clients compare the fingerprint, so it names no machine.
pub const NODE_NAME: &str = "terrace-node";
const CERTIFICATE_FILE: &str = "certificate.der";
const KEY_FILE: &str = "key.der";
const FINGERPRINT_PREFIX: &str = "sha256:";

fn crypto() -> Arc<CryptoProvider> {
    Arc::new(provider::default_provider())
}

/// The fingerprint of a certificate.
fn fingerprint(certificate: &[u8]) -> String {
    let mut text = FINGERPRINT_PREFIX.to_owned();
    for byte in ring::digest::digest(&ring::digest::SHA256, certificate).as_ref() {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The certificate of a node and its key.
#[derive(Clone)]
pub struct Identity {
    config: Arc<ServerConfig>,
    fingerprint: String,
}

impl Identity {
    /// Reads certificate and key in a folder: `certificate.der`, and `key.der` in PKCS#8. Makes both if there is no certificate.
    pub fn open(folder: &Path) -> io::Result<Identity> {
        let (certificate, key) = (folder.join(CERTIFICATE_FILE), folder.join(KEY_FILE));
        if !certificate.try_exists()? {
            make(folder, &certificate, &key).map_err(|error| {
                io::Error::new(error.kind(), format!("making a certificate in {}: {error}", folder.display()))
            })?;
        }
        let read = |path: &Path| {
            fs::read(path).map_err(|error| io::Error::new(error.kind(), format!("reading {}: {error}", path.display())))
        };
        let (certificate, key) = (read(&certificate)?, PrivateKeyDer::from(PrivatePkcs8KeyDer::from(read(&key)?)));
        let fingerprint = fingerprint(&certificate);
        let config = ServerConfig::builder_with_provider(crypto()).with_protocol_versions(&[&version::TLS13]);
        let config = config.and_then(|config| {
            config.with_no_client_auth().with_single_cert(vec![CertificateDer::from(certificate)], key)
        });
        let wrong = |error| io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {error}", folder.display()));
        Ok(Identity { config: Arc::new(config.map_err(wrong)?), fingerprint })
    }

    /// The fingerprint for the configuration of clients.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The configuration of a server with this certificate.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }
}

fn make(folder: &Path, certificate: &Path, key: &Path) -> io::Result<()> {
    let made = rcgen::generate_simple_self_signed([NODE_NAME.to_owned()]).map_err(io::Error::other)?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let write = |path: &Path, bytes: &[u8]| {
        let mut file = File::options().create(true).truncate(true).write(true).mode(0o600).open(path)?;
        file.write_all(bytes).and_then(|()| file.sync_all())
    };
    // The key first, and synced: a certificate without its key would stop every later start.
    write(key, &made.signing_key.serialize_der())?;
    write(certificate, made.cert.der())
}

/// A configuration that accepts one certificate only.
///
/// # Errors
/// If the text is no fingerprint.
pub fn client_config(expected: &str) -> Result<Arc<ClientConfig>, String> {
    let is_hex = |hex: &str| hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if !expected.strip_prefix(FINGERPRINT_PREFIX).is_some_and(is_hex) {
        return Err(format!("{expected:?} is no fingerprint; the node prints its own when it starts, as sha256:..."));
    }
    let algorithms = provider::default_provider().signature_verification_algorithms;
    let pinned = Pinned { expected: expected.to_owned(), algorithms };
    let config = ClientConfig::builder_with_provider(crypto()).with_protocol_versions(&[&version::TLS13]);
    let config = config.map_err(|error| error.to_string())?;
    let config = config.dangerous().with_custom_certificate_verifier(Arc::new(pinned));
    Ok(Arc::new(config.with_no_client_auth()))
}

/// Accepts the certificate of one fingerprint, whatever names and dates it has: both sides were told of it by a person.
#[derive(Debug)]
struct Pinned {
    expected: String,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match fingerprint(certificate) == self.expected {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure)),
        }
    }

    /// TLS 1.2 is never offered.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("only TLS 1.3 is spoken".to_owned()))
    }

    /// The signature shows that the node has the key, and not only a copy of the certificate.
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
