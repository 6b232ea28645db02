//! Datasets' views on a mount, used by ordinary programs.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use common::{Mounted, run, tool};
use terrace_datasets::{Dataset, Datasets, Declared};
use terrace_testkit::python_with;

const POINTS_DECLARATION: &str = "
dataset {
    const N = 100000
    var data [N]struct { a, b, c float32 }
}
view aos { var data = data }
view soa { var a [] { a } = data; var b [] { b } = data; var c [] { c } = data }
view b read-only { var b [] { b } = data }
view big big { var b [] { b } = data }
replica rows { view aos }
replica fields { view soa; consistency on-close }
";
const POINT_COUNT: usize = 100_000;

fn aos() -> Vec<u8> {
    (0..3 * POINT_COUNT).flat_map(|i| (i as f32 / 4.0).to_le_bytes()).collect()
}

fn soa() -> Vec<u8> {
    (0..3).flat_map(|field| (0..POINT_COUNT).flat_map(move |i| ((i * 3 + field) as f32 / 4.0).to_le_bytes())).collect()
}

fn mounted() -> Option<(Mounted, Dataset)> {
    let mounted = Mounted::new()?;
    let dataset = Datasets::new(mounted.files.store()).add("points", POINTS_DECLARATION).unwrap();
    Some((mounted, dataset))
}

fn shell(script: &str, at: &Path) -> String {
    run(Path::new("/bin/sh"), ["-ec", script], at)
}

#[test]
fn views_are_copied_in_and_out() {
    let Some((mounted, dataset)) = mounted() else { return };
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("aos"), aos()).unwrap();
    fs::write(outside.path().join("soa"), soa()).unwrap();
    let at = outside.path().display();
    assert_eq!(
        shell("ls -A; ls .views; ls .views/points", &mounted.at),
        ".views\ndatasets\npoints\naos\nb\nbig\nsoa\n"
    );
    shell(
        &format!("cp {at}/aos .views/points/aos; cmp .views/points/soa {at}/soa; cmp .views/points/aos {at}/aos"),
        &mounted.at,
    );
    shell(&format!("dd if=/dev/zero of=.views/points/aos bs=1M status=none 2> {at}/full || true"), &mounted.at);
    assert!(fs::read_to_string(outside.path().join("full")).unwrap().contains("No space left"));
    shell(
        &format!(
            "cmp -n 1200000 .views/points/soa /dev/zero; test $(stat -c %s .views/points/b) = {}",
            4 * POINT_COUNT
        ),
        &mounted.at,
    );
    // In pieces that cut through elements.
    shell(
        &format!(
            "dd if={at}/soa of=.views/points/soa bs=10007 conv=notrunc status=none; cmp .views/points/aos {at}/aos"
        ),
        &mounted.at,
    );
    let part = shell("dd if=.views/points/b bs=4 skip=500 count=1 status=none | od -An -tf4", &mounted.at);
    assert_eq!(part.trim().parse::<f32>().unwrap(), (500 * 3 + 1) as f32 / 4.0);
    // Replicas that follow on close are up to date.
    assert!(dataset.replicas().unwrap().iter().all(|(_, _, behind)| !behind));
    assert!(mounted.files.store().get(b"datasets/points/fields").unwrap() == soa());
}

