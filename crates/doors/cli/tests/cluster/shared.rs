//! A store that three nodes share, each in a process of its own.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use terrace_testkit::{EtcdCluster, free_ports, skip, wait_until};

pub const NODE_NAMES: [&str; 3] = ["a", "b", "c"];

/// A node's process. It is killed when this is dropped.
pub struct Node(pub Child);

impl Drop for Node {
    fn drop(&mut self) {
        self.0.kill().and_then(|()| self.0.wait()).unwrap();
    }
}

/// More than the nodes of a store need.
#[derive(Default)]
pub struct More<'a> {
    /// Tiers below those of the nodes.
    pub tiers: &'a str,
    /// A disk for the target of the last node.
    pub last_target: Option<&'a Path>,
    /// A disk for its directory.
    pub last_store: Option<&'a Path>,
}

/// A store of three nodes below one folder.
pub struct Shared {
    pub folder: tempfile::TempDir,
    pub etcd: EtcdCluster,
    pub nodes: Vec<Option<Node>>,
    /// The address of its log.
    pub log: String,
}

impl Shared {
    /// Makes the store, and starts its nodes. None if the test must be skipped.
    pub fn start(test: &str) -> Option<Shared> {
        Shared::start_with(test, &More::default())
    }

    /// Makes the store with more than the nodes need.
    pub fn start_with(test: &str, more: &More<'_>) -> Option<Shared> {
        let etcd = match EtcdCluster::start(&[]) {
            Ok(etcd) => etcd,
            Err(missing) => {
                skip(test, &missing);
                return None;
            }
        };
        let folder = tempfile::tempdir().unwrap();
        let mut shared = Shared { folder, etcd, nodes: NODE_NAMES.map(|_| None).into(), log: String::new() };
        let secret = shared.path("secret");
        fs::write(&secret, "the-secret-of-this-test").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let ports = free_ports(NODE_NAMES.len());
        let targets = NODE_NAMES.iter().zip(&ports);
        let targets: String = targets
            .map(|(name, port)| format!("{{ path = \"http://127.0.0.1:{port}/disk\", node = \"{name}\" }},"))
            .collect();
        let config = format!(
            "[store]\nreplicas = {{ min = 1, max = 3, default = 2 }}\n[[tier]]\nname = 'disk'\nkind = 'node'\n\
             options = {{ secret = '{}' }}\ntargets = [{targets}]\n{}",
            secret.display(),
            more.tiers
        );
        if let Some(disk) = more.last_store {
            fs::create_dir(disk.join("store")).unwrap();
            symlink(disk.join("store"), shared.path("c")).unwrap();
        }
        fs::write(shared.path("shared.toml"), config).unwrap();
        for (name, port) in NODE_NAMES.iter().zip(&ports) {
            let disk = shared.path(&format!("{name}-disk"));
            let disk = more.last_target.filter(|_| *name == "c").map_or(disk, |last| last.join("target"));
            let text = format!(
                "listen = '127.0.0.1:{port}'\nsecret = '{}'\n[[target]]\nname = 'disk'\npath = '{}'\n",
                secret.display(),
                disk.display()
            );
            fs::write(shared.path(&format!("{name}-targets.toml")), text).unwrap();
        }
        let servers: Vec<String> = shared.etcd.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let log = format!("etcd://{}", servers.join(","));
        let (config, snapshots) = (shared.path("shared.toml"), shared.path("snapshots"));
        let mut init = shared.command(0, &["init", "--json", "--cluster", &log, "--name", "a"]);
        let made = init.arg("--config").arg(config).arg("--snapshots").arg(&snapshots).output().unwrap();
        let made: serde_json::Value = serde_json::from_str(&told(&made)).unwrap();
        let log = made["log"].as_str().unwrap();
        shared.log = log.to_owned();
        for (at, name) in NODE_NAMES.iter().enumerate() {
            let join = ["--join", log, "--name", name, "--snapshots", snapshots.to_str().unwrap()];
            shared.start_node(at, if at == 0 { &[] } else { &join });
        }
        for at in 0..NODE_NAMES.len() {
            shared.wait_for_node(at);
        }
        Some(shared)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command of a process on a node's machine.
    pub fn command(&self, at: usize, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
        command.args(arguments).env("TERRACE_STORE", self.path(NODE_NAMES[at])).stdin(Stdio::null());
        command
    }

    pub fn run(&self, at: usize, arguments: &[&str]) -> Output {
        self.command(at, arguments).output().unwrap()
    }

    pub fn start_node(&mut self, at: usize, more: &[&str]) {
        self.start_node_under(at, more, &[]);
    }

    /// Starts a node with these settings in its environment.
    pub fn start_node_under(&mut self, at: usize, more: &[&str], settings: &[(&str, &str)]) {
        let mut command = self.command(at, &["node", "--no-listen", "--targets"]);
        command
            .arg(self.path(&format!("{}-targets.toml", NODE_NAMES[at])))
            .args(more)
            .env("TERRACE_LOG", "info")
            .envs(settings.iter().copied());
        let log = fs::File::options().create(true).append(true).open(self.path("nodes.log")).unwrap();
        self.nodes[at] = Some(Node(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()));
    }

    /// Starts a node as after a boot of its machine, and waits until it knows what was lost. Other processes of its machine would be of
    /// this boot, so none may run.
    pub fn restart_after_loss_of_power(&mut self, at: usize) {
        let target = |shared: &Shared| shared.status_of(0, NODE_NAMES[at])["targets"][0].clone();
        let before = target(self)["incarnation"].as_u64().unwrap();
        self.start_node_under(at, &[], &[("TERRACE_BOOT_ID", "another")]);
        wait_until("the node knows what it has lost", || {
            let target = target(self);
            target["incarnation"].as_u64().is_some_and(|now| now > before) && target["doubtful"] == false
        });
    }

    /// Waits until the processes of a node's machine can use the store, and reach all targets.
    pub fn wait_for_node(&mut self, at: usize) {
        wait_until("a node serves", || {
            let ended = self.nodes[at].as_mut().and_then(|node| node.0.try_wait().unwrap());
            let said = || fs::read_to_string(self.path("nodes.log")).unwrap();
            assert!(ended.is_none(), "node {} has ended:\n{}", NODE_NAMES[at], said());
            let status = self.run(at, &["status", "--json"]);
            // The socket is there before the node's target is.
            status.status.success() && String::from_utf8_lossy(&status.stdout).contains("\"state\":\"ok\"")
        });
    }

    pub fn is_running(&self, at: usize) -> bool {
        self.nodes[at].is_some()
    }

    /// Begins to put an object on a node's machine.
    pub fn begin_put(&self, at: usize, key: &str, bytes: &[u8]) -> Child {
        let file = self.path(&format!("{}-to-put", NODE_NAMES[at]));
        fs::write(&file, bytes).unwrap();
        let mut put = self.command(at, &["put", "--ack", "replicated"]);
        put.arg(&file).arg(key).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Puts an object, and returns whether that was acknowledged.
    pub fn put(&self, at: usize, key: &str, bytes: &[u8]) -> bool {
        self.begin_put(at, key, bytes).wait().unwrap().success()
    }

    pub fn get(&self, at: usize, key: &str) -> Vec<u8> {
        let got = self.run(at, &["cat", key]);
        if !got.status.success() {
            println!("{}", String::from_utf8_lossy(&self.run(at, &["locate", key]).stdout));
            println!("{}", fs::read_to_string(self.path("nodes.log")).unwrap());
        }
        assert!(got.status.success(), "{key} on {}: {}", NODE_NAMES[at], String::from_utf8_lossy(&got.stderr));
        got.stdout
    }
}

impl Shared {
    /// Returns the words of `terrace cluster status` about a node.
    pub fn status_of(&self, at: usize, name: &str) -> serde_json::Value {
        let status = self.run(at, &["cluster", "status", "--json"]);
        let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
        status["nodes"].as_array().unwrap().iter().find(|node| node["name"] == name).cloned().unwrap_or_default()
    }
}

pub fn told(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}
