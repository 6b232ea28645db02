//! HReplica's Redis case (Fig. 7): sensor records of 64 KiB are written through `terrace serve redis`, and then read. The bytes are on three
//! redis-servers.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use redis::{Commands, Connection};

use crate::place::Place;
use crate::row::{Better, PageRow, Row};
use crate::server::ServerProcess;
use crate::size::Size;
use crate::timing::time;

pub const PAGE_ROWS: &[PageRow] = &[PageRow::real(
    "H7",
    "Redis over three equal servers: read after write, 3 replicas, as the store encodes them",
    "Read values from three throttled Redis servers with 3 replicas: times as fast as one copy, beside HReplica",
)];

/// With three replicas, HReplica reads this many times as fast as without replication and compression.
const PAPER_READ_GAIN: f64 = 5.3;
/// Redis does with three raw replicas.
const PAPER_REPLICATED_READ_GAIN: f64 = 1.68;
const VALUE_BYTES: usize = 64 << 10;
const CLIENT_COUNT: usize = 8;
const SERVER_COUNT: usize = 3;
const REPLICA_COUNT: u8 = 3;
/// Codecs of the paper's, and zstd.
const FIXED_CODECS: [&str; 6] = ["snappy", "lz4", "zstd-1", "deflate-6", "bzip2-9", "lzma-6"];

/// The servers. The paper's deliver 2.3 MB/s each: 32 clients read 8,000 values of 64 KiB each from 64 of them in 107 s.
struct Cluster {
    name: &'static str,
    /// The speeds in MB/s.
    speeds: [u32; SERVER_COUNT],
    /// Whether each is a tier.
    has_tiers: bool,
}

const SERVER_CLUSTERS: [Cluster; 2] = [
    Cluster { name: "an NVMe, an SSD and a disk at a fortieth of their speeds", speeds: [50, 12, 4], has_tiers: true },
    Cluster { name: "three equal servers", speeds: [4; SERVER_COUNT], has_tiers: false },
];

/// A way to use the servers.
#[derive(Clone, Copy)]
enum Contender {
    /// Each value on one of them, raw: on that of its slot, as a cluster of Redis places it, if they differ.
    Slots,
    /// Each value on all of them, with one encoding.
    Fixed(&'static str),
    /// Each value on all of them, as the store encodes it.
    Ours,
}

impl Contender {
    fn name(self) -> String {
        match self {
            Contender::Slots => "no replication, raw".into(),
            Contender::Fixed("none") => format!("{REPLICA_COUNT} replicas, raw"),
            Contender::Fixed(codec) => format!("{REPLICA_COUNT} replicas, {codec}"),
            Contender::Ours => format!("{REPLICA_COUNT} replicas, as the store encodes them"),
        }
    }

