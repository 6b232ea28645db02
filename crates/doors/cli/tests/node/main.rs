//! `terrace node` and `terrace health` as their users start, ask, kill and end them.

#![allow(clippy::unwrap_used, clippy::panic)]

mod answers;
mod care;
mod client;
mod daemon;
mod ending;
mod health;
#[path = "../cli/place.rs"]
#[allow(dead_code)] // It can do more than is asked of it here.
mod place;
mod streams;
mod targets;
