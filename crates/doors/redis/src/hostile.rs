//! The decoder of documents that lie in stores, for tests with hostile bytes.

use crate::datum::{Datum, DatumKind};

const DOCUMENT_KINDS: [DatumKind; 4] = [DatumKind::Hash, DatumKind::List, DatumKind::Set, DatumKind::SortedSet];

/// Valid documents of each kind.
pub fn sample_documents() -> Vec<Vec<u8>> {
    let words = || [b"a".as_slice(), b"", b"\xff\0", &[7; 300]].into_iter().map(<[u8]>::to_vec);
    let documents = [
        Datum::Hash(words().zip(words().rev()).collect()),
        Datum::List(words().collect()),
        Datum::Set(words().collect()),
        Datum::SortedSet(words().zip([0.0, -1.5, f64::INFINITY, 1e300]).collect()),
    ];
    documents.iter().map(Datum::encode).collect()
}

/// Decodes the bytes as a document of each kind. Returns whether they are one.
pub fn parse_document(bytes: &[u8]) -> bool {
    let mut is_one = false;
    for kind in DOCUMENT_KINDS {
        if let Some(datum) = Datum::decode(kind, bytes.to_vec()) {
            let again = datum.encode();
            assert!(Datum::decode(kind, again.clone()).is_some_and(|datum| datum.encode() == again));
            is_one = true;
        }
    }
    is_one
}
