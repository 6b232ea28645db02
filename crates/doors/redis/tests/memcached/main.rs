//! A store for clients of memcached: memcached's own test, its Python client, and the real server beside this one.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;

mod beside_memcached;
mod clients;
mod items;
mod limits;
mod lines;
