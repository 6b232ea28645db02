//! Random trees, which need not be valid.

use terrace_views::Span;
use terrace_views::language::ast::*;

use super::Random;

fn at<T>(what: T) -> At<T> {
    At { what, span: Span::default() }
}

fn name(r: &mut Random) -> Name {
    let text =
        r.of(&["a", "b", "c2", "data", "default", "big", "view", "type", "struct", "complete", "tiled", "ünï", "sync"]);
    Name { text: text.to_owned(), span: Span::default() }
}

fn expression(r: &mut Random, depth: u32) -> Expression {
    at(match r.below(if depth == 0 { 2 } else { 5 }) {
        0 => {
            let value = r.below(1 << 40) as i64;
            Term::Integer(value, if r.chance(20) { format!("{value:#x}") } else { value.to_string() })
        }
        1 => Term::Name(name(r).text),
        2 => Term::Negative(Box::new(expression(r, depth - 1))),
        _ => {
            let operator = r.of(&['+', '-', '*', '/', '%']);
            Term::Binary(operator, Box::new(expression(r, depth - 1)), Box::new(expression(r, depth - 1)))
        }
    })
}

fn shape(r: &mut Random, depth: u32) -> Type {
    match r.below(if depth == 0 { 1 } else { 3 }) {
        0 => Type::Named(name(r)),
        1 => Type::Struct(r.list(0, 3, |r| at(Field { names: r.list(1, 3, name), shape: shape(r, depth - 1) }))),
        _ => Type::Array(r.list(1, 3, |r| expression(r, 2)), Box::new(shape(r, depth - 1))),
    }
}

fn text(r: &mut Random) -> String {
    r.of(&["units", "a b", "", "//", "\\", "é\u{1f600}", "new\nline\t", "_FillValue", "{}", "3d", "a;b"]).to_owned()
}

fn literal(r: &mut Random) -> Literal {
    let kind = r.chance(50).then(|| name(r));
    Literal { kind, item: item(r, 3) }
}

fn item(r: &mut Random, depth: u32) -> Item {
    match r.below(if depth == 0 { 2 } else { 3 }) {
        0 => Item::Text(text(r)),
        1 => Item::Word(
            r.of(&["1", "-1.5", "0x1f", "1e300", "-2.5e-7", "3e-9", "nan", "-inf", "true", "false"]).to_owned(),
        ),
        _ => Item::List(r.list(0, 3, |r| item(r, depth - 1))),
    }
}

fn fields(r: &mut Random, depth: u32) -> Vec<At<ViewField>> {
    r.list(0, 3, |r| {
        let source = r.chance(20).then(|| reference(r));
        at(ViewField { names: r.list(1, 3, name), selection: selection(r, depth), source })
    })
}

fn selection(r: &mut Random, depth: u32) -> Selection {
    match r.below(if depth == 0 { 2 } else { 4 }) {
        0 => Selection::Whole,
        1 => Selection::Named(name(r)),
        2 => Selection::Fields(fields(r, depth - 1)),
        _ => {
            let indices = r.list(0, 3, |r| Index { name: name(r), bound: r.chance(30).then(|| expression(r, 1)) });
            Selection::Array(indices, Box::new(selection(r, depth - 1)))
        }
    }
}

fn reference(r: &mut Random) -> Reference {
    let steps = r.list(0, 3, |r| {
        if r.chance(50) { Step::Field(name(r)) } else { Step::Index(at(r.list(1, 2, |r| expression(r, 2)))) }
    });
    Reference { base: name(r), steps }
}

fn flag(r: &mut Random) -> At<Flag> {
    at(match r.below(12) {
        0 => Flag::ReadOnly,
        1 => Flag::Default,
        2 => Flag::RowMajor,
        3 => Flag::RowMinor,
        4 => Flag::Tiled(r.list(1, 3, |r| expression(r, 1))),
        5 => Flag::Blocked(expression(r, 1)),
        6 => Flag::ZOrder,
        7 => Flag::Little,
        8 => Flag::Big,
        9 => Flag::Packed,
        10 => Flag::Aligned,
        _ => Flag::Align(expression(r, 1)),
    })
}

fn section(r: &mut Random) -> Section {
    match r.below(4) {
        0 => Section::Dataset(r.list(0, 4, |r| {
            at(match r.below(5) {
                0 => Declaration::Constant(name(r), expression(r, 3)),
                1 => Declaration::Type(name(r), shape(r, 3)),
                2 => {
                    let path = r.chance(70).then(|| r.list(1, 3, name));
                    let own = Name { text: text(r), span: Span::default() };
                    Declaration::Attribute(path, own, at(literal(r)))
                }
                3 => Declaration::Fill(r.list(1, 3, name), at(literal(r))),
                _ => Declaration::Variables(r.list(1, 3, name), shape(r, 3)),
            })
        })),
        1 => Section::View(View {
            name: name(r),
            flags: r.list(0, 3, flag),
            declarations: r.list(0, 4, |r| {
                at(if r.chance(25) {
                    ViewDeclaration::Type(name(r), fields(r, 2), name(r))
                } else {
                    ViewDeclaration::Variable(name(r), selection(r, 3), reference(r))
                })
            }),
        }),
        2 => Section::Replica(Replica {
            name: name(r),
            file: r.chance(30).then(|| "a file.raw".to_owned()),
            complete: r.chance(50),
            lines: r.list(0, 5, |r| at(line(r))),
        }),
        _ => Section::Include(r.of(&["dataset", "view", "replica"]), "other.drepl".to_owned()),
    }
}

fn line(r: &mut Random) -> ReplicaLine {
    match r.below(6) {
        0 => ReplicaLine::View(name(r)),
        1 => {
            let bound = r.chance(50).then(|| r.below(9000));
            let when = r.of(&[Consistency::Sync, Consistency::Async(bound), Consistency::OnClose]);
            ReplicaLine::Consistency(when, r.chance(30))
        }
        2 => ReplicaLine::Tier(r.list(1, 3, name)),
        3 => ReplicaLine::Codec("shuffle4+zstd-1".to_owned()),
        4 => ReplicaLine::Requirement(r.list(1, 3, name)),
        _ => ReplicaLine::Backend(name(r)),
    }
}

/// Makes a random file.
pub fn file(r: &mut Random) -> File {
    File { sections: r.list(0, 5, |r| at(section(r))) }
}
