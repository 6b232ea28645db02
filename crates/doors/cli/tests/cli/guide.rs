//! The guides tell the truth: their commands work in the order in which they stand, and print what the guides show.
//! `terrace_testkit::guide` has the rules that the guides follow.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use terrace_testkit::guide::{Guide, server_python};
use terrace_testkit::{Redis, free_ports};

use crate::place::{Place, noise};

fn programs() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_terrace")).parent().unwrap()
}

/// Runs a guide in a place. Each of `paths` in the guide is a path below the place.
fn run_guide(name: &str, place: &Place, paths: &[(&'static str, &str)]) {
    let below = |path: &str| place.path(path).display().to_string();
    let replaced: Vec<(&str, String)> = paths.iter().map(|(from, to)| (*from, below(to))).collect();
    run_replaced(name, place, &replaced, &|_| {});
}

/// Returns the number of commands that ran.
fn run_replaced(name: &str, place: &Place, replaced: &[(&str, String)], before: &dyn Fn(&str)) -> usize {
    Guide { name, folder: &place.path(""), programs: programs(), replaced, before }.run()
}

/// Numbers and a log, as the guides have them in `runs`.
fn write_runs(place: &Place) {
    let numbers = (0..300_000).flat_map(|n| (f64::from(n) / 100.0).sin().to_le_bytes()).collect::<Vec<u8>>();
    place.write("runs/a.f64", numbers);
    let steps = (0..1000).flat_map(|n| format!("step {}\n", (n + 1) % 10).into_bytes()).collect::<Vec<_>>();
    place.write("runs/logs/today.txt", steps);
}

#[test]
fn the_guide_to_views_works_as_it_says() {
    let place = Place::new();
    let dump = noise(16_000, 5);
    place.write("dump", &dump);
    run_guide("views.md", &place, &[]);
    let fields: Vec<u8> =
        (0..4).flat_map(|field| dump.chunks(16).flat_map(move |p| p[4 * field..4 * field + 4].to_vec())).collect();
    assert!(place.read("fields") == fields && place.read("same") == fields);
    let sample: Vec<u8> = dump.chunks(16).step_by(100).flat_map(|p| [p[3], p[2], p[1], p[0]]).collect();
    assert!(place.read("sample") == sample);
    assert!(place.path("particles.zarr/particles/cell/c/0").exists());
}

/// Flips a bit in the first frame of the segments in a folder.
fn damage_a_frame(segments: &Path) {
    let segment = fs::read_dir(segments).unwrap().next().unwrap().unwrap().path();
    let file = fs::File::options().read(true).write(true).open(segment).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 5000).unwrap();
    file.write_all_at(&[byte[0] ^ 1], 5000).unwrap();
}

/// Some of the commands printed other words than the guide had.
#[test]
fn the_guide_to_the_command_line_works_as_it_says() {
    let place = Place::empty();
    write_runs(&place);
    let archive = place.path("archive tier");
    place.write(
        "archive.toml",
        format!("[[tier]]\nname = 'archive'\nkind = 'directory'\ntargets = ['{}']\n", archive.display()),
    );
    place.write("burst/a", "a");
    place.write("burst/b", "b");
    place.write("particle.h", "struct particle { float x; int id; };\n");
    let below = |path: &str| place.path(path).display().to_string();
    let replaced = [("/dev/shm/me", below("shm")), ("/data/", below("data/"))];
    let ran = run_replaced("command-line.md", &place, &replaced, &|command| {
        if command.starts_with("terrace scrub") {
            damage_a_frame(&place.path("data/disk/segments"));
        }
    });
    assert!(ran > 35, "only {ran} commands were found");
}

/// The guides below showed commands that nobody had run: an unknown version of a dump, a dump listed from another store than
/// it was made in, a tier that no store had.
#[test]
fn the_guide_to_serving_works_as_it_says() {
    let place = Place::new();
    fs::create_dir(place.path("mnt")).unwrap();
    run_guide("serve.md", &place, &[("/data/store", "store"), ("/mnt/", "mnt/")]);
}

#[test]
fn the_guide_to_s3_works_as_it_says() {
    let place = Place::new();
    let free = format!("127.0.0.1:{}", free_ports(1)[0]);
    let replaced = [
        ("/data/store", place.path("store").display().to_string()),
        ("terrace serve s3", format!("terrace serve s3 --listen {free}")),
        ("http://127.0.0.1:5643", format!("http://{free}")),
        ("'http://127.0.0.1:5643", format!("'http://{free}")),
        ("python3", server_python().display().to_string()),
    ];
    assert!(run_replaced("s3.md", &place, &replaced, &|_| {}) > 15);
}

#[test]
fn the_guide_to_serving_clients_of_redis_works_as_it_says() {
    let place = Place::new();
    place.write("greeting.txt", "written by another door");
    run_guide("redis.md", &place, &[("/data/store", "store")]);
}

#[test]
fn the_guide_to_serving_clients_of_memcached_works_as_it_says() {
    let place = Place::new();
    place.write("greeting.txt", "hello world\n");
    run_guide("memcached.md", &place, &[("/data/store", "store")]);
}

#[test]
fn the_guide_to_origins_works_as_it_says() {
    let place = Place::new();
    place.write("pfs/era5/README", "ERA5, hourly\n");
    place.write("pfs/era5/2023/01.nc", "january");
    place.write("pfs/era5/2024/01.nc", "january again");
    run_guide("origins.md", &place, &[("/pfs/", "pfs/")]);
}

#[cfg(feature = "services-fs")]
#[test]
fn the_guide_to_a_lost_node_works_as_it_says() {
    let place = Place::empty();
    write_runs(&place);
    let below = |path: &str| place.path(path).display().to_string();
    let bucket = below("remote/bucket");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned();
    let replaced = [
        ("node7", host),
        ("/data/store", below("store")),
        ("/data/disk", below("disk")),
        ("/remote/bucket", bucket.clone()),
        ("fs:///remote/bucket", format!("fs://{bucket}")),
        ("fs:/remote/bucket", format!("fs:{bucket}")),
    ];
    assert!(run_replaced("lost-node.md", &place, &replaced, &|_| {}) > 10);
}

#[test]
fn the_guide_to_the_node_works_as_it_says() {
    let place = Place::new();
    write_runs(&place);
    let free = format!("127.0.0.1:{}", free_ports(1)[0]);
    let store = place.path("store").display().to_string();
    let replaced = [
        ("/data/store", store),
        ("127.0.0.1:5641", free.to_string()),
        ("http://127.0.0.1:5641", format!("http://{free}")),
    ];
    assert_eq!(run_replaced("node.md", &place, &replaced, &|_| {}), 6);
}

#[test]
fn the_guide_to_tiers_on_other_nodes_works_as_it_says() {
    let place = Place::empty();
    write_runs(&place);
    for folder in ["etc", "mnt"] {
        fs::create_dir(place.path(folder)).unwrap();
    }
    // As above.
    let free = format!("127.0.0.1:{}", free_ports(1)[0]);
    let below = |name: &str| place.path(name).display().to_string();
    let replaced = [
        ("/etc/terrace", below("etc")),
        ("/mnt/", below("mnt/")),
        ("127.0.0.1:5642", free.to_string()),
        ("https://127.0.0.1:5642", format!("https://{free}")),
    ];
    assert_eq!(run_replaced("remote.md", &place, &replaced, &|_| {}), 14);
}

#[test]
fn the_guide_to_mounts_works_as_it_says() {
    let place = Place::new();
    write_runs(&place);
    place.write("project/Makefile", "result:\n\techo made > result\n");
    fs::create_dir(place.path("mnt")).unwrap();
    run_guide("mount.md", &place, &[("/data/store", "store"), ("/mnt/", "mnt/")]);
}

#[test]
fn the_guide_to_flushing_works_as_it_says() {
    let place = Place::new();
    for file in ["burst/out/a", "burst/out/b", "burst/a/x", "burst/b/y", "var/log/app/log"] {
        place.write(file, "some bytes\n");
    }
    let redis = Redis::start();
    let socket = redis.as_ref().map_or_else(String::new, |redis| redis.socket().display().to_string());
    let below = |path: &str| place.path(path).display().to_string();
    // As above.
    let free = format!("127.0.0.1:{}", free_ports(1)[0]);
    let replaced = [
        ("/burst/", below("burst/")),
        ("/archive", below("archive")),
        ("/var/log/", below("var/log/")),
        ("redis-cli", format!("redis-cli -s {socket}")),
        ("redis://127.0.0.1/0?", format!("redis+unix://{socket}?")),
        ("/data/store", below("store")),
        ("127.0.0.1:5705", free.to_string()),
        ("http://127.0.0.1:5705", format!("http://{free}")),
        ("'http://127.0.0.1:5705", format!("'http://{free}")),
    ];
    run_replaced("flush.md", &place, &replaced, &|_| {});
    assert_eq!(place.read("archive/north/wind"), b"12 m/s\n");
    assert!(place.path("var/log/app/log").exists() && !place.path("burst/out/a").exists());
}

#[test]
fn the_guide_to_jobs_works_as_it_says() {
    let place = Place::new();
    place.write("pfs/input/mesh/a.h5", noise(1_200_000, 1));
    place.write("pfs/input/mesh/b.h5", noise(1_200_000, 2));
    place.write("pfs/input/steps.txt", "10\n");
    place.write("run.out", "10 steps ok\n");
    run_guide("jobs.md", &place, &[("/pfs/", "pfs/")]);
}

#[test]
fn the_guide_to_the_simulator_works_as_it_says() {
    let place = Place::empty();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../demo/clusters");
    for entry in fs::read_dir(shipped).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_file()) {
        place.write(Path::new("demo/clusters").join(entry.file_name()), fs::read(entry.path()).unwrap());
    }
    run_guide("simulate.md", &place, &[]);
    assert!(place.path("lab.svg").exists());
}

