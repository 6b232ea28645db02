//! Ordinary programs on a mount.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Mounted, run, tool};
use terrace_testkit::{Missing, skip};

fn shell(script: &str, at: &Path) -> String {
    run(Path::new("/bin/sh"), ["-ec", script], at)
}

#[test]
fn a_c_project_is_cloned_and_built() {
    let (Some(_), Some(_), Some(_)) = (tool("git"), tool("make"), tool("cc")) else { return };
    let Some(mounted) = Mounted::new() else { return };
    let origin = tempfile::tempdir().unwrap();
    let parts = 20;
    let mut main = String::from("#include <stdio.h>\n");
    for part in 0..parts {
        let source = format!("int part_{part}(int x) {{ return x + {part}; }}\n");
        fs::write(origin.path().join(format!("part_{part}.c")), source).unwrap();
        main += &format!("int part_{part}(int);\n");
    }
    let sum: Vec<String> = (0..parts).map(|part| format!("part_{part}(1)")).collect();
    main += &format!("int main(void) {{ printf(\"%d\\n\", {}); return 0; }}\n", sum.join(" + "));
    fs::write(origin.path().join("main.c"), main).unwrap();
    let rules =
        "objects = $(patsubst %.c,%.o,$(wildcard *.c))\nsum: $(objects)\n\tcc -o $@ $^\nclean:\n\trm -f sum *.o\n";
    fs::write(origin.path().join("Makefile"), rules).unwrap();
    let identity = "-c user.name=a -c user.email=a@example.org -c init.defaultBranch=main";
    shell(&format!("git init -q; git add .; git {identity} commit -qm first"), origin.path());
    shell(&format!("git clone -q {} project", origin.path().display()), &mounted.at);
    let project = mounted.at.join("project");
    shell("make -s -j4", &project);
    assert_eq!(shell("./sum", &project).trim(), (parts * (parts - 1) / 2 + parts).to_string());
    assert_eq!(shell("make -s -q; git status --porcelain --untracked-files=no; git fsck", &project), "");
    shell(&format!("make -s clean; echo >> main.c; git {identity} commit -qam second; git gc -q; git fsck"), &project);
    assert_eq!(shell("git log --oneline | wc -l", &project).trim(), "2");
}

#[test]
fn sqlite_keeps_its_rollback_journal() {
    let (Some(sqlite), Some(mounted)) = (tool("sqlite3"), Mounted::new()) else { return };
    let mut script =
        String::from("pragma journal_mode=delete; pragma synchronous=full; create table t(a integer, b text);\n");
    for row in 0..50 {
        script += &format!("begin; insert into t values({row}, hex(randomblob(500))); commit;\n");
    }
    script += "begin; delete from t; rollback; update t set b = b || 'x' where a % 2; vacuum; pragma integrity_check;";
    let said = run(&sqlite, ["db", &script], &mounted.at);
    assert_eq!(said.trim(), "delete\nok");
    assert_eq!(run(&sqlite, ["db", "select count(*), sum(length(b)) from t"], &mounted.at).trim(), "50|50025");
    assert!(!mounted.at.join("db-journal").exists());
}

/// Returns TERRACE_DATA, or the folder of our own sources.
fn data() -> PathBuf {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::env::var_os("TERRACE_DATA").map_or(ours, PathBuf::from)
}

#[test]
fn trees_are_copied_and_packed() {
    let Some(mounted) = Mounted::new() else { return };
    let data = data().canonicalize().unwrap();
    shell(
        &format!("cp -a {0} copy; diff -r {0} copy; cp -r copy again; diff -r copy again", data.display()),
        &mounted.at,
    );
    shell(
        "tar -cf all.tar copy; mkdir out; tar -xf all.tar -C out; diff -r copy out/copy; tar -df all.tar",
        &mounted.at,
    );
    shell("mv out/copy moved; diff -r copy moved; rm -r again moved copy; rmdir out", &mounted.at);
    assert_eq!(shell("ls", &mounted.at).trim(), "all.tar");
}

#[test]
fn files_are_mapped() {
    let (Some(python), Some(mounted)) = (tool("python3"), Mounted::new()) else { return };
    let script = "
import mmap, os
with open('mapped', 'w+b') as f:
    f.truncate(3_000_000)
    with mmap.mmap(f.fileno(), 0) as m:
        m[1_000_000:1_000_005] = b'hello'
        f.seek(1_000_000)
        assert m[1_000_000:1_000_005] == b'hello'
        m.flush()
        assert os.pread(f.fileno(), 5, 1_000_000) == b'hello'
        os.pwrite(f.fileno(), b'world', 2_000_000)
        assert m[2_000_000:2_000_005] == b'world'
        m[-1] = 7
with open('mapped', 'rb') as f, mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ) as m:
    assert m[1_000_000:1_000_005] == b'hello' and m[2_000_000:2_000_005] == b'world' and m[-1] == 7
    assert m[:1_000_000].count(0) == 1_000_000
";
    run(&python, ["-c", script], &mounted.at);
    mounted.files.flush().unwrap();
    assert_eq!(mounted.files.store().get(b"mapped").unwrap()[1_000_000..1_000_005], *b"hello");
}

#[test]
fn modes_keep_other_users_out() {
    let Some(mounted) = Mounted::new() else { return };
    let file = mounted.at.join("private");
    fs::write(&file, b"x").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let nobody = Command::new("setpriv").args(["--reuid", "65534", "--clear-groups", "cat"]).arg(&file).output();
    match nobody {
        Ok(output) => assert!(!output.status.success()),
        Err(error) => skip("modes_keep_other_users_out", &Missing::new("programs", format!("setpriv: {error}"))),
    }
}

/// Changes by other processes are visible; a file that is replaced while it is open becomes stale.
#[test]
fn changes_by_other_processes_are_visible() {
    let Some(mounted) = Mounted::new() else { return };
    let store = mounted.files.store().clone();
    store.put_bytes(b"runs/a", b"from outside", &Default::default()).unwrap();
    let path = mounted.at.join("runs/a");
    assert_eq!(fs::read(&path).unwrap(), b"from outside");
    let open = fs::File::open(&path).unwrap();
    store.put_bytes(b"runs/a", b"replaced", &Default::default()).unwrap();
    let error = std::io::read_to_string(open).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(116));
    fs::write(mounted.at.join("runs/b"), b"from inside").unwrap();
    assert_eq!(store.get(b"runs/b").unwrap(), b"from inside");
}
