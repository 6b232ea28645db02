//! A store that is served for a test.

#![allow(dead_code)] // Each test uses some of it.

pub mod client;

use std::path::PathBuf;

use client::Client;
use tempfile::TempDir;
use terrace::{Config, Files, Store};
use terrace_kit::{Address, ThreadServer};
use terrace_nine::{Limits, serve_files};

pub struct Served {
    pub server: ThreadServer,
    pub files: Files,
    pub socket: PathBuf,
    _dir: TempDir,
}

impl Served {
    pub fn new() -> Served {
        Served::within(Limits::default())
    }

    pub fn within(limits: Limits) -> Served {
        let dir = tempfile::tempdir().unwrap();
        let text = format!(
            "[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n",
            dir.path().join("disk").display()
        );
        let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
        let files = Files::new(&store).unwrap();
        let socket = dir.path().join("socket");
        let server = serve_files(&files, &Address::Unix(socket.clone()), false, limits).unwrap();
        Served { server, files, socket, _dir: dir }
    }

    pub fn client(&self) -> Client {
        Client::unix(&self.socket).unwrap()
    }
}

#[allow(unused_imports)] // As above.
pub use terrace_testkit::noise as bytes;
