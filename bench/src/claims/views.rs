//! Conversion between layouts, as a share of the speed of memcpy.

use anyhow::{Context, Result, anyhow, ensure};
use terrace_views::convert::{Plan, Stored, Window, WindowMut};
use terrace_views::language::parse;
use terrace_views::layout::{Layout, of_replica, of_view};
use terrace_views::model::{Model, Sizes};
use terrace_views::{Diagnostics, model};

use crate::place::random_bytes;
use crate::row::{Better, Row};
use crate::timing::{median, time};

/// The array sizes: one fits into the caches, the other does not.
const ARRAY_SIZES: [(&str, u64, usize); 2] = [("1 MiB", 1 << 20, 200), ("1 GiB", 1 << 30, 3)];

/// The goals of a kind of shape.
struct Goals {
    name: &'static str,
    /// The goals for 1 MiB and for 1 GiB.
    goals: [f64; 2],
    shapes: Vec<(String, String)>,
}

pub fn run() -> Result<Vec<Row>> {
    let plain = (2..=8)
        .flat_map(|fields| ["float32", "float64"].map(|kind| (format!("{fields} {kind}"), fields_of(kind, fields))));
    let mixed = "x, y, z float32; cell int32; e float64; id int64".to_owned();
    let other = [
        ("3 int8", fields_of("int8", 3)),
        ("4 int16", fields_of("int16", 4)),
        ("12 float32", fields_of("float32", 12)),
    ];
    let other = other.into_iter().map(|(name, fields)| (name.to_owned(), fields));
    let other = other.chain([
        ("4 complex128".to_owned(), fields_of("complex128", 4)),
        ("4 float32, 1 float64, 1 int64".to_owned(), mixed),
        ("3 int8, 1 float64 unaligned".to_owned(), "a, b, c int8; d float64".to_owned()),
        ("8 float32 in a nested array".to_owned(), "p [8]float32".to_owned()),
    ]);
    let classes = [
        Goals { name: "4 or 8 bytes, 2 to 8 fields", goals: [0.7, 0.9], shapes: plain.collect() },
        Goals { name: "any other", goals: [0.4, 0.75], shapes: other.collect() },
    ];
    let mut rows = Vec::new();
    for (at, (size, bytes, rounds)) in ARRAY_SIZES.into_iter().enumerate() {
        let mut memory = Memory::new(bytes);
        for class in &classes {
            let goal = class.goals[at];
            for (to, from) in [("soa", "aos"), ("aos", "soa"), ("big", "aos")] {
                let pairs =
                    |(name, fields): &(String, String)| Ok((name.clone(), memory.ratio(fields, to, from, rounds)?.0));
                let ratios: Vec<(String, f64)> = class.shapes.iter().map(pairs).collect::<Result<_>>()?;
                rows.push(worst(format!("{from} to {to}, {}, {size}", class.name), &ratios, goal));
            }
        }
        let fields = fields_of("float32", 3);
        let (ratio, _) = memory.ratio(&fields, "one", "aos", rounds)?;
        rows.push(
            row(format!("one of 3 float32 out of aos, {size} scanned"), ratio, 1.3).details("the bytes scanned count"),
        );
        let (ratio, _) = memory.ratio("m", "across", "plain", rounds)?;
        let goal = [0.4, 0.75][at];
        rows.push(row(format!("a matrix of float32 transposed, {size}"), ratio, goal));
        rows.extend(memory.writes(&fields, size, rounds)?);
    }
    Ok(rows)
}

fn fields_of(kind: &str, fields: usize) -> String {
    let names: Vec<String> = (0..fields).map(|i| format!("f{i}")).collect();
    format!("{} {kind}", names.join(", "))
}

fn row(what: String, ratio: f64, goal: f64) -> Row {
    Row::new("views", what, ratio, "of memcpy").goal(goal, Better::Higher)
}

fn worst(what: String, ratios: &[(String, f64)], goal: f64) -> Row {
    let least = ratios.iter().map(|(_, ratio)| *ratio).fold(f64::INFINITY, f64::min);
    let all: Vec<String> = ratios.iter().map(|(name, ratio)| format!("{name} {ratio:.2}")).collect();
    row(what, least, goal).details(format!("the worst of: {}", all.join("; ")))
}