#[test]
fn views_have_a_fixed_length() {
    let Some((mounted, dataset)) = mounted() else { return };
    let at = |view: &str| mounted.at.join(".views/points").join(view);
    fs::write(at("aos"), aos()).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(at("soa")).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 12 * POINT_COUNT as u64);
    file.set_len(10).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 12 * POINT_COUNT as u64);
    assert_eq!(file.set_len(13 * POINT_COUNT as u64).unwrap_err().raw_os_error(), Some(libc::EFBIG));
    assert_eq!(file.write_at(&[1; 10], 12 * POINT_COUNT as u64 - 4).unwrap(), 4);
    assert_eq!(file.write_at(&[1; 10], 12 * POINT_COUNT as u64).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    assert_eq!(file.read_at(&mut [0; 10], 12 * POINT_COUNT as u64).unwrap(), 0);
    // The file is open twice, and another view is open, too.
    let (again, other) = (File::open(at("soa")).unwrap(), File::open(at("aos")).unwrap());
    file.write_at(&7f32.to_le_bytes(), 4 * POINT_COUNT as u64 + 40).unwrap();
    let mut bytes = [0; 4];
    for (file, offset) in [(&again, 4 * POINT_COUNT as u64 + 40), (&other, 124)] {
        file.read_at(&mut bytes, offset).unwrap();
        assert_eq!(f32::from_le_bytes(bytes), 7.0);
    }
    assert_eq!(fs::metadata(at("b")).unwrap().permissions().mode() & 0o777, 0o444);
    let error = OpenOptions::new().write(true).open(at("b")).and_then(|file| file.write_at(&[0; 4], 0)).unwrap_err();
    assert!([Some(libc::EROFS), Some(libc::EACCES)].contains(&error.raw_os_error()), "{error}");
    for failed in [
        fs::remove_file(at("aos")),
        fs::rename(at("aos"), mounted.at.join("x")),
        fs::create_dir(at("new")),
        fs::remove_dir(mounted.at.join(".views")),
        File::create(at("new")).map(drop),
        fs::metadata(mounted.at.join(".views/none")).map(drop),
    ] {
        assert!(failed.is_err());
    }
    // A view is added and another one removed.
    let changed = POINTS_DECLARATION
        .replace("view big big {", "view reversed {")
        .replace("[] { b } = data }\nreplica", "[i] { b } = data[N - 1 - i] }\nreplica");
    dataset.change(&Declared::parse(&changed).unwrap()).unwrap();
    let mut bytes = [0; 4];
    File::open(at("reversed")).unwrap().read_at(&mut bytes, 4 * (POINT_COUNT as u64 - 11)).unwrap();
    assert_eq!(f32::from_le_bytes(bytes), 7.0);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert!(fs::metadata(at("big")).is_err());
    Datasets::new(mounted.files.store()).remove("points").unwrap();
    assert!(file.read_at(&mut bytes, 0).is_err());
}

/// A view's write changes the files of its dataset. The kernel may have their pages and lengths.
#[test]
fn files_of_a_dataset_show_what_was_written_to_a_view() {
    let Some((mounted, _dataset)) = mounted() else { return };
    let (file, view) = (mounted.at.join("datasets/points/rows"), mounted.at.join(".views/points/soa"));
    let mut fields = soa();
    fs::write(&view, &fields).unwrap();
    let held = File::open(&file).unwrap();
    for round in 0..20 {
        for _ in 0..2 {
            assert_eq!(fs::read(&file).unwrap().len(), 12 * POINT_COUNT);
        }
        let value = (round as f32).to_le_bytes();
        let at = 4 * (POINT_COUNT + 5 + round);
        fields[at..at + 4].copy_from_slice(&value);
        let open = OpenOptions::new().write(true).open(&view).unwrap();
        open.write_at(&value, at as u64).unwrap();
        drop(open);
        let rows = fs::read(&file).unwrap();
        let offset = 12 * (5 + round) + 4;
        assert_eq!(rows[offset..offset + 4], value);
    }
    assert!(fs::read(&view).unwrap() == fields);
    let mut start = [0; 400];
    held.read_exact_at(&mut start, 0).unwrap();
    assert_eq!(start, fs::read(&file).unwrap()[..400]);
}

const MAPPING_PROGRAM: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
int main(int n, char **paths) {
    int soa = open(paths[1], O_RDWR), aos = open(paths[2], O_RDWR);
    struct stat s;
    fstat(soa, &s);
    long count = s.st_size / 12;
    float *fields = mmap(0, s.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, soa, 0);
    float *rows = mmap(0, s.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, aos, 0);
    if (fields == MAP_FAILED || rows == MAP_FAILED) return 1;
    double sum = 0;
    for (long i = 0; i < count; i++) sum += rows[3 * i + 1] + fields[2 * count + i];
    for (long i = 0; i < count; i++) fields[count + i] = i;
    if (msync(fields, s.st_size, MS_SYNC)) return 2;
    for (int wait = 0; wait < 1000 && rows[3 * 777 + 1] != 777; wait++) usleep(10000);
    for (long i = 0; i < count; i++) if (rows[3 * i + 1] != i) return 3;
    printf("%.2f\n", sum);
    return 0;
}
"#;

