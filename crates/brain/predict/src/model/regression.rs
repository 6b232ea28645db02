//! Linear regression that learns as it goes: recursive least squares with forgetting.

/// What a prediction is made from; the first is always 1.
pub const INPUTS: usize = 6;
/// What is predicted.
pub const OUTPUTS: usize = 2;

/// What one update leaves of the weight of those before it.
const FORGETTING: f64 = 0.998;
/// Variances at first, and at most: without a bound, forgetting lets what is never excited grow until it overflows.
const VARIANCE: f64 = 0.5;
/// Updates between two repairs of the covariance, which rounding makes less and less symmetric.
const REPAIR: u32 = 256;
/// The furthest that an observation may seem off: what was interrupted takes ten times as long and teaches nothing.
const FURTHEST: f64 = 1.0;

/// Weights and what is known of them. Both outputs share the covariance.
#[derive(Clone, Debug, PartialEq)]
pub struct Regression {
    weights: [[f64; INPUTS]; OUTPUTS],
    covariance: [[f64; INPUTS]; INPUTS],
    updates: u32,
}

impl Default for Regression {
    fn default() -> Self {
        Regression::learned([[0.0; INPUTS]; OUTPUTS])
    }
}

impl Regression {
    /// One whose weights were learned before.
    pub fn learned(weights: [[f64; INPUTS]; OUTPUTS]) -> Self {
        let mut covariance = [[0.0; INPUTS]; INPUTS];
        covariance.iter_mut().enumerate().for_each(|(i, row)| row[i] = VARIANCE);
        Regression { weights, covariance, updates: 0 }
    }

    /// The weights of both outputs.
    pub fn weights(&self) -> &[[f64; INPUTS]; OUTPUTS] {
        &self.weights
    }

    /// Predicts.
    pub fn predict(&self, inputs: &[f64; INPUTS]) -> [f64; OUTPUTS] {
        self.weights.map(|weights| dot(&weights, inputs))
    }

    /// Takes in what was observed; an output that was not, or is not finite, keeps its weights.
    pub fn learn(&mut self, inputs: &[f64; INPUTS], observed: [Option<f64>; OUTPUTS]) {
        if !inputs.iter().all(|x| x.is_finite()) {
            return;
        }
        let spread = self.covariance.map(|row| dot(&row, inputs));
        let scale = 1.0 / (FORGETTING + dot(&spread, inputs));
        for (weights, observed) in self.weights.iter_mut().zip(observed) {
            let Some(observed) = observed.filter(|o| o.is_finite()) else { continue };
            let off = (observed - dot(weights, inputs)).clamp(-FURTHEST, FURTHEST) * scale;
            weights.iter_mut().zip(spread).for_each(|(weight, gain)| *weight += gain * off);
        }
        for (row, i) in self.covariance.iter_mut().zip(spread) {
            for (cell, j) in row.iter_mut().zip(spread) {
                *cell = (*cell - i * j * scale) * (1.0 / FORGETTING);
            }
        }
        self.updates = self.updates.wrapping_add(1);
        if self.updates.is_multiple_of(REPAIR) {
            self.repair();
        }
    }

    /// Makes the covariance symmetric, and scales inputs whose variance is over the bound down to it.
    fn repair(&mut self) {
        let old = self.covariance;
        let shrink: [f64; INPUTS] = std::array::from_fn(|i| (VARIANCE / old[i][i].max(VARIANCE)).sqrt());
        for (i, row) in self.covariance.iter_mut().enumerate() {
            for (j, cell) in row.iter_mut().enumerate() {
                *cell = (old[i][j] + old[j][i]) / 2.0 * shrink[i] * shrink[j];
            }
        }
    }
}

fn dot(a: &[f64; INPUTS], b: &[f64; INPUTS]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
        }

        fn inputs(&mut self) -> [f64; INPUTS] {
            std::array::from_fn(|i| if i == 0 { 1.0 } else { self.next() })
        }
    }

    /// The same by solving the weighted normal equations, with the same start.
    fn slowly(all: &[([f64; INPUTS], f64)]) -> [f64; INPUTS] {
        let mut system = [[0.0; INPUTS + 1]; INPUTS];
        let start = FORGETTING.powi(all.len() as i32) / VARIANCE;
        system.iter_mut().enumerate().for_each(|(i, row)| row[i] = start);
        for (age, (x, y)) in all.iter().rev().enumerate() {
            let weight = FORGETTING.powi(age as i32);
            for (row, xi) in system.iter_mut().zip(x) {
                row.iter_mut().zip(x.iter().chain([y])).for_each(|(cell, xj)| *cell += weight * xi * xj);
            }
        }
        for i in 0..INPUTS {
            let pivot = system[i];
            for (j, row) in system.iter_mut().enumerate().filter(|(j, _)| *j != i) {
                let factor = row[i] / pivot[i];
                row.iter_mut().zip(pivot).for_each(|(cell, p)| *cell -= factor * p);
                assert_ne!(j, i);
            }
        }
        std::array::from_fn(|i| system[i][INPUTS] / system[i][i])
    }

    #[test]
    fn equals_the_solved_normal_equations() {
        let mut random = Random(3);
        let mut regression = Regression::default();
        let mut all = Vec::new();
        for _ in 0..200 {
            let x = random.inputs();
            let y = 0.3 * x[1] - 0.2 * x[3] + 0.1 + 0.05 * random.next();
            regression.learn(&x, [Some(y), None]);
            all.push((x, y));
        }
        let exact = slowly(&all);
        for (fast, slow) in regression.weights[0].iter().zip(exact) {
            assert!((fast - slow).abs() < 1e-9, "{:?} {exact:?}", regression.weights);
        }
        assert_eq!(regression.weights[1], [0.0; INPUTS], "what was never observed keeps its weights");
    }

    /// Without the repairs this ends in NaN within two million updates.
    #[test]
    fn stays_sane_over_ten_million_updates() {
        let mut random = Random(9);
        let mut regression = Regression::default();
        for round in 0..10_000_000u32 {
            // For most of the time two inputs tell the same, and three never change.
            let same = random.next();
            let x = if round % 1000 < 990 { [1.0, same, same, 0.0, 0.0, 0.3] } else { random.inputs() };
            regression.learn(&x, [Some(1.0 + x[1] + 0.1 * random.next()), Some(f64::NAN)]);
        }
        let predicted = regression.predict(&[1.0, 0.5, 0.5, 0.0, 0.0, 0.3])[0];
        assert!((predicted - 1.5).abs() < 0.05, "{predicted}");
        for (i, row) in regression.covariance.iter().enumerate() {
            assert!(row.iter().all(|c| c.is_finite()) && row[i] > 0.0 && row[i] < 2.0 * VARIANCE, "{row:?}");
        }
    }
}
