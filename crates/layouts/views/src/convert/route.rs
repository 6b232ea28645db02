//! [`Route`]: how a part of a view leads to what is stored.

use crate::layout::Placed;

/// The part of a view's leaf that is moved, and the stored leaf at the other end.
pub(crate) struct Route<'a> {
    pub view: &'a Placed,
    pub stored: &'a Placed,
    /// The file's index among those given to the plan.
    pub file: usize,
}
