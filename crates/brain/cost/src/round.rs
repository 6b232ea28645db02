//! Rounding to steps of 5 %, so that the memo treats a slightly changed state as the same state.

/// Returns the nearest power of 1.05; 0 if `value` is not positive.
pub fn nearest(value: f64) -> f64 {
    if value > 0.0 { step(steps(value).round()) } else { 0.0 }
}

/// Returns the largest power of 1.05 that is at most `value`, in whole bytes. The result is exact below 32.
pub fn down(value: u64) -> u64 {
    if value < 32 {
        return value;
    }
    (step(steps(value as f64).floor()) as u64).min(value)
}

fn steps(value: f64) -> f64 {
    value.ln() / 1.05f64.ln()
}

fn step(number: f64) -> f64 {
    1.05f64.powi(number as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rounding_is_within_a_step_and_changes_nothing_twice(value in 0u64..1 << 50) {
            let rounded = down(value);
            prop_assert!(rounded <= value && rounded as f64 >= value as f64 / 1.0501 - 2.0, "{rounded}");
            let near = nearest(value as f64);
            prop_assert!((near - value as f64).abs() <= value as f64 * 0.03);
            prop_assert!((nearest(near) - near).abs() <= near * 1e-12);
        }
    }
}