/// Buffers that are allocated and touched once, so that no page faults are measured.
struct Memory {
    bytes: u64,
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Memory {
    fn new(bytes: u64) -> Memory {
        let block = random_bytes(1 << 20, 7);
        let from = block.iter().copied().cycle().take(bytes as usize).collect();
        Memory { bytes, from, to: vec![1; bytes as usize] }
    }

    /// Returns the speed of a conversion as a share of memcpy's, the median of alternating pairs, and the median of
    /// memcpy in bytes per second.
    fn ratio(&mut self, fields: &str, to: &str, from: &str, rounds: usize) -> Result<(f64, f64)> {
        let model = declared(fields, self.bytes)?;
        let (to, from) = (layout(&model, to)?, layout(&model, from)?);
        let plan = Plan::converting(&to, &from);
        ensure!(plan.walked() == 0, "{fields} is moved element by element");
        let (length, scanned) = (to.files[0] as usize, from.files[0] as usize);
        let mut pairs = Vec::new();
        for _ in 0..rounds {
            let (copied, ()) = time(|| {
                self.to[..scanned].copy_from_slice(&self.from[..scanned]);
                Ok(())
            })?;
            let windows = [Window { start: 0, bytes: &self.from[..scanned] }];
            let (converted, ()) = time(|| Ok(plan.read(0, &mut self.to[..length], &windows)?))?;
            pairs.push((copied, converted));
        }
        let speed = scanned as f64 / median(pairs.iter().map(|(copied, _)| *copied));
        Ok((median(pairs.iter().map(|(copied, converted)| copied / converted)), speed))
    }

    /// Compares writes through a view into three replicas with writes into one.
    fn writes(&mut self, fields: &str, size: &str, rounds: usize) -> Result<Vec<Row>> {
        let model = declared(fields, self.bytes / 4)?;
        let view = layout(&model, "aos")?;
        let lay = |name: &str| {
            let found = model.replicas.iter().find(|replica| replica.name == name).context("no such replica")?;
            of_replica(found, &model.views, &model.dataset, &Sizes::new()).map_err(|e| anyhow!("{e}"))
        };
        let layouts = [lay("r_aos")?, lay("r_soa")?, lay("r_one")?];
        let plans = layouts.each_ref().map(|layout| Plan::writing(&view, Stored { layout, first_file: 0, rate: 1.0 }));
        let length = view.files[0] as usize;
        let stored: u64 = layouts.iter().map(|layout| layout.files[0]).sum();
        let mut pairs = Vec::new();
        for _ in 0..rounds {
            let mut write = |plans: &[Plan]| {
                let bytes = &self.from[..length];
                let mut rest = &mut self.to[..];
                time(|| {
                    for (plan, layout) in plans.iter().zip(&layouts) {
                        let (file, after) = std::mem::take(&mut rest).split_at_mut(layout.files[0] as usize);
                        plan.write(0, bytes, &mut [WindowMut { start: 0, bytes: file }])?;
                        rest = after;
                    }
                    Ok(())
                })
            };
            pairs.push((write(&plans[..1])?.0, write(&plans)?.0));
        }
        let ratio = median(pairs.iter().map(|(one, all)| one / all));
        let share = length as f64 / stored as f64;
        let what = format!("aos, soa and one field written, a third of {size}, beside aos alone by bytes stored");
        let details = format!(
            "in memory; {:.0} % of the rate of one replica, for {:.1} times its bytes",
            ratio * 100.0,
            1.0 / share
        );
        Ok(vec![Row::new("views", what, ratio / share, "of one's rate").goal(0.8, Better::Higher).details(details)])
    }
}

fn layout(model: &Model, view: &str) -> Result<Layout> {
    let view: &model::View = model.view(view).context("no such view")?;
    of_view(view, &model.dataset, &Sizes::new()).map_err(|error| anyhow!("{error}"))
}

/// Declares points with these fields, or a matrix, of about `bytes` bytes.
fn declared(fields: &str, bytes: u64) -> Result<Model> {
    let matrix = fields == "m";
    let names: Vec<&str> = fields
        .split(';')
        .filter_map(|line| line.trim().rsplit_once(' '))
        .flat_map(|(names, _)| names.split(", "))
        .collect();
    let soa = |name: &&str| match name.contains('[') || fields.starts_with("p [") {
        true => "var p [k, i] = data[i].p[k]".to_owned(),
        false => format!("var {name} [] {{ {name} }} = data"),
    };
    let soa: Vec<String> = names.iter().map(soa).collect();
    let text = |count: u64| {
        if matrix {
            let side = ((count / 4) as f64).sqrt() as u64;
            return format!(
                "dataset {{ var a [{side}, {side}]float32 }}\nview plain {{ var a = a }}\nview across {{ var a [i, j] = a[j, i] }}"
            );
        }
        format!(
            "dataset {{ var data [{count}]struct {{ {fields} }} }}\nview aos packed {{ var data = data }}\n\
             view big packed big {{ var data = data }}\nview soa packed {{ {} }}\nview one packed {{ {} }}\n\
             replica r_aos {{ view aos }}\nreplica r_soa {{ view soa }}\nreplica r_one {{ view one }}",
            soa.join("; "),
            soa.last().map_or("", String::as_str),
        )
    };
    if matrix {
        return meaning(&text(bytes));
    }
    let record = layout(&meaning(&text(1))?, "aos")?.files[0];
    meaning(&text(bytes / record))
}

fn meaning(text: &str) -> Result<Model> {
    let mut diagnostics = Diagnostics::default();
    let parsed = parse(text, 0, &mut diagnostics);
    let model = Model::of(&parsed.file, &mut diagnostics);
    ensure!(!diagnostics.failed(), "{:?}\n{text}", diagnostics.sorted());
    Ok(model)
}
