//! `terrace serve s3` compared with versitygw over a directory, under one client with the same signatures and checksums, in pairs.

use std::fs::{self, File};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use opendal::{Buffer, Operator};
use terrace::PutOptions;
use terrace::key::KeyRule;
use tokio::runtime::Runtime;

use crate::place::{Place, random_bytes};
use crate::row::{Better, PageRow, Row};
use crate::server::ServerProcess;
use crate::size::Size;
use crate::timing::{median, time};

pub const PAGE_ROWS: &[PageRow] = &[PageRow::made(
    "serve-s3",
    "get 16 MiB by S3 with 16 at a time, beside versitygw",
    "Get 16 MiB, 16 clients of S3: share of versitygw's throughput",
)];

/// `make peers` builds it here.
const PEER_PATH: &str = "target/peers/versitygw/versitygw";
const BUCKET_NAME: &str = "measured";
/// The bucket with many keys.
const LISTED_BUCKET: &str = "listed";
/// The keys of a page of a list: the most that S3 allows.
const PAGE_KEYS: usize = 1000;
const KEY_NAME: &str = "bench";
const KEY_SECRET: &str = "a-secret-of-the-bench";
const PAIR_COUNT: usize = 3;
const CLIENT_COUNTS: [usize; 2] = [1, 16];

/// Objects of one size.
struct Sized {
    words: &'static str,
    bytes: usize,
    objects: usize,
    /// The share of the other's throughput to reach.
    goal: f64,
}

const OBJECT_SIZES: [Sized; 4] = [
    Sized { words: "4 KiB", bytes: 4 << 10, objects: 1000, goal: 1.5 },
    Sized { words: "64 KiB", bytes: 64 << 10, objects: 500, goal: 1.5 },
    Sized { words: "1 MiB", bytes: 1 << 20, objects: 64, goal: 1.0 },
    Sized { words: "16 MiB", bytes: 16 << 20, objects: 8, goal: 1.0 },
];

pub fn run() -> Result<Vec<Row>> {
    let peer = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(PEER_PATH);
    if !peer.exists() {
        eprintln!("skipped: {} is not built; `make peers` builds it", peer.display());
        return Ok(Vec::new());
    }
    let place = Place::new()?;
    let runtime = Runtime::new()?;
    let listed_keys = Size::get().of(10_000, 1_000_000, 1_000_000);
    let (ours, theirs) = (Served::terrace(&place, listed_keys)?, Served::peer(&place, &peer, listed_keys)?);
    let mut rows = Vec::new();
    for size in &OBJECT_SIZES {
        let (bytes, objects) = (Buffer::from(random_bytes(size.bytes, 7)), size.objects / Size::get().of(8, 1, 1));
        for clients in CLIENT_COUNTS {
            let mut rounds = Vec::new();
            for _ in 0..PAIR_COUNT {
                let measure = |served: &Served| served.measure(&runtime, &bytes, objects, clients);
                rounds.push([measure(&ours)?, measure(&theirs)?]);
            }
            for (number, verb) in ["put", "get"].into_iter().enumerate() {
                let pairs: Vec<[f64; 2]> = rounds.iter().map(|round| round.map(|speeds| speeds[number])).collect();
                rows.push(share(verb, size, clients, &pairs));
            }
        }
    }
    let mut pairs = Vec::new();
    for _ in 0..PAIR_COUNT {
        let measure = |served: &Served| served.measure_list(&runtime, listed_keys);
        pairs.push([measure(&ours)?, measure(&theirs)?]);
    }
    rows.push(compare(format!("list {listed_keys} keys by S3 in pages of {PAGE_KEYS}, beside versitygw"), 1.0, &pairs));
    Ok(rows)
}

fn share(verb: &str, size: &Sized, clients: usize, pairs: &[[f64; 2]]) -> Row {
    compare(format!("{verb} {} by S3 with {clients} at a time, beside versitygw", size.words), size.goal, pairs)
}

/// Returns the row for what was done in a second, here and there.
fn compare(what: String, goal: f64, pairs: &[[f64; 2]]) -> Row {
    let [ours, theirs] = [0, 1].map(|side| median(pairs.iter().map(|pair| pair[side])));
    let shares: Vec<f64> = pairs.iter().map(|[ours, theirs]| ours / theirs).collect();
    let listed: Vec<String> = shares.iter().map(|share| format!("{share:.2}")).collect();
    let details = format!(
        "{ours:.0}/s to {theirs:.0}/s; signed, with CRC32C; one replica in memory beside a directory there; middle of {} pairs: {}",
        pairs.len(),
        listed.join(", ")
    );
    Row::new("serve-s3", what, median(shares), "of its throughput").goal(goal, Better::Higher).details(details)
}

/// A server, and a client of it.
struct Served {
    operator: Operator,
    listed: Operator,
    _process: ServerProcess,
}

