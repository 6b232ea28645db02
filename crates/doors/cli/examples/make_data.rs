//! Writes a directory of made files that look like a simulation's output: smooth fields, particles, a log, a table.

use std::fs;
use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let dir = std::env::args_os().nth(1).ok_or_else(|| io::Error::other("usage: make_data DIR"))?;
    let dir = Path::new(&dir);
    fs::create_dir_all(dir.join("fields"))?;
    for step in 0..3 {
        let field: Vec<u8> = (0..1 << 20)
            .flat_map(|i| {
                let (x, y) = ((i % 1024) as f32 / 163.0, (i / 1024) as f32 / 163.0);
                (300.0 + 20.0 * (x + step as f32).sin() * y.cos()).to_le_bytes()
            })
            .collect();
        fs::write(dir.join(format!("fields/temperature_{step:03}.f32")), field)?;
    }
    let mut random = Random(42);
    let particles: Vec<u8> = (0..60_000u32)
        .flat_map(|i| {
            let mut record = Vec::with_capacity(32);
            (0..3).for_each(|_| record.extend_from_slice(&random.unit().to_le_bytes()));
            record.extend_from_slice(&(i / 64).to_le_bytes());
            (0..3).for_each(|_| record.extend_from_slice(&(random.unit() * 0.1).to_le_bytes()));
            record.extend_from_slice(&1.0f32.to_le_bytes());
            record
        })
        .collect();
    fs::write(dir.join("particles.aos32"), particles)?;
    let rows = (0..40_000).map(|i| format!("{i},{:.3},{:.5}\n", f64::from(i) * 0.25, random.unit()));
    fs::write(dir.join("probes.csv"), rows.collect::<String>())?;
    let lines =
        (0..8_000).map(|i| format!("step {i}: dt=1.25e-3 residual={:.3e} cells=1048576\n", random.unit() * 1e-6));
    fs::write(dir.join("run log.txt"), lines.collect::<String>())?;
    let noise: Vec<u8> = (0..1 << 19).flat_map(|_| random.unit().to_bits().to_le_bytes()).collect();
    fs::write(dir.join("compressed.bin"), noise)
}

/// A small generator, so that the files are the same on each run.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 24) as f32
    }
}
