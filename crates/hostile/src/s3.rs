//! Texts of the server of S3: tags, lengths of parts, files of keys.

pub fn samples() -> Vec<Vec<u8>> {
    terrace_s3::hostile::sample_texts()
}

pub fn parse(input: &[u8]) -> bool {
    terrace_s3::hostile::parse_text(input)
}
