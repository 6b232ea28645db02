//! Open files in children, and calls that the library does not see.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::{Place, have};
use terrace_testkit::{Missing, skip};

#[test]
fn a_child_shares_its_parents_open_files() {
    let place = Place::new();
    let printed = place.python(
        "
import os, subprocess, multiprocessing
file = open('/terrace/shared', 'w+', buffering=1)
print('parent', file=file)
subprocess.run(['echo', 'spawned'], stdout=file)
pid = os.fork()
if pid == 0:
    print('forked', file=file)
    os._exit(0)
os.waitpid(pid, 0)
print('parent again', file=file)
os.lseek(file.fileno(), 0, 0)
print(subprocess.run(['cat'], stdin=file, capture_output=True, text=True).stdout, end='')
assert os.lseek(file.fileno(), 0, 1) == os.fstat(file.fileno()).st_size
with multiprocessing.Pool(2) as pool:
    assert pool.map(os.path.getsize, ['/terrace/shared'] * 8) == [os.path.getsize('/terrace/shared')] * 8
",
    );
    assert_eq!(printed, "parent\nspawned\nforked\nparent again\n");
}

/// `O_SYNC` and `O_DSYNC` were ignored: what a write had answered was in the memory of the process only.
#[test]
fn a_file_that_is_opened_to_sync_has_each_write() {
    let place = Place::new();
    for (flag, write) in [
        ("O_SYNC", "os.write(file, b'two')"),
        ("O_DSYNC", "os.pwrite(file, b'two', 3)"),
        ("O_DSYNC | os.O_APPEND", "os.writev(file, [b'two'])"),
    ] {
        let script = format!(
            "
import os, signal
file = os.open('/terrace/f', os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.{flag})
os.write(file, b'one')
{write}
os.kill(os.getpid(), signal.SIGKILL)
"
        );
        assert!(!place.command("python3").args(["-c", &script]).output().unwrap().status.success());
        assert_eq!(place.sh("cat /terrace/f"), "onetwo", "{flag}");
    }
}

/// The child had copies of what the parent had buffered, and wrote its bytes to the places of the parent's: files got each other's bytes, and
/// all calls succeeded.
#[test]
fn a_child_that_was_not_made_by_fork_sees_errors() {
    let place = Place::new();
    let printed = place.python(
        "
import ctypes, os, signal
open('/terrace/before', 'w').close()
shared = os.open('/terrace/shared', os.O_RDWR | os.O_CREAT)
os.write(shared, b'parent ')
pid = ctypes.CDLL(None).syscall(56, signal.SIGCHLD, 0, 0, 0, 0)
name = 'child' if pid == 0 else 'parent'
if pid == 0:
    os.dup2(1, 2)
refused = 0
for number in range(20):
    for call in (lambda: os.write(shared, name.encode()), lambda: open(f'/terrace/{name}{number}', 'wb', 0).write(name.encode() * 999)):
        try:
            call()
        except OSError as error:
            refused += error.strerror == 'Input/output error'
if pid == 0:
    os._exit(refused)
status = os.waitpid(pid, 0)[1]
print(os.waitstatus_to_exitcode(status), refused, os.pread(shared, 999, 0) == b'parent ' + b'parent' * 20)
print(all(open(f'/terrace/parent{number}').read() == 'parent' * 999 for number in range(20)), len(os.listdir('/terrace')))
",
    );
    let (said, found) = printed.split_once('\n').unwrap();
    assert!(said.starts_with("terrace: a process that was made by `clone`"), "{printed}");
    assert_eq!(found, "40 0 True\nTrue 22\n");
}

/// The trap that other such libraries fall into: the descriptor is that of another file, which a call that is not intercepted reads.
#[test]
fn a_call_that_is_not_intercepted_fails() {
    let place = Place::new();
    let printed = place.python(
        "
import ctypes, os
syscall = ctypes.CDLL(None, use_errno=True).syscall
file = os.open('/terrace/f', os.O_RDWR | os.O_CREAT)
os.write(file, b'abc')
buffer = ctypes.create_string_buffer(10)
for number, length in ((0, 3), (1, 3)):
    assert syscall(number, file, buffer, length) == -1 and os.strerror(ctypes.get_errno()) == 'Bad file descriptor'
print(os.pread(file, 10, 0))
",
    );
    assert_eq!(printed, "b'abc'\n");
}

