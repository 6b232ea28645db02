//! The incomplete gamma function, which the distribution functions derive from.

use std::f64::consts::PI;

/// The coefficients of Lanczos's approximation for g = 7.
const LANCZOS_COEFFICIENTS: [f64; 8] = [
    676.5203681218851,
    -1259.1392167224028,
    771.323_428_777_653_1,
    -176.615_029_162_140_6,
    12.507343278686905,
    -0.13857109526572012,
    9.984_369_578_019_572e-6,
    1.5056327351493116e-7,
];

/// Returns the logarithm of the gamma function of a positive number.
fn ln_gamma(x: f64) -> f64 {
    let x = x - 1.0;
    let sum: f64 =
        LANCZOS_COEFFICIENTS.iter().zip(1..).fold(0.999_999_999_999_809_9, |sum, (c, i)| sum + c / (x + f64::from(i)));
    let t = x + 7.5;
    0.5 * (2.0 * PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// Returns the probability that a gamma distribution of this shape and scale 1 assigns to values below `x`.
pub fn below(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let front = (shape * x.ln() - x - ln_gamma(shape)).exp();
    if x < shape + 1.0 {
        let (mut term, mut sum, mut n) = (1.0 / shape, 1.0 / shape, shape);
        while term > sum * 1e-12 {
            n += 1.0;
            term *= x / n;
            sum += term;
        }
        return (front * sum).min(1.0);
    }
    // The continued fraction of the rest, by Lentz's method.
    let (mut b, mut c) = (x + 1.0 - shape, 1e300);
    let mut d = 1.0 / b;
    let mut h = d;
    for i in 1..300 {
        let i = f64::from(i);
        let a = -i * (i - shape);
        b += 2.0;
        d = 1.0 / (a * d + b);
        c = b + a / c;
        h *= d * c;
        if (d * c - 1.0).abs() < 1e-12 {
            break;
        }
    }
    (1.0 - front * h).clamp(0.0, 1.0)
}

/// Returns the probability that the standard normal distribution assigns to values below `x`.
pub fn normal_below(x: f64) -> f64 {
    0.5 + 0.5 * below(0.5, x * x / 2.0) * x.signum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Integrates the density in small steps.
    fn slowly(shape: f64, x: f64) -> f64 {
        let (steps, total) = (200_000, ln_gamma(shape));
        let width = x / f64::from(steps);
        let density = |at: f64| ((shape - 1.0) * at.ln() - at - total).exp();
        (0..steps).map(|i| density((f64::from(i) + 0.5) * width) * width).sum()
    }

    #[test]
    fn shares_are_integrals_of_the_density() {
        for shape in [1.0, 2.0, 3.7, 12.0, 40.0] {
            for x in [0.1, 0.9, 2.0, 5.0, 20.0, 60.0] {
                let (fast, slow) = (below(shape, x), slowly(shape, x));
                assert!((fast - slow).abs() < 1e-6, "{shape} {x}: {fast} {slow}");
            }
        }
    }

    #[test]
    fn known_values() {
        for (x, share) in [(0.0, 0.5), (1.0, 0.841_344_746), (-1.96, 0.024_997_895), (5.0, 0.999_999_713)] {
            assert!((normal_below(x) - share).abs() < 1e-8, "{x}");
        }
        assert!((below(1.0, 2.0) - (1.0 - (-2.0f64).exp())).abs() < 1e-12);
    }
}
