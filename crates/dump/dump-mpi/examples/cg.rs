//! A conjugate-gradient mini-application: a stencil of 27 points in three dimensions, a slab for each rank, the matrix
//! stored row by row. It solves for a while, then writes all of its memory to a file for each rank, as a checkpoint
//! would:
//!
//!     mpirun -n 8 cg SIDE ITERATIONS OUT.{rank} [STORE]
//!
//! With a store, it also makes checkpoints there, and prints for how long the ranks stop.

use std::ffi::CString;
use std::fs;
use std::ptr;
use std::time::Instant;

use mpi::Threading;
use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{AsRaw, Communicator, CommunicatorCollectives, Destination, Source};
use serde_json::json;
use terrace_dump_mpi::{
    DumpStatus, terrace_dump_begin, terrace_dump_checkpoint, terrace_dump_close, terrace_dump_open,
    terrace_dump_prepare, terrace_dump_protect, terrace_dump_wait,
};

/// The number of points in a stencil, including the point itself.
const STENCIL_POINTS: usize = 27;
/// The number of iterations while a checkpoint is dumped.
const ITERATIONS_WHILE_DUMPED: u32 = 5;

/// A rank's slab: `side` planes of `side` by `side` points, between a plane of each neighbour.
struct Slab<'w> {
    world: &'w SimpleCommunicator,
    side: usize,
    values: Vec<f64>,
    /// Positions in a vector with both neighbours' planes; -1 if a point has no such neighbour.
    columns: Vec<i32>,
}

impl<'w> Slab<'w> {
    fn new(world: &'w SimpleCommunicator, side: usize) -> Slab<'w> {
        let (first, last) = (world.rank() == 0, world.rank() + 1 == world.size());
        let (mut values, mut columns) = (Vec::new(), Vec::new());
        for at in 0..side.pow(3) {
            let (x, y, z) = (at % side, at / side % side, at / side / side);
            for point in 0..STENCIL_POINTS {
                let (i, j, k) = (x + point % 3, y + point / 3 % 3, z + point / 9);
                let outside = i == 0 || j == 0 || i > side || j > side;
                let beyond = (first && k == 0) || (last && k == side + 1);
                columns.push(if outside || beyond { -1 } else { ((k * side + j - 1) * side + i - 1) as i32 });
                values.push(if point == STENCIL_POINTS / 2 { 27.0 } else { -1.0 });
            }
        }
        Slab { world, side, values, columns }
    }

    /// Makes a vector of zeros with room for the neighbours' planes.
    fn vector(&self) -> Vec<f64> {
        vec![0.0; self.side.pow(2) * (self.side + 2)]
    }

    /// Returns the part of a vector that belongs to this rank.
    fn own(&self) -> std::ops::Range<usize> {
        self.side.pow(2)..self.side.pow(2) * (self.side + 1)
    }

    /// Exchanges planes with the neighbours: even ranks first with the rank above, then with the rank below.
    fn meet(&self, vector: &mut [f64]) {
        let (plane, own, rank) = (self.side.pow(2), self.own(), self.world.rank());
        for even in [true, false] {
            let above = (rank % 2 == 0) == even;
            let (other, from, to) = match above {
                true => (rank + 1, own.end - plane, own.end),
                false => (rank - 1, own.start, 0),
            };
            if !(0..self.world.size()).contains(&other) {
                continue;
            }
            let other = self.world.process_at_rank(other);
            if above {
                other.send(&vector[from..from + plane]);
            }
            other.receive_into(&mut vector[to..to + plane]);
            if !above {
                other.send(&vector[from..from + plane]);
            }
        }
    }

    /// Multiplies the matrix and a vector.
    fn times(&self, vector: &mut [f64], product: &mut [f64]) {
        self.meet(vector);
        let rows = self.values.chunks_exact(STENCIL_POINTS).zip(self.columns.chunks_exact(STENCIL_POINTS));
        for (sum, (values, columns)) in product[self.own()].iter_mut().zip(rows) {
            let there = values.iter().zip(columns).filter(|(_, column)| **column >= 0);
            *sum = there.map(|(value, column)| value * vector[*column as usize]).sum();
        }
    }

    fn dot(&self, a: &[f64], b: &[f64]) -> f64 {
        let mine: f64 = a[self.own()].iter().zip(&b[self.own()]).map(|(a, b)| a * b).sum();
        let mut sum = 0.0;
        self.world.all_reduce_into(&mine, &mut sum, SystemOperation::sum());
        sum
    }
}

/// Adds a multiple of one vector to another.
fn add(to: &mut [f64], factor: f64, vector: &[f64]) {
    to.iter_mut().zip(vector).for_each(|(to, value)| *to += factor * value);
}

/// The state of a solution.
struct Solver {
    x: Vec<f64>,
    ones: Vec<f64>,
    residual: Vec<f64>,
    direction: Vec<f64>,
    product: Vec<f64>,
    square: f64,
}

impl Solver {
    /// Begins to solve a system whose solution consists of ones.
    fn new(slab: &Slab<'_>) -> Solver {
        let (x, mut ones, mut residual) = (slab.vector(), slab.vector(), slab.vector());
        ones[slab.own()].fill(1.0);
        slab.times(&mut ones, &mut residual);
        let (direction, product) = (residual.clone(), slab.vector());
        let square = slab.dot(&residual, &residual);
        Solver { x, ones, residual, direction, product, square }
    }

