//! The learned state of a brain.

pub fn samples() -> Vec<Vec<u8>> {
    terrace_brain::hostile::sample_saved()
}

pub fn parse(input: &[u8]) -> bool {
    terrace_brain::hostile::parse_saved(input)
}
