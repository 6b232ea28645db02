//! Hands libFuzzer's inputs to one parser of `crates/hostile`, which `TERRACE_PARSER` names.

#![no_main]

use std::sync::LazyLock;

static PARSER_NAME: LazyLock<String> =
    LazyLock::new(|| std::env::var("TERRACE_PARSER").expect("TERRACE_PARSER names a parser of crates/hostile"));

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    terrace_hostile::parse(&PARSER_NAME, input);
});