    fn iterate(&mut self, slab: &Slab<'_>, iterations: u32) {
        for _ in 0..iterations {
            slab.times(&mut self.direction, &mut self.product);
            let step = self.square / slab.dot(&self.direction, &self.product);
            add(&mut self.x, step, &self.direction);
            add(&mut self.residual, -step, &self.product);
            let before = std::mem::replace(&mut self.square, slab.dot(&self.residual, &self.residual));
            self.direction.iter_mut().zip(&self.residual).for_each(|(d, r)| *d = r + self.square / before * *d);
        }
    }
}

/// Returns the longest time of a rank from when all begin.
fn time_longest(world: &SimpleCommunicator, work: impl FnOnce() -> DumpStatus) -> Result<f64, String> {
    world.barrier();
    let begun = Instant::now();
    let status = work();
    let (took, mut longest) = (begun.elapsed().as_secs_f64(), 0.0);
    world.all_reduce_into(&took, &mut longest, SystemOperation::max());
    match status {
        DumpStatus::Ok => Ok(longest),
        failed => Err(format!("{failed:?}")),
    }
}

/// Makes a checkpoint that the ranks wait for, and then two while they continue. Prints the seconds for which the slowest rank stops.
fn measure_stops(slab: &mut Slab<'_>, solver: &mut Solver, store: &str) -> Result<(), String> {
    let world = slab.world;
    let (store, name) = (CString::new(store).map_err(|error| error.to_string())?, c"cg".as_ptr());
    let mut checkpoints = ptr::null_mut();
    time_longest(world, || terrace_dump_open(world.as_raw(), store.as_ptr(), &raw mut checkpoints))?;
    let Solver { x, ones, residual, direction, product, .. } = solver;
    for (number, vector) in (0..).zip([&mut slab.values, x, ones, residual, direction, product]) {
        terrace_dump_protect(checkpoints, number, vector.as_mut_ptr().cast(), size_of_val(&vector[..]));
    }
    let columns = &mut slab.columns[..];
    terrace_dump_protect(checkpoints, u32::MAX, columns.as_mut_ptr().cast(), size_of_val(columns));
    let whole = time_longest(world, || terrace_dump_checkpoint(checkpoints, name, -1, ptr::null_mut()))?;
    terrace_dump_prepare(checkpoints);
    solver.iterate(slab, ITERATIONS_WHILE_DUMPED);
    let mut stops = [0.0; 2];
    for stop in &mut stops {
        *stop = time_longest(world, || terrace_dump_begin(checkpoints, name, -1))?;
        solver.iterate(slab, ITERATIONS_WHILE_DUMPED);
        time_longest(world, || terrace_dump_wait(checkpoints, ptr::null_mut()))?;
    }
    terrace_dump_close(checkpoints);
    if world.rank() == 0 {
        println!("{}", json!({"whole": whole, "first": stops[0], "next": stops[1]}));
    }
    Ok(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [side, iterations, out, store @ ..] = &arguments[..] else {
        return eprintln!("cg SIDE ITERATIONS OUT.{{rank}} [STORE]");
    };
    let (Ok(side), Ok(iterations)) = (side.parse(), iterations.parse()) else { return eprintln!("not a number") };
    let threading = if store.is_empty() { Threading::Single } else { Threading::Multiple };
    let Some((universe, _)) = mpi::initialize_with_threading(threading) else {
        return eprintln!("MPI cannot be initialized");
    };
    let world = universe.world();
    let mut slab = Slab::new(&world, side);
    let mut solver = Solver::new(&slab);
    let begun = solver.square;
    solver.iterate(&slab, iterations);
    if let [store, ..] = store
        && let Err(error) = measure_stops(&mut slab, &mut solver, store)
    {
        eprintln!("a checkpoint failed: {error}");
        world.abort(1);
    }
    let Solver { x, ones, residual, direction, product, square } = &solver;
    let vectors = [&slab.values, x, ones, residual, direction, product];
    let mut bytes: Vec<u8> = vectors.into_iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    bytes.extend(slab.columns.iter().flat_map(|column| column.to_le_bytes()));
    if let Err(error) = fs::write(out.replace("{rank}", &world.rank().to_string()), bytes) {
        eprintln!("writing {out}: {error}");
        world.abort(1);
    }
    if world.rank() == 0 {
        println!("residual {:.1e} of what it was after {iterations} iterations", (square / begun).sqrt());
    }
}
