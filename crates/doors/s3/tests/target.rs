//! Terrace's own target on S3 speaks to Terrace's own server: the suite for kinds of targets, and a store on it.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{ACCESS_KEY, SECRET_KEY, Served, new_store};
use terrace::key::KeyRule;
use terrace::tier::conformance::{self, Site};
use terrace::tier::{ObjectKind, TargetSettings};
use terrace::{Ack, PutOptions, Store};
use terrace_testkit::noise;

fn target_options(served: &Served) -> BTreeMap<String, String> {
    let options = [
        ("bucket", "targets"),
        ("endpoint", &served.endpoint()),
        ("region", "us-east-1"),
        ("access_key_id", ACCESS_KEY),
        ("secret_access_key", SECRET_KEY),
    ];
    options.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

#[test]
fn a_target_on_the_server_conforms() {
    let served = Served::new();
    served.store.make_key_space(b"targets", KeyRule::Flat).unwrap();
    let sites = AtomicU64::new(0);
    conformance::check(&ObjectKind, || {
        let folder = tempfile::tempdir().unwrap();
        let settings = TargetSettings {
            service: Some("s3".to_owned()),
            options: target_options(&served),
            timeout: Some(Duration::from_secs(60)),
            ..TargetSettings::at(format!("/conformance-{}", sites.fetch_add(1, Ordering::Relaxed)))
        };
        Site { settings, stores: folder.path().to_owned(), guard: Box::new(folder) }
    });
    served.server.end();
}

#[test]
fn a_store_keeps_replicas_in_another_store() {
    let served = Served::new();
    served.store.make_key_space(b"targets", KeyRule::Flat).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options: Vec<String> =
        target_options(&served).iter().map(|(name, value)| format!("{name} = '{value}'")).collect();
    let bucket = format!(
        "[[tier]]\nname = 'bucket'\nkind = 'object'\nservice = 's3'\ntimeout = '60s'\ntargets = ['/kept']\noptions = {{ {} }}\n",
        options.join(", ")
    );
    let store = new_store(dir.path(), &bucket);
    let wanted =
        PutOptions { tiers: Some(vec!["bucket".to_owned()]), ack: Some(Ack::Replicated), ..PutOptions::default() };
    let bytes = noise(3_000_001, 1);
    store.put_bytes(b"far", &bytes, &wanted).unwrap();
    store.close().unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    assert!(store.get(b"far").unwrap() == bytes);
    store.close().unwrap();
    served.server.end();
}
