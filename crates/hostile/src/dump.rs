//! The records of dumps.

pub fn samples() -> Vec<Vec<u8>> {
    terrace_dump::hostile::sample_records()
}

pub fn parse(input: &[u8]) -> bool {
    terrace_dump::hostile::parse_records(input)
}
