//! The configuration of a target of another node.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use terrace_tier::TargetSettings;

use crate::tls;

/// The longest time of a request if the tier has no `timeout`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// How a target is written.
const PATH_ADVICE: &str = "write https://HOST:PORT/TARGET, or http://127.0.0.1:PORT/TARGET on the node's own machine";

/// A node, and how to speak to it.
#[derive(Clone)]
pub struct Options {
    /// The host and the port.
    pub host: String,
    /// The target's name on the node.
    pub target: String,
    /// The file of the secret. It is read when a target is opened.
    pub secret: String,
    /// How TLS is spoken; none for plain HTTP.
    pub tls: Option<Arc<ClientConfig>>,
    /// The longest time of a request.
    pub timeout: Duration,
}

impl Options {
    /// Reads the settings of a target.
    ///
    /// # Errors
    /// The reason, and the text to write instead.
    pub fn read(settings: &TargetSettings) -> Result<Options, String> {
        if settings.service.is_some() {
            return Err("service is not for this kind of tier; leave it out".to_owned());
        }
        let known = |option: &String| matches!(option.as_str(), "secret" | "fingerprint");
        if let Some(unknown) = settings.options.keys().find(|option| !known(option)) {
            return Err(format!("unknown option {unknown:?}; there are secret and fingerprint"));
        }
        let path = settings.path.to_str().unwrap_or_default();
        let wrong = || format!("{path:?} is no target of a node; {PATH_ADVICE}");
        let (scheme, place) = path.split_once("://").ok_or_else(wrong)?;
        let (host, target) = place.split_once('/').ok_or_else(wrong)?;
        if !host.contains(':') || !is_target_name(target) {
            return Err(wrong());
        }
        let secret = settings.options.get("secret").filter(|secret| Path::new(secret).is_absolute());
        let secret = secret.ok_or("the option secret must name the file of the node's secret, with its whole path")?;
        let fingerprint = settings.options.get("fingerprint");
        let tls = match (scheme, fingerprint) {
            ("https", Some(fingerprint)) => Some(tls::client_config(fingerprint)?),
            ("https", None) => {
                return Err("the option fingerprint is missing; the node prints it when it starts".into());
            }
            ("http", None) => None,
            ("http", Some(_)) => return Err("a fingerprint is for https; write https:// in the target".into()),
            _ => return Err(wrong()),
        };
        let timeout = settings.timeout.unwrap_or(DEFAULT_TIMEOUT);
        Ok(Options { host: host.to_owned(), target: target.to_owned(), secret: secret.clone(), tls, timeout })
    }

    /// The addresses of the node. Without TLS, only those of this machine.
    pub fn addresses(&self) -> std::io::Result<Vec<SocketAddr>> {
        let mut addresses: Vec<SocketAddr> = self.host.to_socket_addrs()?.collect();
        if self.tls.is_none() {
            addresses.retain(|address| address.ip().is_loopback());
        }
        Ok(addresses)
    }
}

/// Whether a target of a node may have this name.
pub fn is_target_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=64).contains(&name.len()) && name.bytes().all(is_allowed)
}
