//! MPI programs: files of each rank, one file of all, and what `MPI_Init` and `MPI_Finalize` do.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::process::Output;

use common::{Place, have};
use terrace::PutOptions;
use terrace_testkit::{Missing, skip};

const RANK_COUNT: u64 = 4;
/// As in `ranks.c`.
const FILE_BYTES: u64 = 20 * 10_000;

/// A place with the program of `ranks.c`. None if there is no MPI on the machine.
fn place_with_ranks(test: &str) -> Option<Place> {
    let place = Place::new();
    fs::write(place.dir.path().join("ranks.c"), include_str!("ranks.c")).unwrap();
    let compiled = place.command("mpicc").env_remove("LD_PRELOAD").args(["-o", "ranks", "ranks.c"]).output();
    match compiled {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => {
            skip(test, &Missing::new("mpi", format!("mpicc: {error}")));
            return None;
        }
    }
    Some(place)
}

/// Runs a program on four ranks. The variables are those of the ranks.
fn mpirun(place: &Place, options: &[&str], program: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut run = place.command("timeout");
    run.args(["100", "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "4"]).args(options).args(program);
    run.envs(variables.iter().copied()).output().unwrap()
}

fn said(output: &Output) -> String {
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && !err.contains("terrace: "), "{}\n{out}\n{err}", output.status);
    out.into_owned()
}

#[test]
fn ranks_write_a_file_each_and_one_file_together() {
    let Some(place) = place_with_ranks("ranks_write_a_file_each_and_one_file_together") else { return };
    for io in ["ompio", "romio321"] {
        place.sh("mkdir -p /terrace/out; rm -f /terrace/out/*");
        let ran = mpirun(&place, &["--mca", "io", io], &["./ranks", "/terrace/out", "shared"], &[]);
        assert_eq!(said(&ran), "4 ranks\n", "{io}");
        let store = place.store();
        for rank in 0..RANK_COUNT {
            assert_eq!(store.stat(format!("out/rank.{rank}").as_bytes()).unwrap().length, FILE_BYTES, "{io}");
        }
        let all = store.get(b"out/all").unwrap();
        assert_eq!(all.len() as u64, RANK_COUNT * (FILE_BYTES + 20 * 100), "{io}");
        let rank_3_round_1: Vec<u8> = (0..10_000u32).map(|at| (at * 7 + 3 * 31 + 1) as u8).collect();
        assert!(all[70_000..80_000] == rank_3_round_1, "{io}");
    }
}

#[test]
fn finalize_makes_a_ranks_files_durable_unless_it_is_told_not_to() {
    let test = "finalize_makes_a_ranks_files_durable_unless_it_is_told_not_to";
    let Some(place) = place_with_ranks(test) else { return };
    if !have(test, &["strace"]) {
        return;
    }
    // A program that no `mpirun` has started is one rank.
    place.sh("mkdir -p /terrace/out");
    let syncs = |moment: &str| {
        let traced = ["-f", "-y", "-o", "trace", "-e", "trace=execve,fsync,fdatasync", "./ranks", "/terrace/out"];
        said(&place.command("strace").args(traced).env("TERRACE_SYNC", moment).output().unwrap());
        let trace = fs::read_to_string(place.dir.path().join("trace")).unwrap();
        // Threads that make replicas sync, too.
        let main = trace.split(' ').next().unwrap();
        trace.lines().filter(|line| line.starts_with(main) && line.contains("/disk/")).count()
    };
    assert_eq!(syncs("none"), 0);
    assert!(syncs("finalize") > 0);
    assert!(syncs("close") > 0);
    let wrong = mpirun(&place, &[], &["./ranks", "/terrace/out"], &[("TERRACE_SYNC", "later")]);
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(!wrong.status.success() && said.contains("write finalize, close or none"), "{said}");
}

/// Only the first write to an open file was noted, and only after `MPI_Init`. So what was written later to a file that had been written to before
/// was not made durable.
#[test]
fn finalize_makes_a_file_durable_that_was_written_to_before_init_too() {
    let test = "finalize_makes_a_file_durable_that_was_written_to_before_init_too";
    let Some(place) = place_with_ranks(test) else { return };
    if !have(test, &["strace"]) {
        return;
    }
    let source = "
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>
int main(int count, char **arguments) {
    int fd = open(\"/terrace/early\", O_CREAT | O_WRONLY, 0666);
    if (fd < 0 || write(fd, \"a\", 1) != 1) return 1;
    MPI_Init(&count, &arguments);
    if (write(fd, \"b\", 1) != 1) return 1;
    MPI_Finalize();
    return 0;
}
";
    fs::write(place.dir.path().join("early.c"), source).unwrap();
    let compiled = place.command("mpicc").env_remove("LD_PRELOAD").args(["-o", "early", "early.c"]).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let traced = ["-f", "-y", "-o", "trace", "-e", "trace=execve,fsync,fdatasync", "./early"];
    said(&place.command("strace").args(traced).output().unwrap());
    let trace = fs::read_to_string(place.dir.path().join("trace")).unwrap();
    let main = trace.split(' ').next().unwrap();
    assert!(trace.lines().any(|line| line.starts_with(main) && line.contains("/disk/")), "{trace}");
    assert_eq!(place.store().get(b"early").unwrap(), b"ab");
}

#[test]
fn what_is_asked_for_the_program_is_asked_for_its_files() {
    let test = "what_is_asked_for_the_program_is_asked_for_its_files";
    let Some(place) = place_with_ranks(test) else { return };
    let kept = |key: &[u8]| {
        let asked = PutOptions::kept_with(key, &place.store().stat(key).unwrap()).unwrap().requirements;
        asked.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    place.sh("mkdir /terrace/out");
    let run = |value: &str| mpirun(&place, &[], &["./ranks", "/terrace/out"], &[("TERRACE_REQUIRE", value)]);
    said(&run("min_write_latency"));
    assert_eq!(kept(b"out/rank.3"), ["min_write_latency"]);
    place.sh("rm /terrace/out/*");
    fs::write(place.dir.path().join("asked"), "min_storage\nmax_write_bandwidth\n").unwrap();
    said(&run("./asked"));
    assert_eq!(kept(b"out/rank.0"), ["min_storage", "max_write_bandwidth"]);
    let wrong = run("min_speed");
    let error = String::from_utf8_lossy(&wrong.stderr);
    assert!(!wrong.status.success() && error.contains("TERRACE_REQUIRE") && error.contains("min_energy"), "{error}");
}

#[test]
fn python_ranks_write_one_file() {
    let test = "python_ranks_write_one_file";
    let Some(place) = place_with_ranks(test) else { return };
    let python = "/usr/bin/python3";
    if !place.command(python).args(["-c", "import mpi4py"]).output().is_ok_and(|output| output.status.success()) {
        return skip(test, &Missing::new("mpi", "python3-mpi4py is not installed"));
    }
    let script = "
from mpi4py import MPI
rank, ranks = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
file = MPI.File.Open(MPI.COMM_WORLD, '/terrace/all', MPI.MODE_CREATE | MPI.MODE_RDWR)
file.Write_at_all(rank * 100_000, bytes([rank + 1]) * 100_000)
file.Sync(); MPI.COMM_WORLD.Barrier(); file.Sync()
read = bytearray(100_000)
file.Read_at((rank + 1) % ranks * 100_000, read)
assert bytes(read) == bytes([(rank + 1) % ranks + 1]) * 100_000
file.Close()
";
    said(&mpirun(&place, &[], &[python, "-c", script], &[]));
    let expected: Vec<u8> = (1..=4u8).flat_map(|rank| vec![rank; 100_000]).collect();
    assert!(place.store().get(b"all").unwrap() == expected);
}

#[test]
fn a_fortran_program_is_bracketed_too() {
    let test = "a_fortran_program_is_bracketed_too";
    let Some(place) = place_with_ranks(test) else { return };
    let source = "
program ranks
  use mpi
  integer :: rank, error
  character(len=40) :: name
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  write(name, '(a,i0)') '/terrace/fortran.', rank
  open(10, file=name, form='unformatted', access='stream')
  write(10) (rank, i = 1, 50000)
  close(10)
  call MPI_Finalize(error)
end program
";
    fs::write(place.dir.path().join("ranks.f90"), source).unwrap();
    let compiled = place.command("mpifort").env_remove("LD_PRELOAD").args(["-o", "fortran", "ranks.f90"]).output();
    if !compiled.as_ref().is_ok_and(|output| output.status.success()) {
        return skip(test, &Missing::new("mpi", format!("mpifort: {compiled:?}")));
    }
    said(&mpirun(&place, &[], &["./fortran"], &[]));
    let extents = place.store().locate(b"fortran.2").unwrap().extents;
    assert!(
        extents.iter().flat_map(|extent| &extent.replicas).all(|replica| !replica.encoding.is_empty()),
        "{extents:?}"
    );
}
