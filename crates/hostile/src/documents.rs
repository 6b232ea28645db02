//! Records that other processes or other programs hand over: documents of Redis, messages of a node's socket, core files.

use crate::image::{PlacedObject, ProcessDescription, decode_head, encode_head};

pub fn redis_samples() -> Vec<Vec<u8>> {
    terrace_redis::hostile::sample_documents()
}

pub fn parse_redis(input: &[u8]) -> bool {
    terrace_redis::hostile::parse_document(input)
}

pub fn member_samples() -> Vec<Vec<u8>> {
    terrace_member::hostile::sample_messages()
}

pub fn parse_member(input: &[u8]) -> bool {
    terrace_member::hostile::parse_messages(input)
}

pub fn core_samples() -> Vec<Vec<u8>> {
    let object = PlacedObject { path: "/usr/bin/solver".into(), base: 0x5555_5555_0000, identity: vec![7; 20] };
    let description = ProcessDescription {
        ranks: 4,
        calls: 100,
        objects: vec![object],
        variables: vec![0x5555_5556_0000..0x5555_5556_4000, 0x5555_5557_0000..0x5555_5557_0100],
        thread_variables: Vec::new(),
        handles: vec![0x10_0000, 0x10_0040],
        thread_values: vec![(40, 0x1800_0000_0100)],
        heap_end: 0x2000_0000,
        paused: 0x3000_0000,
        stack_guard: 0x1234_5678,
    };
    let segments = [0x1000_0000..0x2000_0000, 0x3000_0000..0x3001_0000];
    [segments.as_slice(), &[]].iter().filter_map(|all| encode_head(&description, all, &[0; 32]).ok()).collect()
}

/// Whether the bytes begin a core file with a checkpoint.
pub fn parse_core(input: &[u8]) -> bool {
    decode_head(input).is_ok()
}
