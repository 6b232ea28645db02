//! Codecs and transforms.

use std::path::Path;

use terrace::{Config, Store};
use terrace_testkit::golden::pack;
use terrace_testkit::noise;

use crate::common::{self, replicated};
use crate::{Golden, golden, unlike};

/// Numbers that every codec shrinks.
fn numbers(count: u32) -> Vec<u8> {
    (0..count).flat_map(|i| ((i / 16) as f32).to_le_bytes()).collect()
}

/// The codecs of version 0.1, and each transform.
const ENCODING_NAMES: [&str; 17] = [
    "none",
    "lz4",
    "lz4hc-9",
    "zstd-3",
    "huffman",
    "pco-f32",
    "snappy",
    "deflate-6",
    "brotli-5",
    "bzip2-9",
    "lzma-6",
    "lzo",
    "ppmd-6",
    "quicklz-1",
    "shuffle4+zstd-1",
    "delta4+lz4",
    "bitshuffle4+zstd-1",
];

fn encodings_config(dir: &Path) -> String {
    let tier = common::tier(dir, "disk", &["a"], "");
    let rule = |name: &&str| format!("[[rule]]\nprefix = 'codec/{name}'\nencoding = '{name}'\n");
    let rules: String = ENCODING_NAMES.iter().map(rule).collect();
    format!("[store]\nreplicas = {{ default = 1 }}\n{tier}{rules}")
}

fn write_encodings(dir: &Path, config: Config, archive: &Path) {
    let store = Store::init(&dir.join("store"), &config).unwrap();
    for name in ENCODING_NAMES {
        store.put_bytes(format!("codec/{name}").as_bytes(), &numbers(1500), &replicated()).unwrap();
    }
    store.close().unwrap();
    pack(dir, archive);
}

#[test]
fn every_codec_of_a_golden_store_is_decoded() {
    let Golden { dir: _dir, store } = golden("encodings", encodings_config, write_encodings);
    for name in ENCODING_NAMES {
        let key = format!("codec/{name}");
        assert!(store.get(key.as_bytes()).unwrap() == numbers(1500), "{name}");
        let located = store.locate(key.as_bytes()).unwrap().extents;
        assert_eq!(located[0].replicas[0].encoding, name, "it is stored so");
    }
    unlike(&store);
}

/// Elements of records, with pco and without it.
const FIELDS_NAMES: [&str; 4] = ["fields", "fields-f32", "fields-r32-4", "fields-f64-8"];

/// Records of a counter, a sum, noise and a constant; the first one is cut.
fn records() -> Vec<u8> {
    let record = |(i, noise): (usize, u8)| {
        let noise = 1.0 + f64::from(noise) / 256.0;
        [(i as u64).to_le_bytes(), (i as f64 * 0.25).to_le_bytes(), noise.to_le_bytes(), 1.5f64.to_le_bytes()].concat()
    };
    let all: Vec<u8> = noise(9000, 7).into_iter().enumerate().flat_map(record).collect();
    all[12..].to_vec()
}

fn fields_config(dir: &Path) -> String {
    let rule = |name: &&str| format!("[[rule]]\nprefix = '{name}'\nencoding = '{name}'\n");
    let rules: String = FIELDS_NAMES.iter().map(rule).collect();
    format!("[store]\nreplicas = {{ default = 1 }}\n{}{rules}", common::tier(dir, "disk", &["a"], ""))
}

fn write_fields(dir: &Path, config: Config, archive: &Path) {
    let store = Store::init(&dir.join("store"), &config).unwrap();
    for name in FIELDS_NAMES {
        store.put_bytes(name.as_bytes(), &records(), &replicated()).unwrap();
    }
    store.close().unwrap();
    pack(dir, archive);
}

#[test]
fn records_of_a_golden_store_are_joined() {
    let Golden { dir: _dir, store } = golden("fields", fields_config, write_fields);
    for name in FIELDS_NAMES {
        assert!(store.get(name.as_bytes()).unwrap() == records(), "{name}");
        // A range within a record, across the end of a sub-block.
        let mut range = vec![0; 1001];
        store.read_at(name.as_bytes(), (256 << 10) - 501, &mut range).unwrap();
        assert!(range == records()[(256 << 10) - 501..][..1001], "a range of {name}");
        let replica = &store.locate(name.as_bytes()).unwrap().extents[0].replicas[0];
        assert_eq!(replica.encoding, name, "it is stored so");
    }
    unlike(&store);
}