#[test]
fn views_are_mapped_into_memory() {
    let (Some(cc), Some((mounted, _dataset))) = (tool("cc"), mounted()) else { return };
    let views = mounted.at.join(".views/points");
    fs::write(views.join("aos"), aos()).unwrap();
    let outside = tempfile::tempdir().unwrap();
    let program = outside.path().join("mapped");
    fs::write(outside.path().join("mapped.c"), MAPPING_PROGRAM).unwrap();
    run(&cc, ["-O2", "-o", "mapped", "mapped.c"], outside.path());
    let sum: f64 = (0..POINT_COUNT).map(|i| (i * 3 + 1) as f64 / 4.0 + (i * 3 + 2) as f64 / 4.0).sum();
    let said = run(&program, ["soa", "aos"], &views);
    assert_eq!(said.trim().parse::<f64>().unwrap(), (sum * 100.0).round() / 100.0);
    // A mapped write is visible to all once it is synced.
    let mut bytes = [0; 4];
    File::open(views.join("big")).unwrap().read_at(&mut bytes, 4 * 5000).unwrap();
    assert_eq!(f32::from_be_bytes(bytes), 5000.0);
}

const FORTRAN_PROGRAM: &str = "
program stream
  implicit none
  real(4) :: b(100000)
  integer :: unit
  open(newunit=unit, file='b', access='stream', form='unformatted', action='read')
  read(unit) b
  close(unit)
  b = b * 2
  open(newunit=unit, file='soa', access='stream', form='unformatted', action='readwrite', status='old')
  write(unit, pos=1 + 4 * 100000) b
  close(unit)
end program
";

#[test]
fn fortran_reads_and_writes_views_as_streams() {
    let (Some(fortran), Some((mounted, _dataset))) = (tool("gfortran"), mounted()) else { return };
    let views = mounted.at.join(".views/points");
    fs::write(views.join("aos"), aos()).unwrap();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("stream.f90"), FORTRAN_PROGRAM).unwrap();
    run(&fortran, ["-o", "stream", "stream.f90"], outside.path());
    run(&outside.path().join("stream"), [""; 0], &views);
    let mut bytes = [0; 12];
    File::open(views.join("aos")).unwrap().read_exact_at(&mut bytes, 12 * 1000).unwrap();
    let values: Vec<f32> = bytes.chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
    assert_eq!(values, [750.0, 1500.5, 750.5]);
}

const NUMPY_PROGRAM: &str = "
import numpy, sys
views = sys.argv[1]
rows = numpy.memmap(views + '/aos', dtype=[('a', '<f4'), ('b', '<f4'), ('c', '<f4')], mode='r+')
big = numpy.memmap(views + '/big', dtype='>f4', mode='r')
assert (rows['b'] == big).all()
rows['b'] = numpy.arange(len(rows))
rows.flush()
again = numpy.fromfile(views + '/b', dtype='<f4')
assert (again == numpy.arange(len(rows))).all()
fields = numpy.memmap(views + '/soa', dtype='<f4', mode='r', shape=(3, len(rows)))
assert (fields[1] == again).all() and fields[2][10] == rows['c'][10]
";

#[test]
fn numpy_maps_views() {
    let (Some(python), Some((mounted, _dataset))) = (python_with("numpy_maps_views", "numpy", "numpy"), mounted())
    else {
        return;
    };
    let views = mounted.at.join(".views/points");
    fs::write(views.join("aos"), aos()).unwrap();
    run(&python, ["-c".as_ref(), NUMPY_PROGRAM.as_ref(), views.as_os_str()], &views);
}

const H5PY_PROGRAM: &str = "
import h5py, numpy
def check(factor):
    with h5py.File('datasets/points/fields.h5', 'r') as f:
        rows = numpy.fromfile('.views/points/aos', dtype=[('a', '<f4'), ('b', '<f4'), ('c', '<f4')])
        for name in 'abc':
            assert (f[name][name] == rows[name]).all(), name
        assert f['b']['b'][1000] == 750.25 * factor
check(1)
rows = numpy.memmap('.views/points/aos', dtype='<f4', mode='r+')
rows *= 2
rows.flush()
check(2)
";

#[test]
fn h5py_opens_a_replica_that_is_an_hdf5_file() {
    let (Some(python), Some((mounted, dataset))) = (python_with("h5py in mounted views", "h5py", "h5py"), mounted())
    else {
        return;
    };
    let more = format!("{POINTS_DECLARATION}replica h5 \"fields.h5\" {{ view soa; backend hdf5 }}\n");
    dataset.change(&Declared::parse(&more).unwrap()).unwrap();
    fs::write(mounted.at.join(".views/points/aos"), aos()).unwrap();
    run(&python, ["-c", H5PY_PROGRAM], &mounted.at);
}
