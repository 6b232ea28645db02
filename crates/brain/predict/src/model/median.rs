//! A running median.

/// The number of values after which the weight of a new value no longer decreases, so that old values fade.
const MAX_MEDIAN_WEIGHT: f64 = 64.0;
/// The weight of a value that was learned before, as a number of values.
const LEARNED_MEDIAN_WEIGHT: f64 = 16.0;

/// An approximate median of a sequence of values, in constant space. A value moves it by at most half of the usual
/// distance, so that outliers have little influence.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Median {
    value: f64,
    spread: f64,
    count: f64,
}

impl Median {
    /// Creates a median from a value that was learned before.
    pub fn learned(value: f64) -> Self {
        Median { value, spread: 0.1, count: LEARNED_MEDIAN_WEIGHT }
    }

    /// Returns the median; 0 before the first value.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Returns the median; None before the first value.
    pub fn known(&self) -> Option<f64> {
        (self.count > 0.0).then_some(self.value)
    }

    /// Adds a value; ignores it if it is not finite.
    pub fn learn(&mut self, value: f64) {
        self.learn_toward(value, 0.5);
    }

    /// Adds a value so that the result approaches another quantile: the value that `share` of all values are below.
    pub fn learn_toward(&mut self, value: f64, share: f64) {
        if !value.is_finite() {
            return;
        }
        if self.count == 0.0 {
            *self = Median { value, spread: 0.0, count: 1.0 };
            return;
        }
        self.count = (self.count + 1.0).min(MAX_MEDIAN_WEIGHT);
        let off = value - self.value;
        self.spread += (off.abs() - self.spread) / self.count;
        let most = self.spread / 2.0;
        let pull = if off > 0.0 { share } else { 1.0 - share };
        self.value += 4.0 * pull * off.clamp(-most, most) / self.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use terrace_testkit::Random;

    fn exact(values: &[f64]) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    proptest! {
        #[test]
        fn near_the_exact_median(middle in -3.0..3.0f64, width in 0.01..1.0f64, seed: u64) {
            let mut random = Random::new(seed);
            let mut next = || random.unit() - 0.5;
            // A tenth of all values lies far off, on one side.
            let values: Vec<f64> =
                (0..400).map(|i| if i % 10 == 9 { middle + 20.0 * width } else { middle + width * next() }).collect();
            let mut median = Median::default();
            values.iter().for_each(|v| median.learn(*v));
            prop_assert!((median.value() - exact(&values)).abs() < width, "{} {}", median.value(), exact(&values));
        }
    }

    #[test]
    fn the_first_value_counts_and_invalid_values_do_not() {
        let mut median = Median::default();
        assert_eq!(median.known(), None);
        median.learn(f64::NAN);
        median.learn(2.0);
        median.learn(f64::INFINITY);
        assert_eq!(median.known(), Some(2.0));
    }
}
