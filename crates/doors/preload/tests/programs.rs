//! Large programs, as they are.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::{Place, have, have_one, python_program};
use terrace_testkit::{Missing, skip};

#[test]
fn git_clones_commits_and_packs() {
    let place = Place::new();
    if !have("git_clones_commits_and_packs", &["git", "make", "cc"]) {
        return;
    }
    let printed = place.sh(r#"
        git config --global user.name a; git config --global user.email a@example.org; git config --global init.defaultBranch main
        git init -q origin; cd origin; git config receive.denyCurrentBranch ignore
        for part in 1 2 3 4 5; do echo "int part_$part(void) { return $part; }" > part_$part.c; done
        printf 'int part_5(void);\nint main(void) { return part_5(); }\n' > main.c
        printf 'sum: $(patsubst %%.c,%%.o,$(wildcard *.c))\n\tcc -o $@ $^\n' > Makefile
        git add .; git commit -qm first
        git clone -q ~/origin /terrace/clone; cd /terrace/clone; make -s -j2; ./sum || echo $?
        git status --porcelain --untracked-files=no; echo >> main.c; git commit -qam second; git gc -q; git fsck
        git log --oneline | wc -l; git push -q origin main:pushed; git -C ~/origin log --oneline pushed | wc -l
        cd /; git -C /terrace/clone rm -q part_1.c; git -C /terrace/clone diff --cached --stat | tail -n 1; rm -rf /terrace/clone
    "#);
    assert_eq!(printed, "5\n2\n2\n 1 file changed, 1 deletion(-)\n");
}

#[test]
fn two_processes_write_to_one_sqlite_database() {
    let place = Place::new();
    if !have("two_processes_write_to_one_sqlite_database", &["sqlite3"]) {
        return;
    }
    let printed = place.sh(r#"
        cd /terrace; sqlite3 db 'pragma synchronous = full; create table t(process, number)'
        for process in 1 2; do
            (for number in $(seq 15); do sqlite3 -cmd '.timeout 60000' db "insert into t values($process, $number)"; done) &
        done
        wait; sqlite3 db 'select count(*), count(distinct process) from t; pragma integrity_check; begin; delete from t; rollback; select count(*) from t'
        sqlite3 db 'pragma journal_mode = wal; create table u(a)' 2>&1 || echo refused
        sqlite3 db 'pragma locking_mode = exclusive; pragma journal_mode = wal; create table v(a); insert into v values(3); select * from v'
    "#);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[..3], ["30|2", "ok", "30"]);
    assert!(lines.contains(&"refused") && printed.ends_with("exclusive\nwal\n3\n"), "{printed}");
}

#[test]
fn rsync_copies_in_and_out() {
    let place = Place::new();
    if !have("rsync_copies_in_and_out", &["rsync"]) {
        return;
    }
    let printed = place.sh("
        mkdir -p tree/a; seq 50000 > tree/a/numbers; head -c 2000000 /dev/urandom > tree/random; ln -s random tree/link
        rsync -a tree/ /terrace/tree; diff -r tree /terrace/tree; rsync -ai tree/ /terrace/tree
        echo more >> tree/a/numbers; rm tree/link; rsync -a --delete --no-whole-file tree/ /terrace/tree; diff -r tree /terrace/tree
        rsync -a /terrace/tree/ back; diff -r tree back
    ");
    assert_eq!(printed, "");
}

#[test]
fn node_uses_the_store() {
    let place = Place::new();
    if !have_one("node_uses_the_store", "node", "node") {
        return;
    }
    std::fs::write(place.dir.path().join("files.js"), include_str!("files.js")).unwrap();
    let printed = place.sh("cp files.js /terrace; cd /terrace; node files.js");
    assert_eq!(printed, "hello 5\nout\nerr\n8890\na,e,files.js,o,s\n");
}

#[test]
fn patch_changes_a_file() {
    let place = Place::new();
    if have("patch_changes_a_file", &["patch"]) {
        place.sh("
            seq 5 > a; seq 6 > b; cp a /terrace; diff -u a b > /terrace/p || true
            cd /terrace; patch -s -b a < p; cmp a ~/b; cmp a.orig ~/a
        ");
    }
}

#[test]
fn vim_edits_a_file() {
    let place = Place::new();
    if have("vim_edits_a_file", &["vim"]) {
        place.sh("echo before > /terrace/text; vim -es -u NONE -c 's/before/after/' -c wq /terrace/text < /dev/null");
        assert_eq!(place.sh("cat /terrace/text; ls -A /terrace"), "after\ntext\n");
    }
}

#[test]
fn python_libraries_read_what_they_wrote() {
    let place = Place::new();
    place.python(
        "
import json, pathlib, pickle, shutil, sqlite3, tempfile, zipfile
root = pathlib.Path('/terrace')
(root / 'a').mkdir(); (root / 'a' / 'text').write_text('words')
with zipfile.ZipFile(root / 'z.zip', 'w') as archive:
    archive.write(root / 'a' / 'text', 'text')
assert zipfile.ZipFile(root / 'z.zip').read('text') == b'words'
with tempfile.TemporaryDirectory(dir=root) as folder, tempfile.NamedTemporaryFile(dir=folder) as file:
    file.write(b'x' * 70_000); file.flush()
    assert pathlib.Path(file.name).stat().st_size == 70_000
pickle.dump([1, 2], open(root / 'p', 'wb')); assert pickle.load(open(root / 'p', 'rb')) == [1, 2]
with sqlite3.connect(root / 'db') as db:
    db.execute('create table t(a)'); db.execute('insert into t values(1)')
assert sqlite3.connect(root / 'db').execute('select count(*) from t').fetchone() == (1,)
shutil.copytree(root / 'a', root / 'b'); shutil.move(root / 'b', 'moved'); shutil.rmtree(root / 'a')
assert sorted(path.name for path in root.rglob('*')) == ['db', 'p', 'z.zip']
import os; os.chdir(root); assert os.getcwd() == '/terrace' and pathlib.Path('p').exists()
",
    );
}

#[test]
fn numpy_and_hdf5_read_what_they_wrote() {
    let place = Place::new();
    let found = place.command(python_program()).args(["-c", "import numpy, h5py"]).output().unwrap();
    if !found.status.success() {
        return skip("numpy_and_hdf5_read_what_they_wrote", &Missing::new("h5py", "Python has no numpy and h5py"));
    }
    place.python(
        "
import h5py, numpy
numbers = numpy.arange(100_000.0).reshape(100, 1000)
numpy.save('/terrace/a.npy', numbers); assert (numpy.load('/terrace/a.npy', mmap_mode='r') == numbers).all()
numbers.tofile('/terrace/a.raw'); assert (numpy.fromfile('/terrace/a.raw') == numbers.ravel()).all()
with h5py.File('/terrace/a.h5', 'w') as file:
    file.create_dataset('x', data=numbers, chunks=(10, 1000), compression='gzip')
with h5py.File('/terrace/a.h5', 'r+') as file:
    file['x'][0] = 1
with h5py.File('/terrace/a.h5') as file:
    assert (file['x'][1:] == numbers[1:]).all() and (file['x'][0] == 1).all()
",
    );
}

#[test]
fn netcdf_pandas_and_arrow_read_what_they_wrote() {
    let test = "netcdf_pandas_and_arrow_read_what_they_wrote";
    let place = Place::new();
    let found =
        place.command(python_program()).args(["-c", "import netCDF4, pandas, pyarrow, tables"]).output().unwrap();
    if !found.status.success() {
        return skip(test, &Missing::new("h5py", "Python has no netCDF4, pandas, pyarrow and PyTables"));
    }
    place.python(
        "
import netCDF4, numpy
numbers = numpy.arange(60_000.0).reshape(60, 1000)
for kind in ('NETCDF4', 'NETCDF3_64BIT_OFFSET'):
    with netCDF4.Dataset('/terrace/a.nc', 'w', format=kind) as file:
        file.createDimension('time', None); file.createDimension('x', 1000); file.title = 'waves'
        height = file.createVariable('height', 'f8', ('time', 'x'), zlib=kind == 'NETCDF4')
        height[:] = numbers[:50]
    with netCDF4.Dataset('/terrace/a.nc', 'a') as file:
        file['height'][50:] = numbers[50:]
    with netCDF4.Dataset('/terrace/a.nc') as file:
        assert file.title == 'waves' and (file['height'][:] == numbers).all(), kind
",
    );
    place.python(
        "
import pandas
table = pandas.DataFrame({'number': range(50_000), 'word': [f'word {n % 7}' for n in range(50_000)]})
table.to_csv('/terrace/a.csv', index=False); table.to_parquet('/terrace/a.parquet'); table.to_pickle('/terrace/a.pickle.gz')
table.to_hdf('/terrace/a.h5', key='table', format='table'); table.to_feather('/terrace/a.feather')
for read in (lambda: pandas.read_csv('/terrace/a.csv', dtype=table.dtypes.to_dict()), lambda: pandas.read_parquet('/terrace/a.parquet'), lambda: pandas.read_pickle('/terrace/a.pickle.gz'),
             lambda: pandas.read_hdf('/terrace/a.h5', 'table'), lambda: pandas.read_feather('/terrace/a.feather')):
    pandas.testing.assert_frame_equal(read(), table)
",
    );
    place.python(
        "
import pyarrow, pyarrow.csv, pyarrow.dataset, pyarrow.parquet
table = pyarrow.table({'year': [n // 10_000 for n in range(40_000)], 'number': range(40_000)})
pyarrow.parquet.write_table(table, '/terrace/a.parquet', row_group_size=5000)
assert pyarrow.parquet.read_table('/terrace/a.parquet', memory_map=True).equals(table)
assert pyarrow.parquet.ParquetFile('/terrace/a.parquet').read_row_group(3).equals(table.slice(15_000, 5000))
pyarrow.dataset.write_dataset(table, '/terrace/parts', format='parquet', partitioning=['year'])
parts = pyarrow.dataset.dataset('/terrace/parts', format='parquet', partitioning=['year'])
assert len(parts.files) == 4 and parts.to_table(filter=pyarrow.dataset.field('year') == 2)['number'].to_pylist() == list(range(20_000, 30_000))
with pyarrow.OSFile('/terrace/a.arrow', 'wb') as sink, pyarrow.ipc.new_file(sink, table.schema) as writer:
    writer.write(table)
with pyarrow.memory_map('/terrace/a.arrow') as source:
    assert pyarrow.ipc.open_file(source).read_all().equals(table)
pyarrow.csv.write_csv(table, '/terrace/a.csv'); assert pyarrow.csv.read_csv('/terrace/a.csv').equals(table)
",
    );
}

/// Channels, mappings, locks, walks and attributes of `java.nio`, and processes that Java starts with redirections.
#[test]
fn java_uses_files_and_channels() {
    let place = Place::new();
    if !have_one("java_uses_files_and_channels", "java", "javac") {
        return;
    }
    std::fs::write(place.dir.path().join("Nio.java"), include_str!("Nio.java")).unwrap();
    assert_eq!(place.sh("javac -d . Nio.java; java -Xmx200m -Xshare:auto Nio /terrace"), "done\n");
    assert_eq!(place.sh("cat /terrace/printed; ls /terrace"), "by a child\nprinted\n");
    // A program whose classes are in the store.
    place.sh("mkdir /terrace/program; javac -d /terrace/program Nio.java; cd /terrace; java -Xmx200m -cp program Nio /terrace");
}

/// Reads, writes, lengths and holes at random, checked byte by byte. Mappings that fsx would make are refused.
#[test]
fn fsx_finds_no_wrong_byte() {
    let fsx = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/tools/bin/fsx");
    if !fsx.exists() {
        return skip("fsx_finds_no_wrong_byte", &Missing::new("fsx", "it is not installed (`make tools`)"));
    }
    let place = Place::new();
    let number = |name: &str, usual: u32| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (operations, seeds) = (number("TERRACE_FSX", 5_000), number("TERRACE_FSX_SEEDS", 2));
    std::fs::write(place.dir.path().join("fsx.toml"), "[weights]\nmapread = 0\nmapwrite = 0\n").unwrap();
    for seed in 1..=seeds {
        place.sh(&format!("{} -f fsx.toml -N {operations} -S {seed} -P . /terrace/file", fsx.display()));
    }
}

/// Calls of every kind, as root and as other users. The configuration lists each failing test with its reason, and only failing tests.
#[test]
fn pjdfstest_fails_only_the_listed_tests() {
    let test = "pjdfstest_fails_only_the_listed_tests";
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let suite = here.join("../../../target/tools/bin/pjdfstest");
    if !suite.exists() {
        return skip(test, &Missing::new("pjdfstest", "it is not installed (`make tools`)"));
    }
    let place = Place::new();
    if place.sh("id -u") != "0\n" {
        return skip(test, &Missing::new("root", "pjdfstest changes its user"));
    }
    let configuration = here.join("tests/pjdfstest.toml");
    place.sh("mkdir /terrace/suite");
    let ran = place.command(suite).arg("-c").arg(&configuration).args(["-p", "/terrace/suite"]).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    let failed: Vec<&str> = said.lines().filter(|line| line.ends_with("FAILED")).collect();
    assert!(ran.status.success() && failed.is_empty(), "{failed:#?}");
    let listed =
        std::fs::read_to_string(configuration).unwrap().lines().filter(|line| line.starts_with("    \"")).count();
    assert!(said.contains(&format!("{listed} expected failures")), "{listed} are listed");
}
