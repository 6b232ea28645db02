//! [`Run`]: requests that belong together.

/// Requests of a view: bytes that were read one after the other, or parts of one length that lie at one distance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    pub view: String,
    /// The first byte.
    pub offset: u64,
    /// The length of each part.
    pub length: u64,
    /// The distance of the parts, if there are several.
    pub stride: u64,
    /// The number of parts.
    pub count: u64,
}

/// Two parts have some distance by chance.
const MIN_STRIDED_PARTS: u64 = 3;

impl Run {
    pub fn new(view: &str, offset: u64, length: u64) -> Run {
        Run { view: view.to_owned(), offset, length, stride: 0, count: 1 }
    }

    /// Adds a request that continues the run. Returns false if it does not.
    pub fn extend(&mut self, view: &str, offset: u64, length: u64) -> bool {
        if self.view != view {
            return false;
        }
        if self.count == 1 && self.offset + self.length == offset {
            self.length += length;
            return true;
        }
        let continues = self.expects(view, offset, length);
        self.count += u64::from(continues);
        continues
    }

    /// Returns whether a request is the next of parts at one distance.
    pub fn expects(&self, view: &str, offset: u64, length: u64) -> bool {
        let next = self.stride.checked_mul(self.count).and_then(|distance| self.offset.checked_add(distance));
        self.count > 1 && self.view == view && self.length == length && next == Some(offset)
    }

    /// Takes a later request of the same length as the second part. Returns false if it cannot be.
    pub fn pair(&mut self, view: &str, offset: u64, length: u64) -> bool {
        let pairs = self.count == 1 && self.view == view && self.length == length && offset > self.offset + self.length;
        if pairs {
            (self.stride, self.count) = (offset - self.offset, 2);
        }
        pairs
    }

    /// Returns the run, or its parts if there are too few to be one.
    pub fn split(self) -> Vec<Run> {
        if self.count == 1 || self.count >= MIN_STRIDED_PARTS {
            return vec![self];
        }
        let part = |number| Run { offset: self.offset + number * self.stride, stride: 0, count: 1, ..self.clone() };
        (0..self.count).map(part).collect()
    }

    /// Returns the number of bytes that the run reads.
    pub fn bytes(&self) -> u64 {
        self.length.saturating_mul(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_continue_a_run_or_lie_at_one_distance() {
        let mut run = Run::new("v", 100, 10);
        assert!(
            run.extend("v", 110, 30) && run.extend("v", 140, 1) && !run.extend("w", 141, 1) && !run.extend("v", 9, 1)
        );
        assert_eq!((run.offset, run.bytes()), (100, 41));
        let mut run = Run::new("v", 0, 8);
        assert!(!run.extend("v", 100, 8) && !run.pair("v", 100, 9) && run.pair("v", 100, 8));
        let parts: Vec<u64> = run.clone().split().iter().map(|part| part.offset).collect();
        assert_eq!(parts, [0, 100], "two are no pattern");
        assert!(run.extend("v", 200, 8) && !run.extend("v", 308, 8) && run.extend("v", 300, 8));
        assert_eq!((run.bytes(), run.clone().split().len()), (32, 1));
    }
}
