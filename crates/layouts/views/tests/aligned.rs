//! `aligned` data has the layout of a C compiler.
//!
//! An array of `string9` had a stride of 11 bytes. In C its element is `struct { int16_t length; char text[9]; }`,
//! which is aligned at 2 and therefore has 12 bytes. The oracle of the tests could not see it, because it took sizes
//! from the same table as the layout; here a compiler determines the right ones.

#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::fmt::Write;
use std::process::Command;

use support::Random;
use terrace_views::Diagnostics;
use terrace_views::language::read;
use terrace_views::layout::{Placed, of_view};
use terrace_views::model::{Model, Sizes};

/// A type, with its name in the language and in C.
#[derive(Clone)]
enum Kind {
    Plain(String, String),
    Struct(Vec<(String, Kind)>),
    Array(u64, Box<Kind>),
}

const PLAIN_TYPES: [(&str, &str); 14] = [
    ("int8", "int8_t"),
    ("int16", "int16_t"),
    ("int32", "int32_t"),
    ("int64", "int64_t"),
    ("uint8", "uint8_t"),
    ("uint16", "uint16_t"),
    ("uint32", "uint32_t"),
    ("uint64", "uint64_t"),
    ("bool", "_Bool"),
    ("float16", "uint16_t"),
    ("float32", "float"),
    ("float64", "double"),
    ("complex64", "float _Complex"),
    ("complex128", "double _Complex"),
];

fn kind(r: &mut Random, depth: u64) -> Kind {
    match r.below(if depth == 0 { 2 } else { 6 }) {
        1 => {
            let length = r.below(14);
            Kind::Plain(format!("string{length}"), format!("struct {{ int16_t length; char text[{length}]; }}"))
        }
        2 | 3 => Kind::Struct((0..1 + r.below(4)).map(|i| (format!("f{i}"), kind(r, depth - 1))).collect()),
        4 | 5 => Kind::Array(1 + r.below(4), Box::new(kind(r, depth - 1))),
        _ => {
            let (ours, c) = r.of(&PLAIN_TYPES);
            Kind::Plain(ours.to_owned(), c.to_owned())
        }
    }
}

impl Kind {
    fn ours(&self) -> String {
        match self {
            Kind::Plain(ours, _) => ours.clone(),
            Kind::Struct(fields) => {
                let fields: Vec<String> = fields.iter().map(|(name, kind)| format!("{name} {}", kind.ours())).collect();
                format!("struct {{ {} }}", fields.join("; "))
            }
            Kind::Array(length, element) => format!("[{length}]{}", element.ours()),
        }
    }

    /// Returns a declaration of a name in C.
    fn c(&self, name: &str) -> String {
        match self {
            Kind::Plain(_, c) => format!("{c} {name};"),
            Kind::Struct(fields) => {
                let fields: String = fields.iter().map(|(name, kind)| kind.c(name)).collect();
                format!("struct {{ {fields} }} {name};")
            }
            Kind::Array(length, element) => element.c(&format!("{name}[{length}]")),
        }
    }

    /// Lists the path of each element, in the order of the leaves and of their indices.
    fn elements(&self, path: &str, out: &mut Vec<Vec<String>>) {
        match self {
            Kind::Plain(..) => out.push(vec![path.to_owned()]),
            Kind::Struct(fields) => {
                fields.iter().for_each(|(name, kind)| kind.elements(&format!("{path}.{name}"), out))
            }
            Kind::Array(length, element) => {
                let mut each: Vec<Vec<Vec<String>>> = Vec::new();
                for i in 0..*length {
                    let mut one = Vec::new();
                    element.elements(&format!("{path}[{i}]"), &mut one);
                    each.push(one);
                }
                for leaf in 0..each[0].len() {
                    out.push(each.iter().flat_map(|one| one[leaf].clone()).collect());
                }
            }
        }
    }
}

/// Returns the offset of each element of a leaf.
fn places(placed: &Placed) -> Vec<u64> {
    let mut places = vec![placed.offset];
    for walk in &placed.loops {
        let [digit] = &walk.digits[..] else { panic!("{walk:?}") };
        places = places.iter().flat_map(|at| (0..walk.length).map(move |i| at + i * digit.stride)).collect();
    }
    places
}

#[test]
fn aligned_views_match_the_layout_of_a_c_compiler() {
    let mut r = Random::new(20);
    let name9 = Kind::Plain("string9".to_owned(), "struct { int16_t length; char text[9]; }".to_owned());
    let flag = Kind::Plain("int8".to_owned(), "int8_t".to_owned());
    let both = Kind::Struct(vec![("a".to_owned(), name9.clone()), ("b".to_owned(), flag)]);
    let mut kinds = vec![name9.clone(), Kind::Array(5, Box::new(name9)), both.clone(), Kind::Array(3, Box::new(both))];
    kinds.extend((0..120).map(|_| kind(&mut r, 3)));

    let (mut declared, mut printed) = (String::new(), String::new());
    for (i, kind) in kinds.iter().enumerate() {
        writeln!(declared, "static {}", kind.c(&format!("v{i}"))).unwrap();
        let mut elements = Vec::new();
        kind.elements(&format!("v{i}"), &mut elements);
        writeln!(printed, "printf(\"%zu\", sizeof v{i});").unwrap();
        for path in elements.concat() {
            writeln!(printed, "printf(\" %zu\", (size_t)((char *)&{path} - (char *)&v{i}));").unwrap();
        }
        writeln!(printed, "puts(\"\");").unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("aligned.c"), dir.path().join("aligned"));
    let text =
        format!("#include <stdint.h>\n#include <stdio.h>\n{declared}\nint main(void) {{\n{printed}return 0;\n}}\n");
    std::fs::write(&source, text).unwrap();
    let compiled = Command::new("cc").arg("-w").arg(&source).arg("-o").arg(&program).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let said = String::from_utf8(Command::new(&program).output().unwrap().stdout).unwrap();
    assert_eq!(said.lines().count(), kinds.len());

    for (kind, line) in kinds.iter().zip(said.lines()) {
        let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
        let text = format!("dataset {{ var v {} }}\nview v aligned {{ var v = v }}\n", kind.ours());
        let mut diagnostics = Diagnostics::default();
        let mut none = |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        let (file, _) = read("aligned", text.clone(), &mut none, &mut diagnostics);
        let model = Model::of(&file, &mut diagnostics);
        assert!(!diagnostics.failed(), "{text}");
        let layout = of_view(model.view("v").unwrap(), &model.dataset, &Sizes::new()).unwrap();
        let ours: Vec<u64> = layout.leaves.iter().flat_map(places).collect();
        assert_eq!((layout.files[0], &ours[..]), (numbers[0], &numbers[1..]), "{text}\n{}", kind.c("v"));
    }
}