#[test]
fn the_guides_to_requirements_and_encodings_work_as_they_say() {
    let place = Place::new();
    write_runs(&place);
    place.write("x.f64", noise(100_000, 3));
    run_guide("requirements.md", &place, &[]);
    run_guide("encodings.md", &place, &[]);
}

/// Every command of every guide has flags that exist: with `--help` behind them it does nothing, and fails at a wrong one.
#[test]
fn commands_of_all_guides_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap();
    let guides = fs::read_dir(root.join("docs/guide")).unwrap().map(|entry| entry.unwrap().path());
    let search = format!("{}:{}", programs().display(), std::env::var("PATH").unwrap());
    let place = Place::empty();
    let (mut tried, mut wrong) = (0, Vec::new());
    for path in guides.chain([root.join("README.md")]) {
        let text = fs::read_to_string(&path).unwrap();
        let mut in_block = false;
        for line in text.lines() {
            if line.starts_with("```") {
                in_block = !in_block;
            }
            let is_command = ["terrace ", "$ terrace ", "$ mpirun "].iter().any(|start| line.starts_with(start));
            // What follows `--run`, or a single `--`, is another program's.
            if !in_block || !is_command || [" --run ", " -- "].iter().any(|word| line.contains(word)) {
                continue;
            }
            // MPI runs other programs, too.
            let Some(start) = line.find("terrace ") else { continue };
            let command = &line[start..];
            let command =
                command.split(" #").next().unwrap().split(" > ").next().unwrap().trim_end().trim_end_matches('&');
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("{command} --help")]).current_dir(place.path("")).stdin(Stdio::null());
            // A variable that the guide to clusters sets.
            shell.env("log", "etcd://127.0.0.1:2379/1");
            let output = shell.env("PATH", &search).env("HOME", place.path("home")).output().unwrap();
            tried += 1;
            if !output.status.success() {
                wrong.push(format!("{}: {command}\n{}", path.display(), String::from_utf8_lossy(&output.stderr)));
            }
        }
    }
    assert!(tried > 60, "only {tried} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