    /// Returns the store's rules. The database of a key stands for its slot.
    fn rules(self, cluster: &Cluster) -> String {
        match self {
            Contender::Slots => (0..SERVER_COUNT)
                .map(|slot| {
                    let tiers = if cluster.has_tiers { format!("tiers = ['server{slot}']\n") } else { String::new() };
                    format!("[[rule]]\nprefix = 'redis/{slot}'\nreplicas = 1\nencoding = 'none'\n{tiers}")
                })
                .collect(),
            Contender::Fixed(codec) => format!(
                "[[rule]]\nprefix = 'redis'\nreplicas = {REPLICA_COUNT}\nack = 'replicated'\nencoding = '{codec}'\n"
            ),
            Contender::Ours => format!(
                "[[rule]]\nprefix = 'redis'\nreplicas = {REPLICA_COUNT}\nack = 'replicated'\nrequirements = ['max_read_bandwidth']\n"
            ),
        }
    }
}

/// The seconds that writing and reading took.
struct Outcome {
    write: f64,
    read: f64,
}

pub fn run() -> Result<Vec<Row>> {
    let Some(records) = sensor_records()? else { return Ok(Vec::new()) };
    if Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("skipped: there is no redis-server");
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for cluster in &SERVER_CLUSTERS {
        let base = measure(cluster, Contender::Slots, &records)?;
        for contender in
            [Contender::Fixed("none"), Contender::Ours].into_iter().chain(FIXED_CODECS.map(Contender::Fixed))
        {
            rows.push(gain(cluster, contender, &measure(cluster, contender, &records)?, &base));
        }
    }
    Ok(rows)
}

fn gain(cluster: &Cluster, contender: Contender, outcome: &Outcome, base: &Outcome) -> Row {
    let what = format!("Redis over {}: read after write, {}", cluster.name, contender.name());
    let details = format!(
        "read in {:.2} s, {:.2} s without replication; written in {:.2} s to {:.2} s ({:.2} times); {} values of 64 KiB, {CLIENT_COUNT} clients; \
         the servers are throttled to {:?} MB/s",
        outcome.read,
        base.read,
        outcome.write,
        base.write,
        outcome.write / base.write,
        value_count(),
        cluster.speeds
    );
    let row = Row::new("H7", what, base.read / outcome.read, "times as fast as without replication").details(details);
    match contender {
        Contender::Ours => row.beside(PAPER_READ_GAIN, Better::Higher).goal(PAPER_READ_GAIN, Better::Higher),
        Contender::Fixed("none") => row.beside(PAPER_REPLICATED_READ_GAIN, Better::Higher),
        _ => row,
    }
}

fn value_count() -> usize {
    Size::get().of(100, 500, 8000)
}

/// Returns the lines of sensors as values.
fn sensor_records() -> Result<Option<Vec<Vec<u8>>>> {
    let Some(data) = std::env::var_os("TERRACE_DATA") else {
        eprintln!("skipped: TERRACE_DATA names no folder of files");
        return Ok(None);
    };
    let mut lines = Vec::new();
    for name in ["machine_temperature.csv", "cpu_utilization.csv"] {
        lines.extend(fs::read(PathBuf::from(&data).join("iot").join(name))?);
    }
    Ok(Some(lines.chunks_exact(VALUE_BYTES).map(<[u8]>::to_vec).collect()))
}

fn measure(cluster: &Cluster, contender: Contender, records: &[Vec<u8>]) -> Result<Outcome> {
    let place = Place::new()?;
    let mut config = "[store]\ncache = '0B'\n".to_owned() + &contender.rules(cluster);
    let (mut running, mut targets) = (Vec::new(), Vec::new());
    for _ in 0..SERVER_COUNT {
        let (process, port) = redis_server()?;
        running.push(process);
        targets.push(format!("{{ path = '/', options = {{ endpoint = 'tcp://127.0.0.1:{port}' }} }}"));
    }
    let tier = |number: usize, targets: &[String]| {
        let (speed, targets) = (cluster.speeds[number], targets.join(", "));
        format!(
            "[[tier]]\nname = 'server{number}'\nkind = 'object'\nservice = 'redis'\n\
             throttle = {{ read = '{speed}MB/s', write = '{speed}MB/s' }}\ntargets = [{targets}]\n"
        )
    };
    match cluster.has_tiers {
        true => targets.chunks(1).enumerate().for_each(|(number, target)| config += &tier(number, target)),
        false => config += &tier(0, &targets),
    }
    let (_gateway, socket) = gateway(&place, &config)?;
    let values = || (0..value_count()).zip(records.iter().cycle());
    let (write, ()) = time(|| {
        each_client(&socket, |client, connections| {
            for (number, value) in values().skip(client).step_by(CLIENT_COUNT) {
                let () = connections[number % SERVER_COUNT].set(number, value.as_slice())?;
            }
            Ok(())
        })
    })?;
    let (read, ()) = time(|| {
        each_client(&socket, |client, connections| {
            for (number, value) in values().skip(client).step_by(CLIENT_COUNT) {
                let found: Vec<u8> = connections[number % SERVER_COUNT].get(number)?;
                ensure!(found == *value, "value {number} has other bytes");
            }
            Ok(())
        })
    })?;
    Ok(Outcome { write, read })
}

/// Lets all clients work at once. Each has a connection to the database of each slot.
fn each_client(socket: &Path, work: impl Fn(usize, &mut [Connection]) -> Result<()> + Sync) -> Result<()> {
    let work = |client| {
        let connect =
            |slot| redis::Client::open(format!("redis+unix://{}?db={slot}", socket.display()))?.get_connection();
        let mut connections = (0..SERVER_COUNT).map(connect).collect::<redis::RedisResult<Vec<_>>>()?;
        work(client, &mut connections)
    };
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENT_COUNT).map(|client| scope.spawn(move || work(client))).collect();
        clients.into_iter().try_for_each(|client| client.join().unwrap_or_else(|_| bail!("a client has panicked")))
    })
}

/// Starts a redis-server that keeps nothing on disks, and returns its port.
fn redis_server() -> Result<(ServerProcess, u16)> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"]);
    let process = ServerProcess::start(command, || TcpStream::connect(("127.0.0.1", port)).is_ok())?;
    Ok((process, port))
}

/// Starts `terrace serve redis` on a new store, and returns its socket.
fn gateway(place: &Place, config: &str) -> Result<(ServerProcess, PathBuf)> {
    let file = place.disk().join("h7.toml");
    fs::write(&file, config)?;
    let (store, socket) = (place.disk().join("h7"), place.ram().join("h7.socket"));
    let made = terrace(&store)?.arg("init").arg("--config").arg(&file).stdout(Stdio::null()).status()?;
    ensure!(made.success(), "`terrace init` has failed");
    let mut command = terrace(&store)?;
    command.args(["serve", "redis", "--unix"]).arg(&socket);
    let process = ServerProcess::start(command, || UnixStream::connect(&socket).is_ok())?;
    Ok((process, socket))
}

fn terrace(store: &Path) -> Result<Command> {
    let program = std::env::current_exe().context("finding the command")?.with_file_name("terrace");
    let mut command = Command::new(program);
    command.arg("--store").arg(store);
    Ok(command)
}
