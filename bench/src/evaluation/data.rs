//! The data of the evaluations: particles made as the papers' kernel makes them, and real files.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::oracle::files;

/// The side of the box that contains the kernel's particles.
const DOMAIN_SIDE_LENGTH: f64 = 64.0;

/// The data that ranks write.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Data {
    /// Eight variables of each particle, made as the VPIC-IO kernel makes them; seeded by rank, step and variable.
    Made,
    /// Particle dumps of VPIC and PIConGPU.
    Particles,
    /// Files of all kinds.
    Files,
    /// Tasks like HCompress's: integers with uniform, normal, exponential and gamma distributions, in turn.
    Tasks,
}

impl Data {
    /// Returns the name for rows.
    pub fn name(self) -> &'static str {
        match self {
            Data::Made => "the kernel's particles",
            Data::Particles => "real particles",
            Data::Files => "real files",
            Data::Tasks => "tasks of four distributions",
        }
    }

    /// Returns whether the data comes from files.
    pub fn is_real(self) -> bool {
        matches!(self, Data::Particles | Data::Files)
    }

    /// Makes the objects that a rank writes in a step, by key: about `bytes` bytes. Real files are whole and repeat.
    pub fn objects(self, rank: u64, step: u64, bytes: usize) -> Result<Vec<(String, Vec<u8>)>> {
        let key = |name: &str| format!("d/{rank}/{step}/{name}");
        if self == Data::Made {
            let count = bytes / 32;
            return Ok(VARIABLE_NAMES.iter().map(|v| (key(v), variable(v, count, seed(rank, step, v)))).collect());
        }
        if self == Data::Tasks {
            return Ok((0..4)
                .map(|n| (key(&format!("{n}.i32")), numbers(n, bytes / 16, seed(rank, step, "n"))))
                .collect());
        }
        let root = std::env::var_os("TERRACE_DATA").context("TERRACE_DATA names no folder of files")?;
        let mut files = files(Path::new(&root))?;
        files.retain(|file| (file.kind.starts_with("pic")) == (self == Data::Particles) && file.kind != "ckpt");
        let total: usize = files.iter().map(|file| file.bytes.len()).sum();
        anyhow::ensure!(total > 0, "no files of {} in {}", self.name(), root.display());
        // Ranks begin at different files, and each step of a rank begins where its last step ended.
        let mut next = (rank as usize * files.len() / 2 + step as usize * files.len() * bytes / total) % files.len();
        let (mut objects, mut sum) = (Vec::new(), 0);
        while sum < bytes {
            let file = &files[next % files.len()];
            objects.push((key(&format!("{}-{}", objects.len(), file.name)), file.bytes.clone()));
            sum += file.bytes.len();
            next += 1;
        }
        Ok(objects)
    }
}

const VARIABLE_NAMES: [&str; 8] = ["x.f32", "y.f32", "z.f32", "px.f32", "py.f32", "pz.f32", "id_1.i32", "id_2.f32"];

fn seed(rank: u64, step: u64, variable: &str) -> u64 {
    variable.bytes().fold(rank << 32 | step, |seed, byte| seed.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte))
}

/// Draws from the uniform distribution over 0..1 as the kernel does, with 31 bits each.
fn draws(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as f64 / f64::from(1u32 << 31)
    }
}

/// Makes integers: uniform below 1,000; normal with mean 500 and deviation 100; exponential with mean 100; gamma with
/// shape 2 and scale 50.
fn numbers(distribution: u64, count: usize, seed: u64) -> Vec<u8> {
    let mut draw = draws(seed ^ distribution);
    let mut exponential = |mean: f64| -mean * (1.0 - draw()).ln();
    let number = |_| match distribution {
        0 => 1000.0 * (1.0 - (-exponential(1.0)).exp()),
        1 => {
            let (radius, angle) = ((2.0 * exponential(1.0)).sqrt(), (-exponential(1.0)).exp());
            500.0 + 100.0 * radius * (std::f64::consts::TAU * angle).cos()
        }
        2 => exponential(100.0),
        _ => exponential(50.0) + exponential(50.0),
    };
    (0..count).map(number).flat_map(|number| (number as i32).to_le_bytes()).collect()
}

/// Makes one variable of `count` particles as the kernel does: x, y, px, py at random, z and pz along the box, and two
/// numbers.
fn variable(name: &str, count: usize, seed: u64) -> Vec<u8> {
    let mut draw = draws(seed);
    let share = |i: usize| i as f64 / count as f64;
    (0..count)
        .flat_map(|i| match name {
            "z.f32" => ((share(i) * DOMAIN_SIDE_LENGTH) as f32).to_le_bytes(),
            "pz.f32" => ((share(i) * 2.0 * DOMAIN_SIDE_LENGTH) as f32).to_le_bytes(),
            "id_1.i32" => (i as i32).to_le_bytes(),
            "id_2.f32" => ((2 * i) as f32).to_le_bytes(),
            _ => ((draw() * DOMAIN_SIDE_LENGTH) as f32).to_le_bytes(),
        })
        .collect()
}
