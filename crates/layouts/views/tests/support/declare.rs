//! Random declarations, most of them valid.

use super::Random;

struct Made {
    name: String,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Plain(&'static str),
    Struct(Vec<(String, Kind)>),
    Array(Vec<u64>, Box<Kind>),
    /// An array whose length is the value of the variable `n`.
    Varying(u64, Box<Kind>),
}

const PRIMITIVE_TYPES: [&str; 16] = [
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "string3",
    "float32",
];

fn kind(r: &mut Random, depth: u64, room: &mut u64) -> Kind {
    match r.below(if depth == 0 { 1 } else { 5 }) {
        1 | 2 => Kind::Struct((0..1 + r.below(4)).map(|i| (format!("f{i}"), kind(r, depth - 1, room))).collect()),
        3 | 4 => {
            let rank = 1 + r.below(3);
            let lengths: Vec<u64> = (0..rank).map(|_| 1 + r.below(if rank == 1 { 40 } else { 9 }).min(*room)).collect();
            *room = (*room / lengths.iter().product::<u64>()).max(1);
            Kind::Array(lengths, Box::new(kind(r, depth - 1, room)))
        }
        _ => Kind::Plain(r.of(&PRIMITIVE_TYPES)),
    }
}

fn text(kind: &Kind) -> String {
    match kind {
        Kind::Plain(name) => (*name).to_owned(),
        Kind::Struct(fields) => {
            let fields: Vec<String> = fields.iter().map(|(name, kind)| format!("{name} {}", text(kind))).collect();
            format!("struct {{ {} }}", fields.join("; "))
        }
        Kind::Array(lengths, element) => {
            let lengths: Vec<String> = lengths.iter().map(u64::to_string).collect();
            format!("[{}]{}", lengths.join(", "), text(element))
        }
        Kind::Varying(other, element) => format!("[n, {other}]{}", text(element)),
    }
}

fn flags(r: &mut Random) -> String {
    let mut flags = String::new();
    let order = r.of(&["", "", " rowminor", " rowmajor"]);
    let packing = r.of(&["", "", "", " packed", " aligned"]);
    let big = r.of(&["", "", " big", " little"]);
    let align = r.of(&["", "", "", "", " align(16)", " align(64)"]);
    for flag in [order, packing, big, align] {
        flags.push_str(flag);
    }
    match r.below(8) {
        0 => flags.push_str(&format!(" tiled({})", 1 + r.below(6))),
        1 => flags.push_str(&format!(" tiled({}, {})", 1 + r.below(5), 1 + r.below(5))),
        2 => flags.push_str(&format!(" blocked({})", 1 + r.below(17))),
        3 => flags.push_str(" zorder"),
        _ => {}
    }
    flags
}

/// Makes a slice of an array: the indices on the left side and on the right side.
fn slice(r: &mut Random, lengths: &[u64], next: &mut u64) -> (String, String) {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    let mut new = |bound: Option<u64>, left: &mut Vec<String>| {
        *next += 1;
        left.push(bound.map_or(format!("i{next}"), |bound| format!("i{next} < {bound}")));
        format!("i{next}")
    };
    for &length in lengths {
        right.push(match r.below(14) {
            0 => r.below(length).to_string(),
            1 => format!("{} - {}", length - 1, new(None, &mut left)),
            2 => format!("{}*{} + {}", 1 + r.below(4), new(None, &mut left), r.below(length)),
            3 => {
                let bound = 1 + r.below(length);
                format!("{} + {}", new(Some(bound), &mut left), r.below(length - bound + 1))
            }
            4 | 5 if length > 3 => {
                // The digits of an index; sometimes they overlap, and sometimes they leave gaps.
                let inner = 1 + r.below(length / 2);
                let step = if r.chance(70) { inner } else { 1 + r.below(length / 2) };
                let room = length.saturating_sub(inner) / step + 1;
                let outer = new(Some(room), &mut left);
                format!("{outer}*{step} + {}", new(Some(inner), &mut left))
            }
            _ => new(None, &mut left),
        });
    }
    if r.chance(4) && lengths.len() == 2 {
        // A diagonal.
        let i = new(None, &mut left);
        right = vec![i.clone(), i];
        left = left.split_off(left.len() - 1);
    }
    if r.chance(5) {
        new(Some(1 + r.below(3)), &mut left);
    }
    if r.chance(40) {
        left.reverse();
    }
    if left.is_empty() {
        new(Some(1), &mut left);
    }
    // An index that nothing else bounds needs a bound.
    let used = |name: &String| {
        name.contains('<') || right.iter().any(|e| e.split(|c: char| !c.is_alphanumeric()).any(|w| w == name))
    };
    left.retain(used);
    if left.is_empty() {
        return ("[z < 1]".to_owned(), format!("[{}]", right.join(", ")));
    }
    // Sometimes an array of arrays.
    let left = if left.len() > 1 && r.chance(15) {
        format!("[{}][{}]", left[0], left[1..].join(", "))
    } else {
        format!("[{}]", left.join(", "))
    };
    (left, format!("[{}]", right.join(", ")))
}

/// Makes a view's part of something: the selection, and the steps of the reference.
fn part(r: &mut Random, kind: &Kind, next: &mut u64) -> (String, String) {
    match kind {
        Kind::Plain(_) => (String::new(), String::new()),
        Kind::Struct(fields) if r.chance(30) => {
            let (name, kind) = &fields[r.below(fields.len() as u64) as usize];
            let (selection, steps) = part(r, kind, next);
            (selection, format!(".{name}{steps}"))
        }
        Kind::Struct(fields) if r.chance(70) => {
            let mut chosen: Vec<&(String, Kind)> = fields.iter().filter(|_| r.chance(70)).collect();
            if r.chance(30) {
                chosen.reverse();
            }
            if chosen.is_empty() {
                return (String::new(), String::new());
            }
            let lines: Vec<String> = chosen
                .iter()
                .map(|(name, kind)| {
                    let (selection, steps) = part(r, kind, next);
                    if steps.is_empty() && r.chance(90) {
                        format!("{name} {selection}")
                    } else {
                        format!("as_{name} {selection} = {name}{steps}")
                    }
                })
                .collect();
            (format!("{{ {} }}", lines.join("; ")), String::new())
        }
        Kind::Struct(_) => (String::new(), String::new()),
        Kind::Array(lengths, element) if r.chance(60) => {
            let (left, right) = slice(r, lengths, next);
            let (inner, steps) = part(r, element, next);
            (format!("{left}{inner}"), format!("{right}{steps}"))
        }
        Kind::Array(_, element) | Kind::Varying(_, element) if r.chance(60) => {
            let (inner, steps) = part(r, element, next);
            if steps.is_empty() { (format!("[]{inner}"), String::new()) } else { (String::new(), String::new()) }
        }
        Kind::Varying(..) if r.chance(50) => ("[j, i]".to_owned(), "[i, j]".to_owned()),
        _ => (String::new(), String::new()),
    }
}

/// Makes a declaration.
pub fn declaration(r: &mut Random) -> String {
    let mut out = String::from("dataset {\n");
    let mut made: Vec<Made> = Vec::new();
    let varying = r.chance(15);
    if varying {
        out.push_str("    var n uint32\n");
    }
    for i in 0..1 + r.below(3) {
        let mut room = 60;
        let kind = if varying && r.chance(60) {
            Kind::Varying(
                1 + r.below(4),
                Box::new(Kind::Struct(vec![
                    ("x".into(), Kind::Plain(r.of(&PRIMITIVE_TYPES))),
                    ("y".into(), Kind::Plain("int16")),
                ])),
            )
        } else if r.chance(60) {
            let most = if r.chance(10) { 700 } else { 80 };
            let length = 1 + r.below(most);
            let mut room = 5;
            let mut field = |i| {
                let depth = r.below(5) / 4;
                (format!("f{i}"), kind(r, depth, &mut room))
            };
            let fields = (0..1 + length % 8).map(&mut field).collect();
            Kind::Array(vec![length], Box::new(Kind::Struct(fields)))
        } else {
            kind(r, 3, &mut room)
        };
        out.push_str(&format!("    var v{i} {}\n", text(&kind)));
        made.push(Made { name: format!("v{i}"), kind });
    }
    out.push_str("}\n");
    let views = 1 + r.below(4);
    for i in 0..views {
        out.push_str(&format!("view w{i}{} {{\n", flags(r)));
        for j in 0..1 + r.below(4) {
            let one = &made[r.below(made.len() as u64) as usize];
            let (selection, steps) = part(r, &one.kind, &mut 0);
            out.push_str(&format!("    var u{j} {selection} = {}{steps}\n", one.name));
        }
        out.push_str("}\n");
    }
    for i in 0..1 + r.below(2) {
        let complete = if i == 0 || r.chance(50) { " complete" } else { "" };
        out.push_str(&format!("replica r{i}{complete} {{\n"));
        let own: Vec<u64> = (0..views).filter(|_| r.chance(40)).collect();
        own.iter().for_each(|view| out.push_str(&format!("    view w{view}\n")));
        out.push_str("}\n");
    }
    out
}
