//! A conjugate-gradient mini-application: a stencil of 27 points in three dimensions, a slab for each rank, the matrix
//! stored row by row. It solves for a while, then writes all of its memory to a file for each rank, as a checkpoint
//! would:
//!
//!     mpirun -n 8 cg SIDE ITERATIONS OUT.{rank}

use std::fs;

use mpi::collective::SystemOperation;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};

/// The number of points in a stencil, including the point itself.
const STENCIL_POINTS: usize = 27;

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

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [side, iterations, out] = &arguments[..] else { return eprintln!("cg SIDE ITERATIONS OUT.{{rank}}") };
    let (Ok(side), Ok(iterations)) = (side.parse(), iterations.parse()) else { return eprintln!("not a number") };
    let Some(universe) = mpi::initialize() else { return eprintln!("MPI cannot be initialized") };
    let world = universe.world();
    let slab = Slab::new(&world, side);
    // The solution consists of ones.
    let (mut x, mut ones, mut residual) = (slab.vector(), slab.vector(), slab.vector());
    ones[slab.own()].fill(1.0);
    slab.times(&mut ones, &mut residual);
    let (mut direction, mut product) = (residual.clone(), slab.vector());
    let mut square = slab.dot(&residual, &residual);
    let begun = square;
    for _ in 0..iterations {
        slab.times(&mut direction, &mut product);
        let step = square / slab.dot(&direction, &product);
        add(&mut x, step, &direction);
        add(&mut residual, -step, &product);
        let before = std::mem::replace(&mut square, slab.dot(&residual, &residual));
        direction.iter_mut().zip(&residual).for_each(|(d, r)| *d = r + square / before * *d);
    }
    let vectors = [&slab.values, &x, &ones, &residual, &direction, &product];
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
