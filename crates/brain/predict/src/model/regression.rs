//! Online linear regression: recursive least squares with forgetting.

/// The number of inputs; the first input is always 1.
pub const REGRESSION_INPUTS: usize = 6;
/// The number of outputs.
pub const REGRESSION_OUTPUTS: usize = 2;

/// The factor by which an update reduces the weight of earlier observations.
const FORGETTING_FACTOR: f64 = 0.998;
/// The initial and maximum variance. Without a bound, forgetting lets the variance of an input that never varies grow
/// until it overflows.
const MAX_VARIANCE: f64 = 0.5;
/// The number of updates between two repairs of the covariance, which rounding makes increasingly asymmetric.
const UPDATES_PER_REPAIR: u32 = 256;
/// An update takes a larger error for this one: an interrupted operation takes ten times as long, which carries no information.
const MAX_OBSERVED_ERROR: f64 = 1.0;

/// The weights and their covariance, which both outputs share.
#[derive(Clone, Debug, PartialEq)]
pub struct Regression {
    weights: [[f64; REGRESSION_INPUTS]; REGRESSION_OUTPUTS],
    covariance: [[f64; REGRESSION_INPUTS]; REGRESSION_INPUTS],
    updates: u32,
}

impl Default for Regression {
    fn default() -> Self {
        Regression::learned([[0.0; REGRESSION_INPUTS]; REGRESSION_OUTPUTS])
    }
}

impl Regression {
    /// Creates a regression from weights that were learned before.
    pub fn learned(weights: [[f64; REGRESSION_INPUTS]; REGRESSION_OUTPUTS]) -> Self {
        let mut covariance = [[0.0; REGRESSION_INPUTS]; REGRESSION_INPUTS];
        covariance.iter_mut().enumerate().for_each(|(i, row)| row[i] = MAX_VARIANCE);
        Regression { weights, covariance, updates: 0 }
    }

    /// Returns the weights of both outputs.
    pub fn weights(&self) -> &[[f64; REGRESSION_INPUTS]; REGRESSION_OUTPUTS] {
        &self.weights
    }

    /// Predicts both outputs.
    pub fn predict(&self, inputs: &[f64; REGRESSION_INPUTS]) -> [f64; REGRESSION_OUTPUTS] {
        self.weights.map(|weights| dot(&weights, inputs))
    }

    /// Learns from an observation. The weights of an output that is None or not finite stay unchanged.
    pub fn learn(&mut self, inputs: &[f64; REGRESSION_INPUTS], observed: [Option<f64>; REGRESSION_OUTPUTS]) {
        if !inputs.iter().all(|x| x.is_finite()) {
            return;
        }
        // The gain of each input, before scaling.
        let gains = self.covariance.map(|row| dot(&row, inputs));
        let scale = 1.0 / (FORGETTING_FACTOR + dot(&gains, inputs));
        for (weights, observed) in self.weights.iter_mut().zip(observed) {
            let Some(observed) = observed.filter(|o| o.is_finite()) else { continue };
            let correction = (observed - dot(weights, inputs)).clamp(-MAX_OBSERVED_ERROR, MAX_OBSERVED_ERROR) * scale;
            weights.iter_mut().zip(gains).for_each(|(weight, gain)| *weight += gain * correction);
        }
        for (row, row_gain) in self.covariance.iter_mut().zip(gains) {
            for (cell, column_gain) in row.iter_mut().zip(gains) {
                *cell = (*cell - row_gain * column_gain * scale) * (1.0 / FORGETTING_FACTOR);
            }
        }
        self.updates = self.updates.wrapping_add(1);
        if self.updates.is_multiple_of(UPDATES_PER_REPAIR) {
            self.repair();
        }
    }

    /// Makes the covariance symmetric, and scales inputs whose variance exceeds the bound.
    fn repair(&mut self) {
        let old = self.covariance;
        let shrink: [f64; REGRESSION_INPUTS] =
            std::array::from_fn(|i| (MAX_VARIANCE / old[i][i].max(MAX_VARIANCE)).sqrt());
        for (i, row) in self.covariance.iter_mut().enumerate() {
            for (j, cell) in row.iter_mut().enumerate() {
                *cell = (old[i][j] + old[j][i]) / 2.0 * shrink[i] * shrink[j];
            }
        }
    }
}

fn dot(a: &[f64; REGRESSION_INPUTS], b: &[f64; REGRESSION_INPUTS]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_testkit::Random;

    struct Numbers(Random);

    impl Numbers {
        fn new(seed: u64) -> Numbers {
            Numbers(Random::new(seed))
        }

        fn next(&mut self) -> f64 {
            2.0 * self.0.unit() - 1.0
        }

        fn inputs(&mut self) -> [f64; REGRESSION_INPUTS] {
            std::array::from_fn(|i| if i == 0 { 1.0 } else { self.next() })
        }
    }

    /// The reference solution: solves the weighted normal equations with the same initial values.
    fn slowly(all: &[([f64; REGRESSION_INPUTS], f64)]) -> [f64; REGRESSION_INPUTS] {
        let mut system = [[0.0; REGRESSION_INPUTS + 1]; REGRESSION_INPUTS];
        let start = FORGETTING_FACTOR.powi(all.len() as i32) / MAX_VARIANCE;
        system.iter_mut().enumerate().for_each(|(i, row)| row[i] = start);
        for (age, (x, y)) in all.iter().rev().enumerate() {
            let weight = FORGETTING_FACTOR.powi(age as i32);
            for (row, xi) in system.iter_mut().zip(x) {
                row.iter_mut().zip(x.iter().chain([y])).for_each(|(cell, xj)| *cell += weight * xi * xj);
            }
        }
        for i in 0..REGRESSION_INPUTS {
            let pivot = system[i];
            for (_, row) in system.iter_mut().enumerate().filter(|(j, _)| *j != i) {
                let factor = row[i] / pivot[i];
                row.iter_mut().zip(pivot).for_each(|(cell, p)| *cell -= factor * p);
            }
        }
        std::array::from_fn(|i| system[i][REGRESSION_INPUTS] / system[i][i])
    }

    #[test]
    fn equals_the_solved_normal_equations() {
        let mut random = Numbers::new(3);
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
        assert_eq!(regression.weights[1], [0.0; REGRESSION_INPUTS], "what was never observed keeps its weights");
    }

    /// Without the repairs this ends in NaN within two million updates.
    #[test]
    fn stays_sane_over_ten_million_updates() {
        let mut random = Numbers::new(9);
        let mut regression = Regression::default();
        for round in 0..10_000_000u32 {
            // Most of the time, two inputs are equal and three never change.
            let same = random.next();
            let x = if round % 1000 < 990 { [1.0, same, same, 0.0, 0.0, 0.3] } else { random.inputs() };
            regression.learn(&x, [Some(1.0 + x[1] + 0.1 * random.next()), Some(f64::NAN)]);
        }
        let predicted = regression.predict(&[1.0, 0.5, 0.5, 0.0, 0.0, 0.3])[0];
        assert!((predicted - 1.5).abs() < 0.05, "{predicted}");
        for (i, row) in regression.covariance.iter().enumerate() {
            assert!(row.iter().all(|c| c.is_finite()) && row[i] > 0.0 && row[i] < 2.0 * MAX_VARIANCE, "{row:?}");
        }
    }
}