#[test]
fn descriptors_are_copied_and_replaced() {
    let place = Place::new();
    place.python(
        "
import fcntl, os
a = os.open('/terrace/a', os.O_RDWR | os.O_CREAT | os.O_APPEND)
assert fcntl.fcntl(a, fcntl.F_GETFL) & os.O_APPEND and not os.isatty(a)
b = os.dup(a)
os.write(a, b'one'); os.write(b, b'two'); os.close(a)
assert os.lseek(b, 0, os.SEEK_CUR) == 6 and os.pread(b, 10, 0) == b'onetwo'
c = os.open('/terrace/c', os.O_WRONLY | os.O_CREAT)
os.dup2(c, b); os.write(b, b'three')
assert os.path.getsize('/terrace/c') == 5 and os.path.getsize('/terrace/a') == 6
plain = os.open('plain', os.O_RDWR | os.O_CREAT)
os.dup2(plain, c); os.write(c, b'outside')
assert open('plain').read() == 'outside'
os.closerange(3, 1000)
assert open('/terrace/c').read() == 'three'
assert os.open('/terrace/c', os.O_RDONLY) == 3
try:
    os.write(3, b'x')
    raise SystemExit('a file that was opened to be read was written')
except OSError as error:
    assert error.strerror == 'Bad file descriptor'
",
    );
}

#[test]
fn locks_hold_between_processes() {
    let place = Place::new();
    place.python(
        "
import fcntl, os, subprocess, sys
file = open('/terrace/locked', 'w')
ask = '''
import fcntl, sys
try:
    fcntl.%s(open('/terrace/locked', 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(5)
'''
for call in ('flock', 'lockf'):
    other = lambda: subprocess.run([sys.executable, '-c', ask % call]).returncode
    assert other() == 0
    getattr(fcntl, call)(file, fcntl.LOCK_EX)
    assert other() == 5, call
    getattr(fcntl, call)(file, fcntl.LOCK_UN)
    assert other() == 0
",
    );
}