impl Served {
    fn terrace(place: &Place, listed_keys: usize) -> Result<Served> {
        let store = place.store("s3", 0)?;
        let listed = store.make_key_space(LISTED_BUCKET.as_bytes(), KeyRule::Flat)?;
        for number in 0..listed_keys {
            store.put_bytes(&listed.key(listed_name(number).as_bytes())?, b"", &PutOptions::default())?;
        }
        let keys = place.ram().join("keys");
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&keys)?;
        writeln!(file, "{KEY_NAME} {KEY_SECRET}")?;
        let address = free_address()?;
        let mut command = Command::new(std::env::current_exe()?.with_file_name("terrace"));
        command.arg("--store").arg(store.dir()).args(["serve", "s3", "--keys"]).arg(keys);
        command.args(["--listen", &address.to_string()]);
        drop(store);
        Served::start(command, address)
    }

    fn peer(place: &Place, program: &Path, listed_keys: usize) -> Result<Served> {
        let folder = place.ram().join("versitygw");
        fs::create_dir(&folder)?;
        let address = free_address()?;
        let mut command = Command::new(program);
        command.args([
            "--access",
            KEY_NAME,
            "--secret",
            KEY_SECRET,
            "--port",
            &address.to_string(),
            "--quiet",
            "posix",
        ]);
        command.arg(&folder);
        let served = Served::start(command, address)?;
        make_bucket(address, LISTED_BUCKET)?;
        // Its buckets are directories, and its objects are files.
        for number in 0..listed_keys {
            let path = folder.join(LISTED_BUCKET).join(listed_name(number));
            if number % PAGE_KEYS == 0 {
                fs::create_dir_all(path.parent().context("a listed name has a folder")?)?;
            }
            File::create(path)?;
        }
        Ok(served)
    }

    fn start(command: Command, address: SocketAddr) -> Result<Served> {
        let process = ServerProcess::start(command, || TcpStream::connect(address).is_ok())?;
        make_bucket(address, BUCKET_NAME)?;
        opendal::init_default_registry();
        opendal::install_default();
        let (operator, listed) = (client(address, BUCKET_NAME)?, client(address, LISTED_BUCKET)?);
        Ok(Served { operator, listed, _process: process })
    }

    /// Lists all keys of a bucket. Returns how many in a second.
    fn measure_list(&self, runtime: &Runtime, keys: usize) -> Result<f64> {
        let list = async {
            let lister = self.listed.lister_with("").recursive(true).limit(PAGE_KEYS).await?;
            let found =
                lister.try_fold(0, async |found, entry| Ok(found + usize::from(!entry.path().ends_with('/')))).await?;
            ensure!(found == keys, "{found} of {keys} keys are listed");
            Ok(())
        };
        let (seconds, ()) = time(|| runtime.block_on(list))?;
        Ok(keys as f64 / seconds)
    }

    /// Writes objects and reads them back. Returns how many in a second, of each.
    fn measure(&self, runtime: &Runtime, bytes: &Buffer, objects: usize, clients: usize) -> Result<[f64; 2]> {
        let put = async |name: String| {
            self.operator.write(&name, bytes.clone()).await?;
            Ok(())
        };
        let get = async |name: String| {
            let read = self.operator.read(&name).await?;
            ensure!(read.len() == bytes.len(), "{name} came back with {} bytes", read.len());
            Ok(())
        };
        Ok([each(runtime, objects, clients, put)?, each(runtime, objects, clients, get)?])
    }
}

/// Calls a function for each object, by several clients at once. Returns how many were done in a second.
fn each(runtime: &Runtime, objects: usize, clients: usize, call: impl AsyncFn(String) -> Result<()>) -> Result<f64> {
    let calls = stream::iter((0..objects).map(|object| call(format!("{}/{object}", object % 10))));
    let (seconds, ()) = time(|| runtime.block_on(calls.map(Ok).try_for_each_concurrent(clients, |call| call)))?;
    Ok(objects as f64 / seconds)
}

/// The name of a listed object: a thousand of them share a prefix.
fn listed_name(number: usize) -> String {
    format!("{:04}/{number:07}", number / PAGE_KEYS)
}

/// Makes a bucket, which the client cannot.
fn make_bucket(address: SocketAddr, bucket: &str) -> Result<()> {
    let mut make = Command::new("curl");
    make.args(["--silent", "--fail-with-body", "--aws-sigv4", "aws:amz:us-east-1:s3", "--request", "PUT"]);
    make.args(["--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]);
    make.args(["--user", &format!("{KEY_NAME}:{KEY_SECRET}"), &format!("http://{address}/{bucket}")]);
    let made = make.output().context("starting curl")?;
    ensure!(made.status.success(), "making a bucket: {}", String::from_utf8_lossy(&made.stdout));
    Ok(())
}

/// A client of a bucket.
fn client(address: SocketAddr, bucket: &str) -> Result<Operator> {
    let options = [
        ("endpoint", format!("http://{address}")),
        ("bucket", bucket.to_owned()),
        ("region", "us-east-1".to_owned()),
        ("access_key_id", KEY_NAME.to_owned()),
        ("secret_access_key", KEY_SECRET.to_owned()),
        ("checksum_algorithm", "crc32c".to_owned()),
    ];
    Ok(Operator::via_iter("s3", options.map(|(option, value)| (option.to_owned(), value)))?)
}

/// Returns an address on which nobody listens.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
