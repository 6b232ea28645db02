//! Parts that the servers of several protocols share: [`Certificate`] for TLS, and [`Traffic`], which counts what they do.

mod certificate;
mod traffic;

pub use certificate::Certificate;
pub use traffic::{OpenConnection, Traffic};
