//! Calls from Python and C++ that the library for C would take for others, and that are refused.

use std::fs;

use crate::nodes::{Nodes, compile, said};
use crate::python;

/// A masked array was dumped without its mask, an array of objects as addresses, and region 2^32 as region 0.
#[test]
fn python_refuses_arrays_and_numbers_that_it_would_change() {
    let Some(python) = python() else { return };
    let nodes = Nodes::new(2);
    // The checks need only the attributes that distinguish such arrays.
    let program = "import sys\nfrom types import SimpleNamespace\nfrom mpi4py import MPI\nfrom terrace_dump import Checkpoints\n\
        class Masked(bytearray):\n    mask = filled = None\n\
        class Objects(bytearray):\n    dtype = SimpleNamespace(hasobject=True)\n\
        def refused(call):\n    \
            try:\n        call()\n    except (TypeError, ValueError) as error:\n        print(error)\n\
        with Checkpoints(MPI.COMM_WORLD, sys.argv[1]) as c:\n    \
            refused(lambda: c.protect(0, Masked(9)))\n    \
            refused(lambda: c.protect(0, Objects(9)))\n    \
            refused(lambda: c.protect(2**32, bytearray(9)))\n    \
            refused(lambda: c.protect(-1, bytearray(9)))\n    \
            refused(lambda: c.protect(0, bytearray(9), start=2**64))\n    \
            refused(lambda: c.checkpoint('state', 2**64))\n    \
            refused(lambda: Checkpoints(MPI.COMM_WORLD, sys.argv[1], keep=2**32 + 1))\n    \
            c.protect(2**32 - 1, bytearray(9))\n";
    let refused = said(&nodes.mpirun(2, &[python, "-c".into(), program.into(), nodes.file("{node}/store")]));
    let words = ["protect its .data and its .mask", "only their addresses", "4294967296 is out", "-1 is out"];
    let more =
        ["18446744073709551616 is out of the range of c_ulong", "is out of the range of c_long", "4294967297 is out"];
    for words in words.iter().chain(&more) {
        assert!(refused.matches(words).count() >= 2, "{words}: {refused}");
    }
}

/// The lengths wrapped to short ones.
#[test]
fn cpp_refuses_lengths_that_no_memory_has() {
    let nodes = Nodes::new(2);
    let source = nodes.file("lengths.cpp");
    let program = "#include <iostream>\n#include <terrace_dump.hpp>\n\
        template <class Call> void refused(Call call) {\n\
            try { call(); } catch (const terrace::dump_error &failure) { std::cout << failure.what() << std::endl; }\n}\n\
        int main(int count, char **arguments) {\n    MPI_Init(&count, &arguments);\n    {\n    double value = 0;\n\
            terrace::checkpoints checkpoints(MPI_COMM_WORLD, arguments[1]);\n\
            refused([&] { checkpoints.protect(0, &value, (std::size_t(1) << 61) + 5); });\n\
            refused([&] { checkpoints.protect_part(0, &value, 1, std::uint64_t(1) << 61); });\n\
            checkpoints.protect(0, &value);\n    }\n    MPI_Finalize();\n}\n";
    fs::write(&source, program).unwrap();
    let refused = said(&nodes.mpirun(1, &[compile(&nodes, &source), nodes.file("{node}/store")]));
    assert!(refused.contains("more than any memory has") && refused.contains("no array has 8 bytes"), "{refused}");
}

/// A device was read without an end, and a pipe waited for a writer. Missing files and directories were named without advice. The tests dumped
/// regular files only.
#[test]
fn what_is_no_regular_file_is_not_dumped() {
    let nodes = Nodes::new(1);
    let (pipe, from) = (nodes.file("pipe"), nodes.file("in.{rank}"));
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
    let folder = nodes.file("");
    let refuse = |arguments: &[&str], words: &[&str]| {
        let refused = nodes.terrace_dump(2, arguments);
        let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success() && refused.status.code() != Some(124), "{arguments:?}: {}", refused.status);
        assert!(words.iter().all(|words| errors.contains(words)), "{words:?}: {errors}");
    };
    for what in ["/dev/zero", &pipe, &folder] {
        refuse(&["dump", "state", what, what], &[&format!("{what} is no regular file; copy what you want to dump")]);
    }
    let missing = [&nodes.file("in.0"), " cannot be dumped; write that file first", "No such file or directory"];
    refuse(&["dump", "state", &from], &missing);
    (0..2).for_each(|rank| fs::write(nodes.file(&format!("in.{rank}")), "bytes").unwrap());
    said(&nodes.terrace_dump(2, &["dump", "state", &from]));
    let out = nodes.file("none/out.{rank}");
    let words =
        [&nodes.file("none/out.0"), " cannot be written; name a file in a directory that exists", "No such file"];
    refuse(&["restore", "state", &out], &words);
}
