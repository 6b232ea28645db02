//! The targets of this machine that the node serves to the stores of other machines.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use terrace::config::Bytes;
use terrace::tier::Ids;
use terrace_remote::{Handler, Identity, Secret, ServedTarget, Server, ServerOptions};

use crate::error::NodeError;
use crate::node::Node;
use crate::streams::Streams;

/// The file that says which targets are served, and how.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    listen: SocketAddr,
    secret: PathBuf,
    certificate: Option<PathBuf>,
    #[serde(default)]
    target: Vec<TargetDescription>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetDescription {
    name: String,
    path: PathBuf,
    capacity: Option<Bytes>,
}

/// A running server of targets.
pub struct Targets {
    server: Server,
    names: Vec<String>,
    streams: Arc<Streams>,
    fingerprint: Option<String>,
}

impl Targets {
    /// Serves the targets that a file describes. Relative paths in it begin in its folder. `numbers` are the node's own for new
    /// segments, if it shares the log of its store.
    ///
    /// # Errors
    /// [`NodeError::Targets`].
    pub fn begin(file: &Path, numbers: Option<Arc<dyn Ids>>) -> Result<Targets, NodeError> {
        let wrong = |reason: String| NodeError::Targets { file: file.display().to_string(), reason };
        let text = fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        let described: Description = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let secret = Secret::read(&folder.join(described.secret)).map_err(|error| wrong(error.to_string()))?;
        let identity = described.certificate.map(|certificate| Identity::open(&folder.join(certificate)));
        let identity = identity.transpose().map_err(|error| wrong(error.to_string()))?;
        let fingerprint = identity.as_ref().map(|identity| identity.fingerprint().to_owned());
        let served = |target: TargetDescription| ServedTarget {
            name: target.name,
            path: folder.join(target.path),
            capacity: target.capacity.map_or(u64::MAX, |capacity| capacity.0),
        };
        let targets: Vec<ServedTarget> = described.target.into_iter().map(served).collect();
        let names = targets.iter().map(|target| target.name.clone()).collect();
        let streams = Arc::new(Streams::default());
        let handler: Option<Arc<dyn Handler>> = Some(streams.clone());
        let options = ServerOptions { listen: described.listen, secret, identity, targets, numbers, handler };
        let server = Server::begin(options).map_err(|error| wrong(error.to_string()))?;
        Ok(Targets { server, names, streams, fingerprint })
    }

    /// Takes requests for the streams of this store from now on, until the node ends.
    pub fn take_streams_of(&self, node: &Node) {
        self.streams.of(node.store());
    }

    /// One line for people: the targets, the address, and the fingerprint of the certificate.
    pub fn describe(&self) -> String {
        let names = if self.names.is_empty() { "no targets".to_owned() } else { self.names.join(", ") };
        let address = self.server.address();
        match &self.fingerprint {
            Some(fingerprint) => format!("serves {names} at https://{address}/ with the certificate {fingerprint}"),
            None => format!("serves {names} at http://{address}/"),
        }
    }

    /// Answers the requests that have arrived, makes all frames durable, and ends.
    pub fn end(self) {
        self.server.end();
    }
}
