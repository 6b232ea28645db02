//! Locks of ranges that belong to an open file, and not to a process.

#![allow(clippy::unwrap_used)]

mod common;

use common::Place;

#[test]
fn locks_of_open_files_hold_between_all_others() {
    let place = Place::new();
    place.python(
        "
import errno, fcntl, os, struct, subprocess, sys
GET, SET = 36, 37
LAYOUT = 'hhqqi0q'
def lock(fd, kind, start, length, command=SET):
    asked = struct.pack(LAYOUT, kind, os.SEEK_SET, start, length, 0)
    return struct.unpack(LAYOUT, fcntl.fcntl(fd, command, asked))
def fails(number, *arguments):
    try:
        lock(*arguments)
    except OSError as error:
        return error.errno == number
    return False
path = '/terrace/f'
a, b, c = (os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(3))
lock(a, fcntl.F_WRLCK, 0, 10)
# Locks of a process do not hold between its own descriptors. These do.
assert fails(errno.EAGAIN, b, fcntl.F_WRLCK, 5, 1) and fails(errno.EAGAIN, b, fcntl.F_RDLCK, 9, 5)
lock(b, fcntl.F_WRLCK, 10, 10)
assert lock(b, fcntl.F_WRLCK, 0, 1, GET) == (fcntl.F_WRLCK, os.SEEK_SET, 0, 10, -1)
assert lock(b, fcntl.F_WRLCK, 30, 1, GET)[0] == fcntl.F_UNLCK
# Another descriptor of the file takes no lock along when it is closed, and a copy of the descriptor has the same one.
os.close(b)
lock(c, fcntl.F_WRLCK, 10, 10)
copy = os.dup(a)
lock(copy, fcntl.F_WRLCK, 0, 10)
os.close(copy)
assert fails(errno.EAGAIN, c, fcntl.F_WRLCK, 0, 1)
# Another process, with locks of its own and of a process.
other = '''
import fcntl, os, struct, sys
fd = os.open('/terrace/f', os.O_RDWR)
try:
    if sys.argv[1] == 'open file': fcntl.fcntl(fd, 37, struct.pack('hhqqi0q', fcntl.F_RDLCK, 0, 5, 1, 0))
    else: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 5)
except BlockingIOError:
    sys.exit(5)
'''
def others(kind):
    return subprocess.run([sys.executable, '-c', other, kind]).returncode
assert [others('open file'), others('process')] == [5, 5]
# A forked child shares the open file, so the lock lives until both have closed it.
ready, end = os.pipe()
child = os.fork()
if child == 0:
    os.close(end)
    os.read(ready, 1)
    os._exit(0)
os.close(a)
assert others('open file') == 5
os.close(end)
os.waitpid(child, 0)
assert [others('open file'), others('process')] == [0, 0]
# What was written under a lock is there for who gets it next.
lock(c, fcntl.F_WRLCK, 0, 0)
os.write(c, b'words')
lock(c, fcntl.F_UNLCK, 0, 0)
assert subprocess.run(['cat', path], capture_output=True).stdout == b'words'
# As in the kernel: a lock to write needs a file that may be written.
reading, writing = os.open(path, os.O_RDONLY), os.open(path, os.O_WRONLY)
assert fails(errno.EBADF, reading, fcntl.F_WRLCK, 0, 1) and fails(errno.EBADF, writing, fcntl.F_RDLCK, 0, 1)
lock(reading, fcntl.F_RDLCK, 0, 1)
try:
    fcntl.fcntl(writing, SET, struct.pack(LAYOUT, fcntl.F_WRLCK, 0, 50, 1, os.getpid()))
    raise SystemExit('a number of a process was accepted')
except OSError as error:
    assert error.errno == errno.EINVAL, error
",
    );
}
