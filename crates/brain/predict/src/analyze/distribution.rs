//! The distribution of numbers: the family that fits best, if one fits.

use terrace_codec::Element;

use super::Elements;
use super::gamma::{below, normal_below};

/// A family of distributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// All values of a range are equally likely.
    Uniform,
    /// The normal distribution.
    Normal,
    /// The exponential distribution, from its smallest value on.
    Exponential,
    /// A gamma distribution, from 0 on.
    Gamma,
}

/// At most this many numbers are examined.
const MAX_STUDIED_NUMBERS: usize = 1024;
/// Fewer numbers have no distribution.
const MIN_STUDIED_NUMBERS: usize = 200;
/// The largest Kolmogorov-Smirnov distance, times the square root of the number of values, at which a family still
/// fits. The parameters come from the values themselves, so the limits at 5 % range from 0.9 for the normal
/// distribution (Lilliefors) to 1.36 with all parameters known.
const FIT_LIMITS: [(Distribution, f64); 4] = [
    (Distribution::Uniform, 1.36),
    (Distribution::Normal, 1.0),
    (Distribution::Exponential, 1.1),
    (Distribution::Gamma, 1.0),
];

impl Distribution {
    /// Returns the distribution of the numbers in `sample`; `None` if no family fits, or if there are too few numbers
    /// or too few different ones.
    pub fn of(elements: Elements, sample: &[u8]) -> Option<Distribution> {
        let mut numbers = numbers(elements, sample);
        if numbers.len() < MIN_STUDIED_NUMBERS || numbers.iter().any(|n| !n.is_finite()) {
            return None;
        }
        numbers.sort_unstable_by(f64::total_cmp);
        let different = 1 + numbers.windows(2).filter(|pair| pair[0] != pair[1]).count();
        if different < numbers.len() / 20 {
            return None;
        }
        let root = (numbers.len() as f64).sqrt();
        let fits = FIT_LIMITS.iter().filter_map(|&(family, limit)| {
            let distance = root * distance(family, &numbers)? / limit;
            (distance < 1.0).then_some((family, distance))
        });
        fits.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(family, _)| family)
    }
}

/// Returns the largest distance between a family, fitted to sorted numbers, and the numbers.
fn distance(family: Distribution, sorted: &[f64]) -> Option<f64> {
    let count = sorted.len() as f64;
    let (least, most) = (*sorted.first()?, *sorted.last()?);
    let mean = sorted.iter().sum::<f64>() / count;
    let variance = sorted.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / count;
    if !(most - least).is_finite() || !variance.is_finite() || variance <= 0.0 {
        return None;
    }
    let gap = |share: &dyn Fn(f64) -> f64| {
        sorted.iter().zip(0u32..).fold(0.0, |gap: f64, (number, rank)| {
            let (share, rank) = (share(*number), f64::from(rank));
            gap.max(share - rank / count).max((rank + 1.0) / count - share)
        })
    };
    Some(match family {
        Distribution::Uniform => gap(&|n| (n - least) / (most - least)),
        Distribution::Normal => gap(&|n| normal_below((n - mean) / variance.sqrt())),
        Distribution::Exponential => gap(&|n| 1.0 - (-(n - least) / (mean - least)).exp()),
        Distribution::Gamma => {
            // The usual approximation of the most likely shape (Minka). The gamma distribution of shape 1 is the
            // exponential distribution.
            let logs = sorted.iter().map(|n| n.ln()).sum::<f64>() / count;
            let s = mean.ln() - logs;
            if least <= 0.0 || s <= 0.0 || !s.is_finite() {
                return None;
            }
            let shape = (3.0 - s + ((s - 3.0).powi(2) + 24.0 * s).sqrt()) / (12.0 * s);
            if (0.88..1.12).contains(&shape) || !(0.05..200.0).contains(&shape) {
                return None;
            }
            gap(&|n| below(shape, n * shape / mean))
        }
    })
}

fn numbers(elements: Elements, sample: &[u8]) -> Vec<f64> {
    let width = elements.element.width();
    let stride = (sample.len() / width.max(1)).div_ceil(MAX_STUDIED_NUMBERS).max(1);
    let chosen = sample.chunks_exact(width).step_by(stride);
    chosen
        .map(|bytes| {
            let mut word = [0; 8];
            if width > word.len() {
                return f64::NAN;
            }
            for (to, from) in word.iter_mut().zip(bytes) {
                *to = *from;
            }
            let raw = u64::from_le_bytes(word);
            let raw = if elements.big_endian { raw.swap_bytes() >> (64 - 8 * width) } else { raw };
            match elements.element {
                Element::I16 => f64::from(raw as i16),
                Element::I32 => f64::from(raw as i32),
                Element::I64 => raw as i64 as f64,
                Element::F32 => f64::from(f32::from_bits(raw as u32)),
                Element::F64 => f64::from_bits(raw),
                _ => raw as f64,
            }
        })
        .collect()
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

        /// Returns a number between 0 and 1, without both.
        fn next(&mut self) -> f64 {
            self.0.unit() + 0.5 / (1u64 << 53) as f64
        }

        fn exponential(&mut self) -> f64 {
            -self.next().ln()
        }

        fn normal(&mut self) -> f64 {
            (2.0 * self.exponential()).sqrt() * (std::f64::consts::TAU * self.next()).cos()
        }
    }

    fn judged(number: impl Fn(&mut Numbers) -> f64, seed: u64) -> Option<Distribution> {
        let mut random = Numbers::new(seed);
        let bytes: Vec<u8> = (0..1000).flat_map(|_| number(&mut random).to_le_bytes()).collect();
        Distribution::of(Elements::of(Element::F64), &bytes)
    }

    #[test]
    fn families_are_distinguished() {
        type Draw = fn(&mut Numbers) -> f64;
        let families: [(Distribution, Draw); 4] = [
            (Distribution::Uniform, |r| r.next() * 8.0 - 3.0),
            (Distribution::Normal, |r| r.normal() * 2.0 + 50.0),
            (Distribution::Exponential, |r| r.exponential() * 7.0),
            (Distribution::Gamma, |r| r.exponential() + r.exponential()),
        ];
        for (family, number) in families {
            let right = (1..=100).filter(|seed| judged(number, *seed) == Some(family)).count();
            let none = (1..=100).filter(|seed| judged(number, *seed).is_none()).count();
            assert!(right >= 85 && right + none >= 95, "{family:?}: {right} right, {none} none");
        }
    }

    #[test]
    fn numbers_of_no_family_have_no_distribution() {
        let two_humps = |r: &mut Numbers| r.normal() + if r.next() < 0.5 { 0.0 } else { 20.0 };
        assert_eq!(judged(two_humps, 1), None);
        assert_eq!(judged(|r| (r.next() * 5.0).floor(), 1), None);
        assert_eq!(judged(|_| 4.0, 1), None);
        assert_eq!(judged(|r| r.normal() / r.next(), 1), None);
        let random: Vec<u8> = (0..8192u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        assert_eq!(Distribution::of(Elements::of(Element::Record32), &random), None);
    }
}
