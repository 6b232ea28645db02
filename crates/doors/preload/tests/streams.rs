//! Streams of C, C++ and Fortran, asynchronous requests, walks, libraries, mappings, and waiting.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Place, have};

#[test]
fn a_c_program_uses_every_kind_of_stream() {
    let place = Place::new();
    if !have("a_c_program_uses_every_kind_of_stream", &["cc"]) {
        return;
    }
    std::fs::write(place.dir.path().join("streams.c"), include_str!("streams.c")).unwrap();
    place.sh("cc -O2 -D_FORTIFY_SOURCE=2 -o streams streams.c; ./streams");
    // The first line was written before the stream went elsewhere; the last one after it.
    assert_eq!(place.sh("cat /terrace/out"), "to the store\nby printf 7\n");
    assert_eq!(
        place.sh("echo in > /terrace/in; ./streams in < /terrace/in > /terrace/echo; cat /terrace/echo"),
        "read in\n"
    );
}

#[test]
fn a_c_program_asks_walks_and_loads() {
    let place = Place::new();
    if !have("a_c_program_asks_walks_and_loads", &["cc"]) {
        return;
    }
    std::fs::write(place.dir.path().join("requests.c"), include_str!("requests.c")).unwrap();
    let printed = place.sh("
        echo 'int answer(void) { return 42; }' > answer.c; cc -shared -fPIC -o /terrace/libanswer.so answer.c
        cc -o requests requests.c -ldl; ./requests
        echo 'answer = 43' > /terrace/module.py; cd /; PYTHONPATH=/terrace python3 -c 'import module; print(module.answer)'
    ");
    assert_eq!(printed, "done\n43\n");
}

/// The C library's functions enter directories by calls of its own, and found nothing.
#[test]
fn walks_by_fts_are_those_of_the_c_library() {
    let place = Place::new();
    if !have("walks_by_fts_are_those_of_the_c_library", &["cc"]) {
        return;
    }
    std::fs::write(place.dir.path().join("trees.c"), include_str!("trees.c")).unwrap();
    let printed = place.sh("
        mkdir -p tree/a/b/c tree/empty tree/skipped/d tree/later; echo five > tree/a/b/file; echo > tree/skipped/d/f; echo > tree/later/f; : > tree/z
        ln -s a/b tree/to_folder; ln -s a/b/file tree/to_file; ln -s none tree/broken; ln -s .. tree/a/up; cp -a tree /terrace/tree
        cc -std=gnu2x -o trees trees.c; ./trees . > outside; ./trees /terrace > inside; diff outside inside; grep -c . inside
    ");
    assert!(printed.trim().parse::<usize>().unwrap() > 800, "{printed}");
}

/// The C library has no wide characters for streams of `fopencookie`: such programs ended by `SIGSEGV`, or wrote nothing.
#[test]
fn wide_characters_go_through_streams() {
    let place = Place::new();
    if !have("wide_characters_go_through_streams", &["cc", "c++", "rev", "column"]) {
        return;
    }
    std::fs::write(place.dir.path().join("wide.c"), include_str!("wide.c")).unwrap();
    let printed = place.sh(r#"
        cc -std=gnu2x -o wide wide.c; cp wide.c /terrace; ./wide /terrace < /terrace/wide.c > /terrace/out; (cat wide.c; echo '!') | cmp - /terrace/out
        rev /terrace/wide.c > /terrace/turned; rev < /terrace/turned | cmp - wide.c; printf 'a b\nccc d\n' | column -t > /terrace/columns; cat /terrace/columns
        printf '#include <iostream>\nint main() { std::wstring word; std::wcin >> word; std::wcout << word << 5 << std::endl; return !std::wcout; }' > w.cpp
        c++ -o w w.cpp; ./w < /terrace/columns > /terrace/word; cat /terrace/word
    "#);
    assert_eq!(printed, "a    b\nccc  d\na5\n");
}

#[test]
fn programs_work_under_valgrind_which_finds_nothing() {
    let place = Place::new();
    if !have("programs_work_under_valgrind_which_finds_nothing", &["cc", "valgrind"]) {
        return;
    }
    let sources = [("streams", include_str!("streams.c")), ("trees", include_str!("trees.c"))];
    for (name, source) in sources.into_iter().chain([("spawns", include_str!("spawns.c"))]) {
        std::fs::write(place.dir.path().join(format!("{name}.c")), source).unwrap();
        place.sh(&format!("cc -g -std=gnu2x -o {name} {name}.c"));
    }
    let printed = place.sh("
        check='valgrind -q --error-exitcode=9'; $check ./streams; $check ./spawns; rm -r /terrace/*; mkdir -p /terrace/tree/a/b; $check ./trees /terrace > /dev/null
        head -c 3000000 /dev/urandom > bytes; $check cp bytes /terrace/copy; cmp bytes /terrace/copy
    ");
    assert_eq!(printed, "done\n");
}

/// From the 65th on, each open closed a spare descriptor and waited for itself, for 200 ms.
#[test]
fn a_program_holds_hundreds_of_files_open() {
    let place = Place::new();
    let script = "files = [open(f'/terrace/{n}', 'w') for n in range(600)]; print(len(files))";
    assert_eq!(place.sh(&format!("timeout 60 python3 -c \"{script}\"")), "600\n");
}

/// The engine's file had the lowest free number for a moment: a program's copies got a higher one, or were closed.
#[test]
fn a_program_gets_the_lowest_number() {
    let place = Place::new();
    if !have("a_program_gets_the_lowest_number", &["cc"]) {
        return;
    }
    std::fs::write(place.dir.path().join("lowest.c"), include_str!("lowest.c")).unwrap();
    assert_eq!(place.sh("cc -O2 -pthread -o lowest lowest.c; ./lowest"), "0 higher, 0 lost\n");
}

#[test]
fn cpp_and_fortran_programs_read_and_write() {
    let place = Place::new();
    if !have("cpp_and_fortran_programs_read_and_write", &["c++", "gfortran"]) {
        return;
    }
    let printed = place.sh(r#"
        cd /terrace
        cat > a.cpp <<'END'
#include <fstream>
#include <iostream>
int main() {
    std::ofstream("/terrace/cpp") << "words " << 5 << "\n";
    std::ifstream in("/terrace/cpp");
    std::string word; int number;
    in >> word >> number;
    std::cout << word << number << std::endl;
}
END
        c++ -o cpp_program a.cpp; ./cpp_program; ./cpp_program > printed; cat printed
        cat > a.f90 <<'END'
program numbers
  real :: x
  open(10, file='/terrace/fortran'); write(10, *) 3.5; close(10)
  open(10, file='/terrace/fortran'); read(10, *) x; close(10)
  open(11, file='/terrace/raw', form='unformatted', access='stream'); write(11) x, x; close(11)
  print '(f4.1)', x
end program
END
        gfortran -o fortran_program a.f90; ./fortran_program; stat -c %s raw
    "#);
    assert_eq!(printed, "words5\nwords5\n 3.5\n8\n");
}

#[test]
fn mappings_are_right_or_refused() {
    let place = Place::new();
    place.python(
        "
import errno, mmap, os
with open('/terrace/m', 'wb') as file:
    file.write(b'x' * 10_000 + b'end')
with open('/terrace/m', 'rb') as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
    assert len(mapped) == 10_003 and mapped[-3:] == b'end' and mapped.find(b'e') == 10_000
with open('/terrace/m', 'r+b') as file:
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        mapped[0] = 0
    assert file.read(1) == b'x'
    try:
        mmap.mmap(file.fileno(), 0)
        raise SystemExit('a shared mapping for writing was made')
    except OSError as error:
        assert error.errno == errno.ENODEV, error
",
    );
}

#[test]
fn files_are_always_ready() {
    let place = Place::new();
    place.python(
        "
import os, select
file = open('/terrace/f', 'w+')
assert select.select([file], [file], [file], 10) == ([file], [file], [])
poll = select.poll()
poll.register(file, select.POLLIN)
assert poll.poll(10_000) == [(file.fileno(), select.POLLIN)]
read, write = os.pipe()
os.write(write, b'x')
assert select.select([file, read], [], [], 10)[0] == [file, read]
",
    );
}

#[test]
fn attributes_and_holes_are_kept() {
    let place = Place::new();
    place.python("
import errno, os, shutil
path = '/terrace/f'
with open(path, 'wb') as file:
    file.write(b'a' * 100)
    file.seek(5_000_000)
    file.write(b'z')
    os.posix_fallocate(file.fileno(), 0, 6_000_000)
assert os.path.getsize(path) == 6_000_000
os.setxattr(path, 'user.unit', b'metre')
assert os.listxattr(path) == ['user.unit'] and os.getxattr(path, 'user.unit') == b'metre'
os.chmod(path, 0o640); os.utime(path, ns=(1, -250_000_000))
stat = os.stat(path)
assert stat.st_mode == 0o100640 and stat.st_mtime_ns == -250_000_000 and stat.st_dev != os.stat('.').st_dev
os.umask(0o027)
os.mkdir('/terrace/d'); open('/terrace/d/x', 'w').close()
assert os.stat('/terrace/d').st_mode == 0o40750 and os.stat('/terrace/d/x').st_mode == 0o100640
assert os.statvfs('/terrace').f_bavail > 0
shutil.copyfile(path, 'own'); shutil.copyfile('own', '/terrace/copy')
assert open(path, 'rb').read() == open('/terrace/copy', 'rb').read()
assert {entry.name: entry.inode() for entry in os.scandir('/terrace')}['f'] == stat.st_ino
for call, number in ((lambda: os.rmdir('/terrace/d'), errno.ENOTEMPTY), (lambda: os.link(path, '/terrace/l'), errno.EPERM),
                     (lambda: os.rename(path, 'elsewhere'), errno.EXDEV), (lambda: os.mkfifo('/terrace/p'), errno.EPERM),
                     (lambda: open('/terrace/none/x', 'w'), errno.ENOENT), (lambda: os.unlink('/terrace/d'), errno.EISDIR)):
    try:
        call()
        raise SystemExit('a call succeeded instead of ' + errno.errorcode[number])
    except OSError as error:
        assert error.errno == number, error
");
}
