//! [`Field`]: a part of a policy.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A part of a policy over which two requirements can differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Field {
    /// The number of replicas (r_n).
    Replicas,
    /// The acknowledgement that a write waits for (r_m).
    Ack,
    /// The weights of the cost (w_c, w_d, w_r).
    Weights,
    /// The placement of replicas.
    Placement,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Field::Replicas => "the number of replicas",
            Field::Ack => "when a write returns",
            Field::Weights => "the weights",
            Field::Placement => "where replicas go",
        })
    }
}
