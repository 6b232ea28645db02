//! The options of a `put`.

use terrace::{Attributes, PutOptions, Store};

use crate::arguments::{Ack, Put};

/// Returns whether any budget may limit the replicas.
pub fn has_budget(store: &Store, put: &Put) -> bool {
    let config = store.config();
    put.wishes.options().budget.is_some()
        || config.store.budget.is_some()
        || config.rules.iter().any(|rule| rule.budget.is_some())
}

/// Returns how an object is put.
pub fn options(put: &Put, key: &[u8], attributes: Option<Attributes>) -> PutOptions {
    let ack = put.ack.map(|ack| match ack {
        Ack::Placed => terrace::Ack::Placed,
        Ack::Replicated => terrace::Ack::Replicated,
        Ack::Durable => terrace::Ack::Durable,
    });
    PutOptions { replicas: put.replicas, ack, element: terrace::element_of(key), attributes, ..put.wishes.options() }
}

/// Returns whether the command acknowledges that all replicas exist.
pub fn is_ack_of_all(put: &Put) -> bool {
    matches!(put.ack, Some(Ack::Replicated | Ack::Durable))
}
