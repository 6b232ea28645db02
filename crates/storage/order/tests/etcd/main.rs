#![allow(clippy::unwrap_used)]
#[test]
fn x() {}