/// Returns the names in a folder of the store's directory.
fn left(place: &Place, folder: &str) -> Vec<String> {
    let entries = fs::read_dir(place.dir.path().join("store/preload").join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn lock_files_end_with_their_last_users() {
    let place = Place::new();
    // Each process opens, locks and closes the file for each step, so its lock file is removed and made again and again.
    place.python(
        "
import fcntl, multiprocessing, os, subprocess, sys
with open('/terrace/count', 'w') as file: file.write('0')
def count(call):
    for _ in range(40):
        with open('/terrace/lock', 'w') as file:
            call(file, fcntl.LOCK_EX)
            with open('/terrace/count') as counted: number = int(counted.read())
            with open('/terrace/count', 'w') as counted: counted.write(str(number + 1))
for call in (fcntl.flock, fcntl.lockf):
    workers = [multiprocessing.Process(target=count, args=(call,)) for _ in range(4)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
assert open('/terrace/count').read() == '320', open('/terrace/count').read()

# A forked child keeps the lock that its parent took.
ask = '''
import fcntl, sys
try:
    fcntl.flock(open('/terrace/lock', 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(5)
'''
other = lambda: subprocess.run([sys.executable, '-c', ask]).returncode
file = open('/terrace/lock', 'w')
fcntl.flock(file, fcntl.LOCK_EX)
ready, go = os.pipe()
child = os.fork()
if child == 0:
    os.close(go)
    os.read(ready, 1)
    os._exit(0)
file.close()
assert other() == 5
os.close(go)
os.waitpid(child, 0)
assert other() == 0
for number in range(50):
    with open(f'/terrace/{number}', 'w') as file:
        fcntl.flock(file, fcntl.LOCK_EX)
# This process ends without closing its file.
file = open('/terrace/left', 'w')
fcntl.flock(file, fcntl.LOCK_EX)
os._exit(0)
",
    );
    // The next one that locks removes what is left.
    place.python("import fcntl\nwith open('/terrace/last', 'w') as file: fcntl.flock(file, fcntl.LOCK_EX)");
    assert_eq!(left(&place, "locks"), ["used"]);
}

#[test]
fn stand_ins_of_current_directories_end_with_their_last_users() {
    let place = Place::new();
    let folders = place.dir.path().join("store/preload/folders").display().to_string();
    let printed = place.sh(&format!(
        "mkdir -p /terrace/a/b /terrace/c; cd /terrace/a/b; pwd; cd ..; ls; (cd b; exec pwd -P); cd /
         cd /terrace/c; rmdir {folders}/c; exec bash -c 'pwd -P; echo words > file; cat /terrace/c/file'"
    ));
    assert_eq!(printed, "/terrace/a/b\nb\n/terrace/a/b\n/terrace/c\nwords\n");
    // The next process that enters one removes what is left, but for where another one is.
    place.sh(&format!("cd /terrace/a; (cd /terrace/a/b; cd /; exec test -d {folders}/a); test ! -e {folders}/c; cd /"));
    assert_eq!(left(&place, "folders"), [""; 0]);
}

#[test]
fn programs_in_the_store_run() {
    let place = Place::new();
    if !have("programs_in_the_store_run", &["cc"]) {
        return;
    }
    let printed = place.sh(r#"
        mkdir /terrace/bin; cd /terrace/bin
        printf '#!/bin/sh\necho script $1; cat "$0" | wc -l\n' > script; chmod +x script; ./script a; PATH=/terrace/bin:$PATH script b
        printf '#include <stdio.h>\nint main(int n, char **v) { printf("compiled %%s\\n", v[1]); return 3; }\n' > main.c
        cc -o main main.c; ./main c || echo $?; echo > plain; ./plain 2>/dev/null || echo $?
        echo 'int part(void) { return 7; }' > part.c; echo 'int part(void); int main(void) { return part(); }' > whole.c
        cc -c part.c; ar rcs libpart.a part.o; ar t libpart.a; cc -o whole whole.c -L. -lpart; ./whole || echo $?
    "#);
    assert_eq!(printed, "script a\n2\nscript b\n2\ncompiled c\n3\n126\npart.o\n7\n");
}

/// The C library carries the actions out itself: a path below the prefix was not found, and a directory was none.
#[test]
fn children_get_the_files_and_directories_of_spawn_actions() {
    let place = Place::new();
    if !have("children_get_the_files_and_directories_of_spawn_actions", &["cc"]) {
        return;
    }
    fs::write(place.dir.path().join("spawns.c"), include_str!("spawns.c")).unwrap();
    assert_eq!(place.sh("cc -o spawns spawns.c; ./spawns"), "done\n");
    place.sh("cd /terrace/d; cd /");
    assert_eq!(left(&place, "folders"), [""; 0]);
}

/// Its child could not open what it has open, by its path in `/proc`.
#[test]
fn a_process_that_has_changed_its_user_spawns() {
    let test = "a_process_that_has_changed_its_user_spawns";
    let place = Place::new();
    if !have(test, &["cc"]) {
        return;
    }
    if place.sh("id -u") != "0\n" {
        return skip(test, &Missing::new("root", "only root changes its user"));
    }
    fs::write(place.dir.path().join("spawns.c"), include_str!("spawns.c")).unwrap();
    place.sh("cc -o spawns spawns.c; cp /bin/echo /terrace/echo; cp $LD_PRELOAD library.so; chown -R 65534 .");
    assert_eq!(place.sh("LD_PRELOAD=$PWD/library.so ./spawns nobody"), "by nobody\n");
}

/// The kernel answers such calls by `EFAULT`; the library ended the program.
#[test]
fn pointers_that_lead_nowhere_are_errors_as_the_kernels() {
    let place = Place::new();
    let printed = place.python(
        "
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def answers(file, link, nowhere):
    fd = os.open(file, os.O_RDWR | os.O_CREAT)
    os.write(fd, b'words'); os.lseek(fd, 0, 0)
    if not os.path.lexists(link): os.symlink('words', link)
    os.setxattr(file, b'user.a', b'words')
    at = ctypes.c_void_p(nowhere)
    one = (ctypes.c_void_p * 2)(nowhere, 5)
    for name, *arguments in (
        ('read', fd, at, 5), ('pread', fd, at, 5, 0), ('readv', fd, at, 1), ('readv', fd, one, 1), ('preadv', fd, one, 1, 0),
        ('write', fd, at, 5), ('pwrite', fd, at, 5, 0), ('writev', fd, one, 1), ('pwritev', fd, at, 1, 0),
        ('stat', file, at), ('lstat', file, at), ('fstat', fd, at), ('fstatat', -100, file, at, 0), ('statx', -100, file, 0, 0, at),
        ('stat', at, ctypes.create_string_buffer(500)), ('open', at, 0), ('access', at, 0), ('unlink', at), ('mkdir', at, 0),
        ('statfs', file, at), ('fstatfs', fd, at), ('readlink', link, at, 9), ('symlink', at, file + b'2'), ('rename', file, at),
        ('getxattr', file, b'user.a', at, 9), ('setxattr', file, b'user.a', at, 5, 0), ('getxattr', file, at, at, 0), ('listxattr', file, at, 9),
        ('fcntl', fd, 5, at), ('sendfile', os.open('/dev/null', 1), fd, ctypes.c_void_p(nowhere or -1), 5),
        ('utimensat', -100, file, ctypes.c_void_p(nowhere or -1), 0),
    ):
        ctypes.set_errno(0)
        done = getattr(libc, name)(*arguments)
        yield name, done, errno.errorcode.get(ctypes.get_errno())
for nowhere in (0, 1, 4095, -1, -4096, 1 << 63):
    kernels, ours = (list(answers(file, link, nowhere)) for file, link in ((b'file', b'link'), (b'/terrace/file', b'/terrace/link')))
    for one, other in zip(kernels, ours):
        assert one == other, (nowhere, one, other)
print([answer for answer in ours if answer[2] != 'EFAULT'])
",
    );
    assert_eq!(printed, "[]\n");
}

/// Node closes files by `syscall`: their numbers stayed in the table, and the next file of the number was taken for one of the store. `patch` has
/// a `renameat2` of its own, which was called in place of the library's.
#[test]
fn calls_by_their_numbers_reach_the_store() {
    let test = "calls_by_their_numbers_reach_the_store";
    let place = Place::new();
    if !have(test, &["cc"]) {
        return;
    }
    fs::write(place.dir.path().join("numbered.c"), include_str!("numbered.c")).unwrap();
    assert_eq!(place.sh("cc -o numbered numbered.c; ./numbered"), "done\n");
}

/// The C library replaces the standard files and the current directory by calls of its own: a daemon wrote to the store where it had left that.
#[test]
fn a_daemon_leaves_the_store() {
    let place = Place::new();
    if !have("a_daemon_leaves_the_store", &["cc"]) {
        return;
    }
    let program = r#"
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char **arguments) {
    if (write(1, "before ", 7) != 7 || daemon(0, 0)) return 1;
    printf("lost");
    fflush(stdout);
    write(1, "lost", 4);
    int fd = open(arguments[1] + 1, O_CREAT | O_WRONLY, 0600);
    return write(fd, "outside", 7) != 7;
}
"#;
    fs::write(place.dir.path().join("daemon.c"), program).unwrap();
    // `cat` ends when the daemon has ended.
    let printed = place.sh("
        cc -o daemon daemon.c; mkdir /terrace/d; cd /terrace/d; ~/daemon $HOME/made 7>&1 > /terrace/out | cat; cd; cat /terrace/out made; find /terrace -type f
    ");
    assert_eq!(printed, "before outside/terrace/out\n");
}
