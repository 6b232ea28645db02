//! [`Traffic`]: counts of what a server does, in the text format of Prometheus (OpenMetrics).

use std::fmt;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// A label. Requests are labelled with words of the protocol only, never with what clients write.
type Label = [(&'static str, &'static str); 1];

/// Counts of what a server does. Clones share them. Each count has a meaning by itself.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    requests: Family<Label, Counter>,
    /// Requests that were answered with an error.
    pub errors: Counter,
    /// Bytes that clients have sent.
    pub received: Counter,
    /// Bytes that were sent to clients.
    pub sent: Counter,
    /// Connections that were accepted.
    pub accepted: Counter,
    /// Connections that were turned away.
    pub refused: Counter,
    open: Gauge,
}

/// A connection, which counts as open until it is dropped.
#[derive(Debug)]
pub struct OpenConnection(Gauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Traffic {
    /// Counts a request of this kind.
    pub fn count_request(&self, kind: &'static str) {
        self.requests.get_or_create(&[("kind", kind)]).inc();
    }

    /// The number of requests of this kind.
    pub fn requests(&self, kind: &'static str) -> u64 {
        self.requests.get_or_create(&[("kind", kind)]).get()
    }

    /// Counts a connection that was accepted.
    pub fn open(&self) -> OpenConnection {
        self.accepted.inc();
        self.open.inc();
        OpenConnection(self.open.clone())
    }

    /// The number of connections that are open.
    pub fn open_connections(&self) -> usize {
        usize::try_from(self.open.get()).unwrap_or(0)
    }

    /// Writes the counts of a server of this protocol.
    ///
    /// # Errors
    /// If a count cannot be written.
    pub fn text(&self, protocol: &'static str) -> Result<String, fmt::Error> {
        let labels = [("protocol".into(), protocol.into())];
        let mut registry = Registry::with_prefix_and_labels("terrace", labels.into_iter());
        registry.register("requests", "Requests that were answered, by kind", self.requests.clone());
        registry.register("errors", "Requests that were answered with an error", self.errors.clone());
        registry.register_with_unit("received", "Bytes that clients have sent", Unit::Bytes, self.received.clone());
        registry.register_with_unit("sent", "Bytes that were sent to clients", Unit::Bytes, self.sent.clone());
        registry.register("connections", "Connections that were accepted", self.accepted.clone());
        registry.register("refused_connections", "Connections that were turned away", self.refused.clone());
        registry.register("open_connections", "Connections that are open", self.open.clone());
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_written_with_their_protocol_and_kind() {
        let traffic = Traffic::default();
        let other = traffic.clone();
        let open = [other.open(), other.open()];
        drop(open);
        let _open = other.open();
        other.count_request("get");
        other.received.inc_by(70);
        let text = traffic.text("redis").unwrap();
        for line in [
            "terrace_requests_total{protocol=\"redis\",kind=\"get\"} 1",
            "terrace_received_bytes_total{protocol=\"redis\"} 70",
            "terrace_connections_total{protocol=\"redis\"} 3",
            "terrace_open_connections{protocol=\"redis\"} 1",
            "terrace_errors_total{protocol=\"redis\"} 0",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}
